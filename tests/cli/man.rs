//! The manual: its sections, and the warnings of programs that show such pages, if they are installed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::program::{run, stderr, stdout};

/// All pages, by name.
fn pages(folder: &Path) -> Vec<(String, PathBuf)> {
    let output = run(&["man", "--dir", folder.to_str().unwrap()]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let mut pages: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages.into_iter().map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

/// A formatter's output and warnings; `None`, and a note, if it is not installed.
fn formatted(program: &str, args: &[&str], page: &Path) -> Option<(String, String)> {
    let Ok(output) = Command::new(program).args(args).arg(page).output() else {
        // Straight to standard error: the other output of a passing test is not shown.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {program} is not installed");
        return None;
    };
    Some((stdout(&output), stderr(&output)))
}

#[test]
fn there_is_a_page_for_each_command() {
    let scratch = tempfile::tempdir().unwrap();
    // The folder is created.
    let folder = scratch.path().join("share/man1");
    let pages = pages(&folder);
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["nccl-stacks.1", "nccl-stacks-ranks.1", "nccl-stacks-sql.1", "nccl-stacks-export.1"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for (name, path) in &pages {
        let on_disk = std::fs::read_to_string(path).unwrap();
        let command = name.trim_start_matches("nccl-stacks").trim_start_matches('-').trim_end_matches("1");
        let command = command.trim_end_matches('.');
        let args = if command.is_empty() { vec!["man"] } else { vec!["man", command] };
        assert_eq!(stdout(&run(&args)), on_disk, "{name}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "OPTIONS", "EXIT STATUS", "SEE ALSO"] {
            let heading =
                if section.contains(' ') { format!(".SH \"{section}\"\n") } else { format!(".SH {section}\n") };
            assert_eq!(on_disk.matches(&heading).count(), 1, "{name}: {section}");
        }
    }
}

#[test]
fn formatters_have_no_warnings() {
    let folder = tempfile::tempdir().unwrap();
    for (name, path) in pages(folder.path()) {
        if let Some((_, complaints)) = formatted("groff", &["-man", "-Tutf8", "-ww"], &path) {
            assert_eq!(complaints, "", "groff {name}");
        }
        if let Some((complaints, _)) = formatted("mandoc", &["-Tlint", "-Wwarning"], &path) {
            // A date would change the page at every build, or need maintenance.
            let others: Vec<&str> = complaints.lines().filter(|line| !line.contains("missing date")).collect();
            assert_eq!(others, [""; 0], "mandoc {name}");
        }
    }
}

/// What a person reads: examples and exit codes are below each other, commands are not broken.
#[test]
fn examples_and_exit_codes_are_laid_out() {
    let folder = tempfile::tempdir().unwrap();
    let pages = pages(folder.path());
    let (_, page) = pages.iter().find(|(name, _)| name == "nccl-stacks.1").unwrap();
    let Some((text, _)) = formatted("mandoc", &["-Tascii", "-Owidth=100"], page) else { return };
    // Bold is a letter over itself.
    let bold = regex::Regex::new("(?s).\u{8}").unwrap();
    let text = bold.replace_all(&text, "");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    for (sentence, typed) in [
        ("All NCCL kernels of a trace, by the code that launched them:", "nccl-stacks trace.json.gz"),
        (
            "One kind of collective, launched within the first call of a function:",
            "nccl-stacks trace.json.gz --kernel-name ncclDevKernel_AllReduce --function-name '%forward_batch_generation' --index 0",
        ),
    ] {
        let indent = "       ";
        let at = lines.iter().position(|line| *line == format!("{indent}{sentence}"));
        let at = at.unwrap_or_else(|| panic!("{sentence}\n{text}"));
        assert_eq!(lines[at + 1], format!("{indent}    {typed}"));
    }
    let at = lines.iter().position(|line| *line == "EXIT STATUS").unwrap();
    assert_eq!(lines[at + 1], "       0      Success, also if the reader of the output closed it early.");
    assert!(lines[at..].contains(&"       3      Nothing was found."), "{text}");
}

#[test]
fn write_errors_are_reported() {
    let unknown = run(&["man", "sqll"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        stderr(&unknown).contains(
            "no such command; the commands are ranks, what-if, part, records, record, hang, report, diff, sql"
        ),
        "{}",
        stderr(&unknown)
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = run(&["man", "--dir", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot be written"), "{}", stderr(&output));
}
