//! Groups of operations, by how many belong together: what a program called within one group, and what NCCL planned for one kernel.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::records::Records;
use crate::statistics::middle;
use crate::time::Ns;

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

/// The rows, most frequent first.
pub(super) fn rows(records: &Records) -> Vec<GroupRow> {
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
