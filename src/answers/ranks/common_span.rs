//! The span of time that the traces of all ranks have.
//!
//! Profilers stop on each rank by themselves, and a trace may be cut. Beyond the end of one trace the other ranks may wait for that rank, and
//! nothing shows it: whoever came last of the rest would be blamed. So only collectives within the common span are judged.
//!
//! A trace has ended where its rank lacks the rest of a group's collectives, and the others started these after all that they have in common
//! with that rank, in any group; a lost kernel is followed by others. What they did from then on is outside, and so is what other ranks did
//! with them from then on. This needs no clocks, which `--clock none` does not compare. The beginning is the same in the other direction.

use super::job::{Job, Matched};
use super::reduction::Row;
use crate::operations::matching::{MatchedGroup, Matches};
use crate::time::{Ns, Window};

/// By rank, in the order of [`Job::ranks`]: from when to when its collectives have to start, on its own clock.
pub(super) fn common_spans(job: &Job, matches: &Matches) -> Vec<Window> {
    let [ends, begins] = [1, -1].map(|sign| Side { job, matches, sign }.outside());
    let span = |(end, begin): (i64, i64)| Window { start: Ns(-begin) + Ns(1), end: Ns(end) };
    ends.into_iter().zip(begins).map(span).collect()
}

/// The ends of traces (1), or their beginnings (-1), as if time ran backwards.
struct Side<'a> {
    job: &'a Job,
    matches: &'a Matches,
    sign: i64,
}

impl<'a> Side<'a> {
    fn time(&self, row: &Row) -> i64 {
        self.sign.saturating_mul(row.start.0)
    }

    /// By rank: when its first collective outside of the common span starts; the end of time if there is none.
    fn outside(&self) -> Vec<i64> {
        let mut outside = vec![i64::MAX; self.job.ranks.len()];
        let mut groups: Vec<Vec<(&'a MatchedGroup, usize)>> = vec![Vec::new(); self.job.ranks.len()];
        for group in &self.matches.groups {
            group.members.iter().enumerate().for_each(|(member, rank)| groups[*rank].push((group, member)));
        }
        for own in groups {
            // Most ranks have the last collective of each of their groups.
            let after: Vec<_> = own.iter().copied().map(|(group, member)| self.after(group, member)).collect();
            if after.iter().all(Vec::is_empty) {
                continue;
            }
            let reached = self.reached(&own);
            for after in after {
                let is_after = |of: &Matched<'a>| {
                    let known: Vec<bool> =
                        self.starts(*of).filter_map(|(rank, start)| Some(start > reached[rank]?)).collect();
                    !known.is_empty() && known.into_iter().all(|is_after| is_after)
                };
                // The first decides: those after it are later still.
                let first = after.into_iter().find(is_after);
                for (rank, start) in first.into_iter().flat_map(|of| self.starts(of)) {
                    outside[rank] = outside[rank].min(start);
                }
            }
        }
        self.propagate(&mut outside);
        outside
    }

    /// By other rank: when it started the last collective that it has in common with a rank, whose groups these are.
    fn reached(&self, own: &[(&'a MatchedGroup, usize)]) -> Vec<Option<i64>> {
        let mut reached: Vec<Option<i64>> = vec![None; self.job.ranks.len()];
        for (group, member) in own {
            let has = |of: &Matched<'_>| of.collective.rows[*member].is_some() && of.collective.fault.is_none();
            let last = match self.sign {
                1 => self.job.collectives(group).rev().find(has),
                _ => self.job.collectives(group).find(has),
            };
            for (rank, start) in last.into_iter().flat_map(|of| self.starts(of)) {
                reached[rank] = reached[rank].max(Some(start));
            }
        }
        reached
    }

    /// The collectives of a group after the last that a member has, the nearest first.
    fn after(&self, group: &'a MatchedGroup, member: usize) -> Vec<Matched<'a>> {
        let lacks = |of: &Matched<'_>| of.collective.rows[member].is_none();
        let mut after: Vec<Matched<'_>> = match self.sign {
            1 => self.job.collectives(group).rev().take_while(lacks).collect(),
            _ => self.job.collectives(group).take_while(lacks).collect(),
        };
        after.retain(|of| of.collective.fault.is_none());
        after.reverse();
        after
    }

    /// What a rank did with another after that one's end is after its own.
    fn propagate(&self, outside: &mut [i64]) {
        let mut has_changed = outside.iter().any(|time| *time < i64::MAX);
        while std::mem::take(&mut has_changed) {
            for of in self.collectives() {
                if self.starts(of).any(|(rank, start)| start >= outside[rank]) {
                    for (rank, start) in self.starts(of) {
                        has_changed |= start < outside[rank];
                        outside[rank] = outside[rank].min(start);
                    }
                }
            }
        }
    }

    /// The collectives that several ranks have.
    fn collectives(&self) -> impl Iterator<Item = Matched<'a>> {
        let all = self.matches.groups.iter().flat_map(|group| self.job.collectives(group));
        all.filter(|of| of.collective.fault.is_none() && of.collective.present() > 1)
    }

    /// The ranks that have a collective, with the times of their starts.
    fn starts(&self, of: Matched<'a>) -> impl Iterator<Item = (usize, i64)> {
        of.rows().map(move |(member, row)| (of.rank(member), self.time(row)))
    }
}
