//! Models that were compiled and split into pieces, and what stands for the code that a CUDA graph hides. Expected answers were worked out by
//! hand from the traces of `testdata/`; they are in `testdata/README.md` with their reasons.

use std::collections::BTreeMap;

use crate::support::program::{has, run, run_json, scratch, stdout, testdata};
use serde_json::Value;

const ATTENTION: &str = "sglang::unified_attention_with_output";

/// How many kernels each headline has, over all its stacks.
fn headlines(args: &[&str]) -> BTreeMap<String, u64> {
    let answer: Value = serde_json::from_slice(&run_json(args).stdout).unwrap();
    let mut counts = BTreeMap::new();
    for stack in answer["stacks"].as_array().unwrap() {
        *counts.entry(stack["headline"].as_str().unwrap().to_owned()).or_default() += stack["count"].as_u64().unwrap();
    }
    counts
}

fn counted(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(headline, count)| ((*headline).to_owned(), *count)).collect()
}

#[test]
fn pieces_are_named_by_the_eager_operators_beside_them() {
    let trace = testdata("pieces.json");
    let answer: Value = serde_json::from_slice(&run_json(&[&trace]).stdout).unwrap();
    let stacks = answer["stacks"].as_array().unwrap();
    // Both batches are one row each, although the profiler gave the first's `run_batch` another line.
    assert_eq!(stacks.iter().map(|stack| stack["count"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 2, 2, 2]);
    let first = format!("piece 1 of 3 of NetModel, before {ATTENTION}");
    let second = format!("piece 2 of 3 of NetModel, between {ATTENTION} and sglang::all_reduce");
    let want = [
        (&*first, 2),
        (&*second, 2),
        ("piece 3 of 3 of NetModel, after sglang::all_reduce", 2),
        ("sglang/srt/models/net.py(50): forward", 2),
    ];
    assert_eq!(headlines(&[&trace]), counted(&want));
    let piece = stacks.iter().find(|stack| stack["headline"] == *first).unwrap();
    let frames = [
        "serve.py(1): main",
        "sglang/srt/managers/scheduler.py(1487): event_loop_overlap",
        "sglang/srt/managers/scheduler.py(2972): run_batch",
        "sglang/srt/model_executor/model_runner.py(3344): _forward_raw",
        "nn.Module: NetModel_",
        "Torch-Compiled Region: 1/",
        "sglang/srt/models/net.py(50): forward",
        "nn.Module: GraphModule_",
        "<eval_with_key>(4): forward",
        &first,
        "sglang/srt/compilation/cuda_piecewise_backend.py(109): __call__",
        "torch/cuda/graphs.py(137): replay",
        "cudaGraphLaunch",
    ];
    assert_eq!(piece["frames"], serde_json::json!(frames));
}

#[test]
fn every_form_names_the_piece() {
    let trace = testdata("pieces.json");
    let second = format!("piece 2 of 3 of NetModel, between {ATTENTION} and sglang::all_reduce");
    for form in ["text", "table", "csv", "folded", "speedscope", "html"] {
        let printed = stdout(&run(&[&trace, "--format", form]));
        assert!(printed.contains("piece 2 of 3 of NetModel"), "{form}");
        assert!(form == "html" || printed.contains(&second), "{form}: {printed}");
    }
    let text = stdout(&run(&[&trace]));
    has(&text, &format!(". {second}\n   2 kernels "));
    let by_stack = stdout(&run(&[&trace, "--group-by", "stack"]));
    has(&by_stack, &second);
    // The script knows slices alone, and so one stack for all pieces.
    let script = stdout(&run(&[&trace, "--format", "script"]));
    assert!(!script.contains("piece 2") && script.contains("Appeared 6 times"), "{script}");
}

#[test]
fn exact_names_keep_the_recorded_lines_and_functions() {
    let trace = testdata("pieces.json");
    let answer: Value = serde_json::from_slice(&run_json(&[&trace, "--exact-names"]).stdout).unwrap();
    let stacks = answer["stacks"].as_array().unwrap();
    let with = |frame: &str| {
        let has = |stack: &&Value| stack["frames"].as_array().unwrap().iter().any(|other| other == frame);
        stacks.iter().filter(has).count()
    };
    assert_eq!(stacks.len(), 8);
    assert_eq!(with("sglang/srt/managers/scheduler.py(2982): run_batch"), 4);
    assert_eq!(with("<eval_with_key>.505(4): forward"), 8);
}

/// Two models whose pieces functions of one name run, a call that was cut, a function that was generated anew, and a graph of the whole model, in
/// whose capture there are pieces.
#[test]
fn pieces_are_those_of_one_call_of_one_model() {
    let trace = testdata("pieces/two_models.json");
    let attention = "vllm::unified_attention_with_output";
    let headline = |which: &str, place: &str| format!("{which}, {place} {attention}");
    let each = "each between two calls of";
    let of_replays = [
        (headline("piece 1 of 2 of Draft", "before"), 1),
        (headline("piece 2 of 2 of Draft", "after"), 1),
        (headline("piece 1 of 5 of Target", "before"), 1),
        (headline("pieces 2 to 4 of 5 of Target", each), 3),
        (headline("piece 5 of 5 of Target", "after"), 1),
        ("a piece of Target".to_owned(), 3),
        (headline("piece 1 of 4 of Target", "before"), 1),
        (headline("pieces 2 and 3 of 4 of Target", each), 2),
        (headline("piece 4 of 4 of Target", "after"), 1),
    ];
    let of_capture = [
        (format!("{}: vllm::all_reduce", headline("piece 1 of 2 of Target", "before")), 1),
        (format!("{}: vllm::all_reduce", headline("piece 2 of 2 of Target", "after")), 1),
        ("vllm/model_executor/models/net.py(7): mlp".to_owned(), 1),
    ];
    let want: BTreeMap<String, u64> = of_replays.iter().chain(&of_capture).cloned().collect();
    assert_eq!(headlines(&[&trace]), want);
    // Without the capture, the graph of the whole model shows who replayed it.
    let (_folder, alone) = scratch("alone.json", &std::fs::read(&trace).unwrap());
    let whole = ("a CUDA graph replayed by vllm/v1/worker/gpu_model_runner.py(3102): _model_forward".to_owned(), 3);
    let want: BTreeMap<String, u64> = of_replays.iter().chain([&whole]).cloned().collect();
    assert_eq!(headlines(&[&alone]), want);
    let exact = headlines(&[&trace, "--exact-names"]);
    assert_eq!(exact.get(&headline("piece 3 of 5 of Target", "between two calls of")), Some(&1), "{exact:#?}");
}
