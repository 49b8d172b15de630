//! Descriptions of files and what they can answer: one file per form, and the sentences in `words`.

mod text;
mod words;

use std::io;

use serde::Serialize;

use super::{Screen, json};
use crate::analysis::describe::TraceDescription;
use crate::analysis::describe::sources::RecordsDescription;

/// A form of the descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescribeForm {
    /// For people: facts, then each question with what to turn on for it.
    Text,
    /// For programs: everything, described by a schema.
    Json,
}

/// A file, or a folder's records, with its description.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Described {
    /// Its name; for a trace in an archive, the archive's name comes first.
    pub name: String,
    /// Its description.
    pub kind: Kind,
}

/// What a file holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Kind {
    /// A trace.
    Trace(Box<TraceDescription>),
    /// NCCL's own records.
    Records(Box<RecordsDescription>),
}

/// A file that cannot be read.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Unread {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl Described {
    /// Describes a trace of this name.
    pub fn trace(name: String, trace: TraceDescription) -> Self {
        Described { name, kind: Kind::Trace(Box::new(trace)) }
    }

    /// Describes the records of the file or folder of this name.
    pub fn records(name: String, records: RecordsDescription) -> Self {
        Described { name, kind: Kind::Records(Box::new(records)) }
    }
}

impl Unread {
    /// A file of this name that cannot be read, and the reason.
    pub fn new(name: String, why: String) -> Self {
        Unread { name, why }
    }
}

/// Writes the descriptions of some files; `name` names all of them.
///
/// # Errors
/// Returns the writer's error.
pub fn write(
    described: &[Described],
    unread: &[Unread],
    form: DescribeForm,
    name: &str,
    screen: &Screen,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    match form {
        DescribeForm::Text => text::describe(described, screen, out),
        DescribeForm::Json => json::describe(&document(described, unread), name, out),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    files: Vec<File<'a>>,
    unread: &'a [Unread],
}

#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    trace: Option<&'a TraceDescription>,
    records: Option<&'a RecordsDescription>,
}

fn document<'a>(described: &'a [Described], unread: &'a [Unread]) -> Document<'a> {
    let file = |Described { name, kind }: &'a Described| match kind {
        Kind::Trace(trace) => File { name, trace: Some(trace), records: None },
        Kind::Records(records) => File { name, trace: None, records: Some(records) },
    };
    Document { files: described.iter().map(file).collect(), unread }
}
