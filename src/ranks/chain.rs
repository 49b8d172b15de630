//! Ranks that are late because they waited for another rank, in another group: the chain to its root.
//!
//! A rank that waits at a tensor-parallel all-reduce comes late to the data-parallel reduce-scatter after it, and all replicas wait for it
//! there, although it did nothing wrong. So what a late rank waited in other groups since its group's last collective is compared with
//! what the others waited meanwhile; where it is most of the lateness, the rank for which it waited is to be asked next.

use std::collections::BTreeSet;

use super::job::Job;
use super::waiting::measure;
use crate::operations::clocks::Clocks;
use crate::operations::matching::{MatchedGroup, Matches};
use crate::statistics::median;
use crate::time::Ns;

/// How many ranks a chain may have.
const LONGEST: usize = 16;

/// A wait elsewhere explains a lateness if it is more than this share of it.
const MOST: f64 = 0.5;

/// Waits of all ranks, by row.
pub(super) struct Chains<'a> {
    matches: &'a Matches,
    /// By rank and row.
    of: Vec<Vec<RowWait>>,
}

/// A row's place, and what it waited.
#[derive(Debug, Clone, Copy)]
struct RowWait {
    /// The positions of group and collective; `NOWHERE` for a row that is not matched.
    group: u32,
    collective: u32,
    /// The position of the rank that came last.
    last: u32,
    wait: Ns,
}

const NOWHERE: RowWait = RowWait { group: u32::MAX, collective: 0, last: u32::MAX, wait: Ns::ZERO };

/// A collective to which a rank came late.
#[derive(Debug, Clone, Copy)]
struct Late {
    group: usize,
    collective: usize,
    rank: usize,
    /// By how much.
    by: Ns,
}

impl<'a> Chains<'a> {
    pub(super) fn new(job: &Job, matches: &'a Matches, clocks: &Clocks) -> Self {
        let mut of: Vec<Vec<RowWait>> =
            job.reductions.iter().map(|reduction| vec![NOWHERE; reduction.rows.len()]).collect();
        for (number, group) in matches.groups.iter().enumerate() {
            for (at, collective) in group.collectives.iter().enumerate() {
                let place = RowWait { group: number as u32, collective: at as u32, ..NOWHERE };
                for (member, row) in collective.rows.iter().enumerate() {
                    row.iter().for_each(|row| of[group.members[member]][*row as usize] = place);
                }
                let Some(measured) = measure(job, clocks, group, collective) else { continue };
                for (member, wait) in measured.waits {
                    let Some(row) = collective.rows[member] else { continue };
                    let last = group.members[measured.last] as u32;
                    of[group.members[member]][row as usize] = RowWait { last, wait, ..place };
                }
            }
        }
        Chains { matches, of }
    }

    /// The positions of the group and collective of a rank's row, if it is matched.
    pub(super) fn place(&self, rank: usize, row: usize) -> Option<(usize, usize)> {
        let of = self.of[rank][row];
        (of.group != NOWHERE.group).then_some((of.group as usize, of.collective as usize))
    }

    /// The rank at the end of the chain, if a rank was late at a collective because it waited elsewhere.
    pub(super) fn root(&self, group: usize, collective: usize, rank: usize, by: Ns) -> Option<usize> {
        let mut late = Late { group, collective, rank, by };
        let mut seen = BTreeSet::from([rank]);
        let mut found = None;
        for _ in 0..LONGEST {
            let Some(next) = self.held_up_by(&late).filter(|next| seen.insert(next.rank)) else { break };
            found = Some(next.rank);
            late = next;
        }
        found
    }

    /// The collective of another group at which it waited longest, and the rank for which it did.
    fn held_up_by(&self, late: &Late) -> Option<Late> {
        let group = &self.matches.groups[late.group];
        let of_member = |member: usize| self.since(group, late, member);
        let own = group.members.iter().position(|rank| *rank == late.rank)?;
        let (waited, longest) = of_member(own)?;
        let others = (0..group.members.len()).filter(|member| *member != own).filter_map(of_member);
        let usual = median(others.map(|(waited, _)| waited.as_f64()));
        let longest = longest?;
        let is_most = waited.as_f64() - usual > MOST * late.by.as_f64();
        (is_most && longest.last as usize != late.rank).then_some(Late {
            group: longest.group as usize,
            collective: longest.collective as usize,
            rank: longest.last as usize,
            by: longest.wait,
        })
    }

    /// What a member waited in other groups since its group's collective before: all, and at which one longest.
    fn since(&self, group: &MatchedGroup, late: &Late, member: usize) -> Option<(Ns, Option<RowWait>)> {
        let row = group.collectives[late.collective].rows[member]? as usize;
        let rank = group.members[member];
        let before = self.of[rank][..row].iter().rev().take_while(|of| of.group as usize != late.group);
        let waits = before.filter(|of| of.wait > Ns::ZERO).copied();
        let longest = waits.clone().max_by_key(|of| of.wait);
        Some((waits.map(|of| of.wait).sum(), longest))
    }
}
