//! Descriptions of files and what they can answer: one file per form, and the sentences in `words`.

mod text;
mod words;

use std::io;

use serde::Serialize;

use super::Screen;
use super::document::{Answer, Document as Opening, no_such_form};
use super::form::Form;
use crate::analysis::describe::TraceDescription;
use crate::analysis::describe::sources::RecordsDescription;

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

/// The descriptions of some files.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DescribeAnswer<'a> {
    /// The files.
    pub described: &'a [Described],
    /// The files that cannot be read.
    pub unread: &'a [Unread],
    /// The name of all files together.
    pub name: &'a str,
}

impl<'a> DescribeAnswer<'a> {
    /// The descriptions of the files called `name`.
    pub fn new(described: &'a [Described], unread: &'a [Unread], name: &'a str) -> Self {
        DescribeAnswer { described, unread, name }
    }
}

/// The descriptions, for programs.
#[derive(Serialize)]
struct DescribeData<'a> {
    files: Vec<File>,
    unread: &'a [Unread],
}

#[derive(Serialize)]
struct File {
    name: String,
    trace: Option<TraceDescription>,
    records: Option<RecordsDescription>,
}

impl Answer for DescribeAnswer<'_> {
    const SCHEMA: &'static str = "describe";

    const OWN_FORMS: &'static [Form] = &[];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Opening {
        Opening::default()
    }

    fn data(&self) -> impl Serialize {
        let file = |described: &'_ Described| match &described.kind {
            Kind::Trace(trace) => File { name: described.name.clone(), trace: Some((**trace).clone()), records: None },
            Kind::Records(records) => {
                File { name: described.name.clone(), trace: None, records: Some((**records).clone()) }
            }
        };
        DescribeData { files: self.described.iter().map(file).collect(), unread: self.unread }
    }

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        text::describe(self.described, screen, out)
    }

    fn other(&self, form: Form, _out: &mut Vec<u8>) -> io::Result<()> {
        Err(no_such_form(form))
    }
}
