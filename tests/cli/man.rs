//! The manual: its sections and examples, and the warnings of programs that show such pages, if they are installed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::program::{refused, run, stderr, stdout};

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
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXTRA"] {
            assert_eq!(on_disk.matches(&format!(".SH {section}\n")).count(), 1, "{name}: {section}");
        }
        assert!(on_disk.contains("Examples:"), "{name}");
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

/// What a person reads: examples are below each other, and commands are not broken.
#[test]
fn examples_are_laid_out() {
    let folder = tempfile::tempdir().unwrap();
    let pages = pages(folder.path());
    let (_, page) = pages.iter().find(|(name, _)| name == "nccl-stacks.1").unwrap();
    let Some((text, _)) = formatted("groff", &["-man", "-Tascii", "-P-cbou", "-rLL=200n"], page) else { return };
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    for (sentence, typed) in [
        (
            "All collectives of a trace, by the code that launched them, the costliest first:",
            "nccl-stacks trace.json.gz",
        ),
        (
            "One kind of collective, launched within the first call of a function:",
            "nccl-stacks trace.json.gz --kernel-name ncclDevKernel_AllReduce --function-name '%forward_batch_generation' --index 0",
        ),
    ] {
        let at = lines.iter().position(|line| line.trim_start() == sentence);
        let at = at.unwrap_or_else(|| panic!("{sentence}\n{text}"));
        let indent = lines[at].len() - sentence.len();
        assert_eq!(lines[at + 1], format!("{}{typed}", " ".repeat(indent + 2)));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("Exit codes: 0 done, 1 failure"), "{text}");
}

#[test]
fn write_errors_are_reported() {
    refused(
        &["man", "sqll"],
        2,
        "no such command; the commands are ranks, what-if, part, records, record, hang, report, diff, sql",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    refused(&["man", "--dir", file.to_str().unwrap()], 1, "cannot be written");
}
