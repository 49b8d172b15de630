//! The contents of NCCL's own records: one file per form. The verdict is in `sentences`; what is wrong has its words from
//! where it is found.

pub mod flows;
mod sentences;
mod table;
mod text;

pub(crate) use sentences::left_out;
pub use sentences::verdict;

use std::io;

use serde::Serialize;

use super::RecordsReport;
use crate::answers::OnPage;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::html::Page;
use crate::document::table::{Table, write_csv};

/// The contents of records and how to show them.
#[derive(Debug, Clone)]
pub struct RecordsAnswer<'a> {
    pub report: &'a RecordsReport,
    /// The name of all files together.
    pub name: &'a str,
    /// How many rows of each table are shown, in JSON of the census alone; `None` for all, or in text for as many as fit a screen.
    pub limit: Option<usize>,
    /// What a page shows besides.
    pub on_page: OnPage,
}

impl<'a> RecordsAnswer<'a> {
    /// An answer with the defaults for a file: all rows.
    pub fn new(report: &'a RecordsReport, name: &'a str) -> Self {
        RecordsAnswer { report, name, limit: None, on_page: OnPage::default() }
    }
}

/// The contents of records, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RecordsData {
    /// The number of rows of the census, including those left out by a limit.
    rows_found: usize,
    #[serde(flatten)]
    report: RecordsReport,
}

impl Answer for RecordsAnswer<'_> {
    const SCHEMA: &'static str = "records";

    const OWN_FORMS: &'static [Form] = &[Form::Table, Form::Csv, Form::Html];

    // The text lists all of them, in a line each.
    const LISTS_FINDINGS: bool = false;

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        sentences::document(self.report)
    }

    fn data(&self) -> impl Serialize {
        let mut report = self.report.clone();
        report.census.truncate(self.limit.unwrap_or(usize::MAX));
        RecordsData { rows_found: self.report.census.len(), report }
    }

    fn tables(&self) -> Vec<Table> {
        table::tables(self.report)
    }

    fn body(&self, form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        text::records(self, form, screen, out)
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write_csv(&[table::for_programs(self.report, self.limit)], out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        let commands = [
            ("All tables", " --format table"),
            ("Everything, for programs", " --format json --output records.json"),
            ("For spreadsheets", " --format csv --output records.csv"),
        ];
        let whole = RecordsAnswer::new(self.report, self.name);
        let page = whole.page_of("records", self.name.to_owned(), &self.on_page.notes)?;
        Ok(Page { commands: self.on_page.commands("records", "records ", &commands), ..page })
    }
}
