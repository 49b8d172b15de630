//! Two runs of many ranks beside each other: as tables for people, and as rows for spreadsheets.

use std::io::{self, Write};

use crate::analysis::cost::Order;
use crate::analysis::delta::Delta;
use crate::ranks::change::{RankChange, RankChanges, RunWaits, StackChange, Waits};
use crate::report::column::{Align, Column, Table};
use crate::report::csv::write_rows;
use crate::report::format::{change, count, duration, percent_or_unknown, visible};
use crate::report::frames::shorten_frame;
use crate::time::Ns;

/// How many stacks are shown to people.
const STACKS: usize = 20;

/// Columns that a frame needs at least.
const FRAME: usize = 30;

/// A row of the table of the runs.
struct Total {
    label: &'static str,
    get: fn(&RunWaits) -> String,
    delta: fn(&RunWaits) -> Option<Ns>,
}

const TOTALS: &[Total] = &[
    Total { label: "ranks", get: |run| count(run.ranks), delta: |_| None },
    Total { label: "collectives", get: |run| count(run.collectives), delta: |_| None },
    Total { label: "late", get: |run| count(run.late), delta: |_| None },
    Total { label: "measured", get: |run| duration(run.measured), delta: |run| Some(run.measured) },
    Total { label: "waited", get: |run| duration(run.waited), delta: |run| Some(run.waited) },
    Total { label: "transfer", get: |run| duration(run.transfer), delta: |run| Some(run.transfer) },
    Total { label: "waiting", get: |run| percent_or_unknown(run.waited.share_of(run.measured)), delta: |_| None },
    Total { label: "clocks", get: |run| run.clock.to_owned(), delta: |_| None },
];

/// Label, before, after and change.
type Cells = (&'static str, String, String, String);

const OF_RUNS: &[Column<Total, Cells>] = &[
    Column::left("", |_, (label, ..)| (*label).to_owned()),
    Column::all_right("before", |_, (_, before, ..)| before.clone()),
    Column::all_right("after", |_, (_, _, after, _)| after.clone()),
    Column::all_right("change", |_, (.., change)| change.clone()),
];

const RANKS: &[Column<RankChange>] = &[
    Column::right("rank", |rank, ()| rank.rank.to_string()),
    Column::all_right("waited before", |rank, ()| of(rank.before, |waits| waits.waited)),
    Column::all_right("after", |rank, ()| of(rank.after, |waits| waits.waited)),
    Column::dropped(0, Align::AllRight, "change", |rank, ()| grown(rank.before, rank.after, |waits| waits.waited)),
    Column::all_right("caused before", |rank, ()| of(rank.before, |waits| waits.caused)),
    Column::all_right("after", |rank, ()| of(rank.after, |waits| waits.caused)),
    Column::dropped(1, Align::AllRight, "change", |rank, ()| grown(rank.before, rank.after, |waits| waits.caused)),
];

const STACK: &[Column<StackChange>] = &[
    Column::all_right("waited before", |stack, ()| of(stack.before, |waits| waits.waited)),
    Column::all_right("after", |stack, ()| of(stack.after, |waits| waits.waited)),
    Column::all_right("change", |stack, ()| grown(stack.before, stack.after, |waits| waits.waited)),
    Column::dropped(0, Align::AllRight, "added before", |stack, ()| of(stack.before, |waits| waits.added)),
    Column::dropped(1, Align::AllRight, "after", |stack, ()| of(stack.after, |waits| waits.added)),
];

fn of(waits: Option<Waits>, get: fn(&Waits) -> Ns) -> String {
    waits.as_ref().map(get).map_or("-".to_owned(), duration)
}

fn grown(before: Option<Waits>, after: Option<Waits>, get: fn(&Waits) -> Ns) -> String {
    match (before.as_ref().map(get), after.as_ref().map(get)) {
        (Some(before), Some(after)) => growth(before, after),
        (None, Some(_)) => "new".to_owned(),
        _ => "gone".to_owned(),
    }
}

fn growth(before: Ns, after: Ns) -> String {
    change(Order::GpuTime, Delta { before: before.as_f64(), after: after.as_f64() })
}

pub(super) fn text(changes: &RankChanges, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let total = |total: &'static Total| {
        let (before, after) = (&changes.before, &changes.after);
        let change = (total.delta)(before).zip((total.delta)(after)).map(|(before, after)| growth(before, after));
        (total, (total.label, (total.get)(before), (total.get)(after), change.unwrap_or_default()))
    };
    writeln!(out, "{}", Table::of(OF_RUNS, TOTALS.iter().map(total)).text())?;
    let mut ranks = Table::of(RANKS, changes.ranks.iter().map(|rank| (rank, ())));
    ranks.drop_to(width.unwrap_or(usize::MAX));
    writeln!(out, "{}", ranks.text())?;
    let shown = changes.stacks.iter().take(STACKS);
    let mut stacks = Table::of(STACK, shown.clone().map(|stack| (stack, ())));
    stacks.drop_to(width.unwrap_or(usize::MAX).saturating_sub(FRAME));
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(stacks.width() + 2)).max(FRAME);
    let frame = |stack: &StackChange| {
        stack
            .headline
            .as_deref()
            .map_or("(no launch in the trace)".to_owned(), |frame| shorten_frame(&visible(frame), room))
    };
    stacks.push("from", shown.map(frame).collect());
    out.write_all(stacks.text().as_bytes())?;
    match changes.stacks.len().saturating_sub(STACKS) {
        0 => Ok(()),
        more => writeln!(out, "… and {} more stacks", count(more as u64)),
    }
}

/// A row of either kind, with its waits before and after.
struct Row {
    kind: &'static str,
    rank: Option<u32>,
    stack: String,
    before: Option<Waits>,
    after: Option<Waits>,
}

const COLUMNS: &[Column<Row>] = &[
    Column::left("row", |row, ()| row.kind.to_owned()),
    Column::right("rank", |row, ()| row.rank.map_or(String::new(), |rank| rank.to_string())),
    Column::right("waited_before_ns", |row, ()| number(row.before, |waits| waits.waited.0)),
    Column::right("waited_after_ns", |row, ()| number(row.after, |waits| waits.waited.0)),
    Column::right("caused_before_ns", |row, ()| number(row.before, |waits| waits.caused.0)),
    Column::right("caused_after_ns", |row, ()| number(row.after, |waits| waits.caused.0)),
    Column::right("added_before_ns", |row, ()| number(row.before, |waits| waits.added.0)),
    Column::right("added_after_ns", |row, ()| number(row.after, |waits| waits.added.0)),
    Column::right("kernels_before", |row, ()| number(row.before, |waits| waits.kernels as i64)),
    Column::right("kernels_after", |row, ()| number(row.after, |waits| waits.kernels as i64)),
    Column::left("stack", |row, ()| row.stack.clone()),
];

fn number(waits: Option<Waits>, get: fn(&Waits) -> i64) -> String {
    waits.as_ref().map(get).map_or(String::new(), |number| number.to_string())
}

pub(super) fn csv(changes: &RankChanges, out: &mut impl Write) -> io::Result<()> {
    let rank = |of: &RankChange| Row {
        kind: "rank",
        rank: Some(of.rank),
        stack: String::new(),
        before: of.before,
        after: of.after,
    };
    let stack = |of: &StackChange| {
        let stack = of.frames.iter().map(|frame| visible(frame).into_owned()).collect::<Vec<_>>().join(";");
        Row { kind: "stack", rank: None, stack, before: of.before, after: of.after }
    };
    let rows: Vec<Row> = changes.ranks.iter().map(rank).chain(changes.stacks.iter().map(stack)).collect();
    write_rows(COLUMNS.iter(), rows.iter().map(|row| (row, ())), out)
}
