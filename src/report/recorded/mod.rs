//! What NCCL's own records have, in forms: one file per form. The sentences about what is off are in `sentences`.

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

/// A form of what was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordsForm {
    /// For people: the verdict, what is off, and a table of the operations.
    Text,
    /// For people: the verdict, then all tables.
    Table,
    /// For programs: everything, by a schema.
    Json,
    /// For spreadsheets: a row for each row of the operations; of flow files alone for each pair of ranks.
    Csv,
    /// A page for a browser, in one file.
    Html,
}

/// Something that is off, for programs.
#[derive(Serialize)]
struct Off {
    kind: &'static str,
    text: String,
    advice: Option<String>,
}

/// What was recorded, and how to show it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordsAnswer<'a> {
    /// What was recorded.
    pub report: &'a RecordsReport,
    /// What the files are called.
    pub name: &'a str,
    /// How many rows of each table are shown, in JSON of the census alone; `None` for all, or for as many as fit a screen in text.
    pub limit: Option<usize>,
    /// How it is shown to people.
    pub screen: Screen,
    /// What a page shows beside it.
    pub on_page: OnPage,
}

impl<'a> RecordsAnswer<'a> {
    /// An answer for a file, with all rows.
    pub fn new(report: &'a RecordsReport, name: &'a str) -> Self {
        RecordsAnswer { report, name, limit: None, screen: Screen::default(), on_page: OnPage::default() }
    }

    /// The same, shown in another way.
    #[must_use]
    pub fn shown(self, screen: Screen, limit: Option<usize>) -> Self {
        RecordsAnswer { screen, limit, ..self }
    }

    /// The same with what a page shows beside it.
    #[must_use]
    pub fn on_page(self, on_page: OnPage) -> Self {
        RecordsAnswer { on_page, ..self }
    }

    /// Writes the answer in a form.
    ///
    /// # Errors
    /// What the writer fails with.
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
        #[derive(Serialize)]
        struct Whole<'a> {
            verdict: String,
            diagnoses: Vec<Off>,
            rows_found: usize,
            #[serde(flatten)]
            report: &'a RecordsReport,
        }
        let mut shown = self.report.clone();
        shown.census.truncate(self.limit.unwrap_or(usize::MAX));
        let off = |diagnosis| Off {
            kind: sentences::kind(diagnosis),
            text: sentences::sentence(diagnosis),
            advice: sentences::advice(diagnosis).map(str::to_owned),
        };
        let answer = Whole {
            verdict: sentences::verdict(self.report),
            diagnoses: self.report.diagnoses.iter().map(off).collect(),
            rows_found: self.report.census.len(),
            report: &shown,
        };
        json::records(&answer, self.name, out)
    }
}
