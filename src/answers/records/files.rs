//! The files: what each is, how much it contains, and how much of it could not be used.

use serde::Serialize;

use crate::operation::Source;
use crate::records::{RecordFile, Records, Remark};

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileRow {
    /// Its name, prefixed with the name of its archive.
    pub name: String,
    /// The source that wrote it; `None` if it is not a known source.
    #[cfg_attr(test, schemars(with = "Option<crate::operations::written::Source>"))]
    pub source: Option<&'static str>,
    /// The source's name in sentences; also `None` for a process that could not record.
    #[serde(skip)]
    pub title: Option<&'static str>,
    /// The version of its format, if recorded.
    pub version: Option<String>,
    /// The number of records read.
    pub records: u64,
    /// The size of its decompressed text in bytes.
    pub bytes: u64,
    /// How many of its records or bytes were skipped.
    pub skipped: u64,
    /// How many errors in it were repaired.
    pub repaired: u64,
    /// What is wrong with it, and other remarks for the reader, one line each.
    pub remarks: Vec<String>,
}

pub(super) fn rows(records: &Records) -> Vec<FileRow> {
    records.files.iter().map(row).collect()
}

fn row(file: &RecordFile) -> FileRow {
    let not_recorded = file.not_recorded.as_ref().map(|of| format!("Its process could not record: {}.", of.why));
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
