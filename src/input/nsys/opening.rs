//! The format, and which processes an export has.

use std::rc::Rc;

use super::export::Export;
use super::process::{self, Process};
use super::strings::STRINGS;
use crate::error::Error;
use crate::input::format::{Fit, Format, Reader};
use crate::input::limit::Budget;
use crate::input::source::Source;

const MAGIC: &[u8] = b"SQLite format 3\0";

pub(in crate::input) const FORMAT: Format =
    Format { sniff: |head| Fit::sure_if(head.starts_with(MAGIC)), reader: Reader::Database };

/// Tables of the databases that this program exports.
const OURS: [&str; 2] = ["kernel_launch", "call_path"];

/// Opens an export, and returns its processes by number: those that used a GPU or, if none did, those that have ranges.
///
/// # Errors
/// Databases that are no exports or have no events, damaged ones, and too much text.
pub(in crate::input) fn open(name: &str, source: Source, budget: &Budget) -> Result<Vec<Process>, Error> {
    let export = Export::open(name, source, budget)?;
    let not_a_trace = |what: String| Err(Error::NotATrace { name: name.to_owned(), what });
    if OURS.iter().all(|table| export.tables.has(table)) {
        return not_a_trace(
            "this is an SQLite database that nccl-stacks exported, with answers and not with a trace; any SQLite opens it"
                .to_owned(),
        );
    }
    if !export.tables.has(STRINGS.name) {
        return not_a_trace(format!(
            "this is an SQLite database, and not an export of Nsight Systems: it has no table {}",
            STRINGS.name
        ));
    }
    let mut found = export.processes(process::OF_GPU)?;
    if found.is_empty() {
        found = export.processes(&[process::NVTX])?;
    }
    if found.is_empty() {
        return not_a_trace(
            "this export of Nsight Systems has neither work of a GPU nor ranges of NVTX (record with --trace=cuda,nvtx)"
                .to_owned(),
        );
    }
    let (export, count) = (Rc::new(export), found.len() as u64);
    let process = |(at, id): (u64, i64)| Process::new(Rc::clone(&export), id, (at, count));
    Ok((0..).zip(found).map(process).collect())
}
