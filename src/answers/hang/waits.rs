//! Which groups wait for which, by the ranks that they have together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Outcome;
use super::finding::Finding;
use super::graph::{PROCESSES, Rank};
use crate::operations::processes::Processes;
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;
use crate::time::Ns;

/// A group, by its index, with what it shows alone.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) at: usize,
    pub(super) group: &'a RecordedGroup,
    pub(super) finding: &'a Finding,
    pub(super) processes: &'a Processes,
}

impl Part<'_> {
    /// A rank of it, which two groups may have: by its number in the job, or else by its process.
    pub(super) fn rank(&self, rank: u32) -> Rank {
        let RecordedGroup { source, position, is_global, .. } = *self.group;
        if is_global {
            return (None, rank);
        }
        let process = self.processes.identity(source, position, rank).and_then(|at| u32::try_from(at).ok());
        process.map_or((Some(self.at), rank), |process| (PROCESSES, process))
    }

    pub(super) fn all<'r>(&self, ranks: impl IntoIterator<Item = &'r u32>) -> Vec<Rank> {
        ranks.into_iter().map(|rank| self.rank(*rank)).collect()
    }
}

/// Which groups wait for which. A group that waits for a rank depends on the groups in which that rank waits; a group without a rank at fault depends
/// on the groups in which its own ranks have waited longer. Edges are stored by rank, because the number of edges between groups would be quadratic.
#[derive(Default)]
pub(super) struct Waits {
    /// By rank: the groups that wait for it.
    awaited_in: BTreeMap<Rank, Vec<usize>>,
    /// By hung group: the ranks that wait in it.
    waiting: BTreeMap<usize, Vec<Rank>>,
    /// By group without a rank at fault: the groups that it waits for.
    pub(super) held_up: BTreeMap<usize, BTreeSet<usize>>,
}

impl Waits {
    pub(super) fn find(records: &Records, all: &[Part<'_>]) -> Self {
        let mut waits = Waits::default();
        // By rank: the start and group of its oldest incomplete operation.
        let mut oldest: BTreeMap<Rank, (Option<Ns>, usize)> = BTreeMap::new();
        for part @ Part { at, group, finding, .. } in all {
            if finding.outcome == Some(Outcome::Hung) || !group.unknown().is_empty() {
                waits.waiting.insert(*at, part.all(&finding.waiting));
            }
            let awaited = part.all(finding.missing.union(&finding.stuck));
            awaited.into_iter().for_each(|rank| waits.awaited_in.entry(rank).or_default().push(*at));
            for (rank, operation) in &finding.oldest {
                let since = (records.operations[*operation].enqueued, *at);
                let known = oldest.entry(part.rank(*rank)).or_insert(since);
                *known = since.min(*known);
            }
        }
        for part @ Part { at, finding, .. } in
            all.iter().filter(|of| of.finding.missing.is_empty() && of.finding.stuck.is_empty())
        {
            let waiting = part.all(&finding.waiting);
            let others = waiting.iter().filter_map(|rank| oldest.get(rank)).map(|(_, other)| *other);
            waits.held_up.insert(*at, others.filter(|other| other != at).collect());
        }
        waits
    }

    /// The number of groups between each group and the roots.
    pub(super) fn distances(&self, roots: Vec<usize>) -> BTreeMap<usize, u32> {
        let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, others) in &self.held_up {
            others.iter().for_each(|other| after.entry(*other).or_default().push(*at));
        }
        let mut distance: BTreeMap<usize, u32> = roots.iter().map(|root| (*root, 0)).collect();
        let mut next: VecDeque<usize> = roots.into();
        let mut followed: BTreeSet<Rank> = BTreeSet::new();
        while let Some(at) = next.pop_front() {
            let of = distance.get(&at).copied().unwrap_or(0);
            // Groups that wait for a rank are reached from the first group in which that rank waits.
            let ranks = self.waiting.get(&at).into_iter().flatten().filter(|rank| followed.insert(**rank));
            let by_rank = ranks.filter_map(|rank| self.awaited_in.get(rank)).flatten();
            for other in by_rank.chain(after.get(&at).into_iter().flatten()) {
                if !distance.contains_key(other) {
                    distance.insert(*other, of + 1);
                    next.push_back(*other);
                }
            }
        }
        distance
    }
}
