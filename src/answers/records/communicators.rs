//! The communicators of a report: what was recorded in each, by which sources, and which ranks have no operations of it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::operation::{Communicator, Operation, Source};
use crate::operations::communicators::Communicators;
use crate::records::Records;

/// A communicator, combining what all sources know.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CommunicatorRow {
    /// Its label in all tables: its description and ranks, or NCCL's hash.
    pub communicator: String,
    /// The name that the program gave it.
    pub name: Option<String>,
    /// The number of its ranks.
    pub size: Option<u64>,
    /// The number of its ranks that recorded something.
    pub ranks_here: u64,
    /// Ranks whose recordings are here but have no operations of it.
    #[serde(skip)]
    pub silent_ranks: Vec<u32>,
    /// The number of recorded operations.
    pub operations: u64,
    /// The sources that recorded it.
    #[cfg_attr(test, schemars(with = "Vec<crate::operations::written::Source>"))]
    pub sources: Vec<&'static str>,
}

pub(super) fn count(records: &Records, communicators: &Communicators) -> Vec<CommunicatorRow> {
    let row = |(at, known): (usize, &Communicator)| CommunicatorRow {
        communicator: communicators.title(Some(at)).unwrap_or_default(),
        name: known.name.clone(),
        size: communicators.size(Some(at)),
        ..CommunicatorRow::default()
    };
    let mut rows: Vec<CommunicatorRow> = communicators.all().iter().enumerate().map(row).collect();
    let mut ranks = vec![BTreeSet::new(); rows.len()];
    let mut sources = vec![BTreeSet::new(); rows.len()];
    for (operation, count) in counted(records) {
        let Some(at) = communicators.of_operation(operation) else { continue };
        rows[at].operations += count;
        ranks[at].extend(operation.place_or_rank());
        sources[at].insert(operation.source.name());
    }
    for (at, rank) in recorded_ranks(records, communicators, &rows) {
        if !ranks[at].contains(&rank) {
            rows[at].silent_ranks.push(rank);
        }
    }
    for ((row, ranks), sources) in rows.iter_mut().zip(&ranks).zip(sources) {
        row.ranks_here = ranks.len() as u64;
        row.sources = sources.into_iter().collect();
    }
    rows
}

/// The ranks of each communicator that have a file from the recorder, with or without operations: those named in the file, and, for a communicator
/// with as many ranks as there are files, those of files that name no communicator.
fn recorded_ranks(
    records: &Records,
    communicators: &Communicators,
    rows: &[CommunicatorRow],
) -> BTreeSet<(usize, u32)> {
    let status = || records.rank_status.iter().filter(|status| status.source == Source::RECORDER);
    let job = status().map(|status| status.file).collect::<BTreeSet<u32>>().len() as u64;
    let naming: BTreeSet<u32> = status().filter(|of| of.communicator.is_some()).map(|of| of.file).collect();
    let named = status().filter_map(|of| Some((communicators.position(of.communicator)?, of.place?)));
    let whole = || (0..rows.len()).filter(|at| rows[*at].size == Some(job));
    let nameless = status().filter(|of| !naming.contains(&of.file)).filter_map(|of| of.rank);
    let of_whole = nameless.flat_map(|rank| whole().map(move |at| (at, rank.0)));
    named.chain(of_whole).collect()
}

/// The operations that ran: from sources that count their calls one like them and how often, which includes the operations that they kept.
pub(super) fn counted(records: &Records) -> impl Iterator<Item = (&Operation, u64)> {
    let calls = || records.calls.iter().map(|(like, count)| (like, *count));
    let sources: BTreeSet<Source> = calls().map(|(like, _)| like.source).collect();
    let is_single = move |of: &&Operation| !of.did_not_run && !sources.contains(&of.source);
    records.operations.iter().filter(is_single).map(|operation| (operation, 1)).chain(calls())
}
