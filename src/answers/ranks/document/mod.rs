//! The comparison of ranks: one file per form.

mod changes;
mod critical;
mod findings;
mod lanes;
mod page;
mod perfetto;
mod pipeline;
mod table;
mod text;
mod trust;
mod verdict;
mod what_if;

use std::io;

use serde::Serialize;

pub use changes::ChangesAnswer;
pub(crate) use perfetto::name_lanes;
pub use verdict::plain as verdict;
pub use verdict::too_large;
pub use what_if::WhatIfAnswer;

use super::data::{Compared, RankReport};
use crate::answers::OnPage;
use crate::answers::stacks::data::StackReport;
use crate::document::Screen;
use crate::document::answer::{Answer, no_such_form};
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::html::Page;
use crate::document::table::{Table, write_csv};

/// The default number of rows of each table.
const ROWS: usize = 20;

/// A comparison of ranks and how to show it.
#[derive(Debug, Clone)]
pub struct RankAnswer<'a> {
    pub compared: &'a Compared,
    pub report: &'a RankReport,
    /// The name of all traces together.
    pub name: &'a str,
    /// How many stacks are shown; `None` for all.
    pub limit: Option<usize>,
    /// The call stacks of the same traces, which a page shows as well.
    pub stacks: Option<&'a StackReport>,
    pub on_page: OnPage,
}

impl<'a> RankAnswer<'a> {
    /// An answer with the defaults for a file: all stacks.
    pub fn new(compared: &'a Compared, report: &'a RankReport, name: &'a str) -> Self {
        RankAnswer { compared, report, name, limit: None, stacks: None, on_page: OnPage::default() }
    }

    /// The report with fewer stacks, if there is a limit.
    fn limited(&self) -> Option<RankReport> {
        let limit = self.limit?;
        let mut short = self.report.clone();
        short.stacks.truncate(limit);
        Some(short)
    }
}

/// A comparison of ranks, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RanksData {
    /// The number of stacks, including those left out by a limit.
    stacks_found: usize,
    #[serde(flatten)]
    report: RankReport,
}

impl Answer for RankAnswer<'_> {
    const SCHEMA: &'static str = "ranks";

    const OWN_FORMS: &'static [Form] = &[Form::Table, Form::Csv, Form::Perfetto, Form::Html];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        findings::document(self)
    }

    fn data(&self) -> impl Serialize {
        let report = self.limited().unwrap_or_else(|| self.report.clone());
        RanksData { stacks_found: self.report.stacks.len(), report }
    }

    fn body(&self, form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Table => {
                let limit = self.limit.unwrap_or(ROWS);
                self.tables().into_iter().try_for_each(|table| table.first(Some(limit)).write(screen, out))
            }
            _ => text::ranks(self, screen, out),
        }
    }

    fn tables(&self) -> Vec<Table> {
        table::tables(self.report)
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write_csv(&table::for_programs(self.report), out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        page::ranks(self)
    }

    fn other(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Perfetto => perfetto::ranks(self.compared, self.report, out),
            form => Err(no_such_form(form)),
        }
    }
}
