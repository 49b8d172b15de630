//! The dependencies in `Cargo.toml`: that each is used, and that their unusual licences are named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::Path;

use crate::guards::{root, rust_files};

/// A TOML file of this project.
fn parsed(name: &str) -> toml::Table {
    std::fs::read_to_string(root().join(name)).unwrap().parse().unwrap()
}

/// `cargo deny` checks the licences themselves, in CI. What it lets pass beside the permissive ones is a duty of who distributes a binary.
#[test]
fn licences_that_are_not_permissive_are_named() {
    let deny = parsed("deny.toml");
    let exceptions = deny["licenses"]["exceptions"].as_array().unwrap();
    let text = std::fs::read_to_string(root().join("THIRD-PARTY.md")).unwrap();
    let names = |table: &toml::Value| {
        let licences = table["allow"].as_array().unwrap().iter().chain([&table["crate"]]);
        licences.map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(!exceptions.is_empty());
    for name in exceptions.iter().flat_map(names) {
        assert!(text.contains(&name), "THIRD-PARTY.md does not name {name}");
    }
}

/// The words of all Rust files in these folders.
fn words(folders: &[&str]) -> BTreeSet<String> {
    let mut files = Vec::new();
    folders.iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    let text = |file: &Path| std::fs::read_to_string(file).unwrap();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    files.iter().flat_map(|file| text(file).split(|c| !is_word(c)).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_dependency_is_used() {
    let manifest = parsed("Cargo.toml");
    let (source, tests) = (words(&["src"]), words(&["src", "tests", "benches", "examples"]));
    for (table, words) in [("dependencies", source), ("dev-dependencies", tests)] {
        for name in manifest[table].as_table().unwrap().keys() {
            assert!(words.contains(&name.replace('-', "_")), "{table}: {name} is not used");
        }
    }
}
