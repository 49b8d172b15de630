//! Two runs of many ranks side by side: as tables for people, and as rows for spreadsheets.

use std::io::{self, Write};

use crate::analysis::cost::Order;
use crate::analysis::delta::{Delta, Divided};
use crate::ranks::change::{EachWaits, RankChange, RankChanges, RunWaits, StackChange, Waits};
use crate::report::column::{Align, Column, Table};
use crate::report::csv::write_rows;
use crate::report::diff::by_what;
use crate::report::format::{change, count, percent_or_unknown, value, visible};
use crate::report::frames::shorten_frame;

/// How many stacks people see.
const STACKS: usize = 20;

/// The least room for a frame.
const FRAME: usize = 30;

/// A row of the table of the runs.
struct Total {
    label: &'static str,
    get: fn(&RunWaits) -> String,
    /// A divided time whose change is shown.
    delta: fn(&RunWaits) -> Option<f64>,
}

const TOTALS: &[Total] = &[
    Total { label: "ranks", get: |run| count(run.ranks), delta: |_| None },
    Total { label: "collectives in all", get: |run| count(run.collectives), delta: |_| None },
    Total { label: "late", get: |run| value(Order::Count, run.late as f64 / run.divided_by as f64), delta: |_| None },
    Total {
        label: "measured",
        get: |run| time(run.each(run.measured_ns)),
        delta: |run| Some(run.each(run.measured_ns)),
    },
    Total { label: "waited", get: |run| time(run.each(run.waited_ns)), delta: |run| Some(run.each(run.waited_ns)) },
    Total {
        label: "transfer",
        get: |run| time(run.each(run.transfer_ns)),
        delta: |run| Some(run.each(run.transfer_ns)),
    },
    Total { label: "waiting", get: |run| percent_or_unknown(run.waited_ns.share_of(run.measured_ns)), delta: |_| None },
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
    Column::all_right("waited before", |rank, ()| cell_text(rank.before, |each| each.waited_ns)),
    Column::all_right("after", |rank, ()| cell_text(rank.after, |each| each.waited_ns)),
    Column::dropped(0, Align::AllRight, "change", |rank, ()| grown(rank.before, rank.after, |each| each.waited_ns)),
    Column::all_right("caused before", |rank, ()| cell_text(rank.before, |each| each.caused_ns)),
    Column::all_right("after", |rank, ()| cell_text(rank.after, |each| each.caused_ns)),
    Column::dropped(1, Align::AllRight, "change", |rank, ()| grown(rank.before, rank.after, |each| each.caused_ns)),
];

const STACK: &[Column<StackChange>] = &[
    Column::all_right("waited before", |stack, ()| cell_text(stack.before, |each| each.waited_ns)),
    Column::all_right("after", |stack, ()| cell_text(stack.after, |each| each.waited_ns)),
    Column::all_right("change", |stack, ()| grown(stack.before, stack.after, |each| each.waited_ns)),
];

fn cell_text(waits: Option<Waits>, get: fn(&EachWaits) -> f64) -> String {
    waits.map_or("-".to_owned(), |waits| time(get(&waits.each)))
}

pub(super) fn time(nanos: f64) -> String {
    value(Order::GpuTime, nanos)
}

fn grown(before: Option<Waits>, after: Option<Waits>, get: fn(&EachWaits) -> f64) -> String {
    match (before.map(|waits| get(&waits.each)), after.map(|waits| get(&waits.each))) {
        (Some(before), Some(after)) => growth(before, after),
        (None, Some(_)) => "new".to_owned(),
        _ => "gone".to_owned(),
    }
}

/// The change of a time in ns.
pub(super) fn growth(before: f64, after: f64) -> String {
    change(Order::GpuTime, Delta { before, after })
}

/// What both runs are divided by, and how many of it each has.
pub(super) fn compared(changes: &RankChanges) -> String {
    let calls = [&changes.before, &changes.after].map(|run| run.collectives);
    by_what(changes.per, changes.not_per_step, [&changes.before.steps, &changes.after.steps], ("collective", calls))
}

pub(super) fn text(changes: &RankChanges, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let total = |total: &'static Total| {
        let (before, after) = (&changes.before, &changes.after);
        let change = (total.delta)(before).zip((total.delta)(after)).map(|(before, after)| growth(before, after));
        (total, (total.label, (total.get)(before), (total.get)(after), change.unwrap_or_default()))
    };
    writeln!(out)?;
    writeln!(out, "{}", Table::from_rows(OF_RUNS, TOTALS.iter().map(total)).text())?;
    let mut ranks = Table::from_rows(RANKS, changes.ranks.iter().map(|rank| (rank, ())));
    ranks.drop_to(width.unwrap_or(usize::MAX));
    writeln!(out, "{}", ranks.text())?;
    let shown = changes.stacks.iter().take(STACKS);
    let mut stacks = Table::from_rows(STACK, shown.clone().map(|stack| (stack, ())));
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

const COLUMNS: &[Column<Row, Divided>] = &[
    Column::left("row", |row, _| row.kind.to_owned()),
    Column::right("rank", |row, _| row.rank.map_or(String::new(), |rank| rank.to_string())),
    Column::right("waited_before_ns", |row, _| number(row.before, |waits| waits.waited_ns.0)),
    Column::right("waited_after_ns", |row, _| number(row.after, |waits| waits.waited_ns.0)),
    Column::right("caused_before_ns", |row, _| number(row.before, |waits| waits.caused_ns.0)),
    Column::right("caused_after_ns", |row, _| number(row.after, |waits| waits.caused_ns.0)),
    Column::right("kernels_before", |row, _| number(row.before, |waits| waits.kernels as i64)),
    Column::right("kernels_after", |row, _| number(row.after, |waits| waits.kernels as i64)),
    Column::left("stack", |row, _| row.stack.clone()),
    Column::left("per", |_, (per, ..)| per.name().to_owned()),
    Column::right("divided_before_by", |_, (_, before, _)| before.to_string()),
    Column::right("divided_after_by", |_, (.., after)| after.to_string()),
    Column::right("waited_before_each_ns", |row, _| each(row.before, |each| each.waited_ns)),
    Column::right("waited_after_each_ns", |row, _| each(row.after, |each| each.waited_ns)),
    Column::right("caused_before_each_ns", |row, _| each(row.before, |each| each.caused_ns)),
    Column::right("caused_after_each_ns", |row, _| each(row.after, |each| each.caused_ns)),
];

fn number(waits: Option<Waits>, get: fn(&Waits) -> i64) -> String {
    waits.as_ref().map(get).map_or(String::new(), |number| number.to_string())
}

fn each(waits: Option<Waits>, get: fn(&EachWaits) -> f64) -> String {
    waits.map_or(String::new(), |waits| get(&waits.each).to_string())
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
    let divided = (changes.per, changes.before.divided_by, changes.after.divided_by);
    write_rows(COLUMNS.iter(), rows.iter().map(|row| (row, divided)), out)
}
