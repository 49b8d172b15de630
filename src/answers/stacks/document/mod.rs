//! The stacks of a window, or groups of its kernels: one file per form.

pub mod coverage;
mod findings;
pub(crate) mod flame;
mod grouping;
mod page;
pub mod script;
mod speedscope;
pub(crate) mod streams;
#[cfg(feature = "flamegraph")]
mod svg;
mod table;
mod text;

use std::io::{self, Write};

use serde::Serialize;

pub use findings::beside;
pub(crate) use findings::measured;
pub use flame::Weight;
pub(crate) use page::{document as page_documents, labels_of, tables as page_tables, telling};

use super::data::StackReport;
use crate::answers::OnPage;
use crate::attribution::launches::WindowOn;
use crate::document::Screen;
use crate::document::answer::{Answer, no_such_form};
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::html::Page;
use crate::document::table::{Table, write_csv};

/// The stacks of traces and how to show them.
#[derive(Debug, Clone)]
pub struct StacksAnswer<'a> {
    pub report: &'a StackReport,
    pub trace: &'a str,
    pub weight: Weight,
    /// How many callers above the launch the script's form has; `None` for all.
    pub depth: Option<usize>,
    pub window_on: WindowOn,
    pub on_page: OnPage,
}

impl<'a> StacksAnswer<'a> {
    /// An answer with the defaults for a file: flame graphs by GPU time, all callers.
    pub fn new(report: &'a StackReport, trace: &'a str) -> Self {
        StacksAnswer {
            report,
            trace,
            weight: Weight::Gpu,
            depth: None,
            window_on: WindowOn::Launch,
            on_page: OnPage::default(),
        }
    }
}

impl Answer for StacksAnswer<'_> {
    const SCHEMA: &'static str = "stacks";

    const OWN_FORMS: &'static [Form] = &[
        Form::Table,
        Form::Script,
        Form::Csv,
        Form::Folded,
        Form::Speedscope,
        #[cfg(feature = "flamegraph")]
        Form::Svg,
        Form::Html,
    ];

    fn inputs(&self) -> Option<&str> {
        Some(self.trace)
    }

    fn document(&self) -> Document {
        findings::document(self.report)
    }

    fn data(&self) -> impl Serialize {
        self.report
    }

    fn body(&self, form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        findings::figures(self.report, screen, out)?;
        // People read in the document that there are no groups, and need no empty table.
        let groups = self.report.groups().filter(|grouped| grouped.groups_found > 0);
        match (form, groups) {
            (Form::Text, None) => text::stacks(self.report, screen, out),
            (Form::Text, Some(grouped)) => {
                out.push(b'\n');
                grouping::text(grouped, screen, out)
            }
            _ => {
                let first = self.tables().into_iter().find(|table| !table.is_empty());
                first.map_or(Ok(()), |table| write!(out, "\n{}", table.text(screen.width)))
            }
        }
    }

    fn tables(&self) -> Vec<Table> {
        match self.report.groups() {
            Some(grouped) => grouping::tables(grouped),
            None => vec![table::table(self.report)],
        }
    }

    fn page_tables(&self) -> Vec<Table> {
        page::tables_of(self)
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        match self.report.groups() {
            Some(grouped) => grouping::csv(grouped, out),
            None => write_csv(&[table::rows(self.report)], out),
        }
    }

    fn page(&self) -> io::Result<Page<'_>> {
        page::stacks(self)
    }

    fn other(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        let StacksAnswer { report, trace, weight, .. } = *self;
        match (form, report.groups()) {
            (Form::Script, Some(_)) => {
                Err(io::Error::other("the form of get_call_stacks.py has only stacks; use another form for groups"))
            }
            (Form::Script, None) => script::stacks(report, self.depth, out),
            (Form::Folded, _) => flame::folded(report, weight, out),
            (Form::Speedscope, _) => speedscope::stacks(report, trace, weight, out),
            #[cfg(feature = "flamegraph")]
            (Form::Svg, _) => svg::stacks(report, trace, weight, out),
            (form, _) => Err(no_such_form(form)),
        }
    }
}
