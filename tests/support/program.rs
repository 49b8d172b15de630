//! Runs the program as a person does, and reads its answer.

use std::process::{Command, Output, Stdio};

pub(crate) fn testdata(name: &str) -> String {
    format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The program, without the settings of the person who runs the tests.
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

/// The stacks of an answer: count, then frames from the outermost caller to the launch.
pub(crate) fn stacks(output: &Output) -> Vec<(u64, Vec<String>)> {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let text = stdout(output);
    // The summary is before the stacks.
    let text = &text[text.find("Found ").unwrap()..];
    let (first, rest) = text.split_once('\n').unwrap();
    let stacks: Vec<(u64, Vec<String>)> = rest
        .trim()
        .split("\n\n")
        .map(|block| {
            let (frames, count) = block.rsplit_once("\nAppeared ").unwrap();
            let count = count.split_once(" times\n").unwrap().0.parse().unwrap();
            (count, frames.split("\n ->\n").map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(first, format!("Found {} unique call stacks:", stacks.len()));
    stacks
}

pub(crate) fn stack(count: u64, frames: &[&str]) -> (u64, Vec<String>) {
    (count, frames.iter().map(|frame| (*frame).to_owned()).collect())
}

/// A file of its own for one test.
pub(crate) fn scratch(name: &str, bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

/// A trace of these events, each without its braces.
pub(crate) fn trace_of(events: &[&str]) -> (tempfile::TempDir, String) {
    let events: Vec<String> = events.iter().map(|event| format!("{{{event}}}")).collect();
    scratch("trace.json", format!(r#"{{"traceEvents":[{}]}}"#, events.join(",\n")).as_bytes())
}
