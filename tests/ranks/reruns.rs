//! What reruns say, against the simulator: each job is made twice with the same random times, with and without what is late, so that it is known how
//! much shorter it would have been.

use std::sync::Arc;

use nccl_stacks::answers::ranks::data::{Compared, RankReport, RankWaits};
use nccl_stacks::answers::ranks::document::verdict;
use nccl_stacks::answers::ranks::reduction::RankReduction;
use nccl_stacks::answers::ranks::what_if::{Also, Rule};
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::replay::findings::{Extent, LateWork, Reruns};
use nccl_stacks::replay::rank::{EdgeKind, FUNCTIONS};

use serde_json::Value;

use super::inputs::with_edited_events;
use super::simulated::{compare, each, parts, pick};
use crate::job::{How, Job, KERNELS, Late, Offsets, When};
use crate::support::events::{kernel, tied};
use crate::support::once::Once;
use crate::support::program::{has, json_of, number, stdout_of, testdata};
use crate::support::random::rounds;

/// A job, different for each seed. Graphs record no groups, so that jobs with them have one group.
pub(super) fn job(seed: u64) -> Job {
    let layouts = [(2, 1, 1), (4, 1, 1), (8, 1, 1), (4, 1, 2), (2, 2, 2), (4, 2, 2), (8, 2, 2), (1, 1, 8), (1, 4, 2)];
    let (tp, pp, dp) = pick(seed, 1, &layouts);
    let has_one_group = pp == 1 && (tp == 1 || dp == 1);
    let graphs = has_one_group && pick(seed, 4, &[false, false, true]);
    let pieces = has_one_group && !graphs && pick(seed, 10, &[false, false, true]);
    let (steps, layers) = (pick(seed, 2, &[3, 6, 10]), pick(seed, 3, &[2, 4, 8]));
    let offsets = Offsets::Random { max_ns: 1_000_000 };
    let jitter_ns = pick(seed, 5, &[2_000, 10_000, 50_000]);
    Job { tp, pp, dp, steps, layers, graphs, pieces, jitter_ns, offsets, seed, ..Job::default() }
}

/// What is late in it.
pub(super) fn late(seed: u64, how: &str) -> Late {
    let job = job(seed);
    let rank = pick(seed, 6, &(0..job.ranks()).collect::<Vec<_>>());
    let when = pick(seed, 7, &[When::EveryStep, When::EveryLayer, When::Once { step: 1 }]);
    let extra_ns = match when {
        When::Once { .. } => pick(seed, 8, &[2_000_000, 4_000_000]),
        _ => pick(seed, 8, &[200_000, 500_000, 1_000_000]),
    };
    let function = pick(seed, 9, &["mlp.py(50): mlp", "attention.py(30): attention", "gc.py(1): collect"]).to_owned();
    let how = match how {
        "function" => How::Cpu { function },
        "sync" => How::Sync,
        "kernel" => How::Gpu { kernel: pick(seed, 9, KERNELS).to_owned() },
        _ => How::SlowCpu { factor: 1.3 },
    };
    Late { rank, extra_ns, how, when }
}

fn reruns(job: &Job) -> Reruns {
    compare(&job.make()).report().reruns.unwrap()
}

/// A job in which nothing is late, for all tests that ask for it.
fn quiet(seed: u64, graphs: bool) -> Arc<Reruns> {
    static FOUND: Once<(u64, bool), Arc<Reruns>> = Once::new();
    FOUND.get((seed, graphs), || Arc::new(reruns(&Job { graphs, ..job(seed) })))
}

/// With and without what is late.
fn both(seed: u64, how: &str) -> (Late, Reruns, Arc<Reruns>) {
    let (late, graphs) = (late(seed, how), job(seed).graphs && how != "sync");
    let with = reruns(&Job { late: Some(late.clone()), graphs, ..job(seed) });
    (late, with, quiet(seed, graphs))
}

/// What is smaller than this is not named: the error of the graph, and chance.
fn least(reruns: &Reruns) -> i64 {
    let error = reruns.error.unwrap();
    (reruns.length_ns as f64 * error.of_saving(reruns.steps).max(0.005)) as i64 + 2 * reruns.unsteady_ns
}

/// Whether a finding is what is late.
#[derive(Debug, Default, Clone, Copy)]
struct Right {
    ranks: bool,
    name: bool,
    saving: bool,
}

fn judge(late: &Late, with: &Reruns, quiet: &Reruns) -> Right {
    let truth = with.length_ns - quiet.length_ns;
    let Some(first) = with.findings.first() else {
        let ranks = truth <= least(with);
        return Right { ranks, name: true, saving: true };
    };
    let ranks = first.ranks == [late.rank];
    let name = match &late.how {
        How::Cpu { function: name } | How::Gpu { kernel: name } => {
            first.culprit().is_some_and(|culprit| culprit.name == *name)
        }
        How::Sync => {
            first.extent == Extent::Calls && first.culprit().is_some_and(|call| call.name == "cudaDeviceSynchronize")
        }
        _ => first.culprit().is_none_or(|culprit| culprit.saves_ns < first.saves_ns),
    };
    Right { ranks, name: name || !ranks, saving: !ranks || (first.saves_ns - truth).abs() <= bound(first, with) }
}

/// The stated error. Of two ranks each is the other's only peer, and a rerun takes away what both vary by chance.
fn bound(finding: &LateWork, reruns: &Reruns) -> i64 {
    finding.error_ns.max(reruns.length_ns / 200) + 2 * reruns.chance_saves_ns.max(0)
}

/// In so many of a hundred jobs the ranks, the function or kernel, and the saving must be right.
const RANKS: usize = 98;
const NAMES: usize = 95;
const SAVINGS: usize = 95;

fn check(how: &str) {
    let found = each(0..rounds(10) as u64, |seed| {
        let (late, with, quiet) = both(seed, how);
        (judge(&late, &with, &quiet), late, with, quiet.length_ns)
    });
    let jobs = found.len();
    let count = |of: fn(&Right) -> bool| found.iter().filter(|(_, (right, ..))| of(right)).count();
    for (seed, (right, late, with, quiet)) in &found {
        if !(right.ranks && right.name && right.saving) {
            let (truth, all) = (with.length_ns - quiet, with.length_ns);
            println!("{seed}: {right:?} {:?} {late:?}\n    truth {truth} of {all}: {with:?}", job(*seed));
        }
    }
    let right = (count(|right| right.ranks), count(|right| right.name), count(|right| right.saving));
    let named = found.iter().filter(|(_, (.., with, _))| !with.findings.is_empty()).count();
    println!("{how}: of {jobs} jobs ranks, names and savings are right in {right:?}; in {named} somebody is named");
    // What is smaller than the error need not be named, but that is not all there is.
    assert!(named * 10 >= jobs, "{how}: somebody is named in {named} of {jobs}");
    // One of a few is more than the share that may be wrong.
    let enough = |right: usize, share: usize| right * 100 >= share * jobs || right + 1 >= jobs;
    assert!(enough(right.0, RANKS) && enough(right.1, NAMES) && enough(right.2, SAVINGS), "{how}: {right:?} of {jobs}");
}

#[test]
fn a_function_of_one_rank_is_found() {
    check("function");
}

#[test]
fn a_kernel_of_one_rank_is_found() {
    check("kernel");
}

#[test]
fn a_slow_cpu_is_found() {
    check("slow");
}

#[test]
fn a_call_that_waits_for_the_gpu_on_one_rank_is_found() {
    check("sync");
}

/// Where launching takes the CPUs longer than the GPUs take to run it, the CPUs set the pace, and steps would be as much shorter as they are in a job whose
/// CPUs are twice as fast. Where graphs are replayed, the GPUs do, if any.
#[test]
fn the_cpus_set_the_pace_only_where_they_do() {
    let pace = |job: &Job| compare(&job.make()).report().pace();
    for seed in 0..rounds(2) as u64 {
        let eager = Job { steps: 6, layers: 8, graphs: false, pieces: false, jitter_ns: 2_000, ..job(seed) };
        let one = |rank| Late { rank, extra_ns: 0, how: How::SlowCpu { factor: 0.5 }, when: When::EveryStep };
        let fast = Job { late: Some(one(0)), also_late: (1..eager.ranks()).map(one).collect(), ..eager.clone() };
        let (slow, fast) = (reruns(&eager), reruns(&fast));
        let (predicted, truth) = (slow.cpus_twice_as_fast_saves_ns as f64, (slow.length_ns - fast.length_ns) as f64);
        assert!((predicted / truth - 1.0).abs() < 0.05, "seed {seed}: {predicted} {truth}");
        assert!(pace(&eager).is_some_and(|pace| pace.is_of_one() && pace.cpus > pace.gpus), "seed {seed}");
        let graphs = Job { graphs: true, layers: 32, ..Job { tp: 4, pp: 1, dp: 1, ..eager } };
        assert!(pace(&graphs).is_none_or(|pace| !pace.is_of_one() || pace.gpus > pace.cpus), "seed {seed}");
    }
}

/// Eight ranks of 16 are a host whose CPUs are slower: each is beside seven that are as late.
#[test]
fn a_slow_host_is_found() {
    let found = each(0..rounds(2) as u64, |seed| {
        let quiet = Job { tp: 8, pp: 1, dp: 2, steps: 6, graphs: false, pieces: false, jitter_ns: 2_000, ..job(seed) };
        let first = pick(seed, 6, &[0, 8]);
        let one = |rank| Late { rank, extra_ns: 0, how: How::SlowCpu { factor: 1.3 }, when: When::EveryStep };
        let also_late = (first + 1..first + 8).map(one).collect();
        let with = reruns(&Job { late: Some(one(first)), also_late, ..quiet.clone() });
        let truth = with.length_ns - reruns(&quiet).length_ns;
        (truth, with.findings.first().map(|first| (first.ranks.clone(), first.saves_ns, first.error_ns)), first)
    });
    for (seed, (truth, found, first)) in found {
        let (ranks, saves, error) = found.unwrap();
        assert_eq!(ranks, (first..first + 8).collect::<Vec<_>>(), "seed {seed}");
        assert!((saves - truth).abs() <= error.max(truth / 10), "seed {seed}: {saves} of {truth}, +- {error}");
    }
}

/// What is late at the start of a step is named on every stage of a pipeline, though the stages before wait for nothing there.
#[test]
fn a_late_start_of_a_step_is_found_on_every_stage() {
    let (tp, pp, dp) = (8, 4, 2);
    let found = each(0..4, |seed| {
        let quiet = Job { tp, pp, dp, steps: 4, layers: 4, seed: seed + 1, ..Job::default() };
        let rank = seed as u32 * tp * dp + pick(seed, 1, &[0, 5, 12]);
        let how = How::Cpu { function: "gc.py(1): collect".to_owned() };
        let late = Late { rank, extra_ns: 3_000_000, how, when: When::EveryStep };
        let with = reruns(&Job { late: Some(late), ..quiet.clone() });
        (rank, with.length_ns - reruns(&quiet).length_ns, with)
    });
    for (_, (rank, truth, with)) in found {
        let first = with.findings.first().unwrap();
        let name = first.culprit().map(|culprit| culprit.name.as_str());
        assert_eq!((&first.ranks[..], name), (&[rank][..], Some("gc.py(1): collect")), "{with:?}");
        assert!((first.named_saving() - truth).abs() * 10 <= truth, "{truth}: {first:?}");
    }
}

/// Ranks that are late together are beside each other: neither is late after the other.
#[test]
fn two_ranks_that_are_late_together_are_found() {
    let found = each(0..rounds(12) as u64, |seed| {
        // Of two ranks both would be late, and of four half of them.
        let Job { tp, dp, .. } = job(seed);
        let quiet = Job { tp: tp.max(4), dp, pp: 1, graphs: false, jitter_ns: 2_000, ..job(seed) };
        let rank = pick(seed, 6, &(0..quiet.ranks() - 1).collect::<Vec<_>>());
        let how = How::Cpu { function: "attention.py(30): attention".to_owned() };
        let one = |rank| Late { rank, extra_ns: 500_000, how: how.clone(), when: When::EveryLayer };
        let with = reruns(&Job { late: Some(one(rank)), also_late: vec![one(rank + 1)], ..quiet.clone() });
        let truth = with.length_ns - reruns(&quiet).length_ns;
        let first = with.findings.first();
        // With four ranks the median of the others is between a late one and one in time.
        let is_right = first.is_some_and(|first| first.ranks == [rank, rank + 1]);
        let saves = first.map_or(0, |first| first.saves_ns);
        (is_right, (saves - truth).abs() * 20 <= truth, quiet.ranks(), format!("{truth}: {first:?}"))
    });
    let large = || found.iter().filter(|(_, (.., ranks, _))| *ranks > 4);
    let wrong: Vec<_> = large().filter(|(_, (ranks, saving, ..))| !ranks || !saving).collect();
    println!("{} of {} are wrong: {wrong:#?}", wrong.len(), large().count());
    assert!(large().count() > 5 && wrong.len() * 100 <= 5 * large().count(), "{wrong:#?}");
}

/// Where another rank is late in each step, no rank is named for all of it, and reruns say how much of the time it is.
#[test]
fn ranks_that_are_late_in_turn_are_named_for_their_step_only() {
    for seed in 0..rounds(3) as u64 {
        let quiet = Job { tp: 8, pp: 1, dp: 1, steps: 6, graphs: false, jitter_ns: 2_000, ..job(seed) };
        let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
        let one = |step| Late { rank: step, extra_ns: 2_000_000, how: how.clone(), when: When::Once { step } };
        let with = reruns(&Job { late: Some(one(0)), also_late: (1..6).map(one).collect(), ..quiet.clone() });
        let truth = with.length_ns - reruns(&quiet).length_ns;
        assert!((with.all_like_peers_saves_ns - truth).abs() * 20 <= truth, "seed {seed}: {truth} {with:?}");
        assert_eq!(with.findings.len(), 6, "seed {seed}: {with:?}");
        for finding in &with.findings {
            let (step, saves) = finding.saves_by_step_ns.iter().enumerate().max_by_key(|(_, saves)| **saves).unwrap();
            let found = (&finding.ranks[..], finding.extent, *saves * 10 >= 9 * finding.saves_ns);
            assert_eq!(found, (&[step as u32][..], Extent::Pieces, true), "seed {seed}: {finding:?}");
        }
    }
}

/// In so many of a hundred jobs in which nothing is late somebody may be named.
const INVENTED: usize = 1;

/// A rank that begins later than its peers, for a reason that is before its trace, is named for that; a rank that begins earlier is not, nor are the others.
#[test]
fn a_late_begin_is_found() {
    let found = each(0..rounds(3) as u64, |seed| {
        let quiet = Job { graphs: false, pieces: false, offsets: Offsets::None, ..job(seed) };
        let rank = pick(seed, 6, &(0..quiet.ranks()).collect::<Vec<_>>());
        let late = Late { rank, extra_ns: 3_000_000, how: How::Lag, when: When::EveryStep };
        let with = reruns(&Job { late: Some(late), ..quiet.clone() });
        let before = reruns(&quiet);
        assert!(before.findings.iter().all(|of| of.extent != Extent::Begin), "seed {seed}: {:?}", before.findings);
        (rank, with.length_ns - before.length_ns, with, quiet.ranks())
    });
    for (seed, (rank, truth, with, ranks)) in found {
        let first = with.findings.first();
        println!("seed {seed}: rank {rank} of {ranks}, {truth} ns, {first:?}");
        let Some(first) = first else {
            assert!(truth <= least(&with), "seed {seed}: {truth}, {:?}", with.error);
            continue;
        };
        assert_eq!((&first.ranks[..], first.extent), (&[rank][..], Extent::Begin), "seed {seed}");
        let off = (first.saves_ns - truth).abs();
        assert!(off <= bound(first, &with).max(truth / 10), "seed {seed}: {truth}, {first:?}");
    }
}

/// Several late ranks are called a group if they are all of one, and not if they are a part of one. If hosts are known, and they are all or most ranks of
/// one of them, that says more.
#[test]
fn a_set_that_is_a_group_or_on_a_host_is_called_so() {
    let hosts_of_four = |rank: u32| if rank < 4 { "node3" } else { "node7" };
    let hosts: [(_, &dyn Fn(u32) -> &'static str); 3] =
        [("none", &|_| ""), ("one", &|_| "node3"), ("two", &hosts_of_four)];
    for (ranks, hosts_are, named) in [
        (4..8, "none", "the CPUs of ranks 4-7 (a whole mesh_tp group)"),
        (4..8, "one", "the CPUs of ranks 4-7 (a whole mesh_tp group)"),
        (4..8, "two", "the CPUs of ranks 4-7 (all ranks of host node7) as fast"),
        (4..7, "two", "the CPUs of ranks 4-6 (3 of the 4 ranks of host node7) as fast"),
        (1..3, "none", "the CPUs of ranks 1 and 2 as fast"),
        (1..3, "two", "the CPUs of ranks 1 and 2 as fast"),
        (3..5, "two", "the CPUs of ranks 3 and 4 as fast"),
    ] {
        let host = hosts.iter().find(|(of, _)| *of == hosts_are).unwrap().1;
        let one = |rank| Late { rank, extra_ns: 0, how: How::SlowCpu { factor: 1.5 }, when: When::EveryStep };
        let also_late = ranks.map(one).collect();
        let job = Job { tp: 4, pp: 1, dp: 2, steps: 6, layers: 6, also_late, ..Job::default() };
        let name = |rank| match host(rank) {
            "" => format!("rank{rank}.json"),
            host => format!("{host}_47{rank}.169412820154{rank}.pt.trace.json"),
        };
        let of_rank = |(rank, text): &(u32, Vec<u8>)| parts(&name(*rank), text.clone());
        let report = report_of(job.make().traces.iter().flat_map(of_rank).collect());
        let said = verdict(&report);
        assert!(said.contains(named), "{named}: {said}");
        let host_of = |of: &RankWaits| of.host.as_deref().unwrap_or_default() == host(of.rank);
        assert!(report.ranks.iter().all(host_of), "{named}");
    }
}

/// Of a rank alone it is unknown how much of a collective is waiting, and the rerun is without all of it.
#[test]
fn a_rank_alone_is_rerun_without_its_collectives() {
    let [alone, all] = ["ranks/rank0.json.gz", "ranks"].map(|name| stdout_of(&["ranks", &testdata(name), "--quiet"]));
    assert!(alone.contains(" Without it the job would be ") && !alone.contains("With a free transfer"), "{alone}");
    assert!(all.contains(" With a free transfer the job would be ") && !all.contains("Without it the job"), "{all}");
}

/// Four ranks of which the last takes two milliseconds longer in a function in each step.
fn with_late_function() -> Job {
    let how = How::Cpu { function: "gc.py(1): collect".to_owned() };
    let late = Late { rank: 3, extra_ns: 2_000_000, how, when: When::EveryStep };
    Job { tp: 4, pp: 1, dp: 1, steps: 6, layers: 6, late: Some(late), ..Job::default() }
}

/// The parts of a job whose traces were written with some events changed, or left out: `edit` gets the rank and the text of each.
fn edited(job: &Job, edit: impl Fn(u32, &str) -> Option<String>) -> Vec<RankReduction> {
    let of_rank = |(rank, text): &(u32, Vec<u8>)| {
        let text = with_edited_events(std::str::from_utf8(text).unwrap(), |event| edit(*rank, event));
        parts(&format!("rank{rank}.json"), text.into_bytes())
    };
    job.make().traces.iter().flat_map(of_rank).collect()
}

fn report_of(parts: Vec<RankReduction>) -> RankReport {
    Compared::from_reductions(parts, ClockMode::Align).unwrap().report()
}

fn is_python(event: &str) -> bool {
    event.contains("\"cat\": \"python_function\"")
}

fn is_of_gpu(event: &str) -> bool {
    ["kernel", "gpu_memcpy", "gpu_memset"].iter().any(|cat| event.contains(&format!("\"cat\": \"{cat}\"")))
}

/// Many traces have times that were rounded to a microsecond, so that a slice may seem to start before the end of what it waited for.
#[test]
fn rounded_times_change_nothing() {
    let job = with_late_function();
    let rounded = |event: &str| {
        let mut text = event.to_owned();
        for key in ["\"ts\": ", "\"dur\": "] {
            let Some(at) = text.find(key).map(|at| at + key.len()) else { continue };
            let end = at + text[at..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
            let whole = (text[at..end].parse::<f64>().unwrap() + 0.5).floor();
            text.replace_range(at..end, &format!("{whole}"));
        }
        Some(text)
    };
    let reruns =
        |edit: &dyn Fn(&str) -> Option<String>| report_of(edited(&job, |_, event| edit(event))).reruns.unwrap();
    let (exact, rounded) = (reruns(&|event| Some(event.to_owned())), reruns(&rounded));
    let of = |reruns: &Reruns| (reruns.findings[0].ranks.clone(), reruns.findings[0].culprits[0].clone());
    let ((ranks, name), (same, also)) = (of(&exact), of(&rounded));
    println!("{name:?} {also:?} {:?} {:?}", exact.error, rounded.error);
    assert_eq!((&ranks, &name.name), (&same, &also.name));
    assert!((name.saves_ns - also.saves_ns).abs() < name.saves_ns / 50, "{name:?} {also:?}");
    assert!(rounded.error.unwrap().mean < 0.01, "{:?}", rounded.error);
}

/// A slice that is shorter than times are rounded may seem to start after what waited for it. It is no edge then: nothing comes before what it waits for.
#[test]
fn a_slice_that_starts_after_what_waited_for_it() {
    let call = |name: &str, ts: u32, id: u32| tied("cuda_runtime", name, (1, 1), ts, 2, id);
    for (start, is_edge) in [(99.2, true), (100.0, false), (100.2, false), (120.0, false)] {
        let events = [
            call("cudaLaunchKernel", 10, 1),
            call("cudaStreamWaitEvent", 20, 2),
            call("cudaLaunchKernel", 30, 3),
            kernel("short", (0, 7), start, 0.5, 1),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (0, 8), 100, 10, 3),
        ];
        let events = events.map(|event| format!("{{{event}}}")).join(", ");
        let text = format!(r#"{{"distributedInfo": {{"rank": 0, "world_size": 2}}, "traceEvents": [{events}]}}"#);
        let parts = parts("rank0.json", text.into_bytes());
        let graph = &parts[0].graph;
        let waits = (0..).zip(graph.edges.iter()).flat_map(|(to, edges)| edges.iter().map(move |edge| (to, edge)));
        let mut waits = waits.filter(|(_, edge)| edge.kind == EdgeKind::WaitEvent);
        assert_eq!(waits.clone().count() == 1, is_edge, "{start}: {:?}", graph.edges);
        assert!(waits.all(|(to, edge)| edge.from < to), "{start}: {:?}", graph.edges);
    }
}

/// A function that another rank's list does not have, because it is full, takes at most what the last one there takes; not none.
#[test]
fn a_function_that_is_cut_from_a_list_is_not_longer_elsewhere() {
    const CUT: &str = "aten::linear";
    let whole = edited(&with_late_function(), |_, event| Some(event.to_owned()));
    let [empty, full] = [false, true].map(|is_full| {
        let mut parts = whole.clone();
        for graph in parts.iter_mut().take(3).map(|part| &mut part.graph) {
            let cut = graph.texts.iter().position(|text| text == CUT).unwrap() as u32;
            let first = graph.texts.len() as u32;
            graph.texts.extend((0..FUNCTIONS).map(|number| format!("filling.py({number}): f")));
            for interval in &mut graph.intervals {
                let longest = interval.functions.iter().map(|(_, time)| *time).max().unwrap_or_default();
                interval.functions.retain(|(name, _)| *name != cut);
                if is_full {
                    let free = FUNCTIONS - interval.functions.len();
                    interval.functions = (first..).take(free).map(|name| (name, longest)).collect();
                    interval.functions.extend((first..).skip(free).take(FUNCTIONS - free).map(|name| (name, longest)));
                }
            }
        }
        let reruns = report_of(parts).reruns.unwrap();
        let culprits = &reruns.findings[0].culprits;
        println!("{is_full}: {culprits:?}");
        assert_eq!(culprits[0].name, "gc.py(1): collect");
        culprits.iter().find(|of| of.name == CUT).map_or(0, |of| of.saves_ns)
    });
    // What is left is by how much its time varies from rank to rank.
    assert!(empty > 100_000 && full < empty / 5, "{empty} {full}");
}

/// Where the others were recorded without Python functions, only what cannot be within what they did is called longer.
#[test]
fn functions_are_compared_with_ranks_that_have_them_recorded() {
    for without in [&[0, 1, 2][..], &[0]] {
        let report = report_of(edited(&with_late_function(), |rank, event| {
            (!without.contains(&rank) || !is_python(event)).then(|| event.to_owned())
        }));
        let findings = &report.reruns.as_ref().unwrap().findings;
        let names: Vec<&str> = findings[0].culprits.iter().map(|of| of.name.as_str()).collect();
        assert_eq!((findings.len(), &findings[0].ranks[..], names[0]), (1, &[3][..], "gc.py(1): collect"), "{names:?}");
        assert!(names.iter().all(|name| !name.starts_with("train.py") && !name.starts_with("model.py")), "{names:?}");
    }
}

/// With GPU events alone it is known for whom the others wait, and not why: no sentence is about CPUs or launches, nor says that none stands out.
#[test]
fn nothing_is_said_of_threads_that_were_not_recorded() {
    let job = with_late_function();
    for (of, is_kept) in [
        ("all", &(|_: u32, event: &str| is_of_gpu(event)) as &dyn Fn(u32, &str) -> bool),
        ("the late one", &|rank, event| rank != 3 || is_of_gpu(event)),
    ] {
        let keep = |rank: u32, event: &str| {
            is_kept(rank, event) || event.contains("\"ph\": \"M\"") || event.contains("traceName")
        };
        let report = report_of(edited(&job, |rank, event| keep(rank, event).then(|| event.to_owned())));
        let said = verdict(&report);
        println!("{of}: {said}");
        has(&said, "of it for rank 3. Nothing here shows why rank 3 is late");
        assert!(!said.contains("No rank stands out") && !said.contains("as fast"), "{said}");
        assert_eq!(report.critical_path.is_none(), of == "all");
    }
    let said = verdict(&report_of(edited(&job, |_, event| Some(event.to_owned()))));
    has(&said, "; with gc.py(1): collect as fast on rank 3");
    assert!(!said.contains("Nothing here shows why"), "{said}");
}

#[test]
fn nobody_is_named_where_nothing_is_late() {
    let found = each(0..rounds(16) as u64, |seed| quiet(seed, job(seed).graphs));
    let invented: Vec<_> = found.iter().filter(|(_, reruns)| !reruns.findings.is_empty()).collect();
    println!("{} of {}: {invented:#?}", invented.len(), found.len());
    assert!(invented.len() * 100 <= INVENTED * found.len(), "{} of {}", invented.len(), found.len());
}

fn compared(seed: u64) -> (Compared, RankReport) {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Some(Late { rank: 2, extra_ns: 500_000, how, when: When::EveryLayer });
    let job = Job { late, tp: 4, pp: 1, dp: 1, graphs: false, jitter_ns: 2_000, ..job(seed) };
    let compared = compare(&job.make());
    let report = compared.report();
    (compared, report)
}

/// What a rule gives is what the finding says, several rules are one rerun, and names are patterns.
#[test]
fn rules_change_what_they_say() {
    let (compared, report) = compared(1);
    let saved = |rules: &[&str]| {
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        compared.what_if(&rules, Also::Nothing).unwrap().unwrap().answers[0].saves_ns
    };
    let reruns = report.reruns.unwrap();
    let found = reruns.findings[0].saves_ns;
    let one = saved(&["rank 2 like peers"]);
    assert!((one - found).abs() * 20 <= found, "{one} {found}");
    assert_eq!(one, saved(&["ranks 2 like peers"]));
    assert!(saved(&["rank 2 gpu like peers"]) * 20 < found);
    assert!(saved(&["rank 1 like peers"]) * 20 < found);
    assert_eq!(saved(&["all like peers"]), reruns.all_like_peers_saves_ns);
    assert_eq!(saved(&["cpus x0.5"]), reruns.cpus_twice_as_fast_saves_ns);
    assert_eq!(saved(&["gpus x1"]), 0);
    assert_eq!(saved(&["ranks 0-3 cpu x0.5"]), reruns.cpus_twice_as_fast_saves_ns);
    assert!((saved(&["rank 1 cpu x0.5"]) as f64) < 0.5 * reruns.cpus_twice_as_fast_saves_ns as f64);
    let function = saved(&["'mlp.py*' cpu x0"]);
    assert!(function * 10 > found * 9, "{function} {found}");
    assert!(saved(&["kernel '*gemm*' x0"]) * 5 < found);
    // Once the rank is like its peers, the function is no more there than elsewhere.
    let both = saved(&["rank 2 like peers", "'mlp.py*' cpu x0"]);
    assert!(both >= one && both < one + function / 2, "{both} {one} {function}");
}

/// Without a rule the best ones are listed, most first, and each can be given as it is printed.
#[test]
fn rules_that_are_listed_can_be_given() {
    let (compared, _) = compared(2);
    let all = compared.what_if(&[], Also::Nothing).unwrap().unwrap();
    assert!(all.answers.len() > 3 && all.answers.len() <= 20, "{:?}", all.answers);
    assert!(all.answers.iter().any(|answer| answer.rule == "rank 2 like peers"), "{:?}", all.answers);
    assert!(all.answers.is_sorted_by_key(|answer| std::cmp::Reverse(answer.saves_ns)), "{:?}", all.answers);
    for answer in &all.answers {
        let again = compared.what_if(&[Rule::parse(&answer.rule).unwrap()], Also::Nothing).unwrap().unwrap();
        assert_eq!(again.answers, std::slice::from_ref(answer));
    }
}

#[test]
fn rules_that_mean_nothing_are_refused() {
    for rule in
        ["", "rank x like peers", "rank 5-2 like peers", "stack 0 free", "kernel 'a' x-1", "kernel 'a x1", "a b c"]
    {
        assert!(Rule::parse(rule).is_err(), "{rule}");
    }
    let (compared, _) = compared(3);
    for (rule, said) in [
        ("rank 9 like peers", "there is no rank 9"),
        ("stack 99 free", "stacks"),
        ("'no_such_function' cpu x0.5", "nothing has a name like no_such_function"),
    ] {
        let error = compared.what_if(&[Rule::parse(rule).unwrap()], Also::Nothing).unwrap_err();
        has(&error, said);
    }
}

/// A window is asked about alone: nothing that a rank did before or after it is in its length.
#[test]
fn a_window_is_as_long_as_what_was_launched_in_it() {
    let (traces, function) = (testdata("ranks"), "model.py(40):%layer_forward");
    let answer: Value = json_of(&["ranks", &traces, "--function-name", function, "--index", "4", "--json"]);
    // From the start of the function to the end of what it launched, on the rank for which that is longest: all end with the same collective.
    let query = format!(
        "SELECT MAX(k.ts + k.dur) - f.ts AS length FROM kernel_launch l JOIN slice k ON k.id = l.kernel_id \
         JOIN slice c ON c.id = l.launch_id JOIN (SELECT * FROM slice WHERE name LIKE '{function}' ORDER BY ts LIMIT 1 OFFSET 4) f \
         ON c.ts BETWEEN f.ts AND f.ts + f.dur"
    );
    let length = |rank: u32| number(&format!("{traces}/rank{rank}.json.gz"), &query);
    let longest = (0..4).map(length).max().unwrap();
    // Each rank's clock is placed by one end, of which each rank has its own.
    let off = answer["reruns"]["length_ns"].as_i64().unwrap() - longest;
    assert!(off.abs() < 1_000, "{off} of {longest}");
}

/// Each rank is in the trace twice, and ends when the table says. A kernel of the late rank begins as much earlier as what is before it is shorter.
#[test]
fn a_rerun_is_a_trace_beside_the_recording() {
    let traces = testdata("ranks");
    let answer = |form: &str| -> Value {
        json_of(&["what-if", &traces, "--if", "rank 2 like peers", "--quiet", "--format", form])
    };
    let (found, trace) = (answer("json"), answer("perfetto"));
    let events = trace["traceEvents"].as_array().unwrap();
    let slices = |rank: u64, kind: &str, name: &str| {
        let named = format!("rank {rank}, {kind}");
        let pid = &events.iter().find(|event| event["args"]["name"] == *named).unwrap()["pid"];
        let of = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == *pid);
        let of = of.filter(|event| event["name"].as_str().unwrap().contains(name));
        let us = |event: &Value, field: &str| (event[field].as_f64().unwrap() * 1e3).round() as i64;
        of.map(|event| (us(event, "ts"), us(event, "dur"))).collect::<Vec<_>>()
    };
    let (length, saves) = (found["length_ns"].as_i64().unwrap(), found["answers"][0]["saves_ns"].as_i64().unwrap());
    let rerun = "rerun: rank 2 like peers";
    let end =
        |kind: &str| (0..4).flat_map(|rank| slices(rank, kind, "")).map(|(start, dur)| start + dur).max().unwrap();
    assert_eq!((end("recorded"), end(rerun)), (length, length - saves));
    for rank in 0..4 {
        let (before, after) = (slices(rank, "recorded", "flash"), slices(rank, rerun, "flash"));
        assert_eq!((before.len(), after.len()), (9, 9));
        // What its kernels take stays as it was, but for the rank that does as its peers.
        assert!(rank == 2 || before.iter().zip(&after).all(|(before, after)| before.1 == after.1));
        assert!(before.iter().zip(&after).all(|(before, after)| after.0 <= before.0), "{before:?} {after:?}");
    }
}

/// As kernels take longer on all ranks, first the CPUs set the pace, then both, since each waits for the other in every step, then the GPUs.
#[test]
fn cpus_and_gpus_set_the_pace_together_between_one_and_the_other() {
    let paces: Vec<char> = (0..=20)
        .map(|step| {
            let how = How::Gpu { kernel: KERNELS[1].to_owned() };
            let slow = |rank| Late { rank, extra_ns: step * 10_000, how: how.clone(), when: When::EveryLayer };
            let also_late = (0..4).map(slow).collect();
            let job = Job { tp: 4, steps: 4, layers: 12, jitter_ns: 0, also_late, ..Job::default() };
            let report = compare(&job.make()).report();
            let pace = match report.pace() {
                None => '-',
                Some(pace) if !pace.is_of_one() => 'T',
                Some(pace) if pace.cpus > pace.gpus => 'C',
                Some(_) => 'G',
            };
            assert_eq!(verdict(&report).contains("; CPUs and GPUs set the pace together: with CPUs"), pace == 'T');
            pace
        })
        .collect();
    let changes: String = paces.chunk_by(|a, b| a == b).map(|same| same[0]).collect();
    println!("{paces:?}");
    assert_eq!(changes, "CTG");
}
