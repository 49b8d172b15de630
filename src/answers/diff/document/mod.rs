//! Two traces side by side, in all forms.

mod changes;
mod findings;
mod measure;
mod page;
mod summary;
mod table;
mod text;

use std::io::{self, Write};

use serde::Serialize;

pub(crate) use measure::by_what;
pub use measure::{compared, other_steps, suffix};

use super::Diff;
use crate::answers::OnPage;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::html::Page;
use crate::document::table::Table;

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

    fn inputs(&self) -> Option<&str> {
        None
    }

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
            Form::Table => table::write(self.diff, screen.width, out),
            _ => text::write(self.diff, out),
        }
    }

    fn page_tables(&self) -> Vec<Table> {
        vec![changes::table(self.diff, &page::labels_of(self.diff)), summary::table(self.diff)]
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        changes::write(self.diff, out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        page::page(self)
    }
}
