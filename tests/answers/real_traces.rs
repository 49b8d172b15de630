//! The main job on real traces: the counts that are known of them, and the answers of the Python script that this tool follows.

use crate::support::random::is_long;

use std::collections::BTreeMap;
use std::path::Path;

use nccl_stacks::answers::stacks::data::{StackOptions, StackReport};
use nccl_stacks::answers::stacks::document::script;
use nccl_stacks::answers::stacks::reduction::{stack_report, stacks};
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::callers::Callers;
use nccl_stacks::attribution::capture::Captures;
use nccl_stacks::attribution::launches::{self, Evidence, Launches, WindowOn};
use nccl_stacks::attribution::selection::{OwnFamilies, Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::event::ids::PythonCaller;
use nccl_stacks::id::SliceId;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::names::frames::fold;
use nccl_stacks::run::slices;
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::time::{Ns, TimeRule, Window};

fn open(path: &Path, time: TimeRule) -> Database {
    let options = LoadOptions { time, args: ArgsWanted::COLLECTIVES, ..LoadOptions::default() };
    Database::open(load(path, options, |_| {}).unwrap().store).unwrap()
}

fn ask(database: &Database, kernel: Option<&str>, window: Window) -> StackReport {
    let patterns: Vec<String> = kernel.iter().map(|k| (*k).to_owned()).collect();
    let wanted = Wanted::parse(&patterns, &[], &OwnFamilies::default()).unwrap();
    let how = StackOptions { without_forward: true, ..StackOptions::default() };
    stacks(database.store(), &wanted, window, how)
}

/// The stacks by Perfetto's nesting, the launch first: the callers that the script finds.
fn by_parent_id(database: &Database, kernel: &str, window: Window, max_callers: usize) -> BTreeMap<Vec<String>, u64> {
    let store = database.store();
    let wanted = Wanted::parse(&[kernel.to_owned()], &[], &OwnFamilies::default()).unwrap();
    let launches = launches::find(store, &choose(database.store(), &wanted));
    let mut stacks = BTreeMap::new();
    for call in launches
        .kernels
        .iter()
        .filter_map(|launched| launched.call)
        .filter(|call| window.contains(store.slices.ts(*call)))
    {
        let name = |slice| store.strings.get(store.slices.name(slice)).unwrap();
        let mut frames = vec![name(call).to_owned()];
        let parents = std::iter::successors(store.slices.parent(call), |slice| store.slices.parent(*slice));
        frames.extend(parents.take(max_callers).map(|slice| fold(name(slice)).into_owned()));
        *stacks.entry(frames).or_default() += 1;
    }
    stacks
}

/// One answer of the script: what was asked, and the stacks (the launch first) with their counts.
struct Answer {
    trace: String,
    kernel: String,
    window: Window,
    depth: usize,
    stacks: BTreeMap<Vec<String>, u64>,
}

fn parse_answer(text: &str) -> Answer {
    let header = |key: &str| {
        let start = format!("# {key}: ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("no {key}"))
    };
    let (start, rest) = header("start_ts").split_once(" duration: ").unwrap();
    let (duration, depth) = rest.split_once(" depth: ").unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    let mut stacks = BTreeMap::new();
    for (count, stack) in rows {
        let mut frames = stack.split(" <- ");
        let launch = frames.next().unwrap().to_owned();
        let folded: Vec<String> = std::iter::once(launch).chain(frames.map(|f| fold(f).into_owned())).collect();
        *stacks.entry(folded).or_default() += count.parse::<u64>().unwrap();
    }
    Answer {
        trace: header("trace").to_owned(),
        kernel: header("kernel").to_owned(),
        window: Window::new(Ns(start.parse().unwrap()), Ns(duration.parse().unwrap())),
        depth: depth.parse().unwrap(),
        stacks,
    }
}

/// Removes what is wrong in the script's answer, each kind with the reason, and returns how many kernels are expected
/// under graph launches. The rest must equal ours to the letter.
fn without_known_errors(name: &str, stacks: &mut BTreeMap<Vec<String>, u64>) -> u64 {
    let (mut graph, mut strays, mut zero_length) = (0, 0, 0);
    for (frames, count) in std::mem::take(stacks) {
        if frames.len() > 1 && frames[0] == "cudaGraphLaunch" && frames[1] == "cudaGraphLaunch" {
            // The ancestors of all kernels of a graph launch joined into one text, counted once per launch. Each of these
            // graphs holds 97 all-reduces.
            graph += 97 * count;
        } else if frames[0] == "cudaLaunchKernelExC" && frames[1].ends_with(": fused_add_rmsnorm_cute") {
            // The launch of another kernel: it overlaps the all-reduce on its stream, so its flow was bound to that.
            strays += count;
        } else if frames[0] == "cudaPointerGetAttributes" {
            // Times in whole microseconds: the flow was bound to a call of length 0 that begins within the launch.
            zero_length += count;
            *stacks.entry(frames[1..].to_vec()).or_default() += count;
        } else {
            *stacks.entry(frames).or_default() += count;
        }
    }
    let known = match name {
        "sglang_A_rank0.fbg0" | "sglang_A_rank0.like_fbg0.depth30" => (0, 16, 0),
        "sglang_A_rank0.whole" => (3 * 97, 16, 0),
        "sglang_A_rank0.fbg1" | "sglang_A_rank0.fbg2" | "sglang_A_rank0.fbg3" => (97, 0, 0),
        "sglang_A_rank1.like_fbg0.depth30" => (0, 2, 0),
        "sglang_F_rank0.whole" | "sglang_F_compat_rank0.whole" => (5 * 97, 0, 0),
        "HTA__trace_diff_control_a100.whole" => (0, 0, 1),
        _ => (0, 0, 0),
    };
    assert_eq!((graph, strays, zero_length), known, "{name}");
    graph
}

#[test]
fn the_answers_of_the_script_less_its_errors() {
    let Some(shared) = crate::support::shared() else { return };
    let mut compared = 0;
    let mut files: Vec<_> =
        std::fs::read_dir(shared.join("oracle")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // The questions about a trace come one after the other.
    let mut opened: Option<(String, Database)> = None;
    for file in files {
        let Some(name) = file.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".script.txt")) else {
            continue;
        };
        let mut answer = parse_answer(&crate::support::read_text(&file));
        let under_graphs = without_known_errors(name, &mut answer.stacks);
        // The script's windows are on Perfetto's clock.
        if opened.as_ref().is_none_or(|(trace, _)| *trace != answer.trace) {
            let database = open(&shared.join("traces").join(&answer.trace), TimeRule::Perfetto);
            opened = Some((answer.trace.clone(), database));
        }
        let database = &opened.as_ref().unwrap().1;
        let mut ours = by_parent_id(database, &answer.kernel, answer.window, answer.depth);
        if under_graphs > 0 {
            let before: u64 = ours.values().sum();
            ours.retain(|frames, _| frames[0] != "cudaGraphLaunch");
            assert_eq!(before - ours.values().sum::<u64>(), under_graphs, "{name}: under graph launches");
        }
        assert_eq!(ours, answer.stacks, "{name}");
        // `--format script` prints the same, but for marks of steps, which are no callers here, and an error of the script: it loses an annotation that overlaps the
        // function around it. Either has one caller more above.
        let report = ask(database, Some(&answer.kernel), answer.window);
        let key = |frames: &[String]| {
            let is_lost = |frame: &str| {
                frame == "DistributedDataParallel.forward"
                    || frame.starts_with("step[")
                    || frame.starts_with("ProfilerStep#")
            };
            let kept = frames.iter().filter(|frame| !is_lost(frame)).cloned();
            kept.take(answer.depth.saturating_sub(1).max(1)).collect::<Vec<String>>()
        };
        let mut left: BTreeMap<Vec<String>, i64> = BTreeMap::new();
        for (frames, count) in ours {
            *left.entry(key(&frames)).or_default() += count as i64;
        }
        for (frames, count) in script::grouped(&report, Some(answer.depth)) {
            let printed: Vec<String> = frames.iter().rev().map(|frame| (*frame).to_owned()).collect();
            if under_graphs > 0 && printed[0] == "cudaGraphLaunch" {
                continue;
            }
            *left.entry(key(&printed)).or_default() -= count as i64;
        }
        assert!(left.values().all(|count| *count == 0), "{name}: {left:#?}");
        compared += 1;
    }
    assert_eq!(compared, 22);
}

/// How many kernels of a report were launched by a call of this name.
fn launched_by(report: &StackReport, call: &str) -> u64 {
    report.stacks.iter().filter(|s| s.key.frames.last().is_some_and(|f| f == call)).map(|s| s.count).sum()
}

#[test]
fn known_counts() {
    let Some(shared) = crate::support::shared() else { return };
    // Trace, NCCL kernels, launched, by graph launches.
    for (trace, kernels, launched, by_graph) in [
        ("lora-dev-script__sglang_tp4_A_mixed_rank0", 392, 392, 294),
        ("lora-dev-script__sglang_tp4_A_mixed_rank1", 392, 392, 294),
        ("lora-dev-script__sglang_tp4_A_mixed_rank2", 392, 392, 294),
        ("lora-dev-script__sglang_tp4_A_mixed_rank3", 392, 392, 294),
        ("lora-dev-script__sglang_tp4_F_decode_lora_rank0", 490, 490, 490),
        ("lora-dev-script__sglang_tp4_F_decode_lora_compat_rank0", 490, 490, 490),
        ("TraceLens__mi300_ddp_resnet_rank0", 17, 12, 0),
        ("HTA__trace_diff_test_v100_cudagraph", 64, 60, 0),
        ("HPCTrainingExamples__ddp_rccl_merged_4ranks", 84, 84, 0),
        ("HPCTrainingExamples__rccl_only_merged", 84, 0, 0),
        ("HTA__dlrm_sampled_rank0", 10, 10, 0),
    ] {
        let database = open(&shared.join("traces").join(format!("{trace}.json.gz")), TimeRule::Exact);
        let report = ask(&database, None, Window::ALL);
        let got = (report.kernels_in_trace, report.coverage.attributed(), launched_by(&report, "cudaGraphLaunch"));
        assert_eq!(got, (kernels, launched, by_graph), "{trace}");
        assert_eq!(report.coverage.unattributed(), kernels - launched, "{trace}");
    }
}

#[test]
fn one_step_of_sglang() {
    let Some(shared) = crate::support::shared() else { return };
    for rank in 0..4 {
        let path = shared.join("traces").join(format!("lora-dev-script__sglang_tp4_A_mixed_rank{rank}.json.gz"));
        let database = open(&path, TimeRule::Exact);
        let name = "sglang/srt/managers/tp_worker.py(447): forward_batch_generation";
        let steps = slices::functions(&database, name, &Launches::default(), WindowOn::Launch).unwrap();
        assert_eq!(steps.len(), 4, "rank {rank}");
        let report = ask(&database, Some("ncclDevKernel_AllReduce"), steps[0].window);
        assert_eq!(report.coverage.attributed(), 97, "rank {rank}");
        for stack in &report.stacks {
            assert_eq!(stack.key.frames[stack.key.frames.len() - 2], "nccl:all_reduce", "rank {rank}");
        }
    }
}

/// All slices that enclose a call on its thread by time, on whatever track, outermost first; those above the first
/// function of the thread, by the profiler's record, belong to other threads.
fn by_time(store: &Store, call: SliceId) -> Vec<SliceId> {
    let slices = &store.slices;
    let end = |slice| slices.ts(slice) + slices.dur(slice);
    let holds = |slice: &SliceId| store.thread_of(*slice) == store.thread_of(call) && end(*slice) >= end(call);
    let mut found: Vec<SliceId> = slices.ids().take(call.row()).filter(holds).collect();
    let is_first = |slice: &SliceId| store.python_ids(*slice).is_some_and(|(_, c)| c == PythonCaller::Nobody);
    if let Some(first) = found.iter().rposition(is_first) {
        found.drain(..first);
    }
    found
}

/// The callers of every launch of a collective, and of many others, in every real trace, against a search through all slices by
/// their times.
#[test]
fn callers_are_what_runs_around_a_launch() {
    let Some(shared) = crate::support::shared() else { return };
    let mut checked = 0;
    for (name, path) in crate::support::real_traces(&shared) {
        let database = open(&path, TimeRule::Exact);
        let store = database.store();
        let calls_of = |families: &[&str], patterns: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let wanted = Wanted::parse(&texts(patterns), &texts(families), &OwnFamilies::default()).unwrap();
            let launches = launches::find(store, &choose(store, &wanted));
            let mut calls: Vec<SliceId> = launches.kernels.iter().filter_map(|l| l.call).collect();
            calls.dedup();
            calls
        };
        // All launches of collectives, and some of all others.
        let mut calls = calls_of(&["all-collectives"], &[]);
        let others = calls_of(&[], &["*"]);
        calls.extend(others.iter().step_by(others.len() / 100 + 1));
        let mut callers = Callers::new(store);
        for call in calls {
            let mut found = Vec::new();
            while let Some(caller) = callers.caller(*found.last().unwrap_or(&call)) {
                found.push(caller);
            }
            found.reverse();
            let want = by_time(store, call);
            checked += 1;
            let names = |slices: &[SliceId]| -> Vec<&str> {
                slices.iter().map(|slice| store.strings.get(store.slices.name(*slice)).unwrap()).collect()
            };
            assert!(found == want, "{name}, slice {call}:\n{:?}\n{:?}", names(&found), names(&want));
        }
    }
    assert!(checked > if is_long() { 3_000 } else { 1_500 }, "{checked}");
}

fn trace(shared: &Path, name: &str) -> Database {
    open(&shared.join("traces").join(format!("{name}.json.gz")), TimeRule::Exact)
}

/// The whole answer for some kernels, with captures from another trace if one is named.
fn answer(shared: &Path, database: &Database, patterns: &[&str], capture: Option<&str>) -> StackReport {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let families = if patterns.is_empty() { vec!["all-collectives".to_owned()] } else { vec![] };
    let wanted = Wanted::parse(&patterns, &families, &OwnFamilies::default()).unwrap();
    let mut launches = launches::find(database.store(), &choose(database.store(), &wanted));
    let mut captures = Captures::new(false);
    if let Some(capture) = capture {
        let path = shared.join("traces").join(format!("{capture}.json.gz"));
        assert_eq!(captures.add(&load(&path, LoadOptions::default(), |_| {}).unwrap().store), 1);
    }
    let captured = captures.stacks(database.store(), &mut launches);
    stack_report(Attributor::new(database.store(), &wanted, captured), &launches, Window::ALL, StackOptions::default())
}

#[test]
fn every_collective_is_accounted_for() {
    let Some(shared) = crate::support::shared() else { return };
    let (mut with_collectives, mut displayed) = (0, 0);
    for (name, path) in crate::support::real_traces(&shared) {
        let database = open(&path, TimeRule::Exact);
        // None is of the exporter that writes nanoseconds, though some display them.
        let store = database.store();
        assert_eq!(store.in_nanoseconds(), [], "{name}");
        let unit = store.header.iter().find(|field| field.key == "displayTimeUnit");
        displayed += usize::from(unit.is_some_and(|unit| format!("{:?}", unit.value).contains("\"ns\"")));
        let report = answer(&shared, &database, &[], None);
        // The collective kernels of these traces: NCCL's, and three of other libraries.
        let sql = "SELECT count(*) FROM slice WHERE kind = 'kernel' AND (name GLOB 'nccl*' OR name GLOB '*::all_reduce_*' \
                   OR name GLOB '*::allreduce_fusion_*' OR name GLOB '* dpsk::ep::*')";
        let kernels: u64 = database.connection().query_row(sql, [], |row| row.get(0)).unwrap();
        let coverage = &report.coverage;
        assert_eq!((report.kernels_in_trace, coverage.kernels), (kernels, kernels), "{name}");
        assert_eq!(coverage.attributed() + coverage.unattributed(), kernels, "{name}");
        assert_eq!(report.stacks.iter().map(|stack| stack.count).sum::<u64>(), coverage.attributed(), "{name}");
        with_collectives += u64::from(kernels > 0);
    }
    // 38 of all traces; without the 23 of other ranks than the first, 15.
    assert_eq!((with_collectives, displayed > 0), (if is_long() { 38 } else { 12 }, true));
}

/// One recording, written twice: as it was, and by a tool that moved overlapping slices and replaced thread numbers by texts.
#[test]
fn twins_give_the_same_answer() {
    let Some(shared) = crate::support::shared() else { return };
    let stacks = |name: &str| answer(&shared, &trace(&shared, name), &[], None).stacks;
    let original = stacks("lora-dev-script__sglang_tp4_F_decode_lora_rank0");
    assert_eq!(original.iter().map(|stack| stack.count).collect::<Vec<_>>(), [490]);
    assert_eq!(original, stacks("lora-dev-script__sglang_tp4_F_decode_lora_compat_rank0"));
}

/// Ranks, merged into one file as they are: correlation ids collide, and each kernel still has its own rank's launch. By day two of four.
#[test]
fn ranks_merged_into_one_file_have_their_own_stacks() {
    let Some(shared) = crate::support::shared() else { return };
    let (mut events, mut want) = (String::new(), BTreeMap::new());
    let count = |stacks: &mut BTreeMap<Vec<String>, u64>, path: &Path| {
        let database = open(path, TimeRule::Exact);
        let report = ask(&database, Some("*"), Window::ALL);
        assert_eq!((report.coverage.uncertain, report.coverage.unattributed()), (0, 0), "{}", path.display());
        report.stacks.into_iter().for_each(|stack| *stacks.entry(stack.key.frames).or_default() += stack.count);
    };
    let ranks = if is_long() { 4 } else { 2 };
    for rank in 0..ranks {
        let path = shared.join(format!("traces/lora-dev-script__sglang_tp4_A_mixed_rank{rank}.json.gz"));
        count(&mut want, &path);
        let text = crate::support::read_text(&path);
        // Its list of events, as it is: what comes after it has no list.
        let list = text.find("\"traceEvents\": [").unwrap() + "\"traceEvents\": [".len()..text.rfind(']').unwrap();
        let comma = if events.is_empty() { "" } else { "," };
        events += &format!("{comma}{}", &text[list]);
    }
    assert_eq!(want.values().sum::<u64>(), 3_091 * ranks);
    let folder = tempfile::tempdir().unwrap();
    let merged = folder.path().join("merged.json");
    std::fs::write(&merged, format!("{{\"traceEvents\": [{events}]}}")).unwrap();
    let mut got = BTreeMap::new();
    count(&mut got, &merged);
    assert!(got == want, "stacks differ from those of the ranks alone");
}

/// The profiler put the start stacks of all Python threads around the scheduler's.
#[test]
fn a_schedulers_stacks_are_its_own() {
    let Some(shared) = crate::support::shared() else { return };
    for (name, disagree) in [
        ("A_mixed_rank0", 16),
        ("A_mixed_rank1", 2),
        ("A_mixed_rank2", 0),
        ("A_mixed_rank3", 0),
        ("F_decode_lora_rank0", 0),
    ] {
        let report = answer(&shared, &trace(&shared, &format!("lora-dev-script__sglang_tp4_{name}")), &[], None);
        // As many as the flows that trace_processor binds to kernels from launches of other kernels.
        assert_eq!(report.coverage.flow_disagrees, disagree, "{name}");
        for stack in &report.stacks {
            assert_eq!(
                stack.key.frames[..2],
                ["<string>(1): <module>", "multiprocessing/spawn.py(122): spawn_main"],
                "{name}"
            );
            let strangers = ["watchdog.py", "_monitor.py", "timer.py", "subproc_pool.py", "fused_add_rmsnorm"];
            assert!(!stack.key.frames.iter().any(|frame| strangers.iter().any(|s| frame.contains(s))), "{name}");
        }
    }
}

#[test]
fn graphs_have_the_stacks_of_their_capture() {
    let Some(shared) = crate::support::shared() else { return };
    // Trace, its capture; kernels launched by graphs, how many of these have the capture's stack. The last trace replays graphs of
    // other sizes than the captured one.
    for (replay, capture, kernels, matched) in [
        ("mi_sglang_decode", "mi_sglang_capture_bs32", 544, 544),
        ("mi_vllm_graph_execution", "mi_vllm_capture", 421, 421),
        ("mi_vllm_piecewise_execution", "mi_vllm_capture", 361, 0),
    ] {
        let database = trace(&shared, &format!("TraceLens__{replay}"));
        let report = answer(&shared, &database, &["*"], Some(&format!("TraceLens__{capture}")));
        assert_eq!(report.coverage.attributed_by[&Evidence::GraphReplay], kernels, "{replay}");
        let tally = report.coverage.captures.unwrap();
        assert_eq!((tally.matched, tally.unknown, tally.ambiguous), (matched, kernels - matched, 0), "{replay}");
        assert_eq!(tally.by_order, 0, "ROCm names the kernels");
    }
}
