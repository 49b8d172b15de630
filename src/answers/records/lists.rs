//! Lists beside the operations: other events of NCCL's profiler interface, by kind; groups of operations, by how many belong together: what a program
//! called within one group, and what NCCL planned for one kernel; and the files: what each is, how much it contains, and how much of it could not be
//! used.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::operation::Source;
use crate::records::{RecordFile, Records, Remark};
use crate::statistics::middle;
use crate::time::Ns;

/// Events of a kind that are no operations, and no channels, proxy operations or steps of any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventRow {
    /// The kind: transfers of a network plugin, work of the proxy thread, phases of kernels, synchronisations and batches of copy engines.
    #[cfg_attr(test, schemars(extend("enum" = ["net-ib", "net-socket", "net-plugin", "proxy-control", "kernel-phase", "ce-sync", "ce-batch", "unknown"])))]
    pub kind: &'static str,
    /// The number of events.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The number of ranks with such events.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub ranks: u64,
    /// The number of events with a start and an end.
    pub timed: u64,
    /// The summed duration of these; several may run at once.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub time_ns: Ns,
    /// The bytes they moved; `None` for kinds that move none.
    pub bytes: Option<u64>,
}

pub(super) fn events(records: &Records) -> Vec<EventRow> {
    let mut rows: BTreeMap<&str, (EventRow, BTreeSet<_>)> = BTreeMap::new();
    for event in &records.profiler_events {
        let (row, ranks) = rows.entry(event.kind).or_default();
        row.kind = event.kind;
        row.count += 1;
        if let Some((start, end)) = event.start.zip(event.end) {
            row.timed += 1;
            row.time_ns += end - start;
        }
        row.bytes = event.bytes.map(|bytes| row.bytes.unwrap_or(0).saturating_add(bytes)).or(row.bytes);
        // A process without a known rank counts as a rank of its own.
        ranks.insert(event.rank.map(|rank| rank.0).ok_or(event.file));
    }
    rows.into_values().map(|(row, ranks)| EventRow { ranks: ranks.len() as u64, ..row }).collect()
}

/// Groups of one kind, depth and number of operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupRow {
    /// `calls`: called between `ncclGroupStart` and `ncclGroupEnd`, or alone; `kernel`: planned together by NCCL.
    #[cfg_attr(test, schemars(extend("enum" = ["calls", "kernel"])))]
    pub kind: &'static str,
    /// How many groups of calls were open within each other; `None` of kernels.
    pub depth: Option<u32>,
    /// The number of operations in each group.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub operations: u32,
    /// The number of groups.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The number of ranks with such groups.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub ranks: u64,
    /// The median duration of those with a start and an end; `None` if none has both.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub median_ns: Option<Ns>,
}

/// The groups, most frequent first.
pub(super) fn groups(records: &Records) -> Vec<GroupRow> {
    let mut found: BTreeMap<_, (u64, BTreeSet<_>, Vec<Ns>)> = BTreeMap::new();
    for group in &records.groups {
        let (count, ranks, times) = found.entry((group.kind, group.depth, group.operations)).or_default();
        *count += 1;
        // A process without a known rank counts as a rank of its own.
        ranks.insert(group.rank.map(|rank| rank.0).ok_or(group.file));
        times.extend(group.start.zip(group.end).map(|(start, end)| end - start));
    }
    let row = |((kind, depth, operations), (count, ranks, mut times)): (_, (u64, BTreeSet<_>, Vec<Ns>))| GroupRow {
        kind,
        depth,
        operations,
        count,
        ranks: ranks.len() as u64,
        median_ns: middle(&mut times, Ns::cmp).map(|middle| middle.upper),
    };
    let mut rows: Vec<GroupRow> = found.into_iter().map(row).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.count), row.kind, row.depth, row.operations));
    rows
}

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

pub(super) fn file_row(file: &RecordFile) -> FileRow {
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
