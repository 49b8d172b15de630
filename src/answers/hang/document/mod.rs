//! Whether a job hangs: one file per form, and the sentences that they share.

mod findings;
pub(crate) mod json;
mod page;
mod text;
mod verdict;
mod words;

use std::io;

use serde::Serialize;

use super::HangReport;
use crate::answers::OnPage;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::html::Page;

pub use verdict::verdict;
pub(crate) use words::warned;

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

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        text::hang(self.report, screen, out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        page::hang(self)
    }
}
