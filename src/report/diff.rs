//! Two traces side by side, in the forms that people use. A line each for before, after and the change, because three numbers side
//! by side for each measure fit no screen.

use std::io::{self, Write};

use comfy_table::Cell;

use super::csv::write_rows;
use super::folded;
use super::json;
use super::table::{self, INDENT, count, lines, percent, right, shorten_frame, telling};
use super::text;
use crate::analysis::cost::Order;
use crate::analysis::cost::Totals;
use crate::analysis::diff::{Change, Diff, Side};
use crate::time::Nanos;

/// Where less than this is left for frames, they stand below their row.
const MIN_FRAME: usize = 36;

/// A form of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffForm {
    /// For people: what changed as a whole, then one row for each stack.
    Table,
    /// For people: what changed as a whole, then every stack with its frames.
    Text,
    /// For programs: all there is, by a schema.
    Json,
    /// For spreadsheets: one row for each stack.
    Csv,
}

/// The measures of a stack, as columns.
const MEASURES: [(&str, Order); 4] =
    [("count", Order::Count), ("GPU time", Order::GpuTime), ("exposed", Order::Exposed), ("mean", Order::Mean)];

/// Writes a diff in a form, in lines of at most `width`.
///
/// # Errors
/// What the writer fails with.
pub fn write(diff: &Diff, form: DiffForm, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    match form {
        DiffForm::Table => {
            summary(diff, out)?;
            stacks_as_table(diff, width, out)
        }
        DiffForm::Text => {
            summary(diff, out)?;
            stacks_as_text(diff, out)
        }
        DiffForm::Json => json::diff(diff, out),
        DiffForm::Csv => stacks_as_csv(diff, out),
    }
}

/// What changed as a whole.
fn summary(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    let Diff { before, after, new, vanished, .. } = diff;
    let mut table = table::table(&[]);
    table.set_header([Cell::new(""), right("before"), right("after"), right("change"), Cell::new("of the window")]);
    let mut times = |what: &str, of: fn(&Side) -> i64, is_share: bool| {
        let (first, second) = (of(before), of(after));
        let shares = [before, after].map(|side| share(of(side), side.summary.wall)).join(" → ");
        let mut row = vec![Cell::new(what), right(Nanos(first)), right(Nanos(second))];
        row.push(right(change(Order::GpuTime, first as f64, second as f64)));
        row.push(Cell::new(if is_share { shares } else { String::new() }));
        table.add_row(row);
    };
    times("Window", |side| side.summary.window.duration(), false);
    times("GPU busy", |side| side.summary.busy, true);
    times("Compute", |side| side.summary.compute, true);
    times("Collectives", |side| side.summary.collectives, true);
    times("Exposed", |side| side.summary.exposed, true);
    times("These kernels", |side| side.kernels.gpu_time, true);
    times(" of it exposed", |side| side.kernels.exposed, true);
    let mut counts = |what: &str, first: u64, second: u64| {
        let change = right(change(Order::Count, first as f64, second as f64));
        table.add_row(vec![Cell::new(what), right(count(first)), right(count(second)), change, Cell::new("")]);
    };
    if before.summary.gpus.max(after.summary.gpus) > 1 {
        counts("GPUs, summed", before.summary.gpus, after.summary.gpus);
    }
    counts(" how many", before.kernels.count, after.kernels.count);
    counts("Stacks", before.stacks, after.stacks);
    let blank = || Cell::new("");
    table.add_row(vec![Cell::new(" new"), blank(), right(count(*new)), blank(), blank()]);
    table.add_row(vec![Cell::new(" vanished"), right(count(*vanished)), blank(), blank(), blank()]);
    writeln!(out, "{}", lines(&table))
}

fn share(time: i64, of: i64) -> String {
    if of > 0 { percent(time as f64 / of as f64) } else { "?".to_owned() }
}

/// A number of some measure.
pub fn value(measure: Order, number: f64) -> String {
    match measure {
        Order::Count => count(number.round() as u64),
        Order::GpuTime | Order::Exposed | Order::Mean => Nanos(number.round() as i64).to_string(),
    }
}

/// `+1.234 ms (+12.3 %)`
pub fn change(measure: Order, before: f64, after: f64) -> String {
    let growth = after - before;
    let sign = if growth < 0.0 { "-" } else { "+" };
    let share = if before > 0.0 { format!(" ({:+.1} %)", growth / before * 100.0) } else { String::new() };
    if growth == 0.0 { "=".to_owned() } else { format!("{sign}{}{share}", value(measure, growth.abs())) }
}

/// `new`, `vanished`, or nothing.
fn fate(change: &Change) -> &'static str {
    match (change.before, change.after) {
        (None, _) => "new",
        (_, None) => "vanished",
        _ => "",
    }
}

fn cell(side: Option<Totals>, measure: Order) -> String {
    side.map_or("-".to_owned(), |amount| value(measure, amount.by(measure)))
}

/// The change of a stack that both have.
fn change_of(stack: &Change, measure: Order) -> String {
    match (stack.before, stack.after) {
        (Some(before), Some(after)) => change(measure, before.by(measure), after.by(measure)),
        _ => String::new(),
    }
}

fn stacks_as_table(diff: &Diff, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    const LABELS: [&str; 2] = ["before", "after"];
    const HEADER: [&str; 6] = ["", "count", "GPU time", "exposed", "mean", "called from, innermost first"];
    let row = |stack: &Change| {
        let last = if fate(stack).is_empty() { "change" } else { fate(stack) };
        let measures = MEASURES.map(|(_, measure)| {
            [cell(stack.before, measure), cell(stack.after, measure), change_of(stack, measure)].join("\n")
        });
        [format!("{}\n{last}", LABELS.join("\n"))].into_iter().chain(measures).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = diff.changes.iter().map(row).collect();
    let length = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    // Each column has a blank before and behind.
    let widest = |at: usize| rows.iter().map(|row| length(&row[at])).max().unwrap_or(0).max(HEADER[at].len()) + 2;
    let width = width.unwrap_or(usize::MAX);
    let taken = |columns: usize| (0..columns).map(widest).sum::<usize>();
    // Where there is no room for both, the mean goes, which the others tell; then frames go below.
    let columns = if taken(5) + MIN_FRAME <= width { 5 } else { 4 };
    let beside = taken(columns) + MIN_FRAME <= width;
    let left = width - if beside { taken(columns) + 2 } else { INDENT.len() };
    let told = telling(diff.changes.iter().map(|stack| &stack.key));
    let told: Vec<Vec<String>> =
        told.iter().map(|frames| frames.iter().map(|frame| shorten_frame(frame, left)).collect()).collect();
    let mut table = table::table(&[]);
    let header = HEADER[..columns].iter().map(right).chain(beside.then(|| Cell::new(HEADER[5])));
    table.set_header(header.collect::<Vec<_>>());
    for (frames, row) in told.iter().zip(rows) {
        let cells = row.into_iter().take(columns).map(right).chain(beside.then(|| Cell::new(frames.join("\n"))));
        table.add_row(cells.collect::<Vec<_>>());
    }
    let mut below = told.iter();
    for (at, line) in lines(&table).lines().enumerate() {
        // Behind the header come three lines for each stack.
        let blank = if at > 0 && (at - 1) % 3 == 0 { "\n" } else { "" };
        writeln!(out, "{blank}{line}")?;
        if !beside && at > 0 && at % 3 == 0 {
            below.next().into_iter().flatten().try_for_each(|frame| writeln!(out, "{INDENT}{frame}"))?;
        }
    }
    Ok(())
}

fn stacks_as_text(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} call stacks that changed:", diff.changed)?;
    for stack in &diff.changes {
        let aside = if fate(stack).is_empty() { String::new() } else { format!(" ({})", fate(stack)) };
        writeln!(out, "\n{}", text::lines(&stack.key).join("\n ->\n"))?;
        let times = |side: Option<Totals>| side.unwrap_or_default().count;
        writeln!(out, "Appeared {} times before, {} times after{aside}", times(stack.before), times(stack.after))?;
        for (name, measure) in MEASURES.into_iter().filter(|(_, measure)| *measure != Order::Count) {
            let (before, after) = (cell(stack.before, measure), cell(stack.after, measure));
            let mut label = name.to_owned();
            label[..1].make_ascii_uppercase();
            let change = change_of(stack, measure);
            let change = if change.is_empty() { change } else { format!(", {change}") };
            writeln!(out, "  {label}: {before} before, {after} after{change}")?;
        }
    }
    Ok(())
}

fn stacks_as_csv(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    const COLUMNS: [&str; 8] = [
        "count_before",
        "count_after",
        "gpu_time_before_ns",
        "gpu_time_after_ns",
        "exposed_before_ns",
        "exposed_after_ns",
        "thread",
        "stack",
    ];
    let rows = diff.changes.iter().map(|stack| {
        let number =
            |side: Option<Totals>, of: fn(Totals) -> i64| side.map_or(String::new(), |amount| of(amount).to_string());
        let count = |side: Option<Totals>| side.map_or(String::new(), |amount| amount.count.to_string());
        [
            count(stack.before),
            count(stack.after),
            number(stack.before, |amount| amount.gpu_time),
            number(stack.after, |amount| amount.gpu_time),
            number(stack.before, |amount| amount.exposed),
            number(stack.after, |amount| amount.exposed),
            stack.key.thread.clone().unwrap_or_default(),
            folded::line(&stack.key),
        ]
    });
    write_rows(&COLUMNS, rows, out)
}
