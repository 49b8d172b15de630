//! Descriptions of files and what they can answer: one file per form, and the sentences in `verdict` and `words`.

mod text;
mod verdict;
mod words;

use std::io;

use serde::Serialize;

use super::{Screen, json};
use crate::analysis::describe::Descriptions;

pub use verdict::verdict;

/// A form of the descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescribeForm {
    /// For people: the verdict, then for each file facts, and each question with what to turn on for it.
    Text,
    /// For programs: everything, described by a schema.
    Json,
}

/// Writes the descriptions of some files; `name` names all of them.
///
/// # Errors
/// Returns the writer's error.
pub fn write(
    descriptions: &Descriptions,
    form: DescribeForm,
    name: &str,
    screen: &Screen,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct WithVerdict<'a> {
        verdict: Vec<String>,
        #[serde(flatten)]
        descriptions: &'a Descriptions,
    }
    match form {
        DescribeForm::Text => text::describe(descriptions, screen, out),
        DescribeForm::Json => json::describe(&WithVerdict { verdict: verdict(descriptions), descriptions }, name, out),
    }
}
