//! Compares the times between launches with those of other ranks between the same launches.

use std::collections::BTreeSet;

use super::Causes;
use crate::operations::matching::MatchedGroup;
use crate::ranks::reduction::{Class, Row, Segment};
use crate::statistics::median;
use crate::time::Ns;

/// Where a segment begins and ends: two stacks, numbered over all ranks, and whether it ends in a new step.
pub(super) type ClassKey = (Option<u32>, Option<u32>, bool);

/// A segment compared with those of other ranks.
pub(super) struct Compared {
    pub(super) segment: u32,
    pub(super) class: ClassKey,
    pub(super) own: Ns,
    /// The median of the other ranks.
    pub(super) others: Ns,
}

impl Compared {
    pub(super) fn excess(&self) -> Ns {
        self.own - self.others
    }
}

impl Causes<'_> {
    /// The segments of a rank compared with those of other ranks that begin at the same place and end with the launch of the same collective.
    /// Segments of graphs are compared only if there are no others: what they launch is not what they replay.
    pub(super) fn compared(&self, rank: usize, length: fn(&Segment) -> Ns) -> Vec<Compared> {
        let reduction = &self.job.reductions[rank];
        let eager = |row: &Row| !row.is_replay;
        let any_eager = reduction.rows.iter().any(eager);
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (at, row) in reduction.rows.iter().enumerate().filter(|(_, row)| !any_eager || eager(row)) {
            let (Some(segment), Some((group, collective))) = (row.segment, self.chains.place(rank, at)) else {
                continue;
            };
            let own = &reduction.segments[segment as usize];
            let class = self.class_key(rank, &reduction.cpu[own.class as usize]);
            if !seen.insert(segment) || class.0.is_none() {
                continue;
            }
            let group = &self.matches.groups[group];
            let others: Vec<f64> = (0..group.members.len())
                .filter(|member| group.members[*member] != rank)
                .filter_map(|member| self.length(group, collective, member, class, length))
                .collect();
            if !others.is_empty() {
                let others = Ns::rounded(median(others));
                found.push(Compared { segment, class, own: Ns::rounded(self.true_length(rank, length(own))), others });
            }
        }
        found
    }

    /// The length of a member's segment of a collective, if it begins and ends at the same places.
    fn length(
        &self,
        group: &MatchedGroup,
        collective: usize,
        member: usize,
        class: ClassKey,
        length: fn(&Segment) -> Ns,
    ) -> Option<f64> {
        let rank = group.members[member];
        let reduction = &self.job.reductions[rank];
        let segment =
            &reduction.segments[self.job.row(group, &group.collectives[collective], member)?.segment? as usize];
        (self.class_key(rank, &reduction.cpu[segment.class as usize]) == class)
            .then(|| self.true_length(rank, length(segment)))
    }

    /// A length on the clock of the lowest rank. Over the seconds between two steps, clock drift exceeds the differences of interest.
    fn true_length(&self, rank: usize, length: Ns) -> f64 {
        length.as_f64() * (1.0 - self.clocks.ranks[rank].slope)
    }

    pub(super) fn class_key(&self, rank: usize, class: &Class) -> ClassKey {
        let number = |stack: Option<u32>| stack.map(|stack| self.stacks[rank][stack as usize]);
        (number(class.from), number(class.to), class.is_new_step)
    }
}
