//! Groups by other keys than stacks: by every key they add up to all kernels, and modules are those that a walk of the JSON finds.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::support::events::{kernel, slice, tied};
use crate::support::program::{has, json_of, refused, run, scratch, stderr, stderr_of, stdout, trace_of};
use crate::support::random::is_long;
use crate::support::read_text;
use nccl_stacks::answers::cost::{Order, Totals};
use nccl_stacks::answers::stacks::data::{StackOptions, StackReport};
use nccl_stacks::answers::stacks::grouping::{GroupBy, Grouping};
use nccl_stacks::answers::stacks::reduction::stacks;
use nccl_stacks::attribution::selection::Wanted;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::store::Store;
use nccl_stacks::time::Window;
use serde_json::Value;

/// Every key, the ones with a parameter, too, and some together.
const KEYS: &[&str] = &[
    "stack",
    "frame",
    "function:forward",
    "module",
    "op",
    "shape",
    "forward",
    "annotation",
    "step",
    "stream",
    "group",
    "collective",
    "size",
    "rank",
    "kernel",
    "category",
    "arg:grid",
    "arg:Sequence number",
    "module,op,shape",
    "step,category,stream",
];

fn grouping(keys: &str) -> Grouping {
    Grouping::new(keys.split(',').map(|key| GroupBy::parse(key).unwrap()).collect(), None)
}

struct Trace {
    store: Store,
    wanted: Wanted,
}

impl Trace {
    /// A trace with the arguments that some keys need, and its kernels of any name.
    fn open(path: &Path, needs: &[&str]) -> Trace {
        let by = needs.iter().flat_map(|keys| grouping(keys).by).collect();
        let args = Grouping::new(by, None).args(ArgsWanted::COLLECTIVES);
        let store = load(path, LoadOptions { args, ..LoadOptions::default() }, |_| {}).unwrap().store;
        let wanted = Wanted::patterns(&["*"]).unwrap();
        Trace { store, wanted }
    }

    fn report(&self, options: StackOptions) -> StackReport {
        stacks(&self.store, &self.wanted, Window::ALL, options)
    }

    fn by(&self, keys: &str, exact_names: bool) -> StackReport {
        let mut options = StackOptions::default();
        (options.grouping, options.exact_names) = (grouping(keys), exact_names);
        self.report(options)
    }

    /// The totals without groups: those of the stacks, and of the kernels that have none.
    fn totals(&self) -> Totals {
        let report = self.report(StackOptions::default());
        let mut all = Totals::default();
        report.stacks.iter().for_each(|stack| all += stack.totals());
        report.coverage.without_launch.values().for_each(|kernels| all += kernels.all);
        all
    }
}

fn adds_up(name: &str, path: &Path, by: &[&str]) -> bool {
    let trace = Trace::open(path, by);
    let totals = trace.totals();
    for keys in by {
        let report = trace.by(keys, false);
        assert!(report.stacks.is_empty());
        let groups = &report.grouped;
        assert_eq!(groups.totals(), totals, "{name} by {keys}");
        assert_eq!(
            groups.groups.iter().map(|group| group.count).sum::<u64>(),
            report.coverage.kernels,
            "{name} by {keys}"
        );
        let attributed: u64 = groups.groups.iter().map(|group| group.attributed).sum();
        assert_eq!(attributed, report.coverage.attributed(), "{name} by {keys}");
        let by_name = groups.groups.iter().flat_map(|group| group.kernels_by_name.values());
        assert_eq!(by_name.map(|kernels| kernels.count).sum::<u64>(), totals.count, "{name} by {keys}");
        let tree = groups.tree();
        let roots = tree.iter().filter(|branch| branch.depth == 0);
        let mut all = Totals::default();
        roots.for_each(|branch| all += branch.totals);
        assert_eq!(all, totals, "{name} by {keys}: the roots of the tree");
    }
    totals.count > 0
}

#[test]
fn groups_by_every_key_add_up_to_all_kernels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    for name in ["ddp_backward.json.gz", "costs.json", "sglang_decode.json.gz", "flow_only.json", "no_launch_link.json"]
    {
        assert!(adds_up(name, &folder.join(name), KEYS), "{name} has kernels");
    }
}

/// By day each trace by a quarter of the keys: four traces in a row have them all.
#[test]
fn groups_of_real_traces_add_up() {
    let Some(shared) = crate::support::shared() else { return };
    let by = |number: usize| -> Vec<&str> {
        if is_long() { KEYS.to_vec() } else { KEYS.iter().skip(number % 4).step_by(4).copied().collect() }
    };
    let traces = crate::support::real_traces(&shared);
    let has_kernels =
        |(number, (name, path)): &(usize, &(String, std::path::PathBuf))| adds_up(name, path, &by(*number));
    let with_kernels = traces.iter().enumerate().filter(has_kernels).count();
    assert!(with_kernels >= if is_long() { 30 } else { 25 }, "{with_kernels} traces have kernels");
}

/// What a walk of the JSON needs of an event.
struct Event {
    cat: String,
    name: String,
    lane: (String, String),
    start: i64,
    end: i64,
    args: Value,
}

fn nanos(text: &str) -> i64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: String = fraction.chars().chain("000".chars()).take(3).collect();
    whole.parse::<i64>().unwrap() * 1_000 + fraction.parse::<i64>().unwrap()
}

fn events(path: &Path) -> Vec<Event> {
    let trace: Value = serde_json::from_str(&read_text(path)).unwrap();
    let event = |event: &Value| {
        let text = |key: &str| event[key].as_str().map_or_else(|| event[key].to_string(), str::to_owned);
        let start = nanos(&text("ts"));
        Event {
            cat: text("cat"),
            name: text("name"),
            lane: (text("pid"), text("tid")),
            start,
            end: start + nanos(&text("dur")),
            args: event["args"].clone(),
        }
    };
    trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").map(event).collect()
}

/// The modules around a time on a thread, the outermost first.
fn modules(frames: &HashMap<(String, String), Vec<&Event>>, at: &Event) -> Vec<String> {
    let of_thread = frames.get(&at.lane).map_or(&[][..], Vec::as_slice);
    let mut around: Vec<&&Event> =
        of_thread.iter().filter(|frame| frame.start <= at.start && at.end <= frame.end).collect();
    around.sort_by_key(|frame| (frame.start, -frame.end));
    around.iter().map(|frame| frame.name.strip_prefix("nn.Module: ").unwrap().to_owned()).collect()
}

/// Kernels and their time by module, by the text of the JSON: the call with the kernel's correlation id, the frames of modules that run then on its
/// thread; without any, those around the operator of the forward pass that last had the number of the operator of the backward pass around the call.
/// In `AccumulateGrad` that operator is the last before it on its thread. A collective there is of all gradients since the last collective, and of the
/// modules that all of these are in.
fn by_module(events: &[Event]) -> BTreeMap<String, (u64, i64)> {
    let number = |event: &Event, key: &str| event.args[key].as_i64();
    let is_call = |event: &&Event| event.cat == "cuda_runtime" || event.cat == "cuda_driver";
    let calls: HashMap<i64, &Event> =
        events.iter().filter(is_call).filter_map(|call| Some((number(call, "correlation")?, call))).collect();
    let mut frames: HashMap<(String, String), Vec<&Event>> = HashMap::new();
    let (mut forward, mut backward): (HashMap<i64, Vec<&Event>>, Vec<&Event>) = (HashMap::new(), Vec::new());
    for event in events {
        if event.cat == "python_function" && event.name.starts_with("nn.Module: ") {
            frames.entry(event.lane.clone()).or_default().push(event);
        }
        match (number(event, "Sequence number"), number(event, "Fwd thread id")) {
            (Some(sequence), Some(0)) => forward.entry(sequence).or_default().push(event),
            (Some(_), Some(_)) => backward.push(event),
            _ => {}
        }
    }
    let of_node = |node: &Event| {
        let before = forward.get(&number(node, "Sequence number")?)?.iter().filter(|op| op.start < node.start);
        Some(modules(&frames, before.max_by_key(|op| op.start)?))
    };
    let is_accumulate =
        |event: &&Event| event.name == "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    let mut gradients: Vec<&Event> = events.iter().filter(is_accumulate).collect();
    gradients.sort_by_key(|event| (&event.lane, event.start));
    let within =
        |inner: &Event, outer: &Event| inner.lane == outer.lane && outer.start <= inner.start && inner.end <= outer.end;
    let sends =
        |gradient: &Event| events.iter().any(|event| event.name == "record_param_comms" && within(event, gradient));
    let sends: Vec<bool> = gradients.iter().map(|gradient| sends(gradient)).collect();
    let of_gradient = |at: usize| {
        let before = backward.iter().filter(|op| op.lane == gradients[at].lane && op.start < gradients[at].start);
        of_node(before.max_by_key(|op| op.start)?)
    };
    let of_bucket = |at: usize| {
        let first = (0..at).rev().take_while(|before| !sends[*before]).last().unwrap_or(at);
        let all = (first..=at).filter_map(of_gradient);
        all.reduce(|a, b| a.into_iter().zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a).collect())
    };
    let mut found: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for kernel in events.iter().filter(|event| event.cat == "kernel") {
        let call = number(kernel, "correlation").and_then(|id| calls.get(&id));
        let own = call.map(|call| modules(&frames, call)).unwrap_or_default();
        let of_forward = || {
            let call = call?;
            let around =
                backward.iter().filter(|op| op.lane == call.lane && op.start <= call.start && call.end <= op.end);
            if let Some(at) = gradients.iter().position(|gradient| within(call, gradient)) {
                return if kernel.name.starts_with("nccl") { of_bucket(at) } else { of_gradient(at) };
            }
            of_node(around.max_by_key(|op| op.start)?)
        };
        let path = if own.is_empty() { of_forward().unwrap_or_default() } else { own };
        let name = if path.is_empty() { "(not recorded)".to_owned() } else { path.join(".") };
        let known = found.entry(name).or_default();
        known.0 += 1;
        known.1 += kernel.end - kernel.start;
    }
    found
}

#[test]
fn modules_are_those_of_a_walk_of_the_json() {
    let Some(shared) = crate::support::shared() else { return };
    // The largest at night.
    let traces = [
        "TraceLens__mi300_ddp_resnet_rank0",
        "lora-dev-script__sglang_tp4_A_mixed_rank0",
        "TraceLens__mi_xdit_sd35_big",
    ];
    for name in &traces[..if is_long() { 3 } else { 2 }] {
        let path = shared.join(format!("traces/{name}.json.gz"));
        let groups = Trace::open(&path, &["module"]).by("module", true).grouped;
        let ours: BTreeMap<String, (u64, i64)> =
            groups.groups.iter().map(|group| (group.label(), (group.count, group.cost.gpu_time.total_ns.0))).collect();
        let theirs = by_module(&events(&path));
        assert!(theirs.len() > 3, "{name}: {} modules", theirs.len());
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn the_program_groups() {
    let trace = "testdata/sglang_decode.json.gz";
    let groups = |args: &[&str]| -> Vec<Value> {
        let answer: Value = json_of(&[&[trace, "--json"], args].concat());
        answer["groups"].as_array().unwrap().clone()
    };
    // 18 of 36 kernels are replayed by a graph whose capture is not there: they have no operator.
    let by_op = groups(&["--group-by", "op"]);
    let count = |op: &str| {
        by_op.iter().find(|group| group["key"]["op"] == op).map_or(0, |group| group["count"].as_u64().unwrap())
    };
    assert_eq!((count("c10d::allreduce_"), count("c10d::_allgather_base_"), count("(not recorded)")), (16, 2, 18));
    let limited = groups(&["--group-by", "collective", "--limit", "1", "--sort", "count"]);
    let [only] = &limited[..] else { panic!("{limited:?}") };
    assert_eq!((&only["key"]["collective"], &only["count"]), (&"all_reduce".into(), &32.into()));
    let folded = run(&[trace, "--group-by", "category,collective", "--format", "folded", "--weight", "count"]);
    let lines = stdout(&folded);
    assert!(lines.lines().all(|line| line.starts_with("nccl;all_")), "{lines}");
    let sum: u64 = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 36);
}

/// What XSigma writes as text has the same groups as what PyTorch writes as JSON, as far as both have it. The answers are those of the
/// recipe, worked out by hand.
#[test]
fn both_spellings_of_shapes_group_alike() {
    let groups = |trace: &str| -> BTreeMap<String, (u64, u64)> {
        let answer: Value = json_of(&[trace, "--kernel-name", "*", "--group-by", "op,shape", "--format", "json"]);
        let number = |value: &Value| value.as_u64().unwrap();
        let row = |group: &Value| {
            let key = format!("{} {}", group["key"]["op"].as_str().unwrap(), group["key"]["shape"].as_str().unwrap());
            (key.to_lowercase(), (number(&group["count"]), number(&group["cost"]["gpu_time"]["total_ns"])))
        };
        answer["groups"].as_array().unwrap().iter().map(row).collect()
    };
    let (json, text) = (groups("testdata/metadata_pytorch.json"), groups("testdata/metadata_xsigma.json"));
    assert_eq!(json["aten::mm float[128, 64], float[64, 64]"], (8, 1_200_000));
    assert_eq!(json["c10d::allreduce_ (not recorded)"], (6, 700_000));
    assert_eq!(text["aten::conv2d float[128, 256, 14, 14], float[256, 256, 3, 3]"], (1, 25_000));
    let only_text = ["aten::conv2d", "convolutionbackward0"];
    let common: BTreeMap<_, _> =
        text.into_iter().filter(|(key, _)| !only_text.iter().any(|op| key.starts_with(op))).collect();
    assert_eq!(json, common);
}

#[test]
fn wrong_keys_are_named() {
    let known = "`modules` is not a key to group by. Known keys: stack, frame, module";
    refused(&["testdata/costs.json", "--group-by", "modules"], 2, known);
    stderr_of(&["testdata/costs.json", "--group-by", "module", "--per-rank"], 2);
    stderr_of(&["testdata/costs.json", "--group-by", "module", "--format", "script"], 2);
}

/// The waiting of all ranks is divided by groups as it is by stacks, and a diff of a trace with itself has no change.
#[test]
fn ranks_and_diffs_have_groups() {
    let answer = |args: &[&str]| -> Value { json_of(&[args, &["--format", "json", "--quiet"]].concat()) };
    for keys in ["module", "step,collective,size", "arg:nothing", "rank"] {
        let ranks = answer(&["ranks", "testdata/ranks", "--group-by", keys]);
        let waited = |of: &Value| of["waited_ns"].as_i64().unwrap();
        let of_groups: i64 = ranks["stacks"].as_array().unwrap().iter().map(waited).sum();
        assert!(of_groups > 0);
        assert_eq!(of_groups, waited(&ranks), "{keys}");
        let trace = "testdata/costs.json";
        let same = answer(&["diff", trace, trace, "--group-by", keys]);
        assert_eq!(same["changes"].as_array().unwrap().len(), 0);
        assert_eq!(same["before"]["kernels"]["count"], 13, "{keys}");
        let grouped: Vec<&str> =
            same["grouped_by"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
        assert_eq!(grouped.join(","), keys);
    }
}

/// A scheduler that runs ahead: the GPU does the work of both steps after the CPU has left them, and two streams overlap. Times in µs:
///
/// ```text
/// CPU     step 0: 0–100, launches A 12, B 20, C 45   step 1: 100–150, launches D 110, E 115   F 180   step 2: 200–300, launches nothing
/// stream 7  A 150–190 (computes)                          E 235–260 (computes)
/// stream 8          B 170–220              C 230–240            D 250–300        F 310–320
/// ```
const AHEAD: &str = r#"{"traceEvents": [
{"ph":"X","cat":"user_annotation","name":"step[DECODE bs=1]","pid":1,"tid":1,"ts":0,"dur":100},
{"ph":"X","cat":"python_function","name":"model.py(10): attention","pid":1,"tid":1,"ts":10,"dur":20},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":12,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":20,"dur":2,"args":{"correlation":2}},
{"ph":"X","cat":"python_function","name":"model.py(20): mlp","pid":1,"tid":1,"ts":40,"dur":20},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":45,"dur":2,"args":{"correlation":3}},
{"ph":"X","cat":"user_annotation","name":"step[DECODE bs=1]","pid":1,"tid":1,"ts":100,"dur":50},
{"ph":"X","cat":"python_function","name":"model.py(10): attention","pid":1,"tid":1,"ts":105,"dur":20},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":110,"dur":2,"args":{"correlation":4}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":115,"dur":2,"args":{"correlation":5}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":180,"dur":2,"args":{"correlation":6}},
{"ph":"X","cat":"user_annotation","name":"step[EXTEND bs=1]","pid":1,"tid":1,"ts":200,"dur":100},
{"ph":"X","cat":"gpu_user_annotation","name":"step[DECODE bs=1]","pid":0,"tid":8,"ts":150,"dur":90},
{"ph":"X","cat":"gpu_user_annotation","name":"step[DECODE bs=1]","pid":0,"tid":8,"ts":250,"dur":50},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":150,"dur":40,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":8,"ts":170,"dur":50,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":8,"ts":230,"dur":10,"args":{"correlation":3}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":235,"dur":25,"args":{"correlation":5}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":8,"ts":250,"dur":50,"args":{"correlation":4}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":8,"ts":310,"dur":10,"args":{"correlation":6}}
]}"#;

fn ahead() -> (tempfile::TempDir, String) {
    scratch("ahead.json", AHEAD.as_bytes())
}

fn answer_of(args: &[&str]) -> Value {
    json_of(&[args, &["--json", "--quiet"]].concat())
}

const FIGURES: [&str; 4] = ["busy_ns", "compute_ns", "collectives_ns", "exposed_ns"];

/// Step 0 launches A, B and C, which run from 150 to 240; step 1 D and E, from 235 to 300. Of B 30 µs are exposed, of C 5, of D 40.
#[test]
fn steps_are_measured_by_what_they_launched() {
    let (_folder, path) = ahead();
    let answer = answer_of(&[&path, "--group-by", "step"]);
    let groups = answer["groups"].as_array().unwrap();
    let keys: Vec<&str> = groups.iter().map(|group| group["key"]["step"].as_str().unwrap()).collect();
    assert_eq!(keys, ["step[DECODE bs=1] [0]", "step[DECODE bs=1] [1]", "step[EXTEND bs=1]", "(not recorded)"]);
    let counts: Vec<u64> = groups.iter().map(|group| group["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 1, 0, 1]);
    // Number, start, length, GPU span, busy, compute, collectives, exposed.
    let want = [[0, 0, 100, 90, 80, 40, 60, 35], [1, 100, 50, 65, 65, 25, 50, 40], [2, 200, 100, 0, 0, 0, 0, 0]];
    for (group, want) in groups.iter().zip(want) {
        let step = &group["step"];
        let micros = ["ts_ns", "dur_ns", "gpu_span_ns"].iter().chain(&FIGURES).map(|name| step[name].as_i64().unwrap());
        let found: Vec<i64> =
            std::iter::once(step["number"].as_i64().unwrap()).chain(micros.map(|ns| ns / 1000)).collect();
        assert_eq!(found, want);
    }
    for (group, exposed) in groups.iter().zip([30_000, 40_000]) {
        let stack = ["headline", "count", "exposed_ns"].map(|key| &group["step"]["largest_stack"][key]);
        assert_eq!(serde_json::json!(stack), serde_json::json!(["model.py(10): attention", 1, exposed]));
    }
    assert!(groups[2]["step"]["largest_stack"].is_null() && groups[3]["step"].is_null());

    let text = stdout(&run(&[&path, "--group-by", "step", "--quiet"]));
    let row = "    1   50.0 µs   65.0 µs   100.0 %   38.5 %       76.9 %  40.0 µs (61.5 %)  step[DECODE bs=1] [1]  model.py(10): attention (100.0 %)";
    assert!(text.lines().any(|line| line == row), "{text}");
    has(&text, "\nIn no step: 1 kernel, GPU 10.0 µs, exposed 10.0 µs\n");
    let csv = stdout(&run(&[&path, "--group-by", "step", "--quiet", "--format", "csv"]));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with(",step_number,step_ts_ns,step_dur_ns,step_gpus,step_gpu_span_ns,step_busy_ns,step_compute_ns,step_collectives_ns,step_exposed_ns,step_largest_stack"));
    assert!(lines[1].ends_with(",0,0,100000,1,90000,80000,40000,60000,35000,model.py(10): attention"), "{}", lines[1]);
    assert!(lines[3].starts_with("step[EXTEND bs=1],0,0,0,") && lines[4].ends_with(",,,,,,,,,,"), "{csv}");
    // The page has the same rows, also without scripts.
    let page = std::path::Path::new(&path).with_extension("html");
    stderr_of(&[&path, "--group-by", "step", "--quiet", "-o", page.to_str().unwrap(), "--format", "html"], 0);
    let html = std::fs::read_to_string(page).unwrap();
    for cell in
        ["<th scope=\"col\">GPU span</th>", "<td><bdi>65.0 µs</bdi></td>", "<td><bdi>40.0 µs (61.5 %)</bdi></td>"]
    {
        has(&html, cell);
    }
    // Below another key steps are in the order of time, too.
    let nested = stdout(&run(&[&path, "--group-by", "kernel,step", "--quiet"]));
    let nested = &nested[nested.find("\nBy kernel").unwrap()..];
    let at = |text: &str| nested.find(text).unwrap();
    assert!(at("[0]") < at("[1]") && at("[1]") < at("(not recorded)"), "{nested}");
}

/// A window that is a step has the figures of its row; one of two steps those of both: 110 µs of collectives in the 150 from 150 to 300.
#[test]
fn a_step_is_a_window() {
    let (_folder, path) = ahead();
    let rows = answer_of(&[&path, "--group-by", "step"]);
    for number in [0, 1] {
        let answer = answer_of(&[&path, "--step", &number.to_string()]);
        let (summary, step) = (&answer["summary"], &rows["groups"][number]["step"]);
        assert_eq!(summary["wall_ns"], step["gpu_span_ns"]);
        for name in FIGURES {
            assert_eq!(summary[name], step[name], "{name} of step {number}");
        }
        assert_eq!(answer["stacks"][0]["headline"], step["largest_stack"]["headline"]);
        assert_eq!(answer["stacks"][0]["cost"]["exposed_ns"], step["largest_stack"]["exposed_ns"]);
    }
    let both = answer_of(&[&path, "--step", "0..1"]);
    let figures = ["wall_ns"].iter().chain(&FIGURES).map(|name| both["summary"][name].as_i64().unwrap());
    assert_eq!(figures.collect::<Vec<_>>(), [150_000, 140_000, 65_000, 110_000, 75_000]);
    let from = answer_of(&[&path, "--step", "1.."]);
    assert_eq!(from["summary"]["window"], serde_json::json!({"start_ns": 100_000, "end_ns": 300_000}));
    // Nothing was launched in step 2; there is no step 3.
    stderr_of(&[&path, "--step", "2"], 3);
    refused(&[&path, "--step", "3"], 3, "--step 3: the trace has the steps 0 to 2");
}

/// The GPU's annotation of step 0 is from 150 to 240, as its work; that of step 1 begins at 250, and its work at 235.
#[test]
fn an_annotation_on_the_gpu_that_spans_the_work_is_named() {
    let (_folder, path) = ahead();
    let of = |step: &str| answer_of(&[&path, "--step", step])["summary"]["gpu_annotation"].clone();
    assert_eq!(of("0"), serde_json::json!({"start_ns": 150_000, "end_ns": 240_000}));
    assert!(of("1").is_null() && of("0..1").is_null());
    let says = |step: &str| {
        stdout(&run(&[&path, "--step", step, "--quiet"])).contains("its annotation on the GPU spans it, too")
    };
    assert_eq!((says("0"), says("1")), (true, false));
}

/// Numbers of the profiler are those of the steps, also where the first are missing; a trace without steps says so.
#[test]
fn steps_have_the_profilers_numbers() {
    let renamed = AHEAD
        .replacen("step[DECODE bs=1]", "ProfilerStep#7", 1)
        .replacen("step[DECODE bs=1]", "ProfilerStep#8", 1)
        .replacen("step[EXTEND bs=1]", "ProfilerStep#9", 1);
    let (_folder, path) = scratch("numbered.json", renamed.as_bytes());
    let answer = answer_of(&[&path, "--step", "8"]);
    assert_eq!(answer["summary"]["window"], serde_json::json!({"start_ns": 100_000, "end_ns": 150_000}));
    refused(&[&path, "--step", "0"], 3, "the trace has the steps 7 to 9");
    let (_folder, none) = scratch("none.json", AHEAD.replace("step[", "other[").as_bytes());
    refused(&[&none, "--step", "0"], 3, "Nothing in the trace looks like a step");
}

/// Times are rounded, so that a step may begin before the end of the one before it. What is within a step is none.
#[test]
fn steps_that_overlap_by_what_is_rounded_follow_each_other() {
    let steps = |overlap: f64| {
        let step = |number: u32, ts: f64, dur: f64| {
            slice("user_annotation", format!("ProfilerStep#{number}"), (1, 1), ts, dur)
        };
        let launch = |id: u32, ts: f64| {
            [tied("cuda_runtime", "cudaLaunchKernel", (1, 1), ts, 5, id), kernel("gemm", (0, 7), ts + 10.0, 5, id)]
        };
        let slices = [step(1, 100.0, 100.0 + overlap), step(2, 200.0, 100.0), step(3, 220.0, 50.0)];
        let events = [&slices[..], &launch(1, 150.0), &launch(2, 210.0)].concat();
        let (_folder, path) = trace_of(&events);
        let answer = answer_of(&[&path, "--group-by", "step", "--kernel-name", "*"]);
        let groups = answer["groups"].as_array().unwrap();
        groups.iter().map(|group| group["key"]["step"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    for overlap in [0.0, 0.001, 1.0] {
        assert_eq!(steps(overlap), ["ProfilerStep#1", "ProfilerStep#2"], "{overlap}");
    }
    assert_eq!(steps(150.0), ["ProfilerStep#1"]);
}

/// A file that was merged from others may have a kernel twice. Two launches of one kernel are two.
#[test]
fn a_kernel_that_is_there_twice_counts_once() {
    let call = |id: u32, ts: u32| tied("cuda_runtime", "cudaLaunchKernel", (1, 1), ts, 5, id);
    let once = [call(1, 100), kernel("gemm", (0, 7), 200, 50, 1)];
    let second = [call(2, 110), kernel("gemm", (0, 7), 250, 50, 2)];
    for (events, count, is_said) in [
        ([&once[..], &second].concat(), 2, false),
        ([&once[..], &once[1..], &second].concat(), 2, true),
        ([&once[..], &[kernel("gemm", (0, 8), 200, 50, 1)]].concat(), 2, false),
        ([&once[..], &[kernel("gemm", (0, 7), 200, 40, 1)]].concat(), 2, false),
    ] {
        let (_folder, path) = trace_of(&events);
        let output = run(&[&path, "--kernel-name", "*", "--format", "json"]);
        let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let kernels = answer["kernels_in_trace"].as_u64().unwrap();
        let in_json = answer["damage"].to_string().contains("kernels that are there twice");
        assert_eq!((kernels, in_json), (count, is_said), "{answer}");
        assert_eq!(
            stderr(&run(&[&path, "--kernel-name", "*"])).contains("Note: kernels that are there twice"),
            is_said
        );
    }
}

/// What a rank sends and receives is the size of most collectives, whether or not their group is recorded. A gather moves as much for each rank.
#[test]
fn sizes_are_known_without_the_group() {
    for (name, kernel_name, args, size) in [
        ("_allgather_base", "AllGather_RING_LL", "", "16 KiB to 32 KiB"),
        ("allreduce", "AllReduce_Sum_f32_RING_LL", "", "2 KiB to 4 KiB"),
        ("gather", "SendRecv", "", "(not recorded)"),
        ("gather", "SendRecv", r#","Group size":8"#, "16 KiB to 32 KiB"),
    ] {
        let record = format!(
            r#""Collective name":"{name}","In msg nelems":1024,"Out msg nelems":8192,"dtype":"BFloat16"{args}"#
        );
        let kernel = kernel(format!("ncclDevKernel_{kernel_name}(x)"), (0, 20), 200, 50, 1);
        let kernel = kernel.replace(r#""correlation":1"#, &format!(r#""correlation":1,{record}"#));
        let (_folder, path) = trace_of(&[tied("cuda_runtime", "cudaLaunchKernel", (1, 1), 100, 5, 1), kernel]);
        let answer = answer_of(&[&path, "--group-by", "size"]);
        assert_eq!(answer["groups"][0]["key"]["size"], size, "{name}: {answer}");
    }
}

/// Of a rank a share is of its own span: B runs in 50 of the 90 µs of step 0, in the other rank in 50 of 60, because A begins 30 µs later there.
#[test]
fn shares_of_a_rank_are_of_its_span() {
    let folder = tempfile::tempdir().unwrap();
    let later = AHEAD.replacen(r#""tid":7,"ts":150,"dur":40"#, r#""tid":7,"ts":180,"dur":10"#, 1);
    let later = later.replacen(r#""tid":8,"ts":170,"dur":50"#, r#""tid":8,"ts":180,"dur":50"#, 1);
    std::fs::write(folder.path().join("rank0.json"), AHEAD).unwrap();
    std::fs::write(folder.path().join("rank1.json"), later).unwrap();
    let answer = answer_of(&[folder.path().to_str().unwrap(), "--step", "0", "--per-rank"]);
    let stacks = answer["stacks"].as_array().unwrap();
    let share = |rank: &str| {
        let of_rank =
            stacks.iter().find(|stack| stack["rank"] == rank && stack["headline"] == "model.py(10): attention");
        of_rank.unwrap()["cost"]["share_of_window"].as_f64().unwrap()
    };
    assert_eq!((share("rank 0"), share("rank 1")), (50.0 / 90.0, 50.0 / 60.0));
    assert_eq!(answer["summary"]["wall_ns"], 150_000);
}

/// The same slices by the beginning of a name, by either wildcard, and by a regular expression.
#[test]
fn patterns_of_functions_are_those_of_kernels() {
    let (_folder, path) = ahead();
    let count = |name: &str| {
        let output = run(&[&path, "--function-name", name, "--index", "9"]);
        let said = stderr(&output);
        said.split_once("there are ").and_then(|(_, rest)| rest.split_once(' ')?.0.parse::<u64>().ok())
    };
    assert_eq!(["step[*", "step[%", "/^step/", "step["].map(count), [Some(3); 4]);
    assert_eq!(["%decode%", "/(?i)decode/", "*DECODE*"].map(count), [Some(2); 3]);
    assert_eq!(["step[DECODE bs=?]", "step[DECODE bs=1]", "step[DECODE"].map(count), [Some(2); 3]);
    assert_eq!(count("DECODE"), None);
    refused(&[&path, "--function-name", "/(/"], 2, "--function-name: pattern /(/: not a regular expression");
    let kernels = |pattern: &str| answer_of(&[&path, "--kernel-name", pattern])["coverage"]["kernels"].clone();
    assert_eq!((kernels("%AllReduce%"), kernels("*AllReduce*"), kernels("nccl")), (4.into(), 4.into(), 4.into()));
}

/// Of more groups than anybody reads only the largest are distinguished where they are asked for, and the answer is the same.
#[test]
fn a_limit_needs_no_more_than_the_largest_groups() {
    let count = 12_000;
    let kernel = |at: usize| {
        let dur = (at * 7919) % count + 1;
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":{at},"ts":{},"dur":{dur},"args":{{"stream":{at}}}}}"#,
            20_000 * at
        )
    };
    let text = format!("[{}]", (0..count).map(kernel).collect::<Vec<_>>().join(","));
    let (_folder, path) = scratch("trace.json", text.as_bytes());
    let trace = Trace::open(Path::new(&path), &[]);
    let of = |largest_groups| StackOptions { largest_groups, grouping: grouping("stream"), ..StackOptions::default() };
    for order in [Order::GpuTime, Order::Exposed, Order::Mean] {
        let [mut all, mut largest] = [of(None), of(Some(order))].map(|how| trace.report(how));
        let distinguished = largest.groups().unwrap();
        assert_eq!((distinguished.groups.len(), distinguished.others.groups), (10_000, 2_000), "{order:?}");
        for report in [&mut all, &mut largest] {
            report.arrange(order, 0.0, Some(3));
        }
        let (all, largest) = (all.groups().unwrap(), largest.groups().unwrap());
        assert_eq!(all.groups, largest.groups, "{order:?}");
        assert_eq!((all.totals(), all.left_out()), (largest.totals(), largest.left_out()), "{order:?}");
        // Durations are a permutation of 1 to 12,000 µs.
        let times: Vec<i64> = largest.groups.iter().map(|group| group.cost.gpu_time.total_ns.0).collect();
        assert_eq!(times, [12_000_000, 11_999_000, 11_998_000]);
        assert_eq!((largest.groups_found, largest.totals().count), (12_000, 12_000));
    }
    let text = stdout(&run(&[&path, "--group-by", "stream", "--limit", "3"]));
    has(&text, "(11,997 more groups)");
}

/// Six launches of a kernel of 100 µs each in 1,200 µs. The profiler writes no kernel of two of them: these may have taken a third of what looks like 800 µs of idle time.
/// What is lost of a graph may be any part of it. Launches of a capture run nothing.
#[test]
fn launches_without_a_kernel_are_said_before_idle_time() {
    let call = |name: &str, id: u32| tied("cuda_runtime", name, (1, 1), id * 200, 5, id);
    let (launch, graph) = ("cudaLaunchKernel", "cudaGraphLaunch");
    let run_of = |name: &str, kernels: std::ops::Range<u32>| -> Vec<String> {
        let kernels = kernels.map(|id| kernel("gemm", (0, 7), id * 200 + 100, 100, id));
        (0..6).map(|id| call(if id == 0 { launch } else { name }, id)).chain(kernels).collect()
    };
    let captured = [call("cudaStreamBeginCapture", 6), call(launch, 7), call("cudaStreamEndCapture", 8)];
    let lost = "Of 2 of 6 launches no kernel is known: ";
    let idle = |share: &str| format!("The GPU is idle for {share} % of 1.20 ms");
    for (events, lost, said, unsaid) in [
        (run_of(launch, 0..6), None, idle("50.0"), "up to"),
        (run_of(launch, 0..4), Some(lost), idle("up to 66.7"), "idle for 66"),
        (run_of(graph, 0..4), Some(lost), "No collective is recorded in the window.".to_owned(), "idle for"),
        (
            [run_of(launch, 0..6), captured.to_vec()].concat(),
            None,
            "The GPU is idle for ".to_owned(),
            "no kernel is known",
        ),
    ] {
        // All ends with the last kernel that could be there.
        let events = [events, vec![slice("user_annotation", "all", (1, 1), 0, 1200)]].concat();
        let (_folder, path) = trace_of(&events);
        let text = stdout(&run(&[&path]));
        match lost {
            Some(lost) => assert!(text.starts_with(lost), "{text}"),
            None => assert!(!text.contains("no kernel is known"), "{text}"),
        }
        has(&text, &said);
        assert!(!text.contains(unsaid), "{unsaid}: {text}");
    }
}
