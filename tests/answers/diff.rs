//! `nccl-stacks diff`: two traces side by side, with values for which the answers can be worked out mentally.

use std::process::Output;

use crate::support::events::{kernel, slice, tied};
use crate::support::program::{
    ended, has, json_of, refused, run, scratch, stderr, stderr_of, stdout, stdout_of, testdata, trace_of,
};
use serde_json::{Value, json};

/// A function with a launch in it, and the kernel that it launched: its name, its start and its duration in µs.
fn launch(id: u32, function: &str, name: &str, start: u32, dur: u32, stream: u32) -> [String; 3] {
    [
        slice("python_function", function, (1, 1), id * 100, 90),
        tied("cuda_runtime", "cudaLaunchKernel", (1, 1), id * 100 + 10, 5, id),
        kernel(name, (0, stream), start, dur, id),
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

fn diff_json(args: &[&str]) -> Value {
    json_of(&[&["diff"], args, &["--format", "json"]].concat())
}

/// Runs a comparison with these bounds, which ends with this code.
#[track_caller]
fn bounded(command: &[&str], bounds: &[&str], code: i32) -> Output {
    let bounds: Vec<&str> = bounds.iter().flat_map(|bound| ["--fail-if", bound]).collect();
    ended(&[command, &bounds].concat(), code)
}

/// The same; the last that it says.
#[track_caller]
fn says_last(command: &[&str], bound: &str, code: i32, last: &str) {
    let said = stderr(&bounded(command, &[bound], code));
    assert!(said.ends_with(last), "{said}");
}

/// A row of a table, with one blank between its words.
#[track_caller]
fn row(text: &str, first: &str) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with(first)).unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Count, GPU time and exposed time in all; null if there is nothing.
fn sums(kernels: &Value) -> Value {
    let of = |kernels: &Value| json!([kernels["count"], kernels["gpu_time_ns"], kernels["exposed_ns"]]);
    if kernels.is_null() { Value::Null } else { of(kernels) }
}

/// The same by step or call.
fn each(kernels: &Value) -> Value {
    sums(&kernels["each"])
}

#[test]
fn stacks_are_matched_though_lines_move() {
    let ((_b, before), (_a, after)) = (before(), after());
    let found = diff_json(&[&before, &after]);
    let totals = |count: u64, gpu: u64, exposed: u64| json!([count, gpu, exposed]);
    let of = |at: usize| {
        let change = &found["changes"][at];
        (change["frames"][0].as_str().unwrap(), sums(&change["before"]), sums(&change["after"]))
    };
    assert_eq!(of(0), ("model.py(11): mlp", totals(2, 100_000, 70_000), totals(2, 150_000, 140_000)));
    assert_eq!(of(1), ("model.py(30): old", totals(1, 10_000, 10_000), Value::Null));
    assert_eq!(of(2), ("model.py(40): new", Value::Null, totals(1, 5_000, 5_000)));
    assert_eq!(found["changes"].as_array().unwrap().len(), 3);
    assert_eq!((&found["new"], &found["vanished"], &found["unchanged"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(sums(&found["before"]["kernels"]), totals(4, 130_000, 100_000));
    assert_eq!(sums(&found["after"]["kernels"]), totals(4, 175_000, 165_000));
}

#[test]
fn forms_say_the_same() {
    let ((_b, before), (_a, after)) = (before(), after());
    let form = |form: &str| stdout(&run(&["diff", &before, &after, "--total", "--format", form]));
    let csv = "count_before,count_after,gpu_time_before_ns,gpu_time_after_ns,exposed_before_ns,exposed_after_ns,thread,stack,\
               per,divided_before_by,divided_after_by,count_before_each,count_after_each,gpu_time_before_each_ns,\
               gpu_time_after_each_ns,exposed_before_each_ns,exposed_after_each_ns\n\
               2,2,100000,150000,70000,140000,,model.py(11): mlp;cudaLaunchKernel,total,1,1,2,2,100000,150000,70000,140000\n\
               1,,10000,,10000,,,model.py(30): old;cudaLaunchKernel,total,1,1,1,,10000,,10000,\n\
               ,1,,5000,,5000,,model.py(40): new;cudaLaunchKernel,total,1,1,,1,,5000,,5000\n";
    assert_eq!(form("csv"), csv);
    let text = form("text");
    let mlp = "model.py(11): mlp\n ->\ncudaLaunchKernel\nAppeared 2 times before, 2 times after\n  \
               GPU time: 100.0 µs before, 150.0 µs after, +50.0 µs (+50.0 %)\n  \
               Exposed: 70.0 µs before, 140.0 µs after, +70.0 µs (+100.0 %)\n  \
               Mean: 50.0 µs before, 75.0 µs after, +25.0 µs (+50.0 %)\n";
    has(&text, &format!("\n\n{mlp}\n"));
    has(&text, "Appeared 0 times before, 1 times after (new)\n");
    // Shares of the windows, which begin at 100 µs and end with the last kernel of each trace, at 5010 µs and 5005 µs.
    let share = |whole: f64| format!("{:.1} %", 70.0 / whole * 100.0);
    let compute = format!("compute 70.0 µs 70.0 µs = {} → {}", share(4910.0), share(4905.0));
    let kernels = "these kernels 130.0 µs 175.0 µs +45.0 µs (+34.6 %)";
    for text in [&text, &form("table")] {
        let rows = ["compute", "these kernels", "Stacks", "new", "vanished"].map(|first| row(text, first));
        assert_eq!(rows, [&*compute, kernels, "Stacks 3 3 =", "new 1", "vanished 1"]);
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
            "before 2 100.0 µs 70.0 µs 50.0 µs model.py(11): mlp",
            "after 2 150.0 µs 140.0 µs 75.0 µs",
            "change = +50.0 µs (+50.0 %) +70.0 µs (+100.0 %) +25.0 µs (+50.0 %)",
            "before 1 10.0 µs 10.0 µs 10.0 µs model.py(30): old",
            "after - - - -",
            "vanished",
            "before - - - - model.py(40): new",
            "after 1 5.00 µs 5.00 µs 5.00 µs",
            "new",
        ]
    );
}

/// `testdata/README.md` has these numbers, worked out by hand.
#[test]
fn a_version_later() {
    let found = diff_json(&[&testdata("costs.json"), &testdata("costs_later.json"), "--sort", "gpu"]);
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
    assert_eq!(sums(&found["before"]["kernels"]), json!([13, 860_000, 530_000]));
    assert_eq!(sums(&found["after"]["kernels"]), json!([13, 910_000, 550_000]));
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
        // The answer is there all the same.
        has(&stdout(&bounded(&["diff", &before, &after, "--total"], bounds, code)), "model.py(11): mlp");
    }
    let line = "Exceeded: exposed>+5%: 100.0 µs before, 165.0 µs after, +65.0 µs (+65.0 %)\n";
    says_last(&["diff", &before, &after, "--total"], "exposed>+5%", 5, line);
    let wrong = "`exposed>5%` is not a bound; write what and by how much";
    refused(&["diff", &before, &after, "--fail-if", "exposed>5%"], 2, wrong);
}

#[test]
fn what_cannot_be_compared() {
    let (_b, before) = before();
    let (_e, empty) = scratch("empty.json", br#"{"traceEvents":[]}"#);
    stderr_of(&["diff", &before, "-"], 2);
    refused(&["diff", &empty, &empty], 3, "Nothing found: no collective ran in the window of either trace.");
    let gone = diff_json(&[&before, &empty]);
    assert_eq!((&gone["vanished"], &gone["after"]["kernels"]["count"]), (&json!(3), &json!(0)));
    refused(&["diff", &before, &empty, "--fail-if", "exposed>+5%"], 3, "Nothing to bound: ");
    refused(&["diff", &before, "nowhere.json"], 1, "nowhere.json");
    stderr_of(&["diff", &before, &before, "--output", &before], 2);
}

/// A step of a profiler, around the functions of these ids.
fn step(name: &str, first: u32, last: u32) -> String {
    slice("user_annotation", name, (1, 1), first * 100 - 5, (last - first) * 100 + 100)
}

/// A step, each with an all-reduce of so many µs in `mlp`, and a gemm of 30 µs after it.
fn steps(names: &[&str], all_reduces: &[u32], further: &[String]) -> (tempfile::TempDir, String) {
    let mut events: Vec<String> = Vec::new();
    for (at, dur) in (1..).zip(all_reduces) {
        let (id, start) = (2 * at, 1000 * (at + 1));
        if let Some(name) = names.get(at as usize - 1) {
            events.push(step(name, id, id + 1));
        }
        events.extend(launch(id, "model.py(10): mlp", ALL_REDUCE, start, *dur, 20));
        events.extend(launch(id + 1, "model.py(10): mlp", "gemm", start + dur + 10, 30, 7));
    }
    events.extend(further.iter().cloned());
    trace_of(&events)
}

const NAMES: &[&str] = &["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"];

/// Two steps with 40 and 60 µs of all-reduce, then three with 40, 60 and 80 µs: 50 and 60 µs a step. The second has more at its edges: a step
/// that launched nothing, an all-reduce that was launched before the recording began, and one after the last step.
fn longer() -> [(tempfile::TempDir, String); 2] {
    let mut further = vec![step("ProfilerStep#4", 11, 11), kernel(ALL_REDUCE, (0, 20), 220, 500, 1)];
    further.extend(launch(20, "model.py(90): save", ALL_REDUCE, 7000, 900, 20));
    [steps(NAMES, &[40, 60], &[]), steps(NAMES, &[40, 60, 80], &further)]
}

/// From the first call at 100 µs to the last kernel's end are 2,030 µs, with an all-reduce of 50 µs, then a gemm of 80 µs. If the gemm takes 280 µs, that is compute, which the stacks
/// of collectives do not have; if the all-reduce takes 250 µs, or if all kernels were chosen, the stacks explain it.
#[test]
fn compute_that_grew_is_said_where_the_stacks_do_not_have_it() {
    let of = |all_reduce: u32, gemm: u32| {
        trace(&[
            launch(1, "model.py(10): mlp", ALL_REDUCE, 2000, all_reduce, 20),
            launch(2, "model.py(10): mlp", "gemm", 2000 + all_reduce, gemm, 7),
        ])
    };
    let [before, compute, collective] = [of(50, 80), of(50, 280), of(250, 80)];
    let said = |after: &str, more: &[&str]| stdout(&run(&[&["diff", &before.1, after][..], more].concat()));
    let hint = "What was measured takes 2.23 ms per call instead of 2.03 ms (+9.9 %): compute +200.0 µs.\nNo stack changed.\n\
        Per call: 1 call before, 1 after; no step is marked.\n";
    assert!(said(&compute.1, &[]).starts_with(hint), "{}", said(&compute.1, &[]));
    let found = diff_json(&[&before.1, &compute.1]);
    let first = &found["findings"][0];
    assert_eq!(
        (&first["cost"], &first["cost_ns"], &first["what"]),
        (&json!("+200.0 µs (+250.0 %) compute per call"), &json!(200_000), &json!("kernels that are no collectives"))
    );
    assert!(first["advice"].as_str().unwrap().ends_with(" --kernel-name '*'"), "{first}");
    let found = diff_json(&[&before.1, &collective.1]);
    assert!(found["findings"].as_array().unwrap().iter().all(|of| of["advice"].is_null()), "{found}");
    // With both kernels chosen there are two calls.
    for (text, length) in
        [(said(&collective.1, &[]), "2.23 ms"), (said(&compute.1, &["--kernel-name", "*"]), "1.12 ms")]
    {
        assert!(text.starts_with(&format!("What was measured takes {length} per call instead of")), "{text}");
        assert!(!text.contains("- +200.0 µs (+250.0 %) compute"), "{text}");
    }
}

/// From the first call at 110 µs the second kernel ends at 3,050 µs, then at 5,050 µs: 2,000 µs of idle time more. `ranks` explains that where a
/// collective ran, and finds nothing elsewhere.
#[test]
fn idle_time_that_grew_leads_to_ranks_where_a_collective_ran() {
    for (name, helps) in [(ALL_REDUCE, true), ("gemm", false)] {
        let of = |second: u32| {
            trace(&[
                launch(1, "model.py(10): mlp", name, 2000, 50, 20),
                launch(2, "model.py(10): mlp", name, second, 50, 20),
            ])
        };
        let ((_b, before), (_a, after)) = (of(3000), of(5000));
        let findings = |before: &str, after: &str| {
            let found = diff_json(&[before, after, "--kernel-name", "*"])["findings"].take();
            found.as_array().unwrap().iter().find(|of| of["what"] == "no kernel runs").unwrap().clone()
        };
        let (more, less) = (findings(&before, &after), findings(&after, &before));
        // Two calls, so the half each.
        assert_eq!((&more["cost_ns"], &less["cost_ns"]), (&json!(1_000_000), &json!(-1_000_000)), "{more}");
        assert_eq!(more["advice"].to_string().contains("nccl-stacks ranks "), helps, "{more}");
        assert_eq!(less["advice"], Value::Null);
    }
}

#[test]
fn steps_are_compared_not_sums() {
    let [(_b, before), (_a, after)] = longer();
    let found = diff_json(&[&before, &after]);
    assert_eq!((&found["per"], &found["not_per_step"]), (&json!("step"), &Value::Null));
    let side = |side: &str| {
        let of = &found[side];
        (of["divided_by"].clone(), of["steps"]["names"].clone(), of["kernels_outside"].clone(), each(&of["kernels"]))
    };
    assert_eq!(side("before"), (json!(2), json!({"ProfilerStep#": 2}), json!(0), json!([1.0, 50_000.0, 50_000.0])));
    assert_eq!(side("after"), (json!(3), json!({"ProfilerStep#": 3}), json!(2), json!([1.0, 60_000.0, 60_000.0])));
    let changes = found["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        (sums(&changes[0]["after"]), each(&changes[0]["after"])),
        (json!([3, 180_000, 180_000]), json!([1.0, 60_000.0, 60_000.0]))
    );
    // One begins 1,000 µs after the other in both: steps of 90 µs, and 920 µs to the next; of 100 µs, and 910 µs. A step is exposed for 50 and 60 µs
    // beside 30 µs of compute, and idle for 10 µs, too.
    const VERDICT: &str = "Steps take 1.01 ms, as before: exposed collectives +10.0 µs, idle −10.0 µs.\n\
        The stack that changed most is model.py(10): mlp: +10.0 µs (+20.0 %) exposed per step.";
    let span = |side: &str| found[side]["summary"]["wall_ns"].clone();
    assert_eq!((span("before"), span("after")), (json!(1_100_000), json!(2_120_000)));

    let form = |form: &str| stdout(&run(&["diff", &before, &after, "--format", form]));
    for text in [form("table"), form("text")] {
        assert!(text.starts_with(&format!("{VERDICT}\n- ")), "{text}");
        assert!(row(&text, "compute").starts_with("compute 30.0 µs 30.0 µs = "), "{text}");
        let rows = ["GPU span", "these kernels", "how many"].map(|first| row(&text, first));
        let kernels = "these kernels 50.0 µs 60.0 µs +10.0 µs (+20.0 %)";
        assert_eq!(rows, ["GPU span 1.01 ms 1.01 ms =", kernels, "how many 1 1 ="]);
    }
    has(&form("table"), "What changed per step (2 before, 3 after):\n");
    let text = form("text");
    has(&text, "Appeared 2 times before, 3 times after\n  Count per step: 1 before, 1 after, =\n");
    let csv = form("csv");
    let row =
        "2,3,100000,180000,100000,180000,,model.py(10): mlp;cudaLaunchKernel,step,2,3,1,1,50000,60000,50000,60000";
    assert_eq!(csv.lines().nth(1), Some(row));
    let page = form("html");
    for sentence in VERDICT.lines() {
        assert!(page.contains(&format!("<p>{sentence}</p>")), "no {sentence} in {page:.3000}");
    }
    assert!(!page.contains("Exposed time of these kernels"), "{page:.3000}");
}

/// A step is 40 µs of an all-reduce, 10 µs of nothing and 30 µs of a gemm, and begins 1,000 µs after the one before it. What lies between steps is there once
/// less than the steps: no number of them makes them longer. A longer all-reduce does.
#[test]
fn other_numbers_of_the_same_steps_take_as_long() {
    let of = |steps_of: &[u32]| steps(&[NAMES, NAMES].concat(), steps_of, &[]);
    let [one, two, six] = [of(&[40]), of(&[40; 2]), of(&[40; 6])];
    let [slow, slower] = [of(&[60]), of(&[60; 3])];
    for (before, after, length) in [
        (&one, &one, "80.0 µs, as before"),
        (&one, &six, "80.0 µs, as before"),
        (&six, &one, "80.0 µs, as before"),
        (&two, &six, "1.00 ms, as before"),
        (&six, &two, "1.00 ms, as before"),
        (&one, &slow, "100.0 µs instead of 80.0 µs (+25.0 %): exposed collectives +20.0 µs"),
        (&one, &slower, "100.0 µs instead of 80.0 µs (+25.0 %): exposed collectives +20.0 µs"),
        (&two, &slower, "1.00 ms, as before: exposed collectives +20.0 µs, idle −20.0 µs"),
    ] {
        let text = stdout(&run(&["diff", "--quiet", &before.1, &after.1]));
        assert!(text.starts_with(&format!("Steps take {length}.\n")), "{text}");
    }
    for (before, after, bound, code) in [
        (&one, &six, "step>+0%", 0),
        (&one, &six, "idle>+0%", 0),
        (&two, &six, "step>+0us", 0),
        (&two, &six, "idle>+0us", 0),
        (&one, &slower, "step>+24.9%", 5),
        (&one, &slower, "step>+25%", 0),
        (&two, &slower, "idle>+0%", 0),
    ] {
        bounded(&["diff", &before.1, &after.1], &[bound], code);
    }
    let found = diff_json(&[&one.1, &six.1]);
    let measured = |side: &str| ["wall_ns", "busy_ns"].map(|name| found[side]["measured"][name].as_f64().unwrap());
    assert_eq!((measured("before"), measured("after")), ([80_000.0, 70_000.0], [80_000.0, 70_000.0]));
}

/// A folder with the steps of these ranks.
fn job_of(ranks: std::ops::Range<u32>, length: u32, kernel: u32) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for rank in ranks {
        std::fs::copy(step_of(rank, length, kernel).1, folder.path().join(format!("rank{rank}.json"))).unwrap();
    }
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

/// Each rank has its steps, so that a rank more is not a longer step; a process of two GPUs has one step for both.
#[test]
fn steps_of_several_gpus_are_as_long_as_those_of_one() {
    let said = |before: &str, after: &str| {
        let text = stdout(&run(&["diff", "--quiet", before, after]));
        has(&text, "Steps take 100.0 µs, as before (means of the GPUs).\n");
        has(&text, "No stack changed.\n");
        text
    };
    let (four, three) = (job_of(0..4, 100, 40), job_of(0..3, 100, 40));
    for (before, after) in [(&four, &four), (&three, &four), (&four, &three)] {
        let text = said(&before.1, &after.1);
        has(&text, " GPU span        100.0 µs  100.0 µs ");
        assert!(!text.contains("GPUs, summed"), "{text}");
        let differ = [&before.1, &after.1].map(|of| if *of == four.1 { "ranks 0-3" } else { "ranks 0-2" });
        let said = format!("The sides are of other ranks: {} before, {} after.\n", differ[0], differ[1]);
        assert_eq!(text.starts_with(&said), differ[0] != differ[1], "{text}");
    }
    // Two steps of one process, each with 40 µs on both of its GPUs, every 100 µs.
    let of_gpu = |step: u32, gpu: u32| {
        let (start, id) = (1000 + step * 100, 2 * step + gpu + 1);
        let launch = tied("cuda_runtime", "cudaLaunchKernel", (1, 1), start + gpu, 1, id);
        [launch, kernel(ALL_REDUCE, (gpu, 7), start, 40, id)]
    };
    let marks =
        (0..2).map(|step| slice("user_annotation", format!("ProfilerStep#{step}"), (1, 1), 1000 + step * 100, 100));
    let kernels = (0..4).flat_map(|at| of_gpu(at / 2, at % 2));
    let both = trace_of(&marks.chain(kernels).collect::<Vec<_>>());
    let text = said(&both.1, &both.1);
    has(&text, " GPU span        200.0 µs  200.0 µs ");
    has(&text, " GPUs, summed           2         2 ");
}

/// The one has an all-reduce where the other has a gemm, in windows of 2,950 µs. By calls, the window of the other would be divided by none.
#[test]
fn a_side_without_calls_is_compared_in_all() {
    let with =
        trace(&[launch(1, "a.py(1): f", ALL_REDUCE, 2000, 50, 20), launch(2, "a.py(1): f", "gemm", 3000, 50, 7)]);
    let without = trace(&[launch(1, "a.py(1): f", "gemm", 2000, 50, 7), launch(2, "a.py(1): f", "gemm", 3000, 50, 7)]);
    for (before, after, compute, collectives) in [(&with, &without, '+', '−'), (&without, &with, '−', '+')] {
        let output = run(&["diff", &before.1, &after.1]);
        let text = stdout(&output);
        let length = "What was measured takes 2.95 ms, as before: compute ";
        let length = format!("{length}{compute}50.0 µs, exposed collectives {collectives}50.0 µs.");
        assert!(text.starts_with(&length), "{text}");
        has(&text, "\nIn all.\n");
        assert!(!stderr(&output).contains("the sums are over"), "{}", stderr(&output));
        assert_eq!(diff_json(&[&before.1, &after.1])["per"], "total");
    }
    assert_eq!(diff_json(&[&with.1, &with.1])["per"], "call");
}

/// What is listed is the largest change of GPU time; what is said is of all.
#[test]
fn a_limit_is_of_what_is_listed() {
    let sides = [testdata("costs.json"), testdata("costs_later.json")];
    let said = |more: &[&str]| diff_json(&[&[&*sides[0], &*sides[1]], more].concat());
    let (all, one) = (said(&["--sort", "gpu"]), said(&["--sort", "gpu", "--limit", "1"]));
    assert_eq!((all["changes"].as_array().unwrap().len(), one["changes"].as_array().unwrap().len()), (3, 1));
    assert_eq!(one["verdict"], all["verdict"]);
    let costs = |of: &Value| of["findings"].as_array().unwrap().iter().map(|of| of["cost"].clone()).collect::<Vec<_>>();
    assert_eq!((costs(&one), costs(&all).len()), (costs(&all), 4));
    let output = run(&["diff", &sides[0], &sides[1], "--limit", "1"]);
    has(&stdout(&output), "The stack that changed most is optimizer.py(70): step (vanished)");
    has(&stderr(&output), "Not shown: 2 of 3 stacks");
    let page = stdout(&run(&["diff", &sides[0], &sides[1], "--limit", "1", "--format", "html"]));
    has(&page, "The stack that changed most is optimizer.py(70): step (vanished)");
}

#[test]
fn bounds_are_by_step() {
    let [(_b, before), (_a, after)] = longer();
    for (bounds, code) in [
        (&["exposed>+20%"][..], 0),
        (&["exposed>+19.9%"], 5),
        (&["gpu>+10us", "mean>+10us", "count>+0"], 0),
        (&["gpu>+9.999us"], 5),
    ] {
        bounded(&["diff", &before, &after], bounds, code);
    }
    let line = "Exceeded: exposed>+5%: 50.0 µs before, 60.0 µs after per step, +10.0 µs (+20.0 %)\n";
    says_last(&["diff", &before, &after], "exposed>+5%", 5, line);
    // Sums over another number of steps say nothing.
    bounded(&["diff", &before, &after, "--total"], &["exposed>+100%"], 7);
    let output = run(&["diff", &before, &after, "--total"]);
    has(&stderr(&output), "Note: the sums are over 2 steps before and 3 after");
    has(&stdout(&output), "these kernels");
}

/// The same loop for twice as long is the same, where no step is marked, too.
#[test]
fn calls_stand_for_steps_that_nobody_marks() {
    let ((_b, before), (_a, after)) = (steps(&[], &[40, 60], &[]), steps(&[], &[40, 60, 60, 40], &[]));
    let found = diff_json(&[&before, &after]);
    assert_eq!((&found["per"], &found["not_per_step"]), (&json!("call"), &json!("not-marked")));
    assert_eq!((&found["before"]["divided_by"], &found["after"]["divided_by"]), (&json!(2), &json!(4)));
    assert_eq!((&found["unchanged"], &found["changed"]), (&json!(1), &json!(0)));
    let text = stdout_of(&["diff", &before, &after, "--fail-if", "gpu>+0%", "--fail-if", "exposed>+0us"]);
    has(&text, "Per call: 2 calls before, 4 after; no step is marked.\n");
    refused(&["diff", &before, &after, "--fail-if", "count>+0"], 3, "per call the count is always 1; --total bounds");
    bounded(&["diff", &before, &after, "--total"], &["count>+1"], 5);
}

#[test]
fn steps_that_cannot_be_compared_are_named() {
    let (_u, unmarked) = steps(&[], &[40, 60], &[]);
    let (_p, profiled) = steps(NAMES, &[40, 60], &[]);
    let (_f, functions) = steps(&["train_step", "train_step"], &[40, 60], &[]);
    let (_s, small) = steps(&["step[DECODE bs=1]", "step[DECODE bs=1]"], &[40, 60], &[]);
    let (_l, large) = steps(&["step[DECODE bs=128]", "step[DECODE bs=128]"], &[40, 60], &[]);
    let first = |before: &str, after: &str| {
        let output = run(&["diff", before, after]);
        let text = stdout(&output);
        let line = text.lines().find(|line| line.starts_with("Per ")).or(text.lines().next());
        (line.unwrap_or_default().to_owned(), stderr(&output))
    };
    assert_eq!(
        first(&profiled, &unmarked).0,
        "Per call: 2 calls before, 2 after; not all that was traced marks steps: 2 steps before, 0 after."
    );
    assert_eq!(
        first(&profiled, &functions).0,
        "Per call: 2 calls before, 2 after; their steps are of different kinds: ProfilerStep#, and train_step."
    );
    let differ = "the steps have other names: step[DECODE bs=1] before, step[DECODE bs=128] after";
    let (line, notes) = first(&small, &large);
    assert!(line == format!("The work may have changed: {differ}.") && notes.contains(differ), "{line}\n{notes}");
    refused(&["diff", &small, &large, "--fail-if", "step>+5%"], 7, &format!("Not comparable: {differ}"));
    let (line, notes) = first(&small, &small);
    assert!(line.starts_with("Steps take ") && !notes.contains("other names"), "{line}\n{notes}");
    // Of the one kind a half, of the other three quarters.
    const A: &str = "step[DECODE bs=1]";
    const B: &str = "step[EXTEND bs=1]";
    let mix = |names: [&str; 4]| steps(&names, &[40; 4], &[]);
    let (even, uneven) = (mix([A, B, A, B]), mix([A, B, B, B]));
    let (line, _) = first(&even.1, &uneven.1);
    let differ = format!("the kinds of steps have other shares: {A} ×2, {B} ×2 before, {A} ×1, {B} ×3 after");
    assert_eq!(line, format!("The work may have changed: {differ}."));
    bounded(&["diff", &even.1, &even.1], &["step>+5%"], 0);
}

/// `testdata/README.md`: five launches in each of three steps, and three kernels from before the recording.
#[test]
fn kernels_from_before_the_recording_are_of_no_step() {
    let trace = testdata("ddp_backward.json.gz");
    let found = diff_json(&[&trace, &trace]);
    for side in ["before", "after"] {
        let of = &found[side];
        assert_eq!(
            (&of["divided_by"], &of["kernels"]["each"]["count"], &of["kernels_outside"]),
            (&json!(3), &json!(5.0), &json!(3))
        );
    }
    let whole = diff_json(&[&trace, &trace, "--total"]);
    assert_eq!(whole["before"]["kernels"]["count"], json!(18));
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

/// Steps, collectives that were launched in them and how long these ran: counted by a script over the JSON, by correlation ids and the slices that
/// mark steps. The second trace of the first pair, and both of the last, have kernels of the step before the recording.
#[test]
fn real_traces_are_compared_by_step() {
    let Some(shared) = crate::support::shared() else { return };
    for (names, steps, kernels, outside) in [
        (
            ["HTA__trace_diff_control_a100", "HTA__trace_diff_test_v100_cudagraph"],
            [6, 6],
            [(60, 163_535_000), (60, 229_034_000)],
            [0, 4],
        ),
        (
            ["lora-dev-script__sglang_tp4_A_mixed_rank0", "lora-dev-script__sglang_tp4_F_decode_lora_rank0"],
            [4, 5],
            [(392, 80_040_497), (490, 8_970_734)],
            [0, 0],
        ),
        (
            ["TraceLens__mi300_ddp_resnet_rank0", "TraceLens__mi300_ddp_resnet_rank0"],
            [3, 3],
            [(12, 47_200_310), (12, 47_200_310)],
            [5, 5],
        ),
    ] {
        let [before, after] =
            names.map(|name| shared.join(format!("traces/{name}.json.gz")).to_str().unwrap().to_owned());
        let found = diff_json(&[&before, &after]);
        assert_eq!(found["per"], "step", "{names:?}");
        for (at, side) in ["before", "after"].into_iter().enumerate() {
            let of = &found[side];
            let (count, gpu) = kernels[at];
            assert_eq!((&of["steps"]["count"], &of["divided_by"]), (&json!(steps[at]), &json!(steps[at])), "{names:?}");
            let sums = (&of["kernels"]["count"], &of["kernels"]["gpu_time_ns"], &of["kernels_outside"]);
            assert_eq!(sums, (&json!(count), &json!(gpu), &json!(outside[at])), "{} {side}", names[at]);
            let each = of["kernels"]["each"]["gpu_time_ns"].as_f64().unwrap();
            assert!((each - f64::from(gpu) / f64::from(steps[at])).abs() < 1e-3, "{names:?}: {each}");
            let time = |name: &str| of["summary"][name].as_i64().unwrap();
            for part in ["busy_ns", "compute_ns", "collectives_ns", "exposed_ns"] {
                assert!(time(part) <= time("wall_ns"), "{} {side}: {part} is more than all", names[at]);
            }
        }
    }
}

/// A step of 100 µs of which a kernel takes 40 becomes one of 110 µs with 45: idle grows from 60 to 65 µs, by 8.3 %.
#[test]
fn bounds_are_on_steps_and_idle_time_too() {
    let ((_b, before), (_a, after)) = (step_of(0, 100, 40), step_of(0, 110, 45));
    for (bounds, code) in [
        (&["step>+10%"][..], 0),
        (&["step>+9.9%"], 5),
        (&["step>+10us"], 0),
        (&["step>+9.999us"], 5),
        (&["idle>+8.4%"], 0),
        (&["idle>+8.3%"], 5),
        (&["idle>+5us", "step>+50%"], 0),
        (&["idle>+4.999us", "step>+50%"], 5),
    ] {
        bounded(&["diff", &before, &after], bounds, code);
    }
    let line = "Exceeded: idle>+2%: 60.0 µs before, 65.0 µs after per step, +5.00 µs (+8.3 %)\n";
    says_last(&["diff", &before, &after], "idle>+2%", 5, line);
    for wrong in ["step>5%", "step(rank=0)>+5%"] {
        bounded(&["diff", &before, &after], &[wrong], 2);
    }
    // Without steps there is nothing to bound.
    let ((_b, before), (_a, after)) = (steps(&[], &[40, 60], &[]), steps(&[], &[40, 60], &[]));
    refused(&["diff", &before, &after, "--fail-if", "step>+5%"], 3, "there is no step");
}

/// Other ranks, and traces of which the end is missing.
#[test]
fn sides_that_are_not_comparable_have_an_exit_code() {
    let ((_b, before), (_a, after)) = (step_of(0, 100, 40), step_of(1, 100, 40));
    let bound = |after: &str, code| bounded(&["diff", &before, after], &["step>+1000%"], code);
    bound(&before, 0);
    let output = bound(&after, 7);
    assert!(stderr(&output).ends_with("Not comparable: rank 0 before, rank 1 after\n"), "{}", stderr(&output));
    assert!(!stdout(&output).is_empty(), "the answer is there all the same");
    // Nothing is bounded.
    ended(&["diff", &before, &after], 0);
    let whole = std::fs::read(&before).unwrap();
    let (_c, cut) = scratch("cut.json", &whole[..whole.len() - 5]);
    has(&stderr(&bound(&cut, 7)), "Not comparable: the second is cut off or corrupt");
}

/// Two ranks with steps of 100 µs, of which a kernel takes 40, become two with steps of 110 µs and 45: idle 65 and not 60, by 8.3 %.
#[test]
fn bounds_on_ranks_are_on_steps_and_idle_time_too() {
    let (before, after, fewer) = (job_of(0..2, 100, 40), job_of(0..2, 110, 45), job_of(0..1, 110, 45));
    let sides = ["diff", "--ranks", &before.1, &after.1];
    for (bound, code) in [
        ("step>+10%", 0),
        ("step>+9.9%", 5),
        ("step>+10us", 0),
        ("step>+9.999us", 5),
        ("idle>+8.4%", 0),
        ("idle>+8.3%", 5),
        ("exposed>+5%", 2),
    ] {
        bounded(&sides, &[bound], code);
    }
    let line = "Exceeded: step>+9.9%: 100.0 µs before, 110.0 µs after per step, +10.0 µs (+10.0 %)\n";
    says_last(&sides, "step>+9.9%", 5, line);
    let differ = "Not comparable: ranks 0 and 1 before, rank 0 after\n";
    says_last(&["diff", "--ranks", &before.1, &fewer.1], "step>+1000%", 7, differ);
    // Its trace marks steps; they are just not compared with those of another rank.
    says_last(&["diff", "--ranks", &fewer.1, &fewer.1], "step>+5%", 3, "without --ranks those of one are\n");
}

/// `testdata/ranks`: the three other ranks wait 6,166,608 of 6,776,145 ns for rank 2, in three steps.
#[test]
fn bounds_on_what_ranks_wait_are_named_with_what_exceeds_them() {
    let (ranks, one) = (testdata("ranks"), testdata("ranks/rank2.json.gz"));
    let slower =
        "Exceeded: caused(rank=2)>2ms: 6.17 ms\nExceeded: waited>20%: 6.17 ms, which is 91.0 % of the measured time\n";
    for (inputs, bounds, code, said) in [
        (&[&*ranks][..], &["caused(rank=2)>2ms", "waited>20%", "waited>92%"][..], 5, slower),
        (&[&ranks], &["late(rank=2)>8"], 5, "Exceeded: late(rank=2)>8: 9\n"),
        (&[&ranks], &["caused(rank=3)>2ms"], 0, ""),
        (
            &[&ranks],
            &["caused(rank=9)>2ms"],
            3,
            "Nothing to bound: --fail-if 'caused(rank=9)>2ms': there is no rank 9\n",
        ),
        (&[&one], &["waited>20%"], 3, "no collective of several ranks was measured\n"),
    ] {
        for command in [[&["ranks"][..], inputs].concat(), [&["diff", "--ranks"][..], inputs, inputs].concat()] {
            let output = bounded(&command, bounds, code);
            assert!(stderr(&output).ends_with(said), "{command:?}: {}", stderr(&output));
        }
    }
    bounded(&["diff", "--ranks", &ranks, &ranks], &["caused(rank=9)>+2%"], 3);
}

/// A trace of a rank with two steps, so long and with a kernel so long in each, in µs: from the first kernel's start to the second's end.
fn step_of(rank: u32, length: u32, dur: u32) -> (tempfile::TempDir, String) {
    let of = |step: u32| {
        let (start, id) = (1000 + step * length, 2 * step + 1);
        [
            slice("user_annotation", format!("ProfilerStep#{step}"), (1, 1), start, length),
            tied("cuda_runtime", "cudaLaunchKernel", (1, 1), start, 1, id),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (0, 7), start, dur, id),
            // A kernel at the end of the step, so that the step is as long as its GPU span.
            tied("cuda_runtime", "cudaLaunchKernel", (1, 1), start + 2, 1, id + 1),
            kernel("gemm", (0, 7), start + length, 0, id + 1),
        ]
    };
    let events: Vec<String> = (0..2).flat_map(of).map(|event| format!("{{{event}}}")).collect();
    let text =
        format!(r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#, events.join(","));
    scratch("trace.json", text.as_bytes())
}

/// Of stacks with and without Python functions nothing is new: operators and calls are compared.
#[test]
fn stacks_are_compared_without_python_where_one_trace_has_none() {
    let operators = |has_python: bool, dur: u32| {
        let launches = [1_u32, 2].map(|id| {
            let [function, call, kernel] = launch(id, "model.py(10): mlp", ALL_REDUCE, id * 1000, dur, 20);
            let operator = slice("cpu_op", if id == 1 { "c10d::one" } else { "c10d::two" }, (1, 1), id * 100 + 5, 50);
            let all = [Some(function).filter(|_| has_python), Some(operator), Some(call), Some(kernel)];
            all.into_iter().flatten().collect::<Vec<String>>()
        });
        trace_of(&launches.iter().flatten().map(String::as_str).collect::<Vec<_>>())
    };
    let ((_w, with), (_o, without), (_s, slower)) = (operators(true, 40), operators(false, 40), operators(true, 50));
    for (before, after, changed) in [(&with, &without, 0), (&without, &slower, 2)] {
        let found = diff_json(&[before, after]);
        assert_eq!(
            (&found["new"], &found["vanished"], &found["changed"]),
            (&json!(0), &json!(0), &json!(changed)),
            "{found}"
        );
        assert_eq!(found["without_python"], json!(without));
        has(
            &stdout(&run(&["diff", before, after])),
            "has no Python functions, and the other trace has: stacks are compared by operators",
        );
    }
    let alike = diff_json(&[&with, &slower]);
    assert_eq!((&alike["without_python"], &alike["changed"]), (&Value::Null, &json!(2)));
}
