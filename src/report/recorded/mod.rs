//! The contents of NCCL's own records: one file per form. The sentences about what is wrong are in `sentences`.

mod csv;
pub mod flows;
mod page;
mod sentences;
mod table;
mod text;

pub use sentences::verdict;

use std::io;

use serde::Serialize;

use super::json;
use super::{OnPage, Screen};
use crate::analysis::recorded::RecordsReport;

/// A form of the records' contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordsForm {
    /// For people: the verdict, what is wrong, and a table of the operations.
    Text,
    /// For people: the verdict, then all tables.
    Table,
    /// For programs: everything, described by a schema.
    Json,
    /// For spreadsheets: a row for each row of the census, or, from flow files alone, for each pair of ranks.
    Csv,
    /// A page for a browser, in one file.
    Html,
}

/// What was recorded, with the verdict.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WrittenRecords<'a> {
    /// What was recorded, what is wrong and what to do first, in sentences.
    verdict: String,
    /// What is wrong, most important first.
    diagnoses: Vec<DiagnosisText>,
    /// The number of rows of `census`, including those that `--limit` left out.
    rows_found: usize,
    #[serde(flatten)]
    report: &'a RecordsReport,
}

/// A diagnosis, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiagnosisText {
    /// The kind of problem.
    #[cfg_attr(test, schemars(extend("enum" = [
        "hang", "failed-calls", "not-recorded", "mixed-methods", "slow-channel", "slow-link", "proxy-bound", "bandwidths-differ", "gaps",
        "ranks-not-here", "no-operations", "small-left-out", "no-times", "repaired", "skipped",
    ])))]
    kind: &'static str,
    /// The problem, in a sentence.
    text: String,
    /// What to do about it; `None` if nothing.
    advice: Option<String>,
}

/// The contents of records and how to show them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordsAnswer<'a> {
    /// The contents.
    pub report: &'a RecordsReport,
    /// The name of all files together.
    pub name: &'a str,
    /// How many rows of each table are shown, in JSON of the census alone; `None` for all, or in text for as many as fit a screen.
    pub limit: Option<usize>,
    /// How people see them.
    pub screen: Screen,
    /// What a page shows besides.
    pub on_page: OnPage,
}

impl<'a> RecordsAnswer<'a> {
    /// An answer with the defaults for a file: all rows.
    pub fn new(report: &'a RecordsReport, name: &'a str) -> Self {
        RecordsAnswer { report, name, limit: None, screen: Screen::default(), on_page: OnPage::default() }
    }

    /// The same for another screen and limit.
    #[must_use]
    pub fn shown(self, screen: Screen, limit: Option<usize>) -> Self {
        RecordsAnswer { screen, limit, ..self }
    }

    /// The same with what a page shows besides it.
    #[must_use]
    pub fn on_page(self, on_page: OnPage) -> Self {
        RecordsAnswer { on_page, ..self }
    }

    /// Writes the answer in a form.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn write(&self, form: RecordsForm, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            RecordsForm::Text => text::records(self, out),
            RecordsForm::Table => table::records(self, out),
            RecordsForm::Json => self.json(out),
            RecordsForm::Csv => csv::records(self, out),
            RecordsForm::Html => page::records(self, out),
        }
    }

    fn json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut shown = self.report.clone();
        shown.census.truncate(self.limit.unwrap_or(usize::MAX));
        let text = |diagnosis| DiagnosisText {
            kind: sentences::kind(diagnosis),
            text: sentences::sentence(diagnosis),
            advice: sentences::advice(diagnosis).map(str::to_owned),
        };
        let answer = WrittenRecords {
            verdict: sentences::verdict(self.report),
            diagnoses: self.report.diagnoses.iter().map(text).collect(),
            rows_found: self.report.census.len(),
            report: &shown,
        };
        json::records(&answer, self.name, out)
    }
}
