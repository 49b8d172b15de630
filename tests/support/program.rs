//! Runs the program as a user does, and reads its answer.

use std::io::Write;
use std::process::{Command, Output, Stdio};

pub(crate) fn testdata(name: &str) -> String {
    format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The program, isolated from the settings of the user who runs the tests.
pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"));
    program.env("NCCL_STACKS_CONFIG", "");
    program
}

pub(crate) fn run(args: &[&str]) -> Output {
    program().args(args).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs the program, which ends with this exit code.
#[track_caller]
pub(crate) fn ended(args: &[&str], code: i32) -> Output {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}{}", stderr(&output), stdout(&output));
    output
}

/// The same; what it writes to standard error.
#[track_caller]
pub(crate) fn stderr_of(args: &[&str], code: i32) -> String {
    stderr(&ended(args, code))
}

/// The same for one that says this.
#[track_caller]
pub(crate) fn refused(args: &[&str], code: i32, why: &str) {
    let said = stderr_of(args, code);
    assert!(said.contains(why), "{args:?}: no {why:?} in:\n{said}");
}

/// A command: its arguments, its exit code, what it says on either stream, and what it does not say.
pub(crate) type Said<'a> = (&'a [&'a str], i32, &'a [&'a str], &'a [&'a str]);

/// Runs each of these commands.
#[track_caller]
pub(crate) fn says(commands: &[Said<'_>]) {
    for (args, code, parts, others) in commands {
        let output = ended(args, *code);
        let said = stdout(&output) + &stderr(&output);
        for (part, is_said) in parts.iter().map(|part| (part, true)).chain(others.iter().map(|part| (part, false))) {
            assert_eq!(said.contains(part), is_said, "{args:?}: {part:?} in:\n{said}");
        }
    }
}

/// Runs the program, which succeeds; its answer.
#[track_caller]
pub(crate) fn stdout_of(args: &[&str]) -> String {
    stdout(&ended(args, 0))
}

/// The same for an answer in JSON.
#[track_caller]
pub(crate) fn json_of<T: serde::de::DeserializeOwned>(args: &[&str]) -> T {
    let text = stdout_of(args);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
}

/// Fails unless the text has this in it.
#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in:\n{text}");
}

/// The rows of a named query; none if it has none.
pub(crate) fn rows(trace: &str, query: &str, more: &[&str]) -> Vec<serde_json::Value> {
    let output = run(&[&["sql", trace, "--query", query, "--format", "json", "--quiet"], more].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{query}: {}", stderr(&output));
    if output.stdout.is_empty() { Vec::new() } else { serde_json::from_slice(&output.stdout).unwrap() }
}

/// The rows of an SQL query.
pub(crate) fn rows_of(trace: &str, query: &str) -> Vec<serde_json::Value> {
    json_of(&["sql", trace, query, "--format", "json", "--quiet"])
}

/// The only number of the only row of an SQL query.
pub(crate) fn number(trace: &str, query: &str) -> i64 {
    rows_of(trace, query)[0].as_object().unwrap().values().next().unwrap().as_i64().unwrap()
}

/// The same with the JSON answer, the most frequent stack first, for [`stacks`].
pub(crate) fn run_json(args: &[&str]) -> Output {
    run(&[&["--json", "--sort", "count"], args].concat())
}

/// The verdict of an answer for programs, in one line.
pub(crate) fn verdict_of(answer: &serde_json::Value) -> String {
    answer["verdict"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// The stacks of such an answer: count, then frames from the outermost caller to the launch, with the marks that the text form puts between the
/// parts of a stack.
pub(crate) fn stacks(output: &Output) -> Vec<(u64, Vec<String>)> {
    // 6: the trace is cut off or corrupt.
    assert!(matches!(output.status.code(), Some(0 | 6)), "{}", stderr(output));
    let answer: serde_json::Value = serde_json::from_str(&stdout(output)).unwrap();
    let stacks: Vec<(u64, Vec<String>)> = answer["stacks"].as_array().unwrap().iter().map(one_stack).collect();
    assert_eq!(answer["stacks_found"], stacks.len());
    stacks
}

fn one_stack(stack: &serde_json::Value) -> (u64, Vec<String>) {
    let frames = |of: &serde_json::Value| -> Vec<String> { serde_json::from_value(of["frames"].clone()).unwrap() };
    let mut lines = Vec::new();
    for (part, mark) in [("captured", "[graph capture]"), ("forward", "[forward]")] {
        if !stack[part].is_null() {
            lines.push(mark.to_owned());
            lines.extend(frames(&stack[part]));
        }
    }
    let own = frames(stack);
    let thread = stack["thread"].as_str();
    let part = match (stack["captured"].is_null(), stack["forward"].is_null()) {
        (_, false) => Some("backward"),
        (false, true) => Some("graph replay"),
        (true, true) => None,
    };
    match (part, thread) {
        _ if own.is_empty() => {}
        (Some(part), Some(thread)) => lines.push(format!("[{part} on thread {thread}]")),
        (Some(part), None) => lines.push(format!("[{part}]")),
        (None, Some(thread)) => lines.push(format!("[thread {thread}]")),
        (None, None) => {}
    }
    lines.extend(own);
    (stack["count"].as_u64().unwrap(), lines)
}

/// The stacks of an answer in get_call_stacks.py's form.
pub(crate) fn script(output: &Output) -> Vec<(u64, Vec<String>)> {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let text = stdout(output);
    let (first, rest) = text.split_once("\n\n").unwrap();
    let blocks = rest.trim_end().split("\n\n");
    let stacks: Vec<(u64, Vec<String>)> = blocks
        .map(|block| {
            let (frames, count) = block.rsplit_once("\nAppeared ").unwrap();
            let count = count.strip_suffix(" times").unwrap().parse().unwrap();
            (count, frames.split("\n ->\n").map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(first, format!("Found {} unique call stacks:", stacks.len()));
    stacks
}

pub(crate) fn stack(count: u64, frames: &[&str]) -> (u64, Vec<String>) {
    (count, frames.iter().map(|frame| (*frame).to_owned()).collect())
}

/// A file for one test, in its own folder.
pub(crate) fn scratch(name: &str, bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

/// A trace of these events, which are given without braces.
pub(crate) fn trace_of(events: &[impl AsRef<str>]) -> (tempfile::TempDir, String) {
    let events: Vec<String> = events.iter().map(|event| format!("{{{}}}", event.as_ref())).collect();
    scratch("trace.json", format!(r#"{{"traceEvents":[{}]}}"#, events.join(",\n")).as_bytes())
}

/// Whether the tests were started with a signal ignored, as a shell without job control does for background jobs. The program then ignores
/// it, too.
pub(crate) fn is_ignored(signal: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap_or(0);
    let number = [("HUP", 1), ("INT", 2), ("TERM", 15)].into_iter().find(|(name, _)| *name == signal);
    let is_ignored = number.is_some_and(|(_, number)| ignored >> (number - 1) & 1 == 1);
    if is_ignored {
        // Directly to standard error: other output of a passing test is not shown.
        let _ = writeln!(std::io::stderr(), "SKIPPED: SIG{signal} is ignored here");
    }
    is_ignored
}
