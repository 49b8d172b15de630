//! The files: what each is, how much it has, and how much of it could not be used.

use serde::Serialize;

use crate::operation::Source;
use crate::records::{RecordFile, Records, Remark};

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileRow {
    /// Its name, with that of its archive before it.
    pub name: String,
    /// What wrote it; `None` if it is none of the known sources.
    pub source: Option<&'static str>,
    /// What a sentence calls that; `None` also of a process that could not record.
    #[serde(skip)]
    pub title: Option<&'static str>,
    /// The version of its format, if it says so.
    pub version: Option<String>,
    /// How many records were read.
    pub records: u64,
    /// How many bytes of decompressed text it has.
    pub bytes: u64,
    /// How much of it was left out.
    pub skipped: u64,
    /// How much of it was wrong and understood nevertheless.
    pub repaired: u64,
    /// Everything that is wrong with it, and what else a reader should know, a line each.
    pub remarks: Vec<String>,
}

pub(super) fn rows(records: &Records) -> Vec<FileRow> {
    records.files.iter().map(row).collect()
}

fn row(file: &RecordFile) -> FileRow {
    let not_recorded = file.not_recorded.as_ref().map(|why| format!("Its process could not record: {why}."));
    FileRow {
        name: file.name.clone(),
        source: file.source.map(Source::name),
        title: file.source.filter(|_| file.not_recorded.is_none()).map(Source::title),
        version: file.version.clone(),
        records: file.records,
        bytes: file.bytes,
        skipped: Remark::sum(&file.skipped),
        repaired: Remark::sum(&file.repaired),
        remarks: file.damage_lines().chain(file.notes.iter().cloned()).chain(not_recorded).collect(),
    }
}
