//! What files are and what they can answer, in forms: one file per form, and the sentences in `words`.

mod text;
mod words;

use std::io;

use serde::Serialize;

use super::{Screen, json};
use crate::analysis::describe::TraceDescription;
use crate::analysis::describe::questions::{OVERHEAD_ALL, OVERHEAD_BASIC, OVERHEAD_SOURCE, Overhead};
use crate::analysis::describe::sources::RecordsDescription;

/// A form of the descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescribeForm {
    /// For people: facts, then each question with what to turn on.
    Text,
    /// For programs: everything, by a schema.
    Json,
}

/// A file, or the records of a folder, and what it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Described {
    /// Its name; of a trace in an archive that of the archive before it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a file is.
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
    /// Why.
    pub why: String,
}

impl Described {
    /// A trace of this name.
    pub fn trace(name: String, trace: TraceDescription) -> Self {
        Described { name, kind: Kind::Trace(Box::new(trace)) }
    }

    /// The records of a file or folder of this name.
    pub fn records(name: String, records: RecordsDescription) -> Self {
        Described { name, kind: Kind::Records(Box::new(records)) }
    }
}

impl Unread {
    /// A file of this name, which cannot be read for this reason.
    pub fn new(name: String, why: String) -> Self {
        Unread { name, why }
    }
}

/// Writes the descriptions of some files; `name` is what these are called together.
///
/// # Errors
/// What the writer fails with.
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
    overhead: Overheads,
}

#[derive(Serialize)]
struct Overheads {
    source: &'static str,
    basic: Overhead,
    all: Overhead,
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
    Document {
        files: described.iter().map(file).collect(),
        unread,
        overhead: Overheads { source: OVERHEAD_SOURCE, basic: OVERHEAD_BASIC, all: OVERHEAD_ALL },
    }
}
