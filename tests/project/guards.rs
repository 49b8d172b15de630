//! Rules about the project itself that a review would otherwise have to enforce: which module may use which, and that the
//! README shows what the program does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Which modules each module may use. Leaves that everyone may use: damage, error, event, time, nccl.
const MAY_USE: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("nccl", &[]),
    ("damage", &[]),
    ("event", &["nccl"]),
    ("error", &[]),
    ("input", &["damage", "error", "event", "nccl", "time"]),
    ("store", &["damage", "event", "nccl", "time"]),
    ("load", &["damage", "error", "event", "input", "store", "time"]),
    ("sql", &["damage", "error", "event", "nccl", "store", "time"]),
    ("analysis", &["damage", "error", "event", "nccl", "sql", "store", "time"]),
    ("report", &["analysis", "nccl", "time"]),
    ("export", &["analysis", "damage", "error", "event", "input", "nccl", "sql", "store", "time"]),
    (
        "cli",
        &["analysis", "damage", "error", "event", "export", "input", "load", "nccl", "report", "sql", "store", "time"],
    ),
];

pub(crate) fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn modules_use_only_what_they_may() {
    let source = root().join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let uses = regex::Regex::new(r"crate::(\w+)").unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files {
        let relative = file.strip_prefix(&source).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
            assert!(["lib", "main"].contains(&module), "{module} is not in the table");
            continue;
        };
        let text = std::fs::read_to_string(&file).unwrap();
        // What tests use is not the module's own dependency; they are at the end of a file.
        let (code, tests) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        assert!(!tests.contains("\n}\n\n"), "{}: there is code after the tests", relative.display());
        assert!(
            !code.contains("use crate::{"),
            "{}: one `use crate::module` a line, so that this can read it",
            relative.display()
        );
        for (number, line) in code.lines().enumerate() {
            for found in uses.captures_iter(line) {
                seen += 1;
                let used = &found[1];
                if used != module && !allowed.contains(&used) {
                    wrong.push(format!("src/{}:{}: {module} may not use {used}", relative.display(), number + 1));
                }
            }
        }
    }
    assert!(seen > 80, "only {seen} uses found: has the way of writing them changed?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The blocks of the README that are marked with this language.
fn readme_blocks(language: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let start = format!("```{language}\n");
    readme.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn program(args: &[String]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"))
        .args(args)
        .env("NCCL_STACKS_CONFIG", "")
        .current_dir(root())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn readme_shows_the_help() {
    let (help, _) = program(&["--help".to_owned()]);
    let shown = readme_blocks("text");
    assert!(shown.contains(&help), "README.md does not show what --help prints:\n{help}");
}

/// Every console session in the README: the command runs, and prints what is shown, in that order. Lines about
/// speed are left out.
#[test]
fn readme_sessions_print_what_is_shown() {
    let mut checked = 0;
    for session in readme_blocks("console") {
        let (command, shown) = session.split_once('\n').unwrap();
        let arguments = command.strip_prefix("$ cargo run --release -- ").unwrap();
        let (answer, notes) = program(&shell_words(arguments));
        let shown = without_speed(shown);
        // A terminal shows both streams as one; it contains the answer as a whole, the notes around it.
        let (before, after) = shown.split_once(&answer).unwrap_or_else(|| panic!("{command}\ndoes not print\n{shown}"));
        assert_eq!(format!("{before}{after}"), without_speed(&notes), "{command}");
        checked += 1;
    }
    assert_eq!(checked, 7);
}

fn without_speed(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("Trace loaded:")).map(|line| format!("{line}\n")).collect()
}

/// Splits a command as a shell does, as far as the README's commands need it.
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}
