//! Other events of NCCL's profiler interface, by kind: transfers of network plugins, the proxy thread, phases of kernels, copy engines.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::records::Records;
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

pub(super) fn rows(records: &Records) -> Vec<EventRow> {
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
