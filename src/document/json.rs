//! Answers for programs, described by the files of `schema/` in the repository. The schemas allow only the fields that they name, so any
//! change to the fields needs a new version.

use std::io::{self, Write};

use serde::Serialize;

use super::findings::{Document, Finding};

const VERSION: u32 = 9;

/// An answer with what all answers begin with.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Envelope<'a, T> {
    /// Which schema this is.
    schema: String,
    /// The version of the schema. It changes when fields come or go, or change their name, type, unit or meaning.
    #[cfg_attr(test, schemars(extend("const" = VERSION)))]
    version: u32,
    /// The program that wrote this, and its version: `nccl-stacks 0.1.0`.
    #[cfg_attr(test, schemars(regex(pattern = "^nccl-stacks [0-9]")))]
    program: &'static str,
    /// The inputs as they were named, separated by commas; `-` for standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    /// The answer in sentences, the most important first; sentences about damage that may make it wrong precede them.
    verdict: Vec<&'a str>,
    /// What to look at first, the most important first.
    findings: &'a [Finding],
    /// How far to trust the answer: what it assumes, and what was left out.
    notes: &'a [String],
    #[serde(flatten)]
    answer: &'a T,
}

/// Writes an answer; `schema` is the name of its schema, and `trace` names what was read.
pub(crate) fn write<T: Serialize>(
    schema: &str,
    trace: Option<&str>,
    document: &Document,
    answer: &T,
    out: &mut impl Write,
) -> io::Result<()> {
    let envelope = Envelope {
        schema: format!("nccl-stacks/{schema}"),
        version: VERSION,
        program: concat!("nccl-stacks ", env!("CARGO_PKG_VERSION")),
        trace,
        verdict: document.sentences().collect(),
        findings: &document.findings,
        notes: &document.notes,
        answer,
    };
    serde_json::to_writer_pretty(&mut *out, &envelope)?;
    writeln!(out)
}
