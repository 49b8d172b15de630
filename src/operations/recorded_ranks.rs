//! Which rank of the job recorded an operation.
//!
//! NCCL itself counts ranks within a communicator. A rank in the communicator of the whole job is a rank of the job, and so is what the
//! user says of a file.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::communicators::Communicators;
use crate::id::RankId;
use crate::operation::Source;
use crate::records::Records;

/// The ranks of operations that do not say theirs.
pub(crate) struct RecordedRanks {
    pub(crate) communicators: Communicators,
    /// By source: the communicator of the whole job, in which each operation has the rank of the job.
    whole: BTreeMap<Source, usize>,
    /// By file: the rank that all of its operations have there.
    of_files: HashMap<u32, u32>,
}

impl RecordedRanks {
    /// By the ranks of operations and files in the communicator of the whole job.
    pub(crate) fn find(records: &Records) -> Self {
        let communicators = Communicators::find(records);
        let sources: BTreeSet<Source> = records.operations.iter().map(|operation| operation.source).collect();
        let whole =
            sources.into_iter().filter_map(|source| Some((source, whole_job(records, &communicators, source)?)));
        let whole: BTreeMap<Source, usize> = whole.collect();
        let mut ranks: HashMap<u32, Option<u32>> = HashMap::new();
        for (operation, file) in records.operations.iter().zip(&records.file_of) {
            let of_job = whole.get(&operation.source);
            if of_job.is_some() && communicators.of_operation(operation).as_ref() == of_job {
                let rank = ranks.entry(*file).or_insert(operation.place);
                // A file of several ranks is of none.
                *rank = rank.filter(|rank| operation.place == Some(*rank));
            }
        }
        let of_files = ranks.into_iter().filter_map(|(file, rank)| Some((file, rank?))).collect();
        RecordedRanks { communicators, whole, of_files }
    }

    /// The rank of an operation, by its position: what it says itself, or what its communicator lists at its place; its rank in the
    /// communicator of the whole job; or that of its file.
    pub(crate) fn rank(&self, records: &Records, at: usize) -> Option<u32> {
        let operation = &records.operations[at];
        let communicator = self.communicators.of_operation(operation);
        let listed = || self.communicators.get(communicator)?.rank_at(operation.place);
        let in_whole = || {
            operation
                .place
                .filter(|_| communicator.is_some() && self.whole.get(&operation.source) == communicator.as_ref())
        };
        let own = operation.rank.map(|rank| rank.0).or_else(listed).or_else(in_whole);
        own.or_else(|| self.of_files.get(records.file_of.get(at)?).copied())
    }

    /// By communicator: the ranks that it names, or else those that have operations of it, ascending.
    pub(crate) fn members(&self, records: &Records) -> Vec<Vec<u32>> {
        let mut seen: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.communicators.all().len()];
        for (at, operation) in records.operations.iter().enumerate() {
            let communicator = self.communicators.of_operation(operation);
            if let (Some(communicator), Some(rank)) = (communicator, self.rank(records, at)) {
                seen[communicator].insert(rank);
            }
        }
        let all = self.communicators.all().iter().zip(seen);
        all.map(|(known, seen)| known.ranks.clone().unwrap_or_else(|| seen.into_iter().collect())).collect()
    }
}

/// By source: the communicator that all of its files have and that is larger than all others, or the only one. A rank in it is a rank of the
/// job.
fn whole_job(records: &Records, communicators: &Communicators, source: Source) -> Option<usize> {
    let mut files: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (operation, file) in records.operations.iter().zip(&records.file_of).filter(|(of, _)| of.source == source) {
        all.insert(*file);
        if let Some(communicator) = communicators.of_operation(operation) {
            files.entry(communicator).or_default().insert(*file);
        }
    }
    let size = |communicator: &usize| communicators.get(Some(*communicator))?.size;
    let most = files.keys().filter_map(size).max();
    let mut largest = files.iter().filter(|(communicator, _)| size(communicator) == most);
    let (Some((communicator, of)), None) = (largest.next(), largest.next()) else { return None };
    (*of == all).then_some(*communicator)
}

/// Sets the rank of all operations of a file, whatever they say themselves. Returns whether that is possible: a file in which one
/// communicator has several ranks is of no single one.
pub fn set_rank(records: &mut Records, file: usize, rank: u32) -> bool {
    let of_file = |at: usize| records.file_of.get(at).is_some_and(|of| *of as usize == file);
    let own: Vec<usize> = (0..records.operations.len()).filter(|at| of_file(*at)).collect();
    let mut ranks = HashSet::new();
    let mut places = HashMap::new();
    for operation in own.iter().map(|at| &records.operations[*at]) {
        ranks.extend(operation.rank);
        if let (Some(communicator), Some(place)) = (operation.communicator, operation.place)
            && *places.entry(communicator).or_insert(place) != place
        {
            return false;
        }
    }
    if ranks.len() > 1 {
        return false;
    }
    own.into_iter().for_each(|at| records.operations[at].rank = Some(RankId(rank)));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Communicator, Operation};
    use crate::records::RecordFile;

    fn records_of(operations: &[(u32, usize, u32)]) -> Records {
        let mut records = Records::default();
        for (file, communicator, place) in operations {
            let (communicator, place) = (Some(*communicator), Some(*place));
            records.operations.push(Operation { communicator, place, ..Operation::default() });
            records.file_of.push(*file);
        }
        records.files = vec![RecordFile::new("a".to_owned()), RecordFile::new("b".to_owned())];
        records
    }

    /// File 0 is of rank 1; file 1 is of two ranks, as of a process with several GPUs.
    #[test]
    fn a_rank_of_the_largest_communicator_is_one_of_the_job() {
        let mut records = records_of(&[(0, 0, 1), (0, 1, 7), (1, 0, 2), (1, 0, 3), (1, 1, 7)]);
        records.communicators = vec![Communicator::default(); 2];
        let ranks = |records: &Records| {
            let owners = RecordedRanks::find(records);
            (0..records.operations.len()).map(|at| owners.rank(records, at)).collect::<Vec<_>>()
        };
        assert_eq!(ranks(&records), [None; 5], "nothing says which communicator is larger");
        let size = |size| Communicator { size: Some(size), ..Communicator::default() };
        records.communicators = vec![size(16), size(8)];
        assert_eq!(ranks(&records), [Some(1), Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn a_rank_is_given_to_a_file_of_one_rank() {
        let mut records = records_of(&[(0, 0, 1), (0, 1, 3), (1, 0, 0), (1, 0, 1)]);
        assert!(set_rank(&mut records, 0, 9), "two communicators count it differently");
        assert!(!set_rank(&mut records, 1, 8), "two ranks of one communicator");
        let ranks: Vec<_> = records.operations.iter().map(|operation| operation.rank).collect();
        assert_eq!(ranks, [Some(RankId(9)), Some(RankId(9)), None, None]);
        records.operations[2].rank = Some(RankId(4));
        records.operations[3] = Operation { rank: Some(RankId(5)), ..Operation::default() };
        assert!(!set_rank(&mut records, 1, 8), "two ranks of the job");
    }
}
