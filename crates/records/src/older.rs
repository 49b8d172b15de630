//! Files that are older than those of other ranks: their ranks went on after them.
//!
//! A collective that ends with what all ranks gave ends nowhere before all have enqueued it. What a rank has not enqueued by its own file, and others have
//! completed by theirs, it did later. How far it got since then is unknown.

use std::collections::{BTreeMap, BTreeSet};

use super::tables::Records;
use crate::operation::{Operation, Source, State};
use nccl_stacks_trace::names::collectives::Collective;

/// Sources with states and one numbering of a group's collectives.
const SOURCES: [Source; 2] = [Source::FLIGHT_RECORDER, Source::RECORDER];

/// Whether an operation, once it has ended on any rank, was enqueued on all. All-to-alls may be without anything from some ranks.
fn takes_all(operation: &Operation) -> bool {
    let collectives = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];
    operation.known_collective().is_some_and(|of| collectives.contains(&of))
}

/// What is known of the collectives of a communicator.
#[derive(Default)]
struct Known {
    /// The last that has ended and takes all ranks.
    ended: Option<(i64, usize)>,
    /// By rank: the last that it enqueued, by its own file.
    enqueued: BTreeMap<u32, i64>,
}

/// Notes these files and ranks.
pub(super) fn judge(records: &mut Records) {
    let mut all: BTreeMap<(Source, usize), Known> = BTreeMap::new();
    let mut files: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (at, operation) in records.operations.iter().enumerate() {
        // Gloo's dumps do not tell what failed from what has ended.
        let is_gloo = records.communicator_of(operation).is_some_and(|of| of.backend.is_some());
        let is_counted = SOURCES.contains(&operation.source) && !operation.is_point_to_point() && !is_gloo;
        let numbered = operation.communicator.zip(operation.sequence).filter(|_| is_counted);
        let Some((rank, (communicator, number))) = operation.rank.zip(numbered) else { continue };
        files.entry(rank.0).or_default().insert(records.file_of[at]);
        let known = all.entry((operation.source, communicator)).or_default();
        let last = known.enqueued.entry(rank.0).or_insert(number);
        *last = number.max(*last);
        if operation.state == State::Completed && takes_all(operation) {
            known.ended = known.ended.max(Some((number, at)));
        }
    }
    for status in &records.rank_status {
        let known = status.communicator.and_then(|of| all.get_mut(&(status.source, of)));
        let last = known.zip(status.rank).and_then(|(known, rank)| known.enqueued.get_mut(&rank.0));
        if let Some((last, number)) = last.zip(status.last_enqueued) {
            *last = number.max(*last);
        }
    }
    for Known { ended, enqueued } in all.into_values() {
        let Some((number, at)) = ended else { continue };
        let what = records.operations[at].collective.clone().unwrap_or_default();
        for (rank, last) in enqueued.into_iter().filter(|(_, last)| *last < number) {
            for file in files.get(&rank).into_iter().flatten() {
                let file = &mut records.files[*file as usize];
                // The last operations of a file that is cut off are lost.
                if !file.is_cut && file.older_than.insert(rank) {
                    file.note(format!(
                        "it does not show how far rank {rank} got, as it is older than those of the others: it ends with {last}, and these have completed {what} \
                         {number}, which takes all ranks"
                    ));
                }
            }
        }
    }
}
