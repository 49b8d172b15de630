//! `nccl-stacks diff`: two traces side by side, with values for which the answers can be worked out mentally.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use serde_json::{Value, json};
use support::program::{run, scratch, stderr, stdout, testdata, trace_of};

/// A function with a launch in it, and the kernel that it launched: its name, its start and its duration in µs.
fn launch(id: u32, function: &str, kernel: &str, start: u32, dur: u32, stream: u32) -> [String; 3] {
    let at = id * 100;
    let cpu = r#""pid":1,"tid":1"#;
    [
        format!(r#""ph":"X","cat":"python_function","name":"{function}","ts":{at},"dur":90,{cpu}"#),
        format!(
            r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":{},"dur":5,{cpu},"args":{{"correlation":{id}}}"#,
            at + 10
        ),
        format!(
            r#""ph":"X","cat":"kernel","name":"{kernel}","ts":{start},"dur":{dur},"pid":0,"tid":{stream},"args":{{"correlation":{id},"device":0,"stream":{stream}}}"#
        ),
    ]
}

fn trace(launches: &[[String; 3]]) -> (tempfile::TempDir, String) {
    trace_of(&launches.iter().flatten().map(String::as_str).collect::<Vec<_>>())
}

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)";

/// `mlp` reduces for 40 + 60 µs, `attention` for 20 µs, `old` for 10 µs; a gemm runs beside the last 30 µs of mlp's second.
fn before() -> (tempfile::TempDir, String) {
    trace(&[
        launch(1, "model.py(10): mlp", ALL_REDUCE, 2000, 40, 20),
        launch(2, "model.py(10): mlp", ALL_REDUCE, 3000, 60, 20),
        launch(3, "model.py(20): attention", ALL_REDUCE, 4000, 20, 20),
        launch(4, "model.py(30): old", ALL_REDUCE, 5000, 10, 20),
        launch(5, "model.py(10): mlp", "gemm", 3030, 70, 7),
    ])
}

/// The same on other lines: `mlp` reduces for 40 + 110 µs with the gemm beside the last 10 µs, `new` for 5 µs, and there is no `old`.
fn after() -> (tempfile::TempDir, String) {
    trace(&[
        launch(1, "model.py(11): mlp", ALL_REDUCE, 2000, 40, 20),
        launch(2, "model.py(11): mlp", ALL_REDUCE, 3000, 110, 20),
        launch(3, "model.py(25): attention", ALL_REDUCE, 4000, 20, 20),
        launch(4, "model.py(40): new", ALL_REDUCE, 5000, 5, 20),
        launch(5, "model.py(11): mlp", "gemm", 3100, 70, 7),
    ])
}

fn json_of(args: &[&str]) -> Value {
    let output = run(&[&["diff"], args, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn stacks_are_matched_though_lines_move() {
    let ((_b, before), (_a, after)) = (before(), after());
    let found = json_of(&[&before, &after]);
    let totals =
        |count: u64, gpu: u64, exposed: u64| json!({"count": count, "gpu_time_ns": gpu, "exposed_ns": exposed});
    let of = |at: usize| {
        let change = &found["changes"][at];
        (change["frames"][0].as_str().unwrap(), change["before"].clone(), change["after"].clone())
    };
    assert_eq!(of(0), ("model.py(11): mlp", totals(2, 100_000, 70_000), totals(2, 150_000, 140_000)));
    assert_eq!(of(1), ("model.py(30): old", totals(1, 10_000, 10_000), Value::Null));
    assert_eq!(of(2), ("model.py(40): new", Value::Null, totals(1, 5_000, 5_000)));
    assert_eq!(found["changes"].as_array().unwrap().len(), 3);
    assert_eq!((&found["new"], &found["vanished"], &found["unchanged"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(found["before"]["kernels"], totals(4, 130_000, 100_000));
    assert_eq!(found["after"]["kernels"], totals(4, 175_000, 165_000));
}

#[test]
fn forms_say_the_same() {
    let ((_b, before), (_a, after)) = (before(), after());
    let form = |form: &str| stdout(&run(&["diff", &before, &after, "--format", form]));
    let csv = "count_before,count_after,gpu_time_before_ns,gpu_time_after_ns,exposed_before_ns,exposed_after_ns,thread,stack\n\
               2,2,100000,150000,70000,140000,,model.py(11): mlp;cudaLaunchKernel\n\
               1,,10000,,10000,,,model.py(30): old;cudaLaunchKernel\n\
               ,1,,5000,,5000,,model.py(40): new;cudaLaunchKernel\n";
    assert_eq!(form("csv"), csv);
    let text = form("text");
    let mlp = "model.py(11): mlp\n ->\ncudaLaunchKernel\nAppeared 2 times before, 2 times after\n  \
               GPU time: 100.000 µs before, 150.000 µs after, +50.000 µs (+50.0 %)\n  \
               Exposed: 70.000 µs before, 140.000 µs after, +70.000 µs (+100.0 %)\n  \
               Mean: 50.000 µs before, 75.000 µs after, +25.000 µs (+50.0 %)\n";
    assert!(text.contains(&format!("\n\n{mlp}\n")), "{text}");
    assert!(text.contains("Appeared 0 times before, 1 times after (new)\n"), "{text}");
    let row = |text: &str, first: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(first)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for text in [&text, &form("table")] {
        let compute = format!("compute 70.000 µs 70.000 µs = {}", shares(70, 70));
        assert_eq!(row(text, "compute"), compute);
        let kernels = "these kernels 130.000 µs 175.000 µs +45.000 µs (+34.6 %)";
        assert_eq!(row(text, "these kernels"), kernels);
        assert_eq!(row(text, "Stacks"), "Stacks 3 3 =");
        assert_eq!((row(text, "new"), row(text, "vanished")), ("new 1".to_owned(), "vanished 1".to_owned()));
    }
    let table = form("table");
    let rows: Vec<String> = table
        .lines()
        .skip_while(|line| !line.contains("innermost"))
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "before 2 100.000 µs 70.000 µs 50.000 µs model.py(11): mlp",
            "after 2 150.000 µs 140.000 µs 75.000 µs",
            "change = +50.000 µs (+50.0 %) +70.000 µs (+100.0 %) +25.000 µs (+50.0 %)",
            "before 1 10.000 µs 10.000 µs 10.000 µs model.py(30): old",
            "after - - - -",
            "vanished",
            "before - - - - model.py(40): new",
            "after 1 5.000 µs 5.000 µs 5.000 µs",
            "new",
        ]
    );
}

/// Shares of the windows, which begin at 100 µs and end with the last kernel of each trace, at 5010 µs and 5005 µs.
fn shares(before: u32, after: u32) -> String {
    let of = |part: u32, whole: u32| format!("{:.1} %", f64::from(part) / f64::from(whole) * 100.0);
    format!("{} → {}", of(before, 4910), of(after, 4905))
}

/// `testdata/README.md` has these numbers, worked out by hand.
#[test]
fn a_version_later() {
    let found = json_of(&[&testdata("costs.json"), &testdata("costs_later.json"), "--sort", "gpu"]);
    let of = |change: &Value| {
        let totals = |side: &str| {
            let field = |name: &str| change[side][name].as_i64();
            (field("count"), field("gpu_time_ns"), field("exposed_ns"))
        };
        (change["frames"][1].as_str().unwrap().to_owned(), totals("before"), totals("after"))
    };
    let us = |count, gpu: i64, exposed: i64| (Some(count), Some(gpu * 1000), Some(exposed * 1000));
    let none = (None, None, None);
    assert_eq!(
        found["changes"].as_array().unwrap().iter().map(of).collect::<Vec<_>>(),
        [
            ("model.py(57): backward".to_owned(), us(4, 500, 200), us(4, 580, 230)),
            ("optimizer.py(70): step".to_owned(), us(1, 80, 60), none),
            ("checkpoint.py(5): save".to_owned(), none, us(1, 50, 50)),
        ]
    );
    let all = |count: u64, gpu: u64, exposed: u64| json!({"count": count, "gpu_time_ns": gpu, "exposed_ns": exposed});
    assert_eq!(found["before"]["kernels"], all(13, 860_000, 530_000));
    assert_eq!(found["after"]["kernels"], all(13, 910_000, 550_000));
    assert_eq!((&found["unchanged"], &found["after"]["without_launch"]["count"]), (&json!(4), &json!(1)));
}

#[test]
fn bounds_decide_over_the_exit_code() {
    let ((_b, before), (_a, after)) = (before(), after());
    // GPU time grows from 130 to 175 µs, which is 34.6 %; exposed time from 100 to 165 µs.
    for (bounds, code) in [
        (&["gpu>+34.6%"][..], 5),
        (&["gpu>+34.7%"], 0),
        (&["gpu>+45us", "exposed>+65us", "count>+0", "mean>+11.25us"], 0),
        (&["gpu>+44.9us"], 5),
        (&["gpu>+45us", "exposed>+5%"], 5),
        (&["mean>+11.2us"], 5),
    ] {
        let flags: Vec<&str> = bounds.iter().flat_map(|bound| ["--fail-if", bound]).collect();
        let output = run(&[&["diff", &before, &after], &flags[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{bounds:?}: {}", stderr(&output));
        assert!(stdout(&output).contains("model.py(11): mlp"), "the answer is there all the same");
    }
    let output = run(&["diff", &before, &after, "--fail-if", "exposed>+5%"]);
    assert!(
        stderr(&output).ends_with("Exceeded: exposed>+5%: 100.000 µs before, 165.000 µs after, +65.000 µs (+65.0 %)\n"),
        "{}",
        stderr(&output)
    );
    let output = run(&["diff", &before, &after, "--fail-if", "exposed>5%"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`exposed>5%` is no bound; write what and by how much"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_compared() {
    let (_b, before) = before();
    let (_e, empty) = scratch("empty.json", br#"{"traceEvents":[]}"#);
    let output = run(&["diff", &before, "-"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = run(&["diff", &empty, &empty]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("Nothing found: no collective ran in the window of either trace."));
    let gone = json_of(&[&before, &empty]);
    assert_eq!((&gone["vanished"], &gone["after"]["kernels"]["count"]), (&json!(3), &json!(0)));
    let output = run(&["diff", &before, &empty, "--fail-if", "exposed>+5%"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("Nothing to bound: "), "{}", stderr(&output));
    let output = run(&["diff", &before, "nowhere.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nowhere.json"), "{}", stderr(&output));
    let output = run(&["diff", &before, &before, "--output", &before]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Compute kernels may be selected, too: they are exposed while no other one computes.
#[test]
fn collectives_stay_collectives_among_all_kernels() {
    // Two gemms of 100 µs share 50 µs; an all-reduce of 80 µs begins 30 µs before the second ends.
    let (_t, trace) = trace(&[
        launch(1, "a.py(1): first", "gemm", 2000, 100, 7),
        launch(2, "a.py(2): second", "gemm", 2050, 100, 8),
        launch(3, "a.py(3): third", ALL_REDUCE, 2120, 80, 20),
    ]);
    let output = run(&[&trace, "--kernel-name", "/./", "--format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |function: &str| {
        let stacks = found["stacks"].as_array().unwrap();
        let cost = &stacks.iter().find(|stack| stack["frames"][0] == function).unwrap()["cost"];
        (cost["exposed_ns"].as_i64().unwrap(), cost["overlapped_ns"].as_i64().unwrap())
    };
    assert_eq!(of("a.py(1): first"), (50_000, 50_000));
    assert_eq!(of("a.py(2): second"), (50_000, 50_000));
    assert_eq!(of("a.py(3): third"), (50_000, 30_000));
    let summary = &found["summary"];
    let times = ["busy_ns", "compute_ns", "collectives_ns", "exposed_ns"].map(|name| summary[name].as_i64().unwrap());
    assert_eq!(times, [200_000, 150_000, 80_000, 50_000]);
}
