//! Pairs of forward and backward: hand-worked ones, and those of real traces against a walk of their raw JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::program::{has, number, rows, run, stderr, stdout, testdata, trace_of};
use crate::support::random::is_long;
use crate::support::{read_text, shared};

const EXACT: [&str; 2] = ["--param", "exact_names=1"];

const BY_OPERATOR: [&str; 2] = ["--param", "by_operator=1"];

fn pairs(trace: &str, more: &[&[&str]]) -> Vec<Value> {
    rows(trace, "pairs", &more.concat())
}

/// A number of a row; 0 for NULL.
fn of(row: &Value, column: &str) -> i64 {
    row[column].as_i64().unwrap_or(0)
}

/// Forward operators, nodes and nodes without a number; the GPU time of each in µs, the collectives of both kinds of nodes and their time.
fn by_module(rows: &[Value]) -> BTreeMap<String, [[i64; 4]; 3]> {
    let us = |row: &Value, column: &str| of(row, column) / 1_000;
    let sides = |row: &Value| {
        [
            [of(row, "operators"), us(row, "forward_gpu_ns"), 0, 0],
            [of(row, "nodes"), us(row, "backward_gpu_ns"), of(row, "collectives"), us(row, "collective_ns")],
            [
                of(row, "after_nodes"),
                us(row, "after_gpu_ns"),
                of(row, "after_collectives"),
                us(row, "after_collective_ns"),
            ],
        ]
    };
    rows.iter().map(|row| (row["module"].as_str().unwrap().to_owned(), sides(row))).collect()
}

/// The sum of a column.
fn sum(rows: &[Value], column: &str) -> i64 {
    rows.iter().map(|row| of(row, column)).sum()
}

/// Operators add up to modules, and kernels to those of the table.
fn assert_adds_up(trace: &str, modules: &[Value]) {
    let operators = pairs(trace, &[&EXACT, &BY_OPERATOR]);
    let numbers = modules.iter().flat_map(|row| row.as_object().unwrap()).filter(|(_, value)| value.is_i64());
    for column in numbers.map(|(column, _)| column).collect::<BTreeSet<_>>() {
        assert_eq!(sum(&operators, column), sum(modules, column), "{column}");
    }
    let of_kernels = |which: &str| {
        number(
            trace,
            &format!("SELECT ifnull(SUM(gpu_ns), 0) AS ns FROM kernel_launch WHERE family IS NULL AND {which}"),
        )
    };
    let of_nodes = sum(modules, "backward_gpu_ns") + sum(modules, "after_gpu_ns");
    assert_eq!(of_nodes, of_kernels("node_id IS NOT NULL"));
    assert_eq!(sum(modules, "forward_gpu_ns"), of_kernels("node_id IS NULL AND forward_id IS NOT NULL"));
}

/// The tables of `testdata/README.md`.
#[test]
fn pairs_of_every_key_are_those_worked_out_by_hand() {
    let trace = testdata("metadata_pytorch.json");
    let found = pairs(&trace, &[&EXACT]);
    assert_adds_up(&trace, &found);
    let none = [0; 4];
    let want = [
        ("Net_0.Block_0", [[2, 40, 0, 0], [2, 60, 0, 0], none]),
        ("Net_0.Block_0.Linear_0", [[2, 200, 0, 0], [2, 200, 0, 0], [2, 0, 2, 200]]),
        ("Net_0.Block_0.Linear_1", [[2, 200, 0, 0], [2, 200, 0, 0], [2, 0, 0, 0]]),
        ("Net_0.Block_1", [[2, 0, 0, 0], [2, 0, 2, 100], none]),
        ("Net_0.Block_1.Linear_2", [[2, 800, 0, 0], [2, 600, 0, 0], [2, 0, 2, 400]]),
        ("Net_0.Block_1.Linear_3", [[2, 200, 0, 0], [2, 200, 0, 0], [2, 0, 0, 0]]),
        ("criterion", [[2, 10, 0, 0], [2, 20, 0, 0], none]),
        ("(not recorded)", [none, [1, 10, 0, 0], none]),
    ];
    assert_eq!(by_module(&found), want.map(|(module, sides)| (module.to_owned(), sides)).into());
    assert_eq!(sum(&found, "exposed_ns"), 620_000);
    assert_eq!(["nodes", "unpaired", "checked", "flow_disagrees"].map(|column| sum(&found, column)), [15, 1, 12, 1]);
    // The flow of `aten::gelu` in step 4 begins at the `aten::addmm` of `Linear_2`, and `ToCopyBackward0` has no operator.
    let doubts = found.iter().filter_map(|row| Some((row["module"].as_str()?, row["doubt"].as_str()?)));
    let want =
        [("Net_0.Block_0", "flows disagree for 1 of 2"), ("(not recorded)", "1 of 1 nodes have no known operator")];
    assert_eq!(doubts.collect::<BTreeMap<_, _>>(), want.into());
    let operators = pairs(&trace, &[&EXACT, &BY_OPERATOR]);
    let loss = operators.iter().find(|row| row["operator"] == "aten::mse_loss").unwrap();
    assert_eq!((&loss["headline"], &loss["node"]), (&json!("train.py(30): loss"), &json!("MseLossBackward0")));
    assert_eq!((&loss["ratio"], &loss["module"]), (&json!(2.0), &json!("criterion")));
    // Without exact names the layers are one.
    assert_eq!(by_module(&pairs(&trace, &[]))["Net_.Block_.Linear_"][1], [8, 1200, 0, 0]);
}

/// XSigma writes numbers as texts, a number of its own for the thread, the modules as a hierarchy, and no flows.
#[test]
fn pairs_of_xsigma_are_the_same() {
    let trace = testdata("metadata_xsigma.json");
    let found = pairs(&trace, &[&EXACT]);
    assert_adds_up(&trace, &found);
    let pytorch = by_module(&pairs(&testdata("metadata_pytorch.json"), &[&EXACT]));
    let modules = by_module(&found);
    for (ours, theirs) in [
        ("net.block0", "Net_0.Block_0"),
        ("net.block0.linear0", "Net_0.Block_0.Linear_0"),
        ("net.block0.linear1", "Net_0.Block_0.Linear_1"),
        ("net.block1", "Net_0.Block_1"),
        ("net.block1.linear2", "Net_0.Block_1.Linear_2"),
        ("net.block1.linear3", "Net_0.Block_1.Linear_3"),
        ("criterion", "criterion"),
        ("(not recorded)", "(not recorded)"),
    ] {
        assert_eq!(modules[ours], pytorch[theirs], "{ours}");
    }
    let conv = modules["model.encoder.layer1.conv1"];
    assert_eq!((conv, modules.len()), ([[1, 25, 0, 0], [1, 50, 0, 0], [0; 4]], 9));
    let columns = ["nodes", "unpaired", "named_otherwise", "checked"];
    assert_eq!(columns.map(|column| sum(&found, column)), [16, 1, 1, 0]);
}

/// A window chooses nodes by their start. The forward pass may be outside it.
#[test]
fn a_window_of_the_backward_pass_keeps_the_cost_of_the_forward_pass() {
    let trace = testdata("metadata_pytorch.json");
    let step = pairs(&trace, &[&["--function-name", "ProfilerStep#3"]]);
    assert_eq!((sum(&step, "nodes"), sum(&step, "unpaired")), (8, 1));
    let backward = pairs(&trace, &[&["--start-ts", "3.75ms", "--duration", "2.5ms"], &EXACT]);
    assert_eq!(sum(&backward, "nodes"), 8);
    assert_eq!(by_module(&backward)["Net_0.Block_1.Linear_2"], [[1, 400, 0, 0], [1, 300, 0, 0], [1, 0, 1, 200]]);
}

fn operator(name: &str, tid: u32, (ts, dur): (u32, u32), number: u32, thread: u32) -> String {
    format!(
        r#""ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"Sequence number":{number},"Fwd thread id":{thread}}}"#
    )
}

/// Each thread counts for itself. Thread 2 has the numbers of thread 1, too; which of them is forward thread 1 shows at nodes 5 and 8. Nothing shows
/// which is forward thread 2.
#[test]
fn threads_with_equal_numbers_are_told_apart() {
    let events = [
        operator("aten::mul", 1, (0, 10), 5, 0),
        operator("aten::mul", 1, (20, 10), 6, 0),
        operator("aten::relu", 2, (40, 10), 6, 0),
        operator("aten::relu", 2, (60, 10), 7, 0),
        operator("autograd::engine::evaluate_function: MulBackward0", 3, (100, 10), 6, 1),
        operator("MulBackward0", 3, (101, 8), 6, 1),
        operator("autograd::engine::evaluate_function: MulBackward0", 3, (120, 10), 5, 1),
        operator("autograd::engine::evaluate_function: ExpBackward0", 3, (140, 10), 7, 1),
        operator("autograd::engine::evaluate_function: MulBackward0", 3, (160, 10), 4, 1),
        operator("autograd::engine::evaluate_function: MulBackward0", 3, (180, 10), 5, 1),
        // Thread 1 has most of what only one thread has.
        operator("aten::exp", 1, (80, 5), 8, 0),
        operator("autograd::engine::evaluate_function: ExpBackward0", 3, (200, 10), 8, 1),
        operator("autograd::engine::evaluate_function: ReluBackward0", 3, (220, 10), 6, 2),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let (_folder, path) = trace_of(&events);
    let found = pairs(&path, &[&BY_OPERATOR]);
    // 7 has operators only on the other thread, 4 on none; 6 of forward thread 2 is undecided. 5 ran twice, and its operator counts once.
    let row = |row: &Value| {
        let text = |column: &str| row[column].as_str().unwrap_or("none").to_owned();
        let counts = ["nodes", "operators", "unpaired", "ambiguous", "named_otherwise"].map(|column| of(row, column));
        ((text("operator"), text("node")), counts)
    };
    let want = [
        (("aten::mul", "MulBackward0"), [3, 2, 0, 0, 0]),
        (("aten::exp", "ExpBackward0"), [1, 1, 0, 0, 0]),
        (("none", "ExpBackward0"), [1, 0, 1, 0, 0]),
        (("none", "MulBackward0"), [1, 0, 1, 0, 0]),
        (("none", "ReluBackward0"), [1, 0, 1, 1, 0]),
    ];
    let want = want.map(|((operator, node), counts)| ((operator.to_owned(), node.to_owned()), counts));
    assert_eq!(found.iter().map(row).collect::<BTreeSet<_>>(), want.into());
}

#[test]
fn a_trace_without_a_backward_pass_has_no_pairs() {
    let output = run(&["sql", &testdata("costs.json"), "--query", "pairs", "--quiet"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""));
    has(&stderr(&output), "no operator in the window has a sequence number");
}

/// Several traces add up.
#[test]
fn two_traces_are_added_up() {
    let (one, two) = (testdata("metadata_pytorch.json"), testdata("metadata_xsigma.json"));
    let both = pairs(&one, &[&[&two], &EXACT]);
    assert_eq!((sum(&both, "nodes"), sum(&both, "unpaired")), (31, 2));
    assert_eq!(by_module(&both)["criterion"][1], [4, 40, 0, 0]);
}

/// An operator of the raw JSON.
struct Raw {
    ts: f64,
    end: f64,
    tid: String,
    name: String,
    number: i64,
}

/// What the numbers and flows of the raw JSON say: nodes, those with an operator before them on the one thread that makes nodes, flows
/// that agree with that, and how long the kernels ran whose launch is in the outermost slice of a node, by correlation.
#[derive(Debug, PartialEq)]
struct Walk {
    nodes: i64,
    paired: i64,
    checked: i64,
    agreed: i64,
    backward_ns: i64,
    forward_ns: i64,
}

fn walk(path: &Path, kernels: bool) -> Walk {
    let json: Value = serde_json::from_str(&read_text(path)).unwrap();
    let events = json.as_array().unwrap_or_else(|| json["traceEvents"].as_array().unwrap());
    let number = |event: &Value, key: &str| event["args"][key].as_i64();
    let raw = |event: &Value| Raw {
        ts: event["ts"].as_f64().unwrap(),
        end: event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap_or(0.0),
        tid: format!("{} {}", event["pid"], event["tid"]),
        name: event["name"].as_str().unwrap().to_owned(),
        number: number(event, "Sequence number").unwrap_or(0),
    };
    let numbered = |event: &&Value| event["ph"] == "X" && number(event, "Sequence number").is_some();
    let is_forward = |event: &&Value| number(event, "Fwd thread id").unwrap_or(0) == 0;
    let mut forward: Vec<(String, Raw)> = Vec::new();
    let mut nodes: Vec<(String, Raw)> = Vec::new();
    for event in events.iter().filter(numbered) {
        let (pid, of) = (event["pid"].to_string(), raw(event));
        if is_forward(&event) {
            forward.push((pid, of));
        } else if of.name.starts_with("autograd::engine::evaluate_function") {
            nodes.push((pid, of));
        }
    }
    // Kineto writes operators that begin at once with the outermost first, so that a stable sort keeps the innermost last.
    forward.sort_by(|a, b| a.1.ts.total_cmp(&b.1.ts));
    let mut by_number: BTreeMap<(&str, i64), Vec<&Raw>> = BTreeMap::new();
    forward.iter().for_each(|(pid, of)| by_number.entry((pid, of.number)).or_default().push(of));
    let starts = |ph: &str| -> BTreeMap<(String, String), &Value> {
        let of = events.iter().filter(|event| event["cat"] == "fwdbwd" && event["ph"] == ph);
        of.map(|event| ((event["pid"].to_string(), event["id"].to_string()), event)).collect()
    };
    let (outs, ins) = (starts("s"), starts("f"));
    let mut calls: BTreeMap<i64, (String, f64)> = BTreeMap::new();
    for event in events.iter().filter(|event| event["cat"] == "cuda_runtime" || event["cat"] == "cuda_driver") {
        let Some(id) = number(event, "correlation") else { continue };
        let of = raw(event);
        calls.insert(id, (of.tid, of.ts));
    }
    let mut found = Walk { nodes: 0, paired: 0, checked: 0, agreed: 0, backward_ns: 0, forward_ns: 0 };
    let mut makers: Vec<&Raw> = Vec::new();
    for (pid, node) in &nodes {
        found.nodes += 1;
        let before = by_number.get(&(pid.as_str(), node.number)).map_or(&[][..], Vec::as_slice);
        // Operators that are recomputed run on the thread of the nodes.
        let mut main = before.iter().filter(|of| of.ts < node.ts && (of.tid != node.tid || *pid == "1074"));
        let Some(maker) = main.next_back() else { continue };
        found.paired += 1;
        makers.push(maker);
        let arrives = |event: &&&Value| {
            let at = event["ts"].as_f64().unwrap();
            let tid = format!("{} {}", event["pid"], event["tid"]);
            tid == node.tid && at >= node.ts && at < node.end
        };
        let Some((id, _)) = ins.iter().find(|(_, event)| arrives(event)) else { continue };
        let out = outs[id];
        found.checked += 1;
        let tid = format!("{} {}", out["pid"], out["tid"]);
        let same = |of: &&&Raw| of.tid == tid && (of.ts - out["ts"].as_f64().unwrap()).abs() < 1e-3;
        found.agreed += i64::from(before.iter().any(|of| same(&of)));
    }
    for event in events.iter().filter(|event| kernels && event["cat"] == "kernel") {
        let name = event["name"].as_str().unwrap();
        let Some((tid, at)) = number(event, "correlation").and_then(|id| calls.get(&id)) else { continue };
        if name.contains("nccl") || name.contains("rccl") {
            continue;
        }
        let is_in = |of: &Raw| of.ts <= *at && *at < of.end && of.tid == *tid;
        let dur = (event["dur"].as_f64().unwrap() * 1e3).round() as i64;
        if nodes.iter().any(|(_, node)| is_in(node)) {
            found.backward_ns += dur;
        } else if makers.iter().any(|of| is_in(of)) {
            found.forward_ns += dur;
        }
    }
    found
}

/// The numbers of real traces, by a walk of the raw JSON that knows neither stores nor callers. These traces have one rank each, so
/// that correlation ids are unique; the one of four ranks has no kernels here.
#[test]
fn pairs_of_real_traces_are_those_of_the_raw_json() {
    let Some(shared) = shared() else { return };
    for (name, paired, orphans, flows) in [
        ("TraceLens__mi300_ddp_resnet_rank0", 213, 0, 213),
        ("HTA__nccl_data_a100", 543, 0, 543),
        ("HTA__ns_resolution_v100", 905, 0, 905),
        ("HTA__trace_diff_control_a100", 2_382, 0, 0),
        ("HTA__dlrm_sampled_rank0", 94, 195, 0),
        ("HTA__amd_mi250", 4, 0, 4),
        ("HTA__cpu_only_gloo_rank34", 55, 5, 55),
        ("HPCTrainingExamples__ddp_rccl_merged_4ranks", 2_820, 0, 2_820),
        ("param__dlrm_kineto_worker0_step_12_1694128201545_pt_trace", 38, 0, 0),
    ] {
        let path = shared.join(format!("traces/{name}.json.gz"));
        if !is_long() && path.metadata().unwrap().len() > 1_500_000 {
            continue;
        }
        let trace = path.to_str().unwrap();
        let found = pairs(trace, &[&EXACT]);
        let [nodes, unpaired, checked, disagreed] =
            ["nodes", "unpaired", "checked", "flow_disagrees"].map(|column| sum(&found, column));
        assert_eq!(
            [nodes - unpaired, unpaired, checked, checked - disagreed],
            [paired, orphans, flows, flows],
            "{name}"
        );
        let one_rank = !name.contains("4ranks");
        let walk = walk(&path, one_rank);
        let counts = [walk.nodes, walk.paired, walk.checked, walk.agreed];
        assert_eq!(counts, [nodes, nodes - unpaired, checked, checked - disagreed], "{name}");
        if one_rank {
            let gpu = [sum(&found, "backward_gpu_ns"), sum(&found, "forward_gpu_ns")];
            assert_eq!([walk.backward_ns, walk.forward_ns], gpu, "{name}");
        }
    }
}
