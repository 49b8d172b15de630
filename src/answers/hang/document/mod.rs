//! Whether a job hangs: one file per form, and the sentences that they share.

mod findings;
pub(crate) mod json;
mod lag;
mod text;
mod verdict;
mod words;

use std::io;

use serde::Serialize;

use super::{HangReport, HungGroup};
use crate::answers::OnPage;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::format::ranks;
use crate::document::html::Page;
use crate::document::table::{Cell, Column, Table, name, words};

pub(crate) use lag::lagging;
pub use verdict::verdict;
pub(crate) use verdict::{NOTHING, failed, hung};
pub(crate) use words::{difference, is_reported, operation, warned};

/// Whether a job hangs, and how to show it.
#[derive(Debug, Clone)]
pub struct HangAnswer<'a> {
    /// What the records show.
    pub report: &'a HangReport,
    /// The name of all files together.
    pub name: &'a str,
    /// What a page shows besides.
    pub on_page: OnPage,
}

impl Answer for HangAnswer<'_> {
    const SCHEMA: &'static str = "hang";

    const OWN_FORMS: &'static [Form] = &[Form::Html];

    // The text has more evidence for each group than a finding.
    const LISTS_FINDINGS: bool = false;

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        findings::document(self.report)
    }

    fn data(&self) -> impl Serialize {
        json::hang(self.report)
    }

    fn tables(&self) -> Vec<Table> {
        let groups = self.report.hung.iter().chain(&self.report.lagging);
        vec![Table::new("hung", "Groups that wait", COLUMNS, groups.map(|group| (group, ())))]
    }

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        text::hang(self.report, screen, out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        let page = self.page_of("hang", self.name.to_owned(), &self.on_page.notes)?;
        let whole = [
            ("Whether it hangs, with all evidence", " --verbose"),
            ("The same for a script, with exit code 4 if it hangs", " --json"),
        ];
        let mut commands = self.on_page.commands("hang", "hang ", &whole);
        commands.extend(self.on_page.commands("hang", "records ", &[("What the records have beside that", "")]));
        let notes = [&page.document.notes[..], &page.notes].concat();
        Ok(Page { commands, notes, ..page })
    }
}

const COLUMNS: &[Column<HungGroup>] = &[
    words("", "operation").read(|group, ()| Cell::Text(operation(group.collective.as_deref(), group.sequence))),
    words("", "not enqueued by").read(|group, ()| list(&group.missing_ranks)),
    words("", "stuck on").read(|group, ()| list(&group.stuck_ranks)),
    words("", "other call on").read(|group, ()| list(&group.odd_ranks)),
    words("", "waiting").read(|group, ()| list(&group.waiting_ranks)),
    name("group").read(|group, ()| Cell::Text(group.name.group.clone())),
];

fn list(of: &[u32]) -> Cell {
    if of.is_empty() { Cell::Empty } else { Cell::Text(ranks(of)) }
}
