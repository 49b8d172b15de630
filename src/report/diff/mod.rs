//! Two traces side by side, in all forms.

mod csv;
mod measure;
mod page;
mod summary;
mod table;
mod text;

use std::io;

pub(crate) use measure::by_what;
pub use measure::{compared, other_steps, suffix};

use super::{OnPage, json};
use crate::analysis::diff::Diff;

/// A form of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiffForm {
    /// For people: the overall change, then one row for each stack.
    Table,
    /// For people: the overall change, then every stack with its frames.
    Text,
    /// For programs: everything, described by a schema.
    Json,
    /// For spreadsheets: one row for each stack.
    Csv,
    /// A page for a browser, in one file.
    Html,
}

/// Writes a diff in a form, in lines of at most `width`.
///
/// # Errors
/// Returns the writer's error.
pub fn write(diff: &Diff, form: DiffForm, width: Option<usize>, on_page: &OnPage, out: &mut Vec<u8>) -> io::Result<()> {
    match form {
        DiffForm::Table => {
            summary::write(diff, out)?;
            table::write(diff, width, out)
        }
        DiffForm::Text => {
            summary::write(diff, out)?;
            text::write(diff, out)
        }
        DiffForm::Json => json::diff(diff, out),
        DiffForm::Csv => csv::write(diff, out),
        DiffForm::Html => page::diff(diff, on_page, out),
    }
}
