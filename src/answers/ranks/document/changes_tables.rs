//! Two runs of many ranks side by side: as tables for people, and as rows for spreadsheets.

use std::io::{self, Write};

use crate::answers::cost::Order;
use crate::answers::diff::delta::{Delta, Divided, change, value};
use crate::answers::diff::document::by_what;
use crate::answers::ranks::change::{EachWaits, RankChange, RankChanges, RunWaits, StackChange, Waits};
use crate::document::format::{count, percent_or_unknown, visible};
use crate::document::table::{Cell, Column, Table, name, number, words, write_csv};

/// How many stacks people see.
const MOST: usize = 20;

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

/// Before, after and change.
type Cells = [String; 3];

const OF_RUNS: &[Column<Total, Cells>] = &[
    words("", "").read(|total, _| Cell::Text(total.label.to_owned())),
    number("", "before").under_title().read(|_, [before, ..]| Cell::Text(before.clone())),
    number("", "after").under_title().read(|_, [_, after, _]| Cell::Text(after.clone())),
    number("", "change").under_title().read(|_, [.., change]| Cell::Text(change.clone())),
];

const RANKS: &[Column<RankChange>] = &[
    number("rank", "rank").read(|of, ()| Cell::Id(of.rank.into())),
    number("", "waited before").under_title().read(|of, ()| shown(of.before, |each| each.waited_ns)),
    number("", "after").under_title().read(|of, ()| shown(of.after, |each| each.waited_ns)),
    number("", "change").under_title().dropped(0).read(|of, ()| grown(of.before, of.after, |each| each.waited_ns)),
    number("", "caused before").under_title().read(|of, ()| shown(of.before, |each| each.caused_ns)),
    number("", "after").under_title().read(|of, ()| shown(of.after, |each| each.caused_ns)),
    number("", "change").under_title().dropped(1).read(|of, ()| grown(of.before, of.after, |each| each.caused_ns)),
];

const STACKS: &[Column<StackChange>] = &[
    number("", "waited before").under_title().read(|of, ()| shown(of.before, |each| each.waited_ns)),
    number("", "after").under_title().read(|of, ()| shown(of.after, |each| each.waited_ns)),
    number("", "change").under_title().read(|of, ()| grown(of.before, of.after, |each| each.waited_ns)),
    name("from").read(|of, ()| Cell::Text(of.headline.as_deref().map_or("(no launch)".into(), visible).into_owned())),
];

fn shown(waits: Option<Waits>, get: fn(&EachWaits) -> f64) -> Cell {
    Cell::Text(waits.map_or("-".to_owned(), |waits| time(get(&waits.each))))
}

pub(crate) fn time(nanos: f64) -> String {
    value(Order::GpuTime, nanos)
}

fn grown(before: Option<Waits>, after: Option<Waits>, get: fn(&EachWaits) -> f64) -> Cell {
    Cell::Text(match (before.map(|waits| get(&waits.each)), after.map(|waits| get(&waits.each))) {
        (Some(before), Some(after)) => growth(before, after),
        (None, Some(_)) => "new".to_owned(),
        _ => "gone".to_owned(),
    })
}

/// The change of a time in ns.
pub(crate) fn growth(before: f64, after: f64) -> String {
    change(Order::GpuTime, Delta { before, after })
}

/// What both runs are divided by, and how many of it each has.
pub(crate) fn compared(changes: &RankChanges) -> String {
    let calls = [&changes.before, &changes.after].map(|run| run.collectives);
    by_what(changes.per, changes.not_per_step, [&changes.before.steps, &changes.after.steps], ("collective", calls))
}

fn runs(changes: &RankChanges) -> Table {
    let total = |total: &'static Total| {
        let (before, after) = (&changes.before, &changes.after);
        let change = (total.delta)(before).zip((total.delta)(after)).map(|(before, after)| growth(before, after));
        (total, [(total.get)(before), (total.get)(after), change.unwrap_or_default()])
    };
    Table::new("runs", "Both runs", OF_RUNS, TOTALS.iter().map(total))
}

/// The stacks by the change of their waiting.
fn stacks(changes: &RankChanges) -> Table {
    let rows = changes.stacks.iter().map(|stack| (stack, ()));
    Table::new("changes", "Stacks by the change of their waiting", STACKS, rows)
}

/// With the first stacks alone.
pub(crate) fn tables(changes: &RankChanges) -> Vec<Table> {
    all(changes).into_iter().map(|table| if table.id == "changes" { table.first(Some(MOST)) } else { table }).collect()
}

pub(crate) fn all(changes: &RankChanges) -> Vec<Table> {
    let ranks = Table::new("ranks", "Ranks", RANKS, changes.ranks.iter().map(|rank| (rank, ())));
    vec![runs(changes), ranks, stacks(changes)]
}

/// A row of either kind, with its waits before and after.
struct Row {
    kind: &'static str,
    rank: Option<u32>,
    stack: String,
    before: Option<Waits>,
    after: Option<Waits>,
}

/// The context is what both runs are divided by.
const COLUMNS: &[Column<Row, Divided>] = &[
    words("row", "").read(|row, _| Cell::Text(row.kind.to_owned())),
    number("rank", "").read(|row, _| Cell::some(row.rank, |rank| Cell::Id(rank.into()))),
    number("waited_before_ns", "").read(|row, _| Cell::some(row.before, |waits| Cell::Time(waits.waited_ns))),
    number("waited_after_ns", "").read(|row, _| Cell::some(row.after, |waits| Cell::Time(waits.waited_ns))),
    number("caused_before_ns", "").read(|row, _| Cell::some(row.before, |waits| Cell::Time(waits.caused_ns))),
    number("caused_after_ns", "").read(|row, _| Cell::some(row.after, |waits| Cell::Time(waits.caused_ns))),
    number("kernels_before", "").read(|row, _| Cell::some(row.before, |waits| Cell::Count(waits.kernels))),
    number("kernels_after", "").read(|row, _| Cell::some(row.after, |waits| Cell::Count(waits.kernels))),
    words("stack", "").read(|row, _| Cell::Text(row.stack.clone())),
    words("per", "").read(|_, (per, ..)| Cell::Text(per.name().to_owned())),
    number("divided_before_by", "").read(|_, (_, before, _)| Cell::Count(*before)),
    number("divided_after_by", "").read(|_, (.., after)| Cell::Count(*after)),
    number("waited_before_each_ns", "").read(|row, _| each(row.before, |each| each.waited_ns)),
    number("waited_after_each_ns", "").read(|row, _| each(row.after, |each| each.waited_ns)),
    number("caused_before_each_ns", "").read(|row, _| each(row.before, |each| each.caused_ns)),
    number("caused_after_each_ns", "").read(|row, _| each(row.after, |each| each.caused_ns)),
];

fn each(waits: Option<Waits>, get: fn(&EachWaits) -> f64) -> Cell {
    Cell::some(waits, |waits| Cell::Nanos(get(&waits.each)))
}

pub(crate) fn csv(changes: &RankChanges, out: &mut impl Write) -> io::Result<()> {
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
    write_csv(&[Table::for_programs("change", COLUMNS, rows.iter().map(|row| (row, divided)))], out)
}
