//! Forward operators and backward nodes in pairs: the opening sentences are in `sentences`, the findings in `findings`.

mod csv;
mod findings;
mod sentences;
mod text;

use std::io;

use super::{Screen, json};
use crate::analysis::pairs::PairReport;

pub use sentences::verdict;

/// A form of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairForm {
    /// For people: the highest costs and whether to trust them, then modules, then pairs, then what is odd.
    Text,
    /// For spreadsheets: one row for each group of pairs.
    Csv,
    /// For programs: everything, described by a schema.
    Json,
}

/// Writes pairs of some traces, with the first `limit` modules and groups. The sentences cover all of them.
///
/// # Errors
/// Returns the writer's error.
pub fn write(
    report: &PairReport,
    form: PairForm,
    name: &str,
    limit: Option<usize>,
    screen: &Screen,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    match form {
        PairForm::Text => text::pairs(report, limit, screen, out),
        PairForm::Csv => csv::pairs(report, limit, out),
        PairForm::Json => json::pairs(report, &verdict(report), limit, name, out),
    }
}
