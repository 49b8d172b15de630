//! Each sentence that an answer may have is brought out by a test: its words are in an expected value, a golden, or a session of the documentation.

use regex::Regex;

use super::guards::{pages, read, root, rust_files};

/// So many words in a row are known again; fewer are a label.
const WORDS: usize = 4;

/// What no test brings out yet, by its beginning: most of it is said of inputs that nobody has found, or that are refused before.
const WITHOUT: &[&str] = &[
    "operations of unknown kind",
    "the {} of all stacks is too large",
    "blocked in {node}, unknown by what",
    "Not compared: {who} may be later",
    "; all {their} kernels are slower alike",
    "waits in calls of its own",
    "its ranks are several sets",
    "Nothing says which rank of the job",
    "the only other rank compared",
    "No other recorder adds to that.",
    "What these files can answer",
    "The job hangs: all waiting ends at",
    "Its last operation is {} older",
    // What a column means.
    "Of the exposed time",
];

/// Parts of the program that print sentences. What columns mean is shown in pages and schemas, and a page's own words are tested as a page.
fn prints(path: &str) -> bool {
    let is_answer = path.contains("/document/") || path.contains("/diagnoses/") || path.contains("/damage/");
    let is_words = ["sentences.rs", "words.rs"].iter().any(|name| path.ends_with(name));
    let is_label = ["table.rs", "columns.rs", "page.rs", "csv.rs"].iter().any(|name| path.ends_with(name));
    (is_answer || is_words) && !is_label
}

/// A literal as it is printed, with single blanks.
fn printed(literal: &str) -> String {
    let continued = Regex::new(r"\\\n\s*").unwrap().replace_all(literal, "").into_owned();
    let plain = continued.replace("\\n", "\n").replace("\\\"", "\"").replace("\\'", "'");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts of a program's code.
fn literals(code: &str) -> Vec<String> {
    let code = Regex::new(r#"(?m)^\s*//.*$|'"'"#).unwrap().replace_all(code, "").into_owned();
    let found = Regex::new(r#""((?:[^"\\]|\\[\s\S])*)""#).unwrap();
    found.captures_iter(&code).map(|of| printed(&of[1])).collect()
}

/// The runs of words between a sentence's values.
fn runs(sentence: &str) -> Vec<String> {
    let value = Regex::new(r"\{[^{}]*\}").unwrap();
    let parts = value.split(sentence).map(|part| part.split_whitespace().collect::<Vec<_>>());
    parts.flat_map(|words| words.windows(WORDS).map(|run| run.join(" ")).collect::<Vec<_>>()).collect()
}

/// The blocks of code of a page, whose sessions a test compares with what is printed.
fn sessions(page: &str) -> String {
    read(page).split("```").skip(1).step_by(2).collect()
}

#[test]
fn each_sentence_is_brought_out_by_a_test() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    rust_files(&root().join("crates"), &mut files);
    let mut sentences = Vec::new();
    let mut expected: Vec<String> = pages().iter().map(|page| sessions(page)).collect();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let (code, tests) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
        expected.extend(literals(tests));
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        if name.starts_with("src/answers") && prints(name) {
            sentences.extend(literals(code).into_iter().map(|literal| (name.to_owned(), literal)));
        }
    }
    let mut tests = Vec::new();
    rust_files(&root().join("tests"), &mut tests);
    tests.retain(|file| !file.ends_with(file!()));
    expected.extend(tests.iter().flat_map(|file| literals(&std::fs::read_to_string(file).unwrap())));
    for golden in std::fs::read_dir(root().join("tests/golden")).unwrap() {
        expected.push(std::fs::read_to_string(golden.unwrap().path()).unwrap());
    }
    let expected = expected.join("\n").split_whitespace().collect::<Vec<_>>().join(" ");
    let is_without = |(_, sentence): &&(String, String)| {
        let runs = runs(sentence);
        !runs.is_empty() && !runs.iter().any(|run| expected.contains(run))
    };
    let without: Vec<&(String, String)> = sentences.iter().filter(is_without).collect();
    let is_listed = |sentence: &str| WITHOUT.iter().any(|begin| sentence.starts_with(begin));
    let new: Vec<String> = without
        .iter()
        .filter(|(_, sentence)| !is_listed(sentence))
        .map(|(file, sentence)| format!("{file}: {sentence}"))
        .collect();
    assert!(new.is_empty(), "{} of {} without a test:\n{}", new.len(), sentences.len(), new.join("\n"));
    let is_needed = |begin: &&&str| without.iter().any(|(_, sentence)| sentence.starts_with(**begin));
    let tested: Vec<&&str> = WITHOUT.iter().filter(|begin| !is_needed(begin)).collect();
    assert!(tested.is_empty(), "these have a test: {tested:?}");
}
