//! What each rank does in each group, in one word.

use std::collections::BTreeSet;

use serde::Serialize;

use super::counts::is_numbered;
use super::finding::{Finding, is_open};
use super::{EvidenceKind, Outcome};
use crate::operation::{Counts, Operation, Source};
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// The ranks of a group.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MatrixRow {
    /// The group's name, as in the other answers.
    pub group: String,
    /// Its ranks, in order.
    pub cells: Vec<Cell>,
}

/// A rank in a group.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// The rank.
    pub rank: u32,
    /// What it does.
    pub state: CellState,
    /// The number of its oldest incomplete collective, or of the last one it enqueued; `None` if only sends and receives are incomplete, or no number
    /// is known.
    pub sequence: Option<i64>,
}

/// What a rank does in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// It called something different from the others.
    Odd,
    /// It has an incomplete operation that others have completed.
    Stuck,
    /// It did not enqueue the operation that others wait in.
    Missing,
    /// It has done less than others, but nothing shows that these wait.
    Lagging,
    /// Its source says that something is wrong with it.
    Reported,
    /// It has an incomplete operation.
    Waiting,
    /// Whether its last operation is complete is unknown.
    Enqueued,
    /// It has no incomplete operation.
    Done,
    /// It answers, and its source says nothing else.
    Answers,
    /// It has no records.
    Unknown,
}

pub(super) fn row(group: &RecordedGroup, finding: &Finding, records: &Records) -> MatrixRow {
    let mut cells: Vec<Cell> = Vec::new();
    // If there are sends and receives, the number may belong to one of them and is the rank's own.
    let is_counted = !group.has_peers() && is_numbered(group, records);
    // Numbers per function or stream do not count the group's operations.
    let is_of_group = |operation: &&Operation| matches!(operation.counts, Counts::Group | Counts::Communicator);
    let is_lagging = finding.outcome == Some(Outcome::Lagging);
    let less = finding.evidence.iter().filter(|of| !matches!(of.kind, EvidenceKind::Fault | EvidenceKind::NoAnswer));
    let is_less: BTreeSet<u32> = less.flat_map(|of| &of.ranks).copied().collect();
    let is_whole = finding.left_out == 0;
    for (rank, member) in &group.members {
        let state = match () {
            () if finding.odd.contains(rank) => CellState::Odd,
            () if finding.stuck.contains(rank) => CellState::Stuck,
            // It waits for a rank that has not enqueued what it has.
            () if finding.waiting.contains(rank) && finding.oldest.contains_key(rank) => CellState::Waiting,
            () if finding.missing.contains(rank) && is_lagging && is_whole && !is_less.contains(rank) => {
                CellState::Reported
            }
            () if finding.missing.contains(rank) && is_lagging => CellState::Lagging,
            () if finding.missing.contains(rank) => CellState::Missing,
            () if finding.waiting.contains(rank) => CellState::Waiting,
            () if finding.unknown.contains(rank) => CellState::Enqueued,
            () if group.source == Source::RAS => CellState::Answers,
            () => CellState::Done,
        };
        let operations = || member.collectives.iter().map(|at| &records.operations[*at]).filter(is_of_group);
        let open = operations().find(|operation| is_open(operation)).and_then(|operation| operation.sequence);
        let status = member.status.last().map(|at| &records.rank_status[*at]).filter(|_| is_counted);
        let next =
            status.and_then(|of| of.last_completed?.checked_add(1).filter(|next| Some(*next) <= of.last_enqueued));
        let open = open.or(next.filter(|_| state == CellState::Waiting));
        let said = status.and_then(|of| of.last_enqueued);
        let last = || operations().filter(|_| is_counted).filter_map(|operation| operation.sequence).max().max(said);
        let before_ring = finding.before_ring.get(rank).copied();
        cells.push(Cell { rank: *rank, state, sequence: before_ring.or(open).or_else(last) });
    }
    cells.extend(group.unknown().into_iter().map(|rank| Cell { rank, state: CellState::Unknown, sequence: None }));
    cells.sort_by_key(|cell| cell.rank);
    MatrixRow { group: group.name.group.clone(), cells }
}
