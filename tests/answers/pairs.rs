//! Pairs of forward and backward: hand-worked ones, and those of real traces against a walk of their raw JSON.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use support::program::{run, stderr, stdout, testdata, trace_of};
use support::read_text;

fn answer(args: &[&str]) -> Value {
    let output = run(&[&["pairs", "--quiet", "--format", "json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Forward operators, nodes, and their kernels, collectives and exposed time in µs, by module.
fn by_module(answer: &Value) -> BTreeMap<String, [[i64; 5]; 3]> {
    let row = |of: &Value| {
        let number = |key: &str| of[key].as_i64().unwrap();
        let times = ["gpu_time_ns", "collective_time_ns", "collective_exposed_ns"].map(|key| number(key) / 1_000);
        [number("operators"), number("kernels"), times[0], number("collectives"), times[1]]
    };
    let modules = answer["modules"].as_array().unwrap().iter();
    let sides = |module: &Value| [row(&module["forward"]), row(&module["backward"]), row(&module["unnumbered"])];
    modules.map(|module| (module["module"].as_str().unwrap().to_owned(), sides(module))).collect()
}

/// Groups add up to modules, modules to the whole, and the kernels by place to all.
fn assert_adds_up(answer: &Value) {
    let keys = ["operators", "kernels", "gpu_time_ns", "recomputed_ns", "collectives", "collective_time_ns"];
    let sum = |list: &str, side: &str, key: &str, keep: &dyn Fn(&Value) -> bool| -> i64 {
        let rows = answer[list].as_array().unwrap().iter().filter(|row| keep(row));
        rows.map(|row| row[side][key].as_i64().unwrap()).sum()
    };
    let is_numbered = |group: &Value| ["pair", "orphan"].contains(&group["tie"].as_str().unwrap());
    for key in keys {
        let [forward, backward, unnumbered] =
            ["forward", "backward", "unnumbered"].map(|side| answer[side][key].as_i64().unwrap());
        assert_eq!(sum("modules", "forward", key, &|_| true), forward, "{key}");
        assert_eq!(sum("modules", "backward", key, &|_| true), backward, "{key}");
        assert_eq!(sum("modules", "unnumbered", key, &|_| true), unnumbered, "{key}");
        assert_eq!(sum("groups", "forward", key, &|_| true), forward, "{key}");
        assert_eq!(sum("groups", "backward", key, &is_numbered), backward, "{key}");
        assert_eq!(sum("groups", "backward", key, &|group| !is_numbered(group)), unnumbered, "{key}");
        if key != "operators" {
            let places = ["forward", "numbered", "unnumbered", "elsewhere"];
            let of = |place: &str| answer["kernels"][place][key].as_i64().unwrap();
            assert_eq!(places.map(of).iter().sum::<i64>(), of("all"), "{key}");
            assert_eq!((of("numbered"), of("unnumbered")), (backward, unnumbered), "{key}");
        }
    }
    let pairing = &answer["pairing"];
    let of = |key: &str| pairing[key].as_u64().unwrap();
    assert_eq!(
        (of("nodes"), of("unnumbered")),
        (of("paired") + of("orphans"), { answer["unnumbered"]["operators"].as_u64().unwrap() })
    );
    assert_eq!(of("nodes"), answer["backward"]["operators"].as_u64().unwrap());
}

/// The tables of `testdata/README.md`.
#[test]
fn pairs_of_every_key_are_those_worked_out_by_hand() {
    let found = answer(&[&testdata("metadata_pytorch.json"), "--exact-names"]);
    assert_adds_up(&found);
    let none = [0; 5];
    let want = [
        ("Net_0.Block_0", [[2, 2, 40, 0, 0], [2, 2, 60, 0, 0], none]),
        ("Net_0.Block_0.Linear_0", [[2, 2, 200, 0, 0], [2, 2, 200, 0, 0], [2, 0, 0, 2, 200]]),
        ("Net_0.Block_0.Linear_1", [[2, 2, 200, 0, 0], [2, 2, 200, 0, 0], [2, 0, 0, 0, 0]]),
        ("Net_0.Block_1", [[2, 0, 0, 0, 0], [2, 0, 0, 2, 100], none]),
        ("Net_0.Block_1.Linear_2", [[2, 2, 800, 0, 0], [2, 2, 600, 0, 0], [2, 0, 0, 2, 400]]),
        ("Net_0.Block_1.Linear_3", [[2, 2, 200, 0, 0], [2, 2, 200, 0, 0], [2, 0, 0, 0, 0]]),
        ("criterion", [[2, 2, 10, 0, 0], [2, 2, 20, 0, 0], none]),
        ("(not recorded)", [none, [1, 1, 10, 0, 0], none]),
    ];
    assert_eq!(by_module(&found), want.map(|(module, sides)| (module.to_owned(), sides)).into());
    let pairing = &found["pairing"];
    let of = |key: &str| pairing[key].as_u64().unwrap();
    assert_eq!([of("nodes"), of("paired"), of("by_number"), of("orphans")], [15, 14, 14, 1]);
    assert_eq!([of("flows"), of("checked"), of("agreed"), of("agreed_exactly")], [12, 12, 11, 11]);
    let findings = &pairing["findings"];
    let count = |problem: &str| findings[problem]["count"].as_u64().unwrap_or(0);
    let counts = ["orphan", "flow-from-other-number", "nested", "successive", "named-otherwise"].map(count);
    assert_eq!((counts, findings.as_object().unwrap().len()), ([1, 1, 2, 0, 0], 3));
    // The flow of `aten::gelu` in step 4 begins at the `aten::addmm` of `Linear_2`.
    let wrong = &findings["flow-from-other-number"]["examples"][0];
    assert_eq!(wrong["operator"], json!({"name": "aten::gelu", "ts_ns": 11_720_000}));
    assert_eq!(wrong["other"], json!({"name": "aten::addmm", "ts_ns": 12_280_000}));
    assert_eq!((&wrong["number"], &wrong["trace"]), (&json!(112), &Value::Null));
    assert_eq!(found["kernels"]["all"]["collective_exposed_ns"], json!(620_000));
    let loss = found["groups"].as_array().unwrap().iter().find(|group| group["operator"] == "aten::mse_loss").unwrap();
    assert_eq!((&loss["headline"], &loss["node"]), (&json!("train.py(30): loss"), &json!("MseLossBackward0")));
    assert_eq!((&loss["tie"], &loss["named_alike"]), (&json!("pair"), &json!(true)));
    // Without exact names the layers are one.
    let folded = answer(&[&testdata("metadata_pytorch.json")]);
    assert_eq!(by_module(&folded)["Net_.Block_.Linear_"][1], [8, 8, 1200, 0, 0]);
}

/// XSigma writes numbers as texts, a number of its own for the thread, the modules as a hierarchy, and no flows.
#[test]
fn pairs_of_xsigma_are_the_same() {
    let found = answer(&[&testdata("metadata_xsigma.json"), "--exact-names"]);
    assert_adds_up(&found);
    let pytorch = by_module(&answer(&[&testdata("metadata_pytorch.json"), "--exact-names"]));
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
    assert_eq!((conv, modules.len()), ([[1, 1, 25, 0, 0], [1, 1, 50, 0, 0], [0; 5]], 9));
    let of = |key: &str| found["pairing"][key].as_u64().unwrap();
    assert_eq!([of("nodes"), of("paired"), of("orphans"), of("flows"), of("checked")], [16, 15, 1, 0, 0]);
    let code = |group: &Value| group["headline"].as_str().map(str::to_owned);
    let headlines: BTreeSet<Option<String>> = found["groups"].as_array().unwrap().iter().map(code).collect();
    assert!(headlines.contains(&Some("linear_forward".to_owned())), "{headlines:?}");
}

/// A window chooses nodes by their start. The forward pass may be outside it.
#[test]
fn a_window_of_the_backward_pass_keeps_the_cost_of_the_forward_pass() {
    let trace = testdata("metadata_pytorch.json");
    let step = answer(&[&trace, "--function-name", "ProfilerStep#3"]);
    assert_adds_up(&step);
    assert_eq!((&step["pairing"]["nodes"], &step["pairing"]["orphans"]), (&json!(8), &json!(1)));
    let backward = answer(&[&trace, "--start-ts", "3.75ms", "--duration", "2.5ms", "--exact-names"]);
    assert_eq!((&backward["pairing"]["nodes"], &backward["kernels"]["forward"]["kernels"]), (&json!(8), &json!(0)));
    assert_eq!(
        by_module(&backward)["Net_0.Block_1.Linear_2"],
        [[1, 1, 400, 0, 0], [1, 1, 300, 0, 0], [1, 0, 0, 1, 200]]
    );
}

fn operator(name: &str, tid: u32, (ts, dur): (u32, u32), number: u32, thread: u32) -> String {
    format!(
        r#""ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"Sequence number":{number},"Fwd thread id":{thread}}}"#
    )
}

/// Each thread counts for itself. Thread 2 has the numbers of thread 1, too; which of them is forward thread 1 shows at node 5.
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
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let (_folder, path) = trace_of(&events);
    let found = answer(&[&path]);
    assert_adds_up(&found);
    let of = |key: &str| found["pairing"][key].as_u64().unwrap();
    assert_eq!([of("nodes"), of("paired"), of("orphans"), of("named_alike")], [6, 4, 2, 4]);
    let findings = found["pairing"]["findings"].as_object().unwrap();
    let counts: BTreeMap<&str, u64> =
        findings.iter().map(|(problem, of)| (problem.as_str(), of["count"].as_u64().unwrap())).collect();
    // 6 has operators on both threads, 7 only on the other, 4 on none, and 5 ran twice.
    assert_eq!(counts, [("several-threads", 1), ("other-thread", 1), ("orphan", 1), ("ran-again", 1)].into());
    let mul = found["groups"].as_array().unwrap().iter().find(|group| group["operator"] == "aten::mul").unwrap();
    assert_eq!((&mul["forward"]["operators"], &mul["backward"]["operators"]), (&json!(2), &json!(3)));
}

#[test]
fn a_trace_without_a_backward_pass_has_no_pairs() {
    let output = run(&["pairs", &testdata("costs.json"), "--quiet"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""));
    assert!(stderr(&output).contains("no operator in the window has a sequence number"));
}

#[test]
fn spreadsheets_have_all_groups() {
    let trace = testdata("metadata_pytorch.json");
    let whole = answer(&[&trace]);
    let text = stdout(&run(&["pairs", "--quiet", &trace, "--format", "csv"]));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    let groups = whole["groups"].as_array().unwrap();
    assert_eq!(rows.len(), groups.len());
    for (row, group) in rows.iter().zip(groups) {
        assert_eq!(
            (row["node"].as_str(), row["tie"].as_str()),
            (group["node"].as_str().unwrap(), group["tie"].as_str().unwrap())
        );
        assert_eq!(row["backward_gpu_time_ns"].parse::<i64>().ok(), group["backward"]["gpu_time_ns"].as_i64());
        assert_eq!(row["forward_cpu_time_ns"].parse::<i64>().ok(), group["forward"]["cpu_time_ns"].as_i64());
    }
    let first = stdout(&run(&["pairs", "--quiet", &trace, "--format", "csv", "--limit", "1"]));
    assert_eq!(first.lines().count(), 2);
}

/// Several traces add up.
#[test]
fn two_traces_are_added_up() {
    let (one, two) = (testdata("metadata_pytorch.json"), testdata("metadata_xsigma.json"));
    let both = answer(&[&one, &two, "--exact-names"]);
    assert_adds_up(&both);
    assert_eq!((&both["pairing"]["nodes"], both["traces"].as_array().unwrap().len()), (&json!(31), 2));
    assert_eq!(by_module(&both)["criterion"][1], [4, 4, 40, 0, 0]);
    let orphans = &both["pairing"]["findings"]["orphan"];
    assert_eq!(orphans["count"], json!(2));
    assert!(orphans["examples"][0]["trace"].as_str().unwrap().ends_with("metadata_pytorch.json"));
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
    nodes: u64,
    paired: u64,
    checked: u64,
    agreed: u64,
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
        found.agreed += u64::from(before.iter().any(|of| same(&of)));
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
    let Some(shared) = support::shared() else { return };
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
        let found = answer(&[path.to_str().unwrap()]);
        assert_adds_up(&found);
        let of = |key: &str| found["pairing"][key].as_u64().unwrap();
        assert_eq!(
            [of("paired"), of("orphans"), of("checked"), of("agreed")],
            [paired, orphans, flows, flows],
            "{name}"
        );
        let one_rank = !name.contains("4ranks");
        let walk = walk(&path, one_rank);
        assert_eq!(
            [walk.nodes, walk.paired, walk.checked, walk.agreed],
            [of("nodes"), of("paired"), of("checked"), of("agreed")],
            "{name}"
        );
        if one_rank {
            let gpu = |side: &str| found[side]["gpu_time_ns"].as_i64().unwrap();
            assert_eq!((walk.backward_ns, walk.forward_ns), (gpu("backward"), gpu("forward")), "{name}");
        }
    }
}
