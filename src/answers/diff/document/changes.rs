//! The table of the stacks of a diff; the cells of a side without the stack are empty. For spreadsheets sums come first, then the divisors, then the
//! quotients, by which the rows are sorted. People see the quotients.

use std::io::{self, Write};

use crate::answers::cost::{Order, Totals};
use crate::answers::diff::delta::{Divided, Per, SideTotals};
use crate::answers::diff::{Change, Diff};
use crate::answers::stacks::document::flame;
use crate::document::table::{Cell, Column, Table, name, number, words, write_csv};

/// The context is what both sides are divided by, and the stack's label.
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

/// Writes the stacks for spreadsheets.
pub(crate) fn write(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    write_csv(&[Table::for_programs("change", COLUMNS, rows(diff, std::iter::repeat(String::new())))], out)
}

fn rows(diff: &Diff, labels: impl Iterator<Item = String>) -> impl Iterator<Item = (&Change, (Divided, String))> {
    let divided = (diff.per, diff.before.divided_by, diff.after.divided_by);
    diff.changes.iter().zip(labels.map(move |label| (divided, label)))
}
