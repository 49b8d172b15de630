//! The tables of a comparison of ranks, which runs when a query first reads one of them ([`super::source`]).
//!
//! They exist in databases that were opened with a comparison. A query that reads them fails if the ranks cannot be compared.

use super::ranks::{MatchRow, PathRow, RankRow};
use super::source::Source;
use super::table::Lookup::{Integer, Scan, Sorted};
use super::table::{Cell, Table, id, int, known, real, text};

pub(super) const TABLES: &[&Table] = &[&RANK, &COLLECTIVE_MATCH];

/// Those that also a single trace has of which nothing says which rank it is.
pub(super) const OF_ONE: &[&Table] = &[&CRITICAL_PATH];

fn rank(s: &Source, i: usize) -> &RankRow {
    &s.rank_rows().ranks[i]
}

/// `rank`: one row per compared rank, see [`RankRow`].
static RANK: Table = Table {
    name: c"rank",
    rows: |s| s.rank_rows().ranks.len(),
    columns: &[
        id(),
        int("rank", Sorted, |s, i| Cell::Int(rank(s, i).rank.into())),
        int("machine_id", Integer, |s, i| Cell::Int(rank(s, i).machine.into())),
        text("trace", |s, i| Cell::Text(&rank(s, i).trace)),
        int("offset_ns", Scan, |s, i| known(rank(s, i).offset)),
        int("uncertainty_ns", Scan, |s, i| known(rank(s, i).uncertainty)),
        real("drift_ns_per_ms", |s, i| Cell::Real(rank(s, i).drift_ns_per_ms)),
        int("waited", Scan, |s, i| Cell::Int(rank(s, i).waited.into())),
        int("caused", Scan, |s, i| Cell::Int(rank(s, i).caused.into())),
        int("late_count", Scan, |s, i| i64::try_from(rank(s, i).late_count).ok().into()),
        int("transfer", Scan, |s, i| Cell::Int(rank(s, i).transfer.into())),
        real("queue_empty_share", |s, i| rank(s, i).queue_empty_share.map_or(Cell::Null, Cell::Real)),
    ],
};

fn matched(s: &Source, i: usize) -> &MatchRow {
    &s.rank_rows().matches[i]
}

/// `collective_match`: one row per collective of a compared rank, see [`MatchRow`].
static COLLECTIVE_MATCH: Table = Table {
    name: c"collective_match",
    rows: |s| s.rank_rows().matches.len(),
    columns: &[
        id(),
        int("collective_id", Integer, |s, i| known(s.operation_of(matched(s, i).kernel))),
        int("slice_id", Sorted, |s, i| Cell::Int(matched(s, i).kernel.into())),
        int("rank", Integer, |s, i| Cell::Int(matched(s, i).rank.into())),
        int("match_id", Integer, |s, i| Cell::Int(matched(s, i).number.into())),
        text("communicator", |s, i| matched(s, i).communicator.as_deref().into()),
        int("place", Integer, |s, i| Cell::Int(matched(s, i).place.into())),
        text("status", |s, i| Cell::Text(matched(s, i).status)),
        int("waited", Scan, |s, i| known(matched(s, i).waited)),
        int("transfer", Scan, |s, i| known(matched(s, i).transfer)),
        int("aligned_ts", Scan, |s, i| known(matched(s, i).aligned_start)),
        int("is_late", Scan, |s, i| known(matched(s, i).is_late)),
        int("late_rank", Integer, |s, i| known(matched(s, i).late_rank)),
    ],
};

fn piece(s: &Source, i: usize) -> &PathRow {
    &s.rank_rows().path[i]
}

/// `critical_path`: one row per piece of the critical path of the compared ranks, see [`PathRow`].
static CRITICAL_PATH: Table = Table {
    name: c"critical_path",
    rows: |s| s.rank_rows().path.len(),
    columns: &[
        id(),
        int("rank", Integer, |s, i| Cell::Int(piece(s, i).rank.into())),
        int("slice_id", Integer, |s, i| known(piece(s, i).slice)),
        text("kind", |s, i| Cell::Text(piece(s, i).kind)),
        int("ts", Scan, |s, i| Cell::Int(piece(s, i).start.into())),
        int("dur", Scan, |s, i| Cell::Int(piece(s, i).dur.into())),
    ],
};
