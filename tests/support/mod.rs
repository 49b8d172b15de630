//! Shared by several test files: the paths of the traces, and reading the oracle's CSV.

#![allow(dead_code, reason = "each test program uses a part of this")]

pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod hostile;
pub(crate) mod once;
pub(crate) mod pack;
pub(crate) mod packets;
pub(crate) mod program;
pub(crate) mod queries;
pub(crate) mod random;
pub(crate) mod schema;
pub(crate) mod slices;
pub(crate) mod sound;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of real traces and of trace_processor's answers on them, beside the checkout. It is not part of the project: without it, the tests
/// that need it report that they were skipped.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let there = folder.join("traces").is_dir() && folder.join("oracle").is_dir();
    if !there {
        // Directly to standard error: other output of a passing test is not shown.
        let _ = writeln!(std::io::stderr(), "SKIPPED: no real traces in {}", folder.display());
    }
    there.then_some(folder)
}

/// A file of a longer trace is read only where many rounds are asked for: the five that are make half of what all tests over real traces take.
const LARGE: u64 = 2_000_000;

/// The JSON traces in that folder, by name, without the file that is not a trace: of the ranks of a job the first, whose program the others ran too, and
/// no large ones; all where many rounds are asked for.
pub(crate) fn real_traces(shared: &Path) -> Vec<(String, PathBuf)> {
    let mut traces: Vec<(String, PathBuf)> = std::fs::read_dir(shared.join("traces"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let stem = name.strip_suffix(".json.gz").or_else(|| name.strip_suffix(".json"))?;
            (stem != "TraceLens__rocprofv3_other_format").then(|| (stem.to_owned(), path.clone()))
        })
        .collect();
    traces.sort();
    if !random::is_long() {
        let job = |name: &str| {
            let number = ["_rank", "_worker"].iter().find_map(|word| Some(name.find(word)? + word.len()));
            number.map(|at| name[..at].to_owned()).unwrap_or_else(|| name.to_owned())
        };
        traces.dedup_by_key(|(name, _)| job(name));
        traces.retain(|(_, path)| path.metadata().unwrap().len() < LARGE);
    }
    traces
}

/// The traces in Perfetto's protobuf format in that folder, by name.
pub(crate) fn packet_traces(shared: &Path) -> Vec<(String, PathBuf)> {
    let paths = std::fs::read_dir(shared.join("traces")).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<(String, PathBuf)> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "pftrace"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    traces.sort();
    traces
}

/// The text of a file, decompressed if its name says so.
pub(crate) fn read_text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let mut text = String::new();
    if path.extension().is_some_and(|e| e == "gz") {
        std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text
}

/// The rows of a CSV file as trace_processor writes them, without the header. `[NULL]` is `None`.
pub(crate) fn csv_rows(text: &str) -> impl Iterator<Item = Vec<Option<String>>> {
    let mut chars = text.chars().peekable();
    let rows = std::iter::from_fn(move || {
        chars.peek()?;
        let mut row = Vec::new();
        loop {
            let mut field = String::new();
            if chars.peek() == Some(&'"') {
                chars.next();
                // trace_processor does not double quotes within a text, so a quote ends the text where the field can end.
                while let Some(c) = chars.next() {
                    if c == '"' && matches!(chars.peek(), None | Some(',' | '\n')) {
                        break;
                    }
                    field.push(c);
                }
            } else {
                while let Some(c) = chars.next_if(|c| *c != ',' && *c != '\n') {
                    field.push(c);
                }
            }
            row.push((field != "[NULL]").then_some(field));
            if chars.next() != Some(',') {
                return Some(row);
            }
        }
    });
    rows.skip(1)
}
