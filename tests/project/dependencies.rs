//! The dependencies in `Cargo.toml` and in the lock file: their licences, and that each is used.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::guards::{root, rust_files};

/// Licences that require no more than passing on a notice. `THIRD-PARTY.md` says the same in prose.
const PERMISSIVE: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates under other licences; each is named in `THIRD-PARTY.md`.
const EXCEPTIONS: &[(&str, &str)] = &[("inferno", "CDDL-1.0")];

/// Whether permissive licences alone satisfy an SPDX expression. `/` is how old crates write OR.
fn is_permissive(expression: &str) -> bool {
    // AND binds more tightly than OR; brackets are only used around alternatives.
    expression
        .replace('/', " OR ")
        .split(" AND ")
        .all(|part| part.trim_matches(['(', ')']).split(" OR ").any(|licence| PERMISSIVE.contains(&licence.trim())))
}

/// What cargo reports of the packages that this build uses, development included. Those of other platforms are left out, because
/// a build does not download them.
fn packages() -> Vec<Value> {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host]);
    if cfg!(feature = "parquet") {
        cargo.args(["--features", "parquet"]);
    }
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

#[test]
fn licences_of_all_dependencies_are_permissive_or_named() {
    let (mut wrong, mut found) = (Vec::new(), Vec::new());
    let packages = packages();
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        if let Some(exception) = EXCEPTIONS.iter().find(|exception| **exception == (name, licence)) {
            found.push(*exception);
        } else if !is_permissive(licence) {
            wrong.push(format!("{name}: {licence}"));
        }
    }
    assert!(packages.len() > 100, "only {} packages", packages.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(found, EXCEPTIONS);
    let text = std::fs::read_to_string(root().join("THIRD-PARTY.md")).unwrap();
    assert!(EXCEPTIONS.iter().all(|(name, licence)| text.contains(name) && text.contains(licence)));
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    for good in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Zlib", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(is_permissive(good), "{good}");
    }
    for bad in ["CDDL-1.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "none", "GPL-3.0 OR MPL-2.0"] {
        assert!(!is_permissive(bad), "{bad}");
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
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let (source, tests) = (words(&["src"]), words(&["src", "tests", "benches", "examples"]));
    for (table, words) in [("dependencies", source), ("dev-dependencies", tests)] {
        for name in manifest[table].as_table().unwrap().keys() {
            assert!(words.contains(&name.replace('-', "_")), "{table}: {name} is not used");
        }
    }
}
