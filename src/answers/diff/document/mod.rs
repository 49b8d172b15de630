//! Two traces side by side, in all forms.

mod changes;
mod findings;
mod measure;
mod summary;

use std::io::{self, Write};

use serde::Serialize;

pub(crate) use measure::{by_what, names};
pub use measure::{compared, other_ranks, other_steps, suffix};

use super::{Change, Diff};
use crate::answers::OnPage;
use crate::answers::stacks::origin::labels;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::format::shorten_middle;
use crate::document::html::Page;
use crate::document::table::Table;

/// The longest name on a page outside of its documents: C++ and compiled code have names of any length.
const NAME: usize = 400;

/// Two traces side by side, and what a page shows besides.
#[derive(Debug, Clone)]
pub struct DiffAnswer<'a> {
    pub diff: &'a Diff,
    /// What a page shows besides.
    pub on_page: OnPage,
}

impl Answer for DiffAnswer<'_> {
    const SCHEMA: &'static str = "diff";

    const OWN_FORMS: &'static [Form] = &[Form::Table, Form::Csv, Form::Html];

    fn document(&self) -> Document {
        findings::document(self.diff)
    }

    fn data(&self) -> impl Serialize {
        self.diff
    }

    fn body(&self, form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        writeln!(out)?;
        summary::write(self.diff, out)?;
        match form {
            Form::Table => changes::write_table(self.diff, screen.width, out),
            _ => changes::write_text(self.diff, out),
        }
    }

    fn page_tables(&self) -> Vec<Table> {
        vec![changes::table(self.diff, &labels_of(self.diff)), summary::table(self.diff)]
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        changes::write_rows(self.diff, out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        let DiffAnswer { diff, on_page } = self;
        let names = format!("{} → {}", diff.before.trace, diff.after.trace);
        let mut page = self.page_of("diff", names, &on_page.notes)?;
        page.document.findings.iter_mut().for_each(|finding| finding.what = shorten_middle(&finding.what, NAME));
        let commands = on_page.commands(
            "diff",
            "diff ",
            &[
                ("The changes, as a table", ""),
                ("Everything, for programs", " --format json --output diff.json"),
                ("For CI: exit code 5 if steps take 5 % longer", " --fail-if 'step>+5%'"),
            ],
        );
        Ok(Page { commands, labels: labels_of(diff), ..page })
    }
}

fn labels_of(diff: &Diff) -> Vec<Vec<String>> {
    let mut labels = labels(diff.changes.iter().map(Change::naming));
    labels.iter_mut().flatten().for_each(|name| *name = shorten_middle(name, NAME));
    labels
}
