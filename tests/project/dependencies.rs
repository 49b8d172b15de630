//! The manifests: that each dependency is used, that unusual licences are named, and that everything has one version.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

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

/// A release is one version of everything: the crates inherit the workspace's and ask for it of each other, the wheel takes the program's.
#[test]
fn everything_has_one_version() {
    let workspace = &parsed("Cargo.toml")["workspace"];
    let version = workspace["package"]["version"].as_str().unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let mut members = 0;
    for member in workspace["members"].as_array().unwrap().iter().map(|member| member.as_str().unwrap()) {
        let package = &parsed(&format!("{member}/Cargo.toml"))["package"];
        // Benches are never published.
        if member != "benches" {
            assert_eq!(package["version"].get("workspace"), Some(&toml::Value::Boolean(true)), "{member}");
            members += 1;
        }
    }
    let own = workspace["dependencies"].as_table().unwrap();
    assert!(members >= 5 && own.len() >= 4, "{members} members, {} of which are used by others", own.len());
    for (name, dependency) in own {
        assert_eq!(dependency["version"].as_str(), Some(version), "{name}");
    }
    let wheel = &parsed("pyproject.toml")["project"];
    assert_eq!(wheel["dynamic"].as_array().unwrap(), &["version".into()], "pyproject.toml");
    assert!(wheel.get("version").is_none(), "pyproject.toml");
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let heading = format!("## {version}");
    assert!(changes.lines().any(|line| line.starts_with(&heading)), "CHANGELOG.md has no `{heading}`");
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
    for (manifest, source, tests) in [
        ("Cargo.toml", &["src"][..], &["src", "tests", "benches", "examples"][..]),
        ("crates/trace/Cargo.toml", &["crates/trace/src"], &["crates/trace/src"]),
        ("crates/records/Cargo.toml", &["crates/records/src"], &["crates/records/src"]),
    ] {
        let tables = parsed(manifest);
        for (table, folders) in [("dependencies", source), ("dev-dependencies", tests)] {
            let words = words(folders);
            for name in tables[table].as_table().unwrap().keys() {
                assert!(words.contains(&name.replace('-', "_")), "{manifest}: {table}: {name} is not used");
            }
        }
    }
}

/// What a dependency that only tests have asks of another one, such as a feature of `serde_json`, would have `cargo test` compile that one, and
/// all that use it, this crate included, once more: tests would be of another program than the one that users run.
#[test]
fn tests_do_not_change_how_the_program_is_built() {
    let features = |edges: &str| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]", "--edges", edges]);
        let output = cargo.current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect::<BTreeSet<_>>()
    };
    let program = features("normal,no-proc-macro");
    let tests = features("normal,dev,no-proc-macro");
    assert!(program.len() > 50 && tests.len() > program.len());
    let others: Vec<&String> = program.difference(&tests).collect();
    assert!(others.is_empty(), "tests need other features of {others:#?}");
}
