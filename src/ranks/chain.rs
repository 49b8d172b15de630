//! Ranks that are late because they waited for another rank, in another group: the chain to its root.
//!
//! A rank that waits at a tensor-parallel all-reduce comes late to the data-parallel reduce-scatter after it, and all replicas wait for it
//! there, although it did nothing wrong. So what a late rank waited in other groups since its group's last collective is compared with
//! what the others waited meanwhile; where it is most of the lateness, the rank for which it waited is to be asked next.

use std::collections::BTreeSet;

use super::clock::Clocks;
use super::job::Job;
use super::matching::{Matches, Unit};
use super::waiting::measure;
use crate::statistics::median;
use crate::time::Ns;

/// How many ranks a chain may have.
const LONGEST: usize = 16;

/// So much of the lateness is most of it.
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
    /// The positions of unit and column; `NOWHERE` for a row that is not matched.
    unit: u32,
    column: u32,
    /// The position of the rank that came last.
    last: u32,
    wait: Ns,
}

const NOWHERE: RowWait = RowWait { unit: u32::MAX, column: 0, last: u32::MAX, wait: Ns::ZERO };

/// A collective to which a rank came late.
#[derive(Debug, Clone, Copy)]
struct Late {
    unit: usize,
    column: usize,
    rank: usize,
    /// By how much.
    by: Ns,
}

impl<'a> Chains<'a> {
    pub(super) fn new(job: &Job, matches: &'a Matches, clocks: &Clocks) -> Self {
        let mut of: Vec<Vec<RowWait>> = job.parts.iter().map(|part| vec![NOWHERE; part.rows.len()]).collect();
        for (number, unit) in matches.units.iter().enumerate() {
            for (at, column) in unit.columns.iter().enumerate() {
                let place = RowWait { unit: number as u32, column: at as u32, ..NOWHERE };
                for (member, row) in column.rows.iter().enumerate() {
                    row.iter().for_each(|row| of[unit.members[member]][*row as usize] = place);
                }
                let Some(measured) = measure(job, clocks, unit, column) else { continue };
                for (member, wait) in measured.waits {
                    let Some(row) = column.rows[member] else { continue };
                    let last = unit.members[measured.last] as u32;
                    of[unit.members[member]][row as usize] = RowWait { last, wait, ..place };
                }
            }
        }
        Chains { matches, of }
    }

    /// The positions of the unit and column of a rank's row, if it is matched.
    pub(super) fn place(&self, rank: usize, row: usize) -> Option<(usize, usize)> {
        let of = self.of[rank][row];
        (of.unit != NOWHERE.unit).then_some((of.unit as usize, of.column as usize))
    }

    /// The rank at the end of the chain, if a rank was late at a collective because it waited elsewhere.
    pub(super) fn root(&self, unit: usize, column: usize, rank: usize, by: Ns) -> Option<usize> {
        let mut late = Late { unit, column, rank, by };
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
        let unit = &self.matches.units[late.unit];
        let of_member = |member: usize| self.since(unit, late, member);
        let own = unit.members.iter().position(|rank| *rank == late.rank)?;
        let (waited, longest) = of_member(own)?;
        let others = (0..unit.members.len()).filter(|member| *member != own).filter_map(of_member);
        let usual = median(others.map(|(waited, _)| waited.as_f64()));
        let longest = longest?;
        let is_most = waited.as_f64() - usual > MOST * late.by.as_f64();
        (is_most && longest.last as usize != late.rank).then_some(Late {
            unit: longest.unit as usize,
            column: longest.column as usize,
            rank: longest.last as usize,
            by: longest.wait,
        })
    }

    /// What a member waited in other groups since its group's collective before: all, and at which one longest.
    fn since(&self, unit: &Unit, late: &Late, member: usize) -> Option<(Ns, Option<RowWait>)> {
        let row = unit.columns[late.column].rows[member]? as usize;
        let rank = unit.members[member];
        let before = self.of[rank][..row].iter().rev().take_while(|of| of.unit as usize != late.unit);
        let waits = before.filter(|of| of.wait > Ns::ZERO).copied();
        let longest = waits.clone().max_by_key(|of| of.wait);
        Some((waits.map(|of| of.wait).sum(), longest))
    }
}
