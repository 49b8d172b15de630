//! Descriptions of files and what they can answer. The sentences are in `verdict` and `words`.

mod text;
mod verdict;
mod words;

use std::io;

use serde::Serialize;

use super::Descriptions;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::Document;
use crate::document::form::Form;

/// The descriptions of some files.
#[derive(Debug, Clone)]
pub struct DescribeAnswer<'a> {
    pub descriptions: &'a Descriptions,
    /// The name of all files together.
    pub name: &'a str,
}

impl Answer for DescribeAnswer<'_> {
    const SCHEMA: &'static str = "describe";

    const OWN_FORMS: &'static [Form] = &[];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        let title = "What these files can answer".to_owned();
        Document { title, verdict: verdict::verdict(self.descriptions), ..Document::default() }
    }

    fn data(&self) -> impl Serialize {
        self.descriptions
    }

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        text::describe(self.descriptions, screen, out)
    }
}
