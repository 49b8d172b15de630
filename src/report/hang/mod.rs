//! Whether a job hangs: one file per form, and the sentences that they share.

pub(super) mod json;
mod page;
mod text;
mod verdict;
mod words;

use std::io;

use super::{OnPage, Screen};
use crate::analysis::hang::HangReport;

pub use verdict::verdict;

/// A form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HangForm {
    /// For people: the verdict, its evidence, and where each rank is.
    Text,
    /// For programs: everything, described by a schema.
    Json,
    /// A page for a browser, in one file.
    Html,
}

/// Writes the answer about some files.
///
/// # Errors
/// Returns the writer's error.
pub fn write(
    report: &HangReport,
    form: HangForm,
    name: &str,
    screen: &Screen,
    on_page: &OnPage,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    match form {
        HangForm::Text => text::hang(report, screen, out),
        HangForm::Json => json::hang(report, name, out),
        HangForm::Html => page::hang(report, name, on_page, out),
    }
}
