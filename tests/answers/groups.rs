//! Groups by other keys than stacks: by every key they add up to all kernels, and modules are those that a walk of the JSON finds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use nccl_stacks::analysis::cost::Totals;
use nccl_stacks::analysis::groups::{GroupBy, Grouping};
use nccl_stacks::analysis::part::stack_report;
use nccl_stacks::analysis::stacks::{StackOptions, StackReport};
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches::{self, Launches};
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::store::Store;
use nccl_stacks::time::Window;
use serde_json::Value;
use support::program::{run, stderr, stdout};

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
    launches: Launches,
}

impl Trace {
    /// A trace with the arguments that some keys need, and its kernels of any name.
    fn open(path: &Path, needs: &[&str]) -> Trace {
        let by = needs.iter().flat_map(|keys| grouping(keys).by).collect();
        let args = Grouping::new(by, None).args(ArgsWanted::COLLECTIVES);
        let store = load(path, LoadOptions { args, ..LoadOptions::default() }, |_| {}).unwrap().store;
        let wanted = Wanted::patterns(&["*"]).unwrap();
        let launches = launches::find(&store, &choose(&store, &wanted));
        Trace { store, wanted, launches }
    }

    fn report(&self, options: StackOptions) -> StackReport {
        let attributor = Attributor::new(&self.store, &self.wanted, Captured::default());
        stack_report(attributor, &self.launches, Window::ALL, options)
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
        report.stacks.iter().for_each(|stack| all.add(stack.totals()));
        report.coverage.unattributed.values().for_each(|kernels| all.add(kernels.all));
        all
    }
}

fn adds_up(name: &str, path: &Path) -> bool {
    let trace = Trace::open(path, KEYS);
    let totals = trace.totals();
    for keys in KEYS {
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
        let by_name = groups.groups.iter().flat_map(|group| group.kernels.values());
        assert_eq!(by_name.map(|kernels| kernels.count).sum::<u64>(), totals.count, "{name} by {keys}");
        let tree = groups.tree();
        let roots = tree.iter().filter(|branch| branch.depth == 0);
        let mut all = Totals::default();
        roots.for_each(|branch| all.add(branch.totals));
        assert_eq!(all, totals, "{name} by {keys}: the roots of the tree");
    }
    totals.count > 0
}

#[test]
fn groups_by_every_key_add_up_to_all_kernels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    for name in ["ddp_backward.json.gz", "costs.json", "sglang_decode.json.gz", "flow_only.json", "no_launch_link.json"]
    {
        assert!(adds_up(name, &folder.join(name)), "{name} has kernels");
    }
}

#[test]
fn groups_of_real_traces_add_up() {
    let Some(shared) = support::shared() else { return };
    let with_kernels = support::real_traces(&shared).iter().filter(|(name, path)| adds_up(name, path)).count();
    assert!(with_kernels >= 30, "{with_kernels} traces have kernels");
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
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
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
    let mut found: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for kernel in events.iter().filter(|event| event.cat == "kernel") {
        let call = number(kernel, "correlation").and_then(|id| calls.get(&id));
        let own = call.map(|call| modules(&frames, call)).unwrap_or_default();
        let of_forward = || {
            let call = call?;
            let around =
                backward.iter().filter(|op| op.lane == call.lane && op.start <= call.start && call.end <= op.end);
            let innermost = around.max_by_key(|op| op.start)?;
            let sequence = number(innermost, "Sequence number")?;
            let before = forward.get(&sequence)?.iter().filter(|op| op.start < innermost.start);
            Some(modules(&frames, before.max_by_key(|op| op.start)?))
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
    let Some(shared) = support::shared() else { return };
    for name in [
        "TraceLens__mi300_ddp_resnet_rank0",
        "TraceLens__mi_xdit_sd35_big",
        "lora-dev-script__sglang_tp4_A_mixed_rank0",
    ] {
        let path = shared.join(format!("traces/{name}.json.gz"));
        let groups = Trace::open(&path, &["module"]).by("module", true).grouped;
        let ours: BTreeMap<String, (u64, i64)> =
            groups.groups.iter().map(|group| (group.label(), (group.count, group.cost.gpu_time.total.0))).collect();
        let theirs = by_module(&events(&path));
        assert!(theirs.len() > 3, "{name}: {} modules", theirs.len());
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn the_program_groups() {
    let trace = "testdata/sglang_decode.json.gz";
    let groups = |args: &[&str]| -> Vec<Value> {
        let output = run(&[&[trace, "--json"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["groups"].as_array().unwrap().clone()
    };
    // 18 of 36 kernels are replayed by a graph whose capture is not there: they have no operator.
    let by_op = groups(&["--group-by", "op"]);
    let count = |op: &str| {
        by_op.iter().find(|group| group["key"]["op"] == op).map_or(0, |group| group["count"].as_u64().unwrap())
    };
    assert_eq!((count("c10d::allreduce_"), count("c10d::_allgather_base_"), count("(not recorded)")), (16, 2, 18));
    let limited = groups(&["--group-by", "collective", "--limit", "1", "--sort", "count"]);
    assert_eq!(
        (limited.len(), &limited[0]["key"]["collective"], &limited[0]["count"]),
        (1, &"all_reduce".into(), &32.into())
    );
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
        let output = run(&["kernels", trace, "--group-by", "op,shape", "--format", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
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
    let output = run(&["testdata/costs.json", "--group-by", "modules"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("`modules` is no key to group by. Known are: stack, frame, module"),
        "{}",
        stderr(&output)
    );
    let output = run(&["testdata/costs.json", "--group-by", "module", "--per-rank"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = run(&["testdata/costs.json", "--group-by", "module", "--format", "script"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// The waiting of all ranks is divided by groups as it is by stacks, and a diff of a trace with itself has no change.
#[test]
fn ranks_and_diffs_have_groups() {
    let answer = |args: &[&str]| -> Value {
        let output = run(&[args, &["--format", "json", "--quiet"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
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
