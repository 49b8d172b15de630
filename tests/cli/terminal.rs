//! The program in a terminal: pager, prompt, picker, progress.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::io::Write;
use std::process::Command;

use support::program::{program, testdata};
use support::terminal::Terminal;

/// The program, which takes nothing from the environment of the tests.
fn in_terminal(args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = program();
    for name in ["NCCL_STACKS_PAGER", "PAGER", "NO_PAGER", "NO_COLOR", "LESS"] {
        command.env_remove(name);
    }
    command.args(args).envs(variables.iter().copied()).env("TERM", "xterm");
    command
}

/// Records are read from a pipe, whose writer waits in the middle.
#[test]
fn progress_is_shown_while_records_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("rank_0.log");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let log = std::fs::read(testdata("records/megatrace/rank_0.log")).unwrap();
    let terminal = Terminal::run(in_terminal(&["records", pipe.to_str().unwrap()], &[]), (120, 30));
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(&log).unwrap();
    terminal.wait_for("KiB", 1);
    drop(writer);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    // What was shown is erased before the answer.
    assert!(shown.contains("\u{1b}[2K"), "{shown:?}");
}
