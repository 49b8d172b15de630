//! The program in a terminal: pager, prompt, picker, progress.

use std::io::Write;
use std::process::Command;

use crate::support::program::{has, program, run, stdout, testdata};
use crate::support::terminal::Terminal;

/// The program, which takes nothing from the environment of the tests.
fn in_terminal(args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = program();
    for name in ["NCCL_STACKS_PAGER", "PAGER", "NO_PAGER", "NO_COLOR", "LESS"] {
        command.env_remove(name);
    }
    command.args(args).envs(variables.iter().copied()).env("TERM", "xterm");
    command
}

/// What is shown of an answer of some dozen lines, and its exit code.
fn answer(args: &[&str], variables: &[(&str, &str)], lines: u16) -> (Option<i32>, String) {
    let trace = testdata("sglang_decode.json.gz");
    let args = [&[trace.as_str(), "--quiet"], args].concat();
    let (code, shown) = Terminal::run(in_terminal(&args, variables), (120, lines)).end();
    // Without the bar that was erased before.
    let answer = shown.rsplit_once("\u{1b}[2K").map_or(&*shown, |(_, answer)| answer);
    (code, answer.to_owned())
}

/// A pager that marks each line.
const MARKS: (&str, &str) = ("NCCL_STACKS_PAGER", "sed 's/^/paged: /'");

#[test]
fn a_long_answer_goes_through_the_pager() {
    let (code, shown) = answer(&[], &[MARKS], 10);
    assert_eq!(code, Some(0));
    assert!(shown.starts_with("paged: The GPU is idle for") || shown.starts_with("paged: \u{1b}["), "{shown}");
    let lines = shown.lines().count();
    assert!(lines > 20 && shown.matches("paged: ").count() == lines, "{shown}");
    assert!(shown.contains("\u{1b}["), "colours stay: {shown:?}");
    // $PAGER is the second choice.
    let (_, shown) = answer(&[], &[("PAGER", "sed 's/^/second: /'"), MARKS], 10);
    assert!(shown.contains("paged: ") && !shown.contains("second: "), "{shown}");
    let (_, shown) = answer(&[], &[("PAGER", "sed 's/^/second: /'")], 10);
    has(&shown, "second: ");
    // The exit code is that of the answer.
    let (code, shown) = answer(&["--kernel-name", "nothing"], &[MARKS], 4);
    assert!(code == Some(3) && shown.contains("paged: "), "{code:?} {shown}");
    let trace = testdata("costs.json");
    let query = ["sql", &trace, "SELECT name FROM slice", "--quiet"];
    let (code, shown) = Terminal::run(in_terminal(&query, &[MARKS]), (120, 10)).end();
    assert!(code == Some(0) && shown.contains("paged: "), "{shown}");
}

#[test]
fn no_pager_where_it_is_not_wanted() {
    let plain = answer(&["--no-pager"], &[MARKS], 10);
    assert!(plain.0 == Some(0) && plain.1.contains("The GPU is idle for") && !plain.1.contains("paged"), "{plain:?}");
    // The verdict, which has left the screen, is there again.
    let (whole, again) = plain.1.rsplit_once("\n\n").unwrap();
    assert!(plain.1.starts_with(again.trim_end()) && again.contains("The GPU is idle for"), "{again}");
    let whole = &format!("{whole}\n");
    let file = tempfile::tempdir().unwrap();
    let file = file.path().join("answer.txt");
    for (args, variables, lines) in [
        (&[][..], &[MARKS, ("NO_PAGER", "1")][..], 10),
        (&[], &[MARKS], 500),
        (&["--json"], &[MARKS], 10),
        (&["-o", file.to_str().unwrap()], &[MARKS], 10),
        (&[], &[("PAGER", "cat")], 10),
        (&[], &[("PAGER", "")], 10),
        (&[], &[("NCCL_STACKS_PAGER", "/nowhere/pager")], 10),
    ] {
        let (code, shown) = answer(args, variables, lines);
        assert_eq!(code, Some(0), "{variables:?}: {shown}");
        assert!(!shown.contains("paged"), "{args:?} {variables:?}: {shown}");
        if args.is_empty() {
            assert!(shown.ends_with(if lines == 10 { &*plain.1 } else { whole }), "{variables:?}: {shown}");
        }
    }
    assert!(std::fs::read_to_string(&file).unwrap().contains("The GPU is idle for"));
    // Not in a pipe.
    assert!(!stdout(&run(&[&testdata("sglang_decode.json.gz")])).contains("paged"));
}

#[test]
fn a_pager_may_be_left_early() {
    let (code, shown) = answer(&[], &[("NCCL_STACKS_PAGER", "head -n 1")], 10);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(shown.lines().count(), 1, "{shown}");
}

fn prompt(home: &tempfile::TempDir) -> Terminal {
    let trace = testdata("costs.json");
    let home = home.path().to_str().unwrap();
    let command = in_terminal(&["sql", &trace, "--quiet"], &[("HOME", home), ("XDG_STATE_HOME", home)]);
    Terminal::run(command, (80, 24))
}

#[test]
fn the_prompt_is_left_by_words_and_in_the_middle_of_a_statement() {
    let home = tempfile::tempdir().unwrap();
    for (typed, prompts) in [
        (&["quit\r"][..], &["sql> "][..]),
        (&["exit;\r"], &["sql> "]),
        (&[".quit\r"], &["sql> "]),
        (&["\u{4}"], &["sql> "]),
        (&["SELECT 1\r", "\u{4}"], &["sql> ", "...> "]),
        (&["SELECT 1\r", "exit\r"], &["sql> ", "...> "]),
    ] {
        let mut terminal = prompt(&home);
        for (text, prompt) in typed.iter().zip(prompts) {
            terminal.wait_for(prompt, 1);
            terminal.type_text(text);
        }
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{typed:?}: {shown}");
        assert!(!shown.contains("error"), "{typed:?}: {shown}");
    }
}

#[test]
fn the_prompt_reads_statements_of_several_lines() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = prompt(&home);
    terminal.wait_for("sql> ", 1);
    terminal.type_text("SELECT 40\r");
    terminal.wait_for("...> ", 1);
    terminal.type_text("+ 2 AS answer;\r");
    terminal.wait_for("42", 1);
    // Ctrl-C drops what was begun.
    terminal.type_text("SELECT wrong\r");
    terminal.wait_for("...> ", 2);
    terminal.type_text("\u{3}");
    terminal.wait_for("sql> ", 3);
    terminal.type_text("SELECT 40 + 3 AS other;\r");
    terminal.wait_for("43", 1);
    terminal.type_text("quit\r");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("error"), "{shown}");
    let history = std::fs::read_to_string(home.path().join("nccl-stacks/sql_history")).unwrap();
    has(&history, "SELECT 40\\n+ 2 AS answer;");
}

#[test]
fn the_picker_says_that_nothing_matches() {
    let mut terminal = Terminal::run(in_terminal(&[&testdata("two_matches.json"), "-i"], &[]), (120, 30));
    terminal.wait_for("train.py(40): train_step", 3);
    assert!(!terminal.shown().contains("Nothing in the list"), "{}", terminal.shown());
    terminal.type_text("zzz");
    terminal.wait_for("Nothing in the list has this", 1);
    // Enter chooses nothing with it: the list is there again.
    terminal.type_text("\r");
    terminal.wait_for("train.py(40): train_step", 6);
    terminal.type_text("\u{1b}");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    has(&shown, "Nothing was chosen.");
}

/// A step is marked by the profiler, and is a call of `train_step` in that.
#[test]
fn the_picker_lists_a_step_once() {
    let mut terminal = Terminal::run(in_terminal(&[&testdata("ranks/rank0.json.gz"), "-i"], &[]), (120, 30));
    terminal.wait_for("ProfilerStep#2", 1);
    terminal.wait_for("to move", 1);
    assert!(!terminal.shown().contains("train_step"), "{}", terminal.shown());
    terminal.type_text("\r");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    has(&shown, "--step 0");
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
    has(&shown, "\u{1b}[2K");
}
