//! What is said of an archive: which traces it has, and what else.

use super::say;
use crate::input::archive::Findings;
use crate::report::table::count;
use crate::report::text::visible;
use crate::store::Store;

/// So many files are named.
const NAMED: usize = 4;

/// `, 4 traces (rank0.json.gz, rank1.json.gz, …)`; nothing for a trace that is a file of its own.
pub(super) fn traces(store: &Store) -> String {
    let names: Vec<&String> = store.traces.iter().filter_map(|trace| trace.name.as_ref()).collect();
    match names.len() {
        0 => String::new(),
        1 => format!(", 1 trace ({})", some(&names)),
        n => format!(", {} traces ({})", count(n as u64), some(&names)),
    }
}

/// The files of an archive that are not among its traces.
pub(super) fn findings(findings: &Findings) {
    let files = |names: &[String]| match names.len() {
        1 => "1 file of the archive".to_owned(),
        n => format!("{} files of the archive", count(n as u64)),
    };
    let Findings { no_traces, unreadable, .. } = findings;
    if !no_traces.is_empty() {
        let verb = if no_traces.len() == 1 { "is no trace" } else { "are no traces" };
        say(&format!("Note: {} {verb}: {}", files(no_traces), some(no_traces)));
    }
    if !unreadable.is_empty() {
        say(&format!("Left out: nothing could be read of {}: {}", files(unreadable), some(unreadable)));
    }
}

/// `a.json, b.json, …`
pub(super) fn some(names: &[impl AsRef<str>]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMED).map(|name| visible(name.as_ref()).to_string()).collect();
    if names.len() > NAMED {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}
