//! What changed between two runs of many ranks: what every form says, the tables for people, and the rows for spreadsheets.

use std::io;

use serde::Serialize;

use crate::answers::OnPage;
use crate::answers::cost::Order;
use crate::answers::diff::delta::{Delta, Divided, change, value};
use crate::answers::diff::document::{DiffAnswer, by_what};
use crate::answers::ranks::change::{EachWaits, RankChange, RankChanges, RunWaits, StackChange, Waits};
use crate::document::answer::Answer;
use crate::document::findings::{Document, Finding, FindingKind, Link, Place};
use crate::document::form::Form;
use crate::document::format::{count, percent_or_unknown, ranks, visible};
use crate::document::html::Page;
use crate::document::table::{Cell, Column, Table, name, number, words, write_csv};
use crate::time::Ns;

/// The smallest change that is a finding, as a share of all waiting.
const NOTABLE: f64 = 0.01;

/// Two runs of many ranks side by side, and what a page shows besides.
#[derive(Debug, Clone)]
pub struct ChangesAnswer<'a> {
    pub changes: &'a RankChanges,
    pub on_page: OnPage,
}

/// `Not comparable: ranks 1 and 2 are here only after. Waiting for a rank that is not here counts as transfer.`
fn not_comparable(changes: &RankChanges) -> Option<String> {
    let only = |is: fn(&RankChange) -> bool, when: &str| {
        let these: Vec<u32> = changes.ranks.iter().filter(|of| is(of)).map(|of| of.rank).collect();
        let are = if these.len() == 1 { "is" } else { "are" };
        (!these.is_empty()).then(|| format!("{} {are} here only {when}", ranks(&these)))
    };
    let of = [only(|of| of.after.is_none(), "before"), only(|of| of.before.is_none(), "after")];
    let mut said: Vec<String> = of.into_iter().flatten().collect();
    let (before, after) = (&changes.before.missing_ranks, &changes.after.missing_ranks);
    if said.is_empty() && before.is_empty() && after.is_empty() {
        return None;
    }
    if said.is_empty() {
        let these = if before.is_empty() { after } else { before };
        let are = if these.len() == 1 { "is" } else { "are" };
        said.push(format!("{} {are} not here", ranks(these)));
    }
    Some(format!("Not comparable: {}. Waiting for a rank that is not here counts as transfer.", said.join(", and ")))
}

impl Answer for ChangesAnswer<'_> {
    const SCHEMA: &'static str = "ranks-diff";

    const OWN_FORMS: &'static [Form] = DiffAnswer::OWN_FORMS;

    fn document(&self) -> Document {
        let RankChanges { before, after, .. } = self.changes;
        let share = |run: &RunWaits| percent_or_unknown(run.waited_ns.share_of(run.measured_ns));
        let both = |get: &dyn Fn(&RunWaits) -> String| format!("{} → {}", get(before), get(after));
        Document {
            title: "What changed between two runs".to_owned(),
            damage: not_comparable(self.changes).into_iter().collect(),
            verdict: vec![
                format!("{}.", compared(self.changes)),
                format!(
                    "Waiting over all ranks: {}, {}. It is {} of the collectives' time.",
                    both(&|run| time(run.each(run.waited_ns))),
                    how_changed(before.each(before.waited_ns), after.each(after.waited_ns)),
                    both(&share)
                ),
            ],
            findings: findings(self.changes),
            facts: vec![
                ("Ranks", both(&|run| count(run.ranks))),
                ("Collectives", both(&|run| count(run.collectives))),
                ("Transfer", both(&|run| time(run.each(run.transfer_ns)))),
                ("Clocks", both(&|run| run.clock.to_owned())),
            ],
            ..Document::default()
        }
    }

    fn data(&self) -> impl Serialize {
        self.changes
    }

    fn tables(&self) -> Vec<Table> {
        let first = |table: Table| if table.id == "changes" { table.first(Some(MOST)) } else { table };
        self.page_tables().into_iter().map(first).collect()
    }

    fn page_tables(&self) -> Vec<Table> {
        let RankChanges { ranks, stacks, .. } = self.changes;
        vec![
            runs(self.changes),
            Table::new("ranks", "Ranks", RANKS, ranks.iter().map(|rank| (rank, ()))),
            Table::new(
                "changes",
                "Stacks by the change of their waiting",
                STACKS,
                stacks.iter().map(|stack| (stack, ())),
            ),
        ]
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let rank =
            |of: &RankChange| Row { rank: Some(of.rank), stack: String::new(), before: of.before, after: of.after };
        let stack = |of: &StackChange| {
            let stack = of.frames.iter().map(|frame| visible(frame).into_owned()).collect::<Vec<_>>().join(";");
            Row { rank: None, stack, before: of.before, after: of.after }
        };
        let rows: [(_, Vec<Row>); 2] = [
            ("rank", self.changes.ranks.iter().map(rank).collect()),
            ("stack", self.changes.stacks.iter().map(stack).collect()),
        ];
        let divided = (self.changes.per, self.changes.before.divided_by, self.changes.after.divided_by);
        let table = |(kind, rows): &(&'static str, Vec<Row>)| {
            Table::for_programs(kind, COLUMNS, rows.iter().map(|row| (row, divided)))
        };
        write_csv(&rows.each_ref().map(table), out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        let names = format!("{} → {}", self.changes.before.trace, self.changes.after.trace);
        Ok(Page {
            labels: self.changes.stacks.iter().map(|stack| vec![label(stack)]).collect(),
            commands: self.on_page.commands(
                "diff",
                "diff --ranks ",
                &[
                    ("The changes, as a table", ""),
                    ("Everything, for programs", " --format json --output ranks-diff.json"),
                ],
            ),
            ..self.page_of("ranks-diff", names, &self.on_page.notes)?
        })
    }
}

fn how_changed(before: f64, after: f64) -> String {
    match growth(before, after) {
        same if same == "=" => "as before".to_owned(),
        change => change,
    }
}

fn waited(of: Option<Waits>) -> f64 {
    of.map_or(0.0, |waits| waits.each.waited_ns)
}

fn label(stack: &StackChange) -> String {
    stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned())
}

fn findings(changes: &RankChanges) -> Vec<Finding> {
    let least =
        NOTABLE * changes.before.each(changes.before.waited_ns).max(changes.after.each(changes.after.waited_ns));
    let size = |stack: &StackChange| stack.growth().abs();
    let notable = changes.stacks.iter().enumerate().filter(|(_, stack)| size(stack) > 0.0 && size(stack) >= least);
    let kernels = |of: Option<Waits>| value(Order::Count, of.map_or(0.0, |waits| waits.each.kernels));
    let finding = |(at, stack): (usize, &StackChange)| Finding {
        kind: FindingKind::Change,
        cost: format!("{} waited", how_changed(waited(stack.before), waited(stack.after))),
        what: label(stack),
        cost_ns: Some(Ns::rounded(stack.growth())),
        place: Place { line: stack.headline.clone(), row: Some(at), ..Place::default() },
        evidence: vec![format!(
            "{} → {} waited, by {} → {} kernels.",
            time(waited(stack.before)),
            time(waited(stack.after)),
            kernels(stack.before),
            kernels(stack.after)
        )],
        is_better: waited(stack.after) < waited(stack.before),
        link: Some(Link { text: "Before and after", view: "diff", stack: Some(at), ..Link::default() }),
        ..Finding::default()
    };
    notable.map(finding).collect()
}

/// How many stacks people see.
const MOST: usize = 20;

/// A label, before, after and change.
const OF_RUNS: &[Column<[String; 4]>] = &[
    words("", "").read(|row, ()| Cell::Text(row[0].clone())),
    number("", "before").under_title().read(|row, ()| Cell::Text(row[1].clone())),
    number("", "after").under_title().read(|row, ()| Cell::Text(row[2].clone())),
    number("", "change").under_title().read(|row, ()| Cell::Text(row[3].clone())),
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

fn time(nanos: f64) -> String {
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
fn growth(before: f64, after: f64) -> String {
    change(Order::GpuTime, Delta { before, after })
}

/// What both runs are divided by, and how many of it each has.
fn compared(changes: &RankChanges) -> String {
    let calls = [&changes.before, &changes.after].map(|run| run.collectives);
    by_what(changes.per, changes.not_per_step, [&changes.before.steps, &changes.after.steps], ("collective", calls))
}

fn runs(changes: &RankChanges) -> Table {
    let runs = [&changes.before, &changes.after];
    let text = |label: &str, get: fn(&RunWaits) -> String| {
        let [before, after] = runs.map(get);
        [label.to_owned(), before, after, String::new()]
    };
    let of_time = |label: &str, get: fn(&RunWaits) -> Ns| {
        let [before, after] = runs.map(|run| run.each(get(run)));
        [label.to_owned(), time(before), time(after), growth(before, after)]
    };
    let rows = [
        text("ranks", |run| count(run.ranks)),
        text("collectives in all", |run| count(run.collectives)),
        text("late", |run| value(Order::Count, run.late as f64 / run.divided_by as f64)),
        of_time("measured", |run| run.measured_ns),
        of_time("waited", |run| run.waited_ns),
        of_time("transfer", |run| run.transfer_ns),
        text("waiting", |run| percent_or_unknown(run.waited_ns.share_of(run.measured_ns))),
        text("clocks", |run| run.clock.to_owned()),
    ];
    Table::new("runs", "Both runs", OF_RUNS, rows.iter().map(|row| (row, ())))
}

/// A rank or a stack, with its waits before and after.
struct Row {
    rank: Option<u32>,
    stack: String,
    before: Option<Waits>,
    after: Option<Waits>,
}

/// The context is what both runs are divided by.
const COLUMNS: &[Column<Row, Divided>] = &[
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
