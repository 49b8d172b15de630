//! The stacks of a diff: as text, as a table for a screen, and as rows.

use std::io::{self, Write};

use super::measure::suffix;
use crate::answers::cost::{Order, Totals};
use crate::answers::diff::delta::{Divided, Per, SideTotals, change, value};
use crate::answers::diff::{Change, Diff};
use crate::answers::stacks::document::flame;
use crate::answers::stacks::origin::origins;
use crate::document::format::{count, visible};
use crate::document::frames::lines;
use crate::document::table::{Cell, Column, Table, frames, name, number, words, write_csv};

/// The measures below a stack, besides its count.
const MEASURES: &[(&str, Order)] =
    &[("Count", Order::Count), ("GPU time", Order::GpuTime), ("Exposed", Order::Exposed), ("Mean", Order::Mean)];

/// A measure on one side; `-` if the trace does not have the stack.
pub(super) fn value_on(side: Option<SideTotals>, measure: Order) -> String {
    side.map_or("-".to_owned(), |of_side| value(measure, of_side.by(measure)))
}

/// The change of a stack that both traces have; `None` for others.
fn change_of(stack: &Change, measure: Order) -> Option<String> {
    stack.fate().is_none().then(|| change(measure, stack.delta(measure)))
}

/// Writes each stack with its frames.
pub(super) fn write_text(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Found {} call stacks that changed:", diff.changed)?;
    for stack in &diff.changes {
        writeln!(out, "\n{}", lines(&stack.key).join("\n ->\n"))?;
        let fate = stack.fate().map_or(String::new(), |fate| format!(" ({fate})"));
        let times = |side: Option<SideTotals>| side.unwrap_or_default().totals.count;
        writeln!(out, "Appeared {} times before, {} times after{fate}", times(stack.before), times(stack.after))?;
        for (label, measure) in MEASURES {
            if (*measure, diff.per) == (Order::Count, Per::Total) {
                continue;
            }
            let per = if *measure == Order::Mean { "" } else { suffix(diff.per) };
            let (before, after) = (value_on(stack.before, *measure), value_on(stack.after, *measure));
            let change = change_of(stack, *measure).map_or(String::new(), |change| format!(", {change}"));
            writeln!(out, "  {label}{per}: {before} before, {after} after{change}")?;
        }
    }
    Ok(())
}

/// The columns for a screen. Each stack takes three lines, for before, after and the change: three numbers side by side for every measure would fit
/// no screen. The context is the frames that name the stack or group, under `title`.
const fn columns(title: &'static str) -> [Column<Change, Vec<String>>; 6] {
    [
        number("", "").read(|stack, _| Cell::Text(format!("before\nafter\n{}", stack.fate().unwrap_or("change")))),
        number("", "count").under_title().read(|stack, _| three_lines(stack, Order::Count)),
        number("", "GPU time").under_title().read(|stack, _| three_lines(stack, Order::GpuTime)),
        number("", "exposed").under_title().read(|stack, _| three_lines(stack, Order::Exposed)),
        // The other columns imply it.
        number("", "mean").under_title().dropped(0).read(|stack, _| three_lines(stack, Order::Mean)),
        frames(title).read(|_, frames| Cell::Frames(frames.clone())),
    ]
}

fn three_lines(stack: &Change, measure: Order) -> Cell {
    let change = change_of(stack, measure).unwrap_or_default();
    Cell::Text(format!("{}\n{}\n{change}", value_on(stack.before, measure), value_on(stack.after, measure)))
}

/// Writes the stacks in lines of at most `width`.
pub(super) fn write_table(diff: &Diff, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    if diff.changes.is_empty() {
        return Ok(());
    }
    let [before, after] = [&diff.before, &diff.after].map(|side| count(side.steps.count));
    match diff.per {
        Per::Step => writeln!(out, "What changed per step ({before} before, {after} after):")?,
        Per::Call => writeln!(out, "What changed per call:")?,
        Per::Total => {}
    }
    let names = origins(diff.changes.iter().map(|stack| &stack.telling)).into_iter();
    let names = names.map(|frames| frames.into_iter().map(|frame| visible(frame).into_owned()).collect());
    let columns = columns(if diff.grouped_by.is_empty() { "called from, innermost first" } else { "group" });
    out.write_all(Table::new("changes", "Changes", &columns, diff.changes.iter().zip(names)).text(width).as_bytes())
}

/// The columns of rows; the cells of a side without the stack are empty. For spreadsheets sums come first, then the divisors, then the quotients, by
/// which the rows are sorted. People see the quotients. The context is what both sides are divided by, and the stack's label.
const COLUMNS: &[Column<Change, (Divided, String)>] = &[
    number("count_before", "").read(|stack, _| sum(stack.before, |totals| Cell::Count(totals.count))),
    number("count_after", "").read(|stack, _| sum(stack.after, |totals| Cell::Count(totals.count))),
    number("gpu_time_before_ns", "").read(|stack, _| sum(stack.before, |totals| Cell::Time(totals.gpu_time_ns))),
    number("gpu_time_after_ns", "").read(|stack, _| sum(stack.after, |totals| Cell::Time(totals.gpu_time_ns))),
    number("exposed_before_ns", "").read(|stack, _| sum(stack.before, |totals| Cell::Time(totals.exposed_ns))),
    number("exposed_after_ns", "").read(|stack, _| sum(stack.after, |totals| Cell::Time(totals.exposed_ns))),
    words("thread", "").read(|stack, _| Cell::Text(stack.key.thread.clone().unwrap_or_default())),
    words("stack", "").read(|stack, _| Cell::Text(flame::line(&stack.key))),
    words("per", "").read(|_, ((per, ..), _)| Cell::Text(per.name().to_owned())),
    number("divided_before_by", "").read(|_, ((_, before, _), _)| Cell::Count(*before)),
    number("divided_after_by", "").read(|_, ((.., after), _)| Cell::Count(*after)),
    number("count_before_each", "count before").read(|stack, _| each(stack.before, Order::Count)),
    number("count_after_each", "count after").read(|stack, _| each(stack.after, Order::Count)),
    number("gpu_time_before_each_ns", "GPU time before").read(|stack, _| each(stack.before, Order::GpuTime)),
    number("gpu_time_after_each_ns", "GPU time after").read(|stack, _| each(stack.after, Order::GpuTime)),
    number("exposed_before_each_ns", "exposed before").read(|stack, _| each(stack.before, Order::Exposed)),
    number("exposed_after_each_ns", "exposed after").read(|stack, _| each(stack.after, Order::Exposed)),
    number("", "change").means("Of the exposed time").read(|stack, _| Cell::Growth(stack.growth(Order::Exposed))),
    name("from").read(|_, (_, label)| Cell::Text(label.clone())),
];

fn sum(side: Option<SideTotals>, cell: fn(Totals) -> Cell) -> Cell {
    Cell::some(side, |of_side| cell(of_side.totals))
}

fn each(side: Option<SideTotals>, measure: Order) -> Cell {
    let cell = if measure == Order::Count { Cell::Ratio } else { Cell::Nanos };
    Cell::some(side, |of_side| cell(of_side.by(measure)))
}

/// The stacks for people, each with its label.
pub(super) fn table(diff: &Diff, labels: &[Vec<String>]) -> Table {
    let title = match diff.per {
        Per::Step => "Stacks that changed, per step",
        Per::Call => "Stacks that changed, per call",
        Per::Total => "Stacks that changed",
    };
    Table::new("changes", title, COLUMNS, rows(diff, labels.iter().map(|label| label.join(" in "))))
}

pub(super) fn write_rows(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    write_csv(&[Table::for_programs("change", COLUMNS, rows(diff, std::iter::repeat(String::new())))], out)
}

fn rows(diff: &Diff, labels: impl Iterator<Item = String>) -> impl Iterator<Item = (&Change, (Divided, String))> {
    let divided = (diff.per, diff.before.divided_by, diff.after.divided_by);
    diff.changes.iter().zip(labels.map(move |label| (divided, label)))
}
