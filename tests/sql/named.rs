//! Named queries, as `nccl-stacks sql --query` asks them: the project's, and a user's own.

use std::process::{Output, Stdio};

use nccl_stacks::sql::queries::named;
use serde_json::{Value, json};

use crate::support::program::{has, program, rows, run, scratch, stderr, stderr_of, stdout, stdout_of, testdata};

/// A query of a user's own, with a window and parameters.
const OWN: &str = "\
-- Kernels that took long.
-- Row: a kernel.
-- Order: by start.
-- Nothing: none took that long.
-- :start  window   window    the window's first nanosecond
-- :end    window   window    the first nanosecond after it
-- :least  time     required  the least length
-- :names  list     none      only these names
-- column dur   \"Length\"  ns
-- column name  \"Kernel\"  text
SELECT dur, name, id
FROM slice
WHERE kind = 'kernel' AND ts >= :start AND ts < :end AND dur >= :least
  AND (:names IS NULL OR name IN (SELECT value FROM json_each(:names)))
ORDER BY ts;
";

/// The program with a folder of settings that has this query as `long`, and one with the name of the program's own.
fn with_settings(args: &[&str]) -> Output {
    let (folder, _) = scratch("unused", b"");
    let queries = folder.path().join("nccl-stacks/queries");
    std::fs::create_dir_all(&queries).unwrap();
    std::fs::write(queries.join("long.sql"), OWN).unwrap();
    std::fs::write(queries.join("kernels.sql"), "SELECT 'mine' AS whose").unwrap();
    let mut program = program();
    program.env("XDG_CONFIG_HOME", folder.path()).args(args).stdin(Stdio::null()).output().unwrap()
}

fn usage(args: &[&str], message: &str) {
    let output = with_settings(&[&["sql"], args].concat());
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}");
    assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
}

#[test]
fn without_a_name_all_are_listed() {
    let output = with_settings(&["sql", "--query"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), named().count() + 2, "{lines:?}");
    // The first sentence of the header, up to a colon.
    for (name, about) in
        [("memory", "Memory of each device"), ("memory_steps", "The memory peaks of each step on each device")]
    {
        assert!(lines.contains(&format!("{name:18}  {about}")), "{lines:?}");
    }
    let own = lines.last().unwrap();
    assert!(own.starts_with("long                Kernels that took long (") && own.ends_with("long.sql)"), "{own}");
    // A trace before it changes nothing.
    let of_trace = with_settings(&["sql", &testdata("costs.json"), "--query"]);
    assert_eq!(stdout(&of_trace).lines().count(), lines.len());
}

#[test]
fn a_users_own_query_works_the_same() {
    let trace = testdata("costs.json");
    let asked = |args: &[&str]| with_settings(&[&["sql", &trace, "--query"], args].concat());
    let text = stdout(&asked(&["long", "--param", "least=100us", "--format", "table", "--quiet"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].trim_start().starts_with("Length  Kernel"), "{text}");
    assert!(
        lines[2].trim_start().starts_with("100.0 µs  ") || lines[2].trim_start().starts_with("200.0 µs  "),
        "{text}"
    );
    let json = |args: &[&str]| -> Vec<Value> {
        let output = asked(&[args, &["--format", "json", "--quiet"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let all = json(&["long", "--param", "least=0"]);
    assert_eq!(all.len(), 19);
    assert_eq!(all[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["dur", "id", "name"], "names of SQL");
    let gemm = ["long", "--param", "least=0", "--param", "names=gemm_bf16_128x64_tn"];
    assert_eq!(json(&gemm).len(), 6);
    assert_eq!(json(&["long", "--param", "least=0", "--limit", "3"]).len(), 3);
    // The first half of 2 ms.
    let half = json(&["long", "--param", "least=0", "--start-ts", "0", "--duration", "1ms"]);
    assert!(!half.is_empty() && half.len() < 19, "{}", half.len());
    let none = asked(&["long", "--param", "least=1s"]);
    assert_eq!((none.status.code(), stdout(&none).as_str()), (Some(3), ""));
    assert!(stderr(&none).ends_with("Nothing found: none took that long.\n"), "{}", stderr(&none));
    // A file by its path, without a header.
    let (_folder, file) = scratch("bare.sql", b"SELECT :a + 1 AS sum, :b AS text WHERE :start < :end");
    let output = run(&["sql", &trace, "--query", &file, "--param", "a=2", "--param", "b=x", "--quiet"]);
    assert_eq!(stdout(&output), "\"sum\",\"text\"\n3,\"x\"\n", "{}", stderr(&output));
}

#[test]
fn the_programs_own_query_is_not_replaced_silently() {
    let output = with_settings(&["sql", &testdata("costs.json"), "--query", "kernels", "--quiet"]);
    has(&stdout(&output), "\"Instances\"");
    let notes = stderr(&output);
    has(&notes, "Note: kernels is the program's own query; --query /");
    has(&notes, "/nccl-stacks/queries/kernels.sql is yours");
}

#[test]
fn what_is_wrong_is_said_with_what_there_is() {
    let trace = testdata("costs.json");
    usage(&[&trace, "--query", "kernel"], "there is no query kernel. Did you mean kernels? --query alone lists them");
    usage(&[&trace, "--query", "lon"], "Did you mean long?");
    usage(&[&trace, "--query", "quite_another"], "there is no query quite_another. --query alone");
    usage(&["--query", "kernels"], "a query needs a trace: nccl-stacks sql TRACE --query kernels");
    usage(
        &[&trace, "--query", "kernels", "--param", "famly=nccl"],
        "there is no parameter famly; did you mean family?. The parameters of kernels:\n  kernel_name  list  ",
    );
    usage(
        &[&trace, "--query", "long"],
        "the parameter least has no value. The parameters of long:\n  least  time  the least length (required)",
    );
    usage(
        &[&trace, "--query", "long", "--param", "least=much"],
        "the parameter least is a time, such as 1.5ms, not \"much\"",
    );
    usage(&[&trace, "--query", "long", "--param", "start=5"], "there is no parameter start");
    usage(&[&trace, "--query", "stacks", "--param", "a=1"], "The parameters of stacks:\n  none");
    usage(&[&trace, "--query", "stacks", "--step", "1"], "stacks has no :start and :end, and so no window");
    usage(&[&trace, "--query", "kernels", "--param", "nothing"], "expected NAME=VALUE");
    usage(&[&trace, "--query", "kernels", "--file", "x.sql"], "cannot be used with");
    usage(&[&trace, "SELECT 1", "--query", "kernels"], "cannot be used with the statements \"SELECT 1\"");
    usage(&[&trace, "SELECT 1", "--step", "1"], "a window is for --query");
    usage(&[&trace, "SELECT 1", "--limit", "1"], "--query");
    let (_folder, file) = scratch("odd.sql", b"-- column a  \"A\"  parsecs\nSELECT 1 AS a");
    usage(&[&trace, "--query", &file], "column a: the unit \"parsecs\" is none of text, id, detail, ns");
    stderr_of(&["sql", &trace, "--query", "/no/such.sql"], 1);
    // What is wrong is said before the trace is read.
    usage(&["/no/such/trace", "--query", "kernel"], "there is no query kernel");
}

#[test]
fn kernels_are_chosen_by_name_and_family() {
    let trace = testdata("costs.json");
    let counts = |more: &[&str]| -> Vec<i64> {
        rows(&trace, "kernels", more).iter().map(|row| row["Instances"].as_i64().unwrap()).collect()
    };
    assert_eq!(counts(&[]), [6, 7, 2, 1, 3]);
    assert_eq!(counts(&["--param", "family=nccl"]), [7, 2, 1, 3]);
    assert_eq!(counts(&["--param", "kernel_name=*AllGather*", "--param", "kernel_name=gemm"]), [6, 2]);
    assert_eq!(counts(&["--param", "kernel_name=gemm", "--param", "family=nccl"]), [6, 7, 2, 1, 3]);
    assert_eq!(counts(&["--limit", "2"]), [6, 7]);
    // The share is one of the chosen kernels.
    let gemm = &rows(&trace, "kernels", &["--param", "kernel_name=gemm"])[0];
    assert_eq!(gemm["Time (%)"], 100.0);
    assert!(rows(&trace, "kernels", &["--param", "kernel_name=none"]).is_empty());
    has(&stderr(&run(&["sql", &trace, "--query", "kernels", "--param", "family=mine"])), "mine");
    // A family of the user's own, also in other statements.
    let (folder, families) = scratch("families.json", br#"{"mine": ["gemm*"]}"#);
    let counted = "SELECT count(*) AS n FROM slice WHERE in_family(name, 'mine')";
    let output = run(&["sql", &trace, counted, "--family-file", &families, "--quiet"]);
    assert_eq!(stdout(&output), "\"n\"\n6\n", "{}", stderr(&output));
    drop(folder);
}

/// Time and window are those of the former commands.
#[test]
fn windows_choose_what_begins_in_them() {
    let trace = testdata("metadata_pytorch.json");
    let step = ["--function-name", "ProfilerStep#%", "--index", "1"];
    let memory = &rows(&trace, "memory", &step)[0];
    // The second step's seven allocations and releases, over what was there before.
    assert_eq!((&memory["events"], &memory["allocated_bytes"]), (&json!(14), &json!(136_000)));
    assert_eq!((&memory["peak_allocated"], &memory["before_bytes"]), (&json!(1_136_000), &json!(1_000_000)));
    let by_launch = rows(&trace, "operators", &step);
    let by_kernel = rows(&trace, "operators", &[&step[..], &["--window-on", "kernel"]].concat());
    assert!(by_launch[0]["operators"].as_i64() > Some(0) && by_launch[0]["operators"] == by_kernel[0]["operators"]);
    // In a table, times are those since the start of the window: 13.64 ms less 11 ms.
    let text =
        stdout(&run(&[&["sql", &trace, "--query", "memory", "--format", "table", "--quiet"], &step[..]].concat()));
    has(&text, "1.14 MB  2.64 ms");
}

#[test]
fn several_queries_read_the_trace_once() {
    let trace = testdata("costs.json");
    let output =
        run(&["sql", &trace, "--query", "kernels", "--query", "operator_shapes", "--limit", "1", "--format", "table"]);
    let text = stdout(&output);
    let title = "Kernels by name, with the columns of `nsys stats -r cuda_gpu_kern_sum`:\nTime (%)";
    assert!(text.starts_with(title), "{text}");
    has(&text, "\n… and 4 more rows\n\nOperators with several shapes, which are");
    assert!(text.ends_with(":\nnone\n"), "{text}");
    assert_eq!(stderr(&output).matches("Trace loaded").count(), 1);
    let output = run(&["sql", &trace, "--query", "kernels", "--query", "operator_shapes", "--format", "json"]);
    assert!(stdout(&output).ends_with("\n]\n\n[]\n"), "{}", stdout(&output));
}

#[test]
fn statistics_and_names_are_functions() {
    let trace = testdata("costs.json");
    let three = "(SELECT 1 AS v UNION SELECT 2 UNION SELECT 6 UNION SELECT NULL)";
    let four = "(SELECT 10 AS v UNION SELECT 20 UNION SELECT 40 UNION SELECT 80 UNION SELECT NULL)";
    // Each a column of a row.
    for (expressions, row) in [
        (&*format!("median(v), stddev(v) FROM {three}"), "2.0,2.6457513110645907"),
        ("median(1), stddev(1), median(NULL)", "1.0,0.0,\"[NULL]\""),
        (&format!("percentile(v, 0), PERCENTILE(v, 50) FROM {four}"), "10.0,30.0"),
        (&format!("percentile(v, 90), percentile(v, 100) FROM {four}"), "68.0,80.0"),
        ("percentile(NULL, 50)", "\"[NULL]\""),
        ("sqrt(16), ln(1), log(1000), log2(8), exp(0)", "4.0,0.0,3.0,3.0,1.0"),
        ("floor(-1.5), ceil(1.2), trunc(-1.5), pow(2, 10), mod(7, 4)", "-2.0,2.0,-1.0,1024.0,3.0"),
        ("sqrt(-1), ln(0), sqrt('a'), pow(NULL, 2)", "\"[NULL]\",\"[NULL]\",\"[NULL]\",\"[NULL]\""),
        ("matches_name('ncclX', 'nccl'), matches_name('ncclX', '[\"a\",\"*X\"]')", "1,1"),
        ("matches_name('ncclX', NULL)", "0"),
        ("in_family('ncclDevKernel_AllReduce', 'nccl'), in_family('gemm', '[\"nccl\",\"deepep\"]')", "1,0"),
        ("step_priority('ProfilerStep#3', ''), step_priority('x', 'user_annotation')", "0,2"),
        ("step_priority('x', 'cpu_op')", "\"[NULL]\""),
    ] {
        let text = stdout_of(&["sql", &trace, &format!("SELECT {expressions}"), "--quiet"]);
        assert_eq!(text.lines().nth(1), Some(row), "{expressions}");
    }
    has(&stderr(&run(&["sql", &trace, "SELECT median('x')"])), "median: the argument is not a number");
    has(&stderr(&run(&["sql", &trace, "SELECT in_family('x', 'mine')"])), "mine");
}

/// A call below thousands of slices that partly overlap has one stack of as many frames: its text is made once, not once for each frame.
#[cfg(target_os = "linux")]
#[test]
fn a_deep_stack_takes_the_memory_of_its_text() {
    let frames = 16_000;
    let operator = |at| format!(r#"{{"ph":"X","cat":"cpu_op","name":"o","pid":9,"tid":9,"ts":{at},"dur":{frames}}}"#);
    let call = format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{frames}.5,"dur":1,"args":{{"correlation":1}}}}"#
    );
    let kernel = format!(
        r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_X","pid":0,"tid":7,"ts":{},"dur":5,"args":{{"correlation":1}}}}"#,
        frames + 3
    );
    let events: Vec<String> = (0..frames).map(operator).chain([call, kernel]).collect();
    let (_folder, trace) = scratch("deep.json", format!("[{}]", events.join(",")).as_bytes());
    // 0.7 GB if the text of each length is kept.
    let script = format!(
        "ulimit -v 400000; exec {} sql --threads 1 --query stacks {trace} --format json",
        env!("CARGO_BIN_EXE_nccl-stacks")
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stack = answer[0]["stack"].as_str().unwrap();
    assert!(stack.starts_with("o -> o") && stack.ends_with("cudaLaunchKernel"), "{}", &stack[stack.len() - 40..]);
    assert_eq!(stack.split(" -> ").count(), frames + 1);
}
