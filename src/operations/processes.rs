//! Which process is which rank: the host, the process and the GPU of a rank, where a source has them, and what follows from these.
//!
//! NCCL counts ranks within a communicator. Two ranks of two communicators are one where host, process and GPU are the same. A communicator with all
//! processes that is larger than all others is that of the job: then each rank of each communicator is a rank of the job. In containers the process
//! numbers of two ranks may be equal; where one communicator has one process twice, no process of that source identifies anything.

use std::collections::{BTreeMap, BTreeSet};

use super::communicators::Communicators;
use crate::operation::Source;
use crate::records::{RankStatus, Records};

/// A process, or a GPU of a process with several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) source: Source,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<i64>,
    pub(crate) device: Option<i64>,
    /// Its rank of the job, where the records show it.
    pub(crate) rank: Option<u32>,
    /// Whether host, process and GPU are of no other rank.
    pub(crate) is_unique: bool,
    /// Its ranks within communicators, by position.
    pub(crate) places: BTreeMap<usize, u32>,
    /// What a source says is wrong with it, where it says that of no communicator.
    pub(crate) faults: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Processes {
    pub(crate) all: Vec<Process>,
    of_place: BTreeMap<(Source, usize, u32), usize>,
    of_rank: BTreeMap<u32, usize>,
    /// By source and communicator: the ranks of the job by their places.
    ranks: BTreeMap<(Source, usize), Vec<u32>>,
}

/// Host, process and GPU of a source; and the rank, where the source says that and no process.
type Key<'r> = (Source, Option<&'r str>, Option<i64>, Option<i64>, Option<u32>);

fn key(status: &RankStatus) -> Option<Key<'_>> {
    let rank = status.rank.map(|rank| rank.0);
    let is_reported = status.communicator.is_none() && !status.faults.is_empty();
    let says = status.host.is_some() || status.pid.is_some() || is_reported;
    says.then_some((status.source, status.host.as_deref(), status.pid, status.device, rank))
}

impl Processes {
    /// By what the sources say of ranks.
    pub(crate) fn find(records: &Records, communicators: &Communicators) -> Self {
        let mut found = Processes::default();
        let mut known: BTreeMap<Key<'_>, usize> = BTreeMap::new();
        let mut shared: BTreeSet<Source> = BTreeSet::new();
        for status in &records.rank_status {
            let Some(key) = key(status) else { continue };
            let at = *known.entry(key).or_insert_with(|| {
                let (source, host, pid, device, rank) = key;
                let host = host.map(str::to_owned);
                found.all.push(Process { source, host, pid, device, rank, ..Process::default() });
                found.all.len() - 1
            });
            if status.communicator.is_none() {
                found.all[at].faults.extend(status.faults.iter().cloned());
            }
            if let (Some(position), Some(place)) = (communicators.position(status.communicator), status.place) {
                if *found.all[at].places.entry(position).or_insert(place) != place {
                    shared.insert(status.source);
                }
                found.of_place.insert((status.source, position, place), at);
            }
        }
        for process in &mut found.all {
            process.is_unique = process.pid.is_some() && !shared.contains(&process.source);
        }
        // RCCL writes the rank of the job into the lines of calls.
        for operation in &records.operations {
            let position = communicators.of_operation(operation).zip(operation.place);
            if let (Some(rank), Some((position, place))) = (operation.rank, position)
                && let Some(at) = found.of_place.get(&(operation.source, position, place))
            {
                found.all[*at].rank.get_or_insert(rank.0);
            }
        }
        let sources: BTreeSet<Source> = found.all.iter().map(|process| process.source).collect();
        sources.difference(&shared).for_each(|source| found.join(*source, communicators));
        for (at, process) in found.all.iter().enumerate() {
            if let Some(rank) = process.rank {
                found.of_rank.entry(rank).or_insert(at);
            }
        }
        found
    }

    /// Finds the ranks of the job of all processes of a source, if one communicator has all of them and is larger than the others.
    fn join(&mut self, source: Source, communicators: &Communicators) {
        let own: Vec<usize> = (0..self.all.len()).filter(|at| self.all[*at].source == source).collect();
        let positions: BTreeSet<usize> = own.iter().flat_map(|at| self.all[*at].places.keys()).copied().collect();
        let mut sizes: Vec<(u64, usize)> =
            positions.iter().filter_map(|position| Some((communicators.size(Some(*position))?, *position))).collect();
        sizes.sort_unstable();
        let [.., (second, _), (most, whole)] = sizes[..] else { return };
        let is_in = |at: &usize| self.all[*at].places.contains_key(&whole);
        let in_communicators = || own.iter().filter(|at| !self.all[**at].places.is_empty());
        let is_whole = second < most && in_communicators().count() as u64 == most && in_communicators().all(is_in);
        if !is_whole || own.iter().any(|at| self.all[*at].rank.is_some()) {
            return;
        }
        for at in &own {
            self.all[*at].rank = self.all[*at].places.get(&whole).copied();
        }
        for position in positions {
            let Some(size) = communicators.size(Some(position)).and_then(|size| u32::try_from(size).ok()) else {
                continue;
            };
            let rank = |place| self.all[*self.of_place.get(&(source, position, place))?].rank;
            if let Some(ranks) = (0..size).map(rank).collect::<Option<Vec<u32>>>() {
                self.ranks.insert((source, position), ranks);
            }
        }
    }

    /// The rank of the job at a place of a communicator, by its processes.
    pub(crate) fn rank_at(&self, source: Source, position: usize, place: Option<u32>) -> Option<u32> {
        self.ranks.get(&(source, position))?.get(place? as usize).copied()
    }

    /// The ranks of the job of a communicator, ascending, by its processes.
    pub(crate) fn ranks_of(&self, source: Source, position: usize) -> Option<Vec<u32>> {
        let mut ranks = self.ranks.get(&(source, position))?.clone();
        ranks.sort_unstable();
        Some(ranks)
    }

    /// The process of a rank of the job.
    pub(crate) fn of_rank(&self, rank: u32) -> Option<&Process> {
        self.all.get(*self.of_rank.get(&rank)?)
    }

    /// The number of the process at a place of a communicator, if host, process and GPU are of no other rank.
    pub(crate) fn identity(&self, source: Source, position: usize, place: u32) -> Option<usize> {
        let at = *self.of_place.get(&(source, position, place))?;
        self.all[at].is_unique.then_some(at)
    }

    /// The process at a place of a communicator.
    pub(crate) fn at(&self, source: Source, position: usize, place: u32) -> Option<&Process> {
        self.all.get(*self.of_place.get(&(source, position, place))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Communicator;

    /// Statuses of RAS: communicator, place, pid and device.
    fn records_of(statuses: &[(usize, u32, i64, i64)], sizes: &[u64]) -> Records {
        let mut records = Records::default();
        records.communicators =
            sizes.iter().map(|size| Communicator { size: Some(*size), ..Communicator::default() }).collect();
        for (communicator, place, pid, device) in statuses {
            let mut status = RankStatus::default();
            (status.source, status.communicator, status.place) = (Source::RAS, Some(*communicator), Some(*place));
            (status.host, status.pid, status.device) = (Some("n1".to_owned()), Some(*pid), Some(*device));
            records.rank_status.push(status);
        }
        records
    }

    fn found(records: &Records) -> Processes {
        Processes::find(records, &Communicators::find(records))
    }

    /// Communicator 0 is of the job; 1 has its ranks 2 and 3, the other way round.
    const JOB: &[(usize, u32, i64, i64)] =
        &[(0, 0, 10, 0), (0, 1, 11, 1), (0, 2, 12, 2), (0, 3, 13, 3), (1, 0, 13, 3), (1, 1, 12, 2)];

    #[test]
    fn a_rank_of_a_small_communicator_is_one_of_the_job_by_its_process() {
        let found = found(&records_of(JOB, &[4, 2]));
        assert_eq!([0, 1].map(|place| found.rank_at(Source::RAS, 1, Some(place))), [Some(3), Some(2)]);
        assert_eq!(found.ranks_of(Source::RAS, 1), Some(vec![2, 3]));
        let process = found.of_rank(3).map(|process| (process.pid, process.device, process.places.clone()));
        assert_eq!(process, Some((Some(13), Some(3), BTreeMap::from([(0, 3), (1, 0)]))));
    }

    #[test]
    fn no_communicator_of_all_processes_gives_no_rank_of_the_job() {
        let is_joined = |records: &Records| found(records).rank_at(Source::RAS, 0, Some(0)).is_some();
        assert!(is_joined(&records_of(JOB, &[4, 2])));
        assert!(!is_joined(&records_of(&JOB[..4], &[4])), "it may be a part of a larger job");
        assert!(!is_joined(&records_of(JOB, &[8, 2])), "ranks of it are unknown");
        let two = [(0, 0, 10, 0), (0, 1, 11, 1), (1, 0, 12, 2), (1, 1, 13, 3)];
        assert!(!is_joined(&records_of(&two, &[2, 2])), "two of one size");
        let in_containers = [(0, 0, 1, 0), (0, 1, 1, 0), (1, 0, 1, 0)];
        let found = found(&records_of(&in_containers, &[2, 1]));
        assert!(found.rank_at(Source::RAS, 0, Some(0)).is_none() && !found.all[0].is_unique);
    }
}
