//! The ranks of a store's traces, compared, as rows of SQL tables.

use std::sync::Arc;

use super::alone::paths;
use super::critical::{PlacedPiece, pieces, placed};
use super::data::{Compared, RankWaits, RanksError};
use super::job::{JobError, Matched};
use super::reduce::collectives;
use super::reduction::{GivenRank, RankReduction};
use super::waiting::measure;
use crate::id::{RankId, SliceId, TraceId};
use crate::operation::Communicator;
use crate::operations::clocks::{ClockMode, Clocks};
use crate::operations::matching::GroupName;
use crate::replay::rank::RankGraph;
use crate::sql::ranks::{MatchRow, PathRow, RankRow, RankRows};
use crate::store::Store;
use crate::time::Window;

/// Compares the ranks of a store, as [`Compared`] does by default: all collectives, clocks aligned. The store must have been loaded with
/// [`crate::event::ArgsWanted::OPERATIONS`], or all. `given` are ranks that the user
/// gives. A single trace has its critical path also without a collective, and without a rank, which then is 0.
/// Errors: why the ranks cannot be compared, as a sentence.
pub fn rank_rows(store: &Store, given: &[GivenRank]) -> Result<RankRows, String> {
    let name = store.traces.first().map_or("", |trace| trace.name.as_deref().unwrap_or(&trace.file));
    let mut reductions = collectives(name, store);
    given.iter().try_for_each(|given| given.set(&mut reductions))?;
    if store.traces.len() == 1 && reductions.iter().all(|of| of.rows.is_empty()) {
        return Ok(RankRows { path: path_alone(store), ..RankRows::default() });
    }
    let is_one = reductions.len() == 1;
    let compared = match Compared::from_reductions(reductions, ClockMode::Align) {
        Err(why @ RanksError::Job(JobError::Unknown { .. })) if is_one => {
            let (path, incomparable) = (path_alone(store), Some(why.to_string()));
            return Ok(RankRows { path, incomparable, ..RankRows::default() });
        }
        compared => compared.map_err(|error| error.to_string())?,
    };
    let (ranks, matches, path) = (ranks(store, &compared), matches(&compared), path(&compared));
    Ok(RankRows { ranks, matches, path, incomparable: None })
}

fn ranks(store: &Store, compared: &Compared) -> Vec<RankRow> {
    let trace = |first: Option<u32>| first.map_or(TraceId(0), |kernel| store.trace_of(SliceId(kernel)));
    let of_job = compared.measured().ranks.into_iter().zip(&compared.job.reductions);
    let row = |(waits, reduction): (RankWaits, &RankReduction)| RankRow {
        rank: RankId(waits.rank),
        machine: trace(reduction.rows.first().map(|row| row.kernel)),
        trace: waits.trace,
        offset: waits.offset_ns,
        uncertainty: waits.uncertainty_ns,
        drift_ns_per_ms: waits.drift_ns_per_ms,
        waited: waits.waited_ns,
        caused: waits.caused_ns,
        late_count: waits.late_count,
        transfer: waits.transfer_ns,
        queue_empty_share: waits.queue_empty_share,
    };
    of_job.map(row).collect()
}

/// In the order of time.
fn path(compared: &Compared) -> Vec<PathRow> {
    let pieces =
        compared.asked(|question, _| placed(question.job, question.ranks, &pieces(question, compared.absent.as_ref())));
    let of_rank = |piece: &PlacedPiece| &compared.job.reductions[piece.rank].graph;
    let row = |piece: PlacedPiece| path_row(compared.job.ranks[piece.rank], of_rank(&piece), &piece);
    pieces.1.unwrap_or_default().into_iter().map(row).collect()
}

fn path_row(rank: u32, graph: &RankGraph, piece: &PlacedPiece) -> PathRow {
    PathRow {
        rank: RankId(rank),
        slice: graph.slices[piece.node as usize],
        kind: piece.kind.name(),
        start: piece.window.start + piece.ahead,
        dur: piece.window.duration(),
    }
}

/// The same of each process that launches, where nothing says which rank it is.
fn path_alone(store: &Store) -> Vec<PathRow> {
    let mut rows: Vec<PathRow> = Vec::new();
    for (rank, (graph, pieces)) in (0..).zip(paths(store, Window::ALL)) {
        rows.extend(pieces.iter().map(|piece| path_row(rank, &graph, piece)));
    }
    rows.sort_by_key(|row| row.start);
    rows
}

/// In the order of their kernels.
fn matches(compared: &Compared) -> Vec<MatchRow> {
    let (mut rows, mut number) = (Vec::new(), 0);
    for group in &compared.matches.groups {
        let communicator: Option<Arc<str>> = group_text(&group.name).map(Arc::from);
        for (place, of) in compared.job.collectives(group).enumerate() {
            let first = rows.len();
            match_rows(of, &compared.clocks, &mut rows);
            for row in &mut rows[first..] {
                (row.number, row.place, row.communicator) = (number, place as u32, communicator.clone());
            }
            number += 1;
        }
    }
    rows.sort_by_key(|row| row.kernel);
    rows
}

/// The rows of one collective, without what is equal in all of them.
fn match_rows(of: Matched<'_>, clocks: &Clocks, rows: &mut Vec<MatchRow>) {
    let measured = measure(of, clocks);
    let rank = |member: usize| RankId(of.job.ranks[of.rank(member)]);
    // Kernels of nearly equal length do not show who came last.
    let last = measured.as_ref().filter(|of| of.by_clocks || of.late.is_some()).map(|of| of.last);
    for (member, row) in of.counted_rows() {
        let wait =
            measured.as_ref().and_then(|of| of.waits.iter().find(|(of, _)| *of == member)).map(|(_, wait)| *wait);
        let is_late = measured.as_ref().map(|of| of.late == Some(member));
        let clock = &clocks.ranks[of.rank(member)];
        rows.push(MatchRow {
            kernel: SliceId(row.kernel),
            rank: rank(member),
            status: of.group.status(of.collective).name(),
            waited: wait,
            transfer: wait.map(|wait| row.dur - wait),
            aligned_start: clock.component.map(|_| clock.aligned(row.start)),
            is_late,
            late_rank: last.map(rank),
            ..MatchRow::default()
        });
    }
}

/// A group as `collective.communicator` names it, as far as it is known.
fn group_text(group: &GroupName) -> Option<String> {
    let mut known = Communicator::default();
    (known.ranks, known.description) = (group.ranks.clone(), group.description.clone());
    let text = known.key().or_else(|| group.description.clone()).or_else(|| group.name.clone())?;
    Some(match (group.pair, group.inferred_from_stream) {
        (Some((from, to)), _) => format!("{text} from {from} to {to}"),
        (None, Some(stream)) => format!("{text} inferred from stream {stream}"),
        (None, None) => text,
    })
}
