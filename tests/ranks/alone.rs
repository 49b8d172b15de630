//! The critical path of each rank alone, in the main answer.

use std::collections::BTreeMap;
use std::path::Path;

use nccl_stacks::answers::ranks::alone::Alone;
use nccl_stacks::answers::stacks::data::StackOptions;
use nccl_stacks::answers::stacks::reduction::Attributed;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::replay::rank::EdgeKind;
use nccl_stacks::time::{Ns, Window};
use serde_json::Value;

use super::real::pattern;
use crate::support::program::{ended, has, run, stderr, stdout, trace_of, verdict_of};
use crate::support::random::is_long;
use crate::support::{csv_rows, shared};

const LAUNCH: &str = r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":TS,"dur":10,"args":{"correlation":ID}"#;
const KERNEL: &str = r#""ph":"X","cat":"kernel","name":"NAME","pid":0,"tid":STREAM,"ts":TS,"dur":DUR,"args":{"correlation":ID,"stream":STREAM,"device":0}"#;

fn launch(id: u32, ts: u32) -> String {
    LAUNCH.replace("TS", &ts.to_string()).replace("ID", &id.to_string())
}

fn kernel(id: u32, (name, stream): (&str, u32), ts: u32, dur: u32) -> String {
    let text = KERNEL.replace("NAME", name).replace("STREAM", &stream.to_string());
    text.replace("TS", &ts.to_string()).replace("DUR", &dur.to_string()).replace("ID", &id.to_string())
}

fn answer(events: &[String]) -> Value {
    let (_folder, path) = trace_of(events);
    let output = ended(&[&path, "--json", "--sort", "critical"], 0);
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)))
}

const REDUCE: (&str, u32) = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 7);

/// The thread launches for 10 us, the collective starts 5 us later, and the kernel after it runs from its end to that of the trace.
#[test]
fn what_holds_a_rank_adds_up() {
    let found = answer(&[launch(1, 0), launch(2, 10), kernel(1, REDUCE, 15, 100), kernel(2, ("gemm", 7), 115, 50)]);
    assert_eq!(
        found["critical_path_ns"],
        serde_json::json!({"cpu": 10_000, "launch-latency": 5_000, "transfer": 100_000, "compute": 50_000})
    );
    assert_eq!(found["stacks"][0]["cost"]["critical_ns"], 100_000);
    let verdict = verdict_of(&found);
    has(&verdict, "Of the critical path of each rank alone (165.0 µs) these kernels are 60.6 % (100.0 µs).");
}

/// In `ranks`, where no other rank is. With launches of half the length everything comes 5 us earlier; half of the kernel is 25 us; and without the collective
/// the kernel starts as soon after its launch as the collective did, at 25 us instead of 115.
#[test]
fn reruns_say_what_holds_a_rank_without_others() {
    let events = [launch(1, 0), launch(2, 10), kernel(1, REDUCE, 15, 100), kernel(2, ("gemm", 7), 115, 50)];
    let (_folder, path) = trace_of(&events);
    let output = run(&["ranks", "--json", "--rank", &format!("0={path}"), &path]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let said = answer["verdict"][0].as_str().unwrap();
    let start = "Rank 0 alone takes 165.0 µs from its first start to its last end; with its CPU twice as fast it would be 3.0 % shorter, \
                 with its GPU twice as fast 15.2 %, and 54.5 % without the collectives of ";
    assert!(said.starts_with(start), "{said}");
    let advice = answer["findings"][0]["advice"].as_str().unwrap();
    assert!(advice.starts_with("record the other ranks over the same steps"), "{advice}");
    // Nothing shows how much of the collective is waiting.
    let text = stdout(&run(&["ranks", "--rank", &format!("0={path}"), &path]));
    let row = text.lines().find(|line| line.starts_with("    0 ")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(row.split_whitespace().skip(1).take(6).collect::<Vec<_>>(), ["100.0", "µs", "?", "?", "?", "?"]);
    has(&text, "No collective is measured.");
}

/// Of 60 functions between two launches, of 100, 101, ... 159 us, the 32 longest are kept by name: they take 4,592 us. The other 28 and both launches take
/// 3,198, more than any of those, and are nothing to look at.
#[test]
fn functions_that_are_too_short_to_be_kept_come_last() {
    let mut ts = 10;
    let mut events = vec![launch(1, 0), kernel(1, ("gemm", 7), 15, 50)];
    // Names that differ in digits only are one.
    let name = |at: u32| ["a", "b", "c"][at as usize / 20].to_owned() + &"x".repeat(at as usize % 20);
    for at in 0..60 {
        let function = r#""ph":"X","cat":"cpu_op","name":"NAME","pid":1,"tid":1,"ts":TS,"dur":DUR"#;
        let function = function.replace("NAME", &name(at)).replace("TS", &ts.to_string());
        events.push(function.replace("DUR", &(100 + at).to_string()));
        ts += 100 + at;
    }
    events.extend([launch(2, ts), kernel(2, REDUCE, ts + 15, 100)]);
    let (_folder, path) = trace_of(&events);
    let ranks = |more: &[&str]| stdout(&run(&[&["ranks", "--rank", &format!("0={path}"), &path], more].concat()));
    let answer: Value = serde_json::from_str(&ranks(&["--json"])).unwrap();
    let lines = answer["critical_path"]["lines"].as_array().unwrap();
    let of = |line: &Value| (line["name"].as_str().unwrap().to_owned(), line["path_ns"].as_i64().unwrap());
    assert_eq!(of(&lines[0]), (name(59), 159_000));
    assert_eq!(of(lines.last().unwrap()), ("(other functions)".to_owned(), 3_198_000));
    // 32 functions, the collective and its latency, of which 8 are shown.
    let text = ranks(&[]);
    has(&text, "… and 26 more lines: ");
    has(&text, "… other code: 3.20 ms, 40.5 %\n");
    assert!(!text.contains("(other functions)"), "{text}");
}

/// The collective runs on a stream of its own, and the other stream is busy for longer.
#[test]
fn what_does_not_hold_a_rank_is_not_on_its_path() {
    let found =
        answer(&[launch(1, 0), launch(2, 10), kernel(2, ("gemm", 7), 25, 300), kernel(1, (REDUCE.0, 20), 15, 100)]);
    assert_eq!(found["stacks"][0]["cost"]["critical_ns"], 0);
    assert_eq!(found["critical_path_ns"]["compute"], 300_000);
    let verdict = verdict_of(&found);
    has(&verdict, "None of these kernels is on the critical path of its rank alone");
}

/// The path is the one that `ranks` has for the same trace, and the collectives are all of its transfers.
#[test]
fn it_is_the_path_of_the_only_rank() {
    let Some(shared) = shared() else { return };
    let names = [
        "TraceLens__mi300_ddp_resnet_rank0",
        "deepseek__dualpipe_train_rank0_of_64",
        "lora-dev-script__sglang_tp4_A_mixed_rank0",
        "lora-dev-script__sglang_tp4_F_decode_lora_rank1",
        "lora_perf_lora_profile__sglang_tp4_J_base_bs16_v2_rank2",
    ];
    // The largest at night.
    for name in &names[..if is_long() { 5 } else { 4 }] {
        let trace = pattern(&shared, name);
        let json = |args: &[&str]| -> Value { serde_json::from_str(&stdout(&run(args))).unwrap() };
        let (main, ranks) = (json(&[&trace, "--json", "--sort", "critical"]), json(&["ranks", &trace, "--json"]));
        let kinds = ranks["critical_path"]["kinds"].as_array().unwrap();
        let mut of_ranks: BTreeMap<&str, u64> = BTreeMap::new();
        for of in kinds {
            // That ranks of the same groups are not here only `ranks` says.
            let kind = of["kind"].as_str().map(|kind| if kind == "absent" { "transfer" } else { kind }).unwrap();
            *of_ranks.entry(kind).or_default() += of["path_ns"].as_u64().unwrap();
        }
        of_ranks.retain(|_, time| *time > 0);
        let alone = main["critical_path_ns"].as_object().unwrap();
        let alone: BTreeMap<&str, u64> =
            alone.iter().map(|(kind, time)| (kind.as_str(), time.as_u64().unwrap())).collect();
        assert_eq!(alone, of_ranks, "{name}");
        let text = stdout(&run(&[&trace, "--sort", "critical", "--format", "csv", "--limit", "100000"]));
        let (head, _) = text.split_once('\n').unwrap();
        let column = head.split(',').position(|name| name == "critical_ns").unwrap();
        let sum: u64 = csv_rows(&text).map(|row| row[column].as_ref().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(sum, alone.get("transfer").copied().unwrap_or_default(), "{name}");
    }
}

/// Which slices the test suite of HTA expects to wait for which, by when the first starts: of `cp_alexnet` a kernel on stream 7 for one on stream 20,
/// of `cp_event_sync_multi_stream` a memset for a kernel of stream 20.
#[test]
fn the_waits_that_hta_expects_are_edges() {
    let Some(shared) = shared() else { return };
    for (name, from, to) in [
        ("HTA__cp_alexnet_cuda_sync", 1_695_835_585_860_487_000, "elementwise_kernel"),
        ("HTA__cp_event_sync_multi_stream", 1_712_867_402_348_700_000, "Memset"),
    ] {
        let options = LoadOptions { args: ArgsWanted::All, ..LoadOptions::default() };
        let store = load(Path::new(&pattern(&shared, name)), options, |_| {}).unwrap().store;
        let wanted = Wanted::collectives();
        let launches = launches::find(&store, &choose(&store, &wanted));
        let attributor = Attributor::new(&store, &wanted, Captured::default());
        let options = StackOptions::default();
        let alone = Alone::find(&Attributed::new(name, attributor, &launches, Window::ALL, &options));
        let [graph] = &alone.graphs[..] else { panic!("{name}: {} graphs", alone.graphs.len()) };
        let waits = |at: usize| {
            let slice = graph.slices[at].unwrap();
            store.slice_name(slice).contains(to)
                && graph.edges[at].iter().any(|edge| {
                    let other = graph.slices[edge.from as usize].unwrap();
                    edge.kind == EdgeKind::WaitEvent && store.slices.ts(other) == Ns(from)
                })
        };
        assert!((0..graph.nodes.len()).any(waits), "{name}: nothing that is called {to} waits for the slice at {from}");
    }
}

/// Without a kernel that is asked about nothing is said of such kernels.
#[test]
fn nothing_is_said_of_kernels_that_are_not_there() {
    let events = [launch(1, 0), kernel(1, ("gemm", 7), 15, 50)];
    let (_folder, path) = trace_of(&events);
    let output = run(&[&path, "--sort", "critical"]);
    let said = stdout(&output);
    assert!(said.contains("No collective ran during the window"), "{said}{}", stderr(&output));
    assert!(!said.contains("critical path of its rank"), "{said}");
}
