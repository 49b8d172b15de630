//! Rules about the project itself that a review would otherwise have to enforce: which module may use which, and that the
//! README shows what the program does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Which modules each module may use: a picture of the house, from the ground up.
const MAY_USE: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("id", &[]),
    ("nccl", &[]),
    ("damage", &[]),
    ("error", &[]),
    ("event", &["nccl", "time"]),
    ("input", &["damage", "error", "event", "nccl", "time"]),
    ("store", &["damage", "event", "id", "nccl", "time"]),
    ("load", &["damage", "error", "event", "input", "store", "time"]),
    ("attribution", &["damage", "error", "event", "id", "nccl", "store", "time"]),
    ("sql", &["attribution", "damage", "error", "event", "id", "nccl", "store", "time"]),
    ("analysis", &["attribution", "damage", "error", "event", "id", "nccl", "sql", "store", "time"]),
    ("report", &["analysis", "attribution", "nccl", "time"]),
    ("export", &["analysis", "attribution", "damage", "error", "event", "id", "input", "nccl", "sql", "store", "time"]),
    (
        "cli",
        &[
            "analysis",
            "attribution",
            "damage",
            "error",
            "event",
            "export",
            "id",
            "input",
            "load",
            "nccl",
            "report",
            "sql",
            "store",
            "time",
        ],
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
    let uses = regex::Regex::new(r"\b(?:crate|nccl_stacks)::(\w+)").unwrap();
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
            !code.contains("use crate::{") && !code.contains("use nccl_stacks::{"),
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

/// A file's code without its tests, and the path of its module: `["store", "nest"]`.
fn modules() -> Vec<(Vec<String>, String)> {
    let source = root().join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let module = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split_once("#[cfg(test)]\nmod tests {").map_or(text.as_str(), |(code, _)| code).to_owned();
        let path = file.strip_prefix(&source).unwrap().with_extension("");
        let mut path: Vec<String> = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        (path, code)
    };
    files.into_iter().map(module).collect()
}

/// The module paths that a file's code names with `crate::` or `super::`.
fn named(module: &[String], code: &str) -> Vec<Vec<String>> {
    let path = regex::Regex::new(r"\b(crate|(?:super::)*super)::(?:([\w:]+)|\{([^}]*)\})").unwrap();
    let comment = regex::Regex::new(r"(?m)^\s*//.*$").unwrap();
    let code = comment.replace_all(code, "");
    let mut found = Vec::new();
    for names in path.captures_iter(&code) {
        let base = match &names[1] {
            "crate" => Vec::new(),
            supers => module[..module.len().saturating_sub(supers.split("::").count())].to_vec(),
        };
        let tails = names.get(2).or(names.get(3)).unwrap().as_str();
        for tail in tails.split(',') {
            let tail = tail.trim().split("::").map(str::to_owned);
            found.push(base.iter().cloned().chain(tail).collect());
        }
    }
    found
}

/// Files and folders side by side use each other in one direction: `a` may use `b`, or `b` may use `a`, also by way of others. A
/// folder's `mod.rs` is not counted: it is what the folder has in common.
#[test]
fn no_files_of_a_folder_form_a_circle() {
    let modules = modules();
    let exists = |path: &[String]| modules.iter().any(|(module, _)| module.starts_with(path));
    // By folder: which of its parts uses which.
    let mut uses: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, code) in &modules {
        for used in named(module, code) {
            let same = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if same < module.len() && same < used.len() && exists(&used[..=same]) {
                let folder = uses.entry(module[..same].to_vec()).or_default();
                folder.entry(module[same].clone()).or_default().insert(used[same].clone());
            }
        }
    }
    let edges: usize = uses.values().flat_map(BTreeMap::values).map(BTreeSet::len).sum();
    assert!(edges > 100, "only {edges} uses found: has the way of writing them changed?");
    let mut circles = Vec::new();
    for (folder, uses) in &uses {
        for start in uses.keys() {
            let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(used) = next.pop().and_then(|part| uses.get(part)) {
                next.extend(used.iter().filter(|part| reached.insert(part.as_str())));
            }
            if reached.contains(start.as_str()) {
                circles.push(format!("src/{}/{start} uses itself by way of others", folder.join("/")));
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Words that the glossary replaces (README, "Words"): the field has another word for the thing, or none.
const REPLACED: &[(&str, &str)] = &[
    ("arrow", "flow"),
    ("arrows", "flows"),
    ("trail", "call path"),
    ("trails", "call paths"),
    ("spread", "distribution"),
    ("behind", "after"),
    ("told", "reported"),
    ("stands", "is"),
    ("stood", "was"),
    ("missed", "unattributed"),
    ("mend", "recover"),
    ("mended", "recovered"),
    ("mender", "recovery"),
    ("mending", "recovery"),
    ("sender", "kernel"),
    ("amount", "totals"),
];

/// Comments, documentation and names in `src` use the glossary's words. Texts in quotes are not looked at: some are what the
/// program has always written.
#[test]
fn the_glossarys_words_are_used() {
    let string = regex::Regex::new(r#""(?:[^"\\]|\\.)*""#).unwrap();
    let word = regex::Regex::new(r"[A-Z]?[a-z]+").unwrap();
    let source = root().join("src");
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    rust_files(&source, &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            // Arrow keys are keys.
            let line = string.replace_all(line, "").replace("arrow keys", "");
            for found in word.find_iter(&line) {
                let lower = found.as_str().to_ascii_lowercase();
                if let Some((_, say)) = REPLACED.iter().find(|(word, _)| *word == lower) {
                    let at = file.strip_prefix(root()).unwrap().display();
                    wrong.push(format!("{at}:{}: `{lower}`; say `{say}`", number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// The blocks of the README that are marked as this language.
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
        let arguments = command.strip_prefix("$ nccl-stacks ").unwrap();
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
