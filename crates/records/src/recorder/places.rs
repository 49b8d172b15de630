//! The ranks of processes whose environment does not name them: if all files together are the ranks of one communicator, it is the job's.

use std::collections::{BTreeMap, BTreeSet};

use crate::operation::Source;
use crate::tables::Records;
use nccl_stacks_trace::id::RankId;

/// Sets the ranks of the recorder's files, if no file says its own and one communicator has all of them, each once.
pub(crate) fn fill(records: &mut Records) {
    let status = records.rank_status.iter().filter(|status| status.source == Source::RECORDER);
    let mut files: BTreeSet<u32> = BTreeSet::new();
    let mut places: BTreeMap<usize, BTreeMap<u32, BTreeSet<u32>>> = BTreeMap::new();
    for status in status {
        if status.rank.is_some() {
            return;
        }
        files.insert(status.file);
        if let Some((communicator, place)) = status.communicator.zip(status.place) {
            places.entry(communicator).or_default().entry(status.file).or_default().insert(place);
        }
    }
    let spans = |communicator: usize, of: &BTreeMap<u32, BTreeSet<u32>>| {
        let size = records.communicators.get(communicator).and_then(|of| of.size);
        let all: BTreeSet<u32> = of.values().flatten().copied().collect();
        let is_one_each = of.values().all(|places| places.len() == 1);
        is_one_each && size == Some(files.len() as u64) && of.len() == files.len() && all.len() == files.len()
    };
    let rank_of = |of: BTreeMap<u32, BTreeSet<u32>>| -> BTreeMap<u32, u32> {
        of.into_iter().filter_map(|(file, places)| Some((file, places.into_iter().next()?))).collect()
    };
    let mut found: Vec<BTreeMap<u32, u32>> =
        places.into_iter().filter(|(at, of)| spans(*at, of)).map(|(_, of)| rank_of(of)).collect();
    found.dedup();
    // A single process is rank 0 of itself, which says nothing of a job.
    let ([ranks], 2..) = (&found[..], files.len()) else { return };
    for (operation, file) in records.operations.iter_mut().zip(&records.file_of) {
        if operation.source == Source::RECORDER {
            operation.rank = ranks.get(file).copied().map(RankId);
        }
    }
    for status in records.rank_status.iter_mut().filter(|status| status.source == Source::RECORDER) {
        status.rank = ranks.get(&status.file).copied().map(RankId);
    }
    for event in &mut records.profiler_events {
        event.rank = ranks.get(&event.file).copied().map(RankId);
    }
    for (file, rank) in ranks {
        if let Some(file) = records.files.get_mut(*file as usize) {
            file.note(format!(
                "Its environment sets no rank: it is rank {rank} of the communicator that all files share."
            ));
        }
    }
}
