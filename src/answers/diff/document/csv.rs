//! The stacks of a diff for spreadsheets; the cells of a side without the stack are empty. Sums come first, then the divisors, then the
//! quotients, by which the rows are sorted.

use std::io::{self, Write};

use crate::answers::cost::{Order, Totals};
use crate::answers::diff::delta::{Divided, SideTotals};
use crate::answers::diff::{Change, Diff};
use crate::answers::stacks::document::flame;
use crate::document::table::{Cell, Column, Table, number, words, write_csv};

/// The context is what both sides are divided by.
const COLUMNS: &[Column<Change, Divided>] = &[
    number("count_before", "").read(|stack, _| sum(stack.before, |totals| Cell::Count(totals.count))),
    number("count_after", "").read(|stack, _| sum(stack.after, |totals| Cell::Count(totals.count))),
    number("gpu_time_before_ns", "").read(|stack, _| sum(stack.before, |totals| Cell::Time(totals.gpu_time_ns))),
    number("gpu_time_after_ns", "").read(|stack, _| sum(stack.after, |totals| Cell::Time(totals.gpu_time_ns))),
    number("exposed_before_ns", "").read(|stack, _| sum(stack.before, |totals| Cell::Time(totals.exposed_ns))),
    number("exposed_after_ns", "").read(|stack, _| sum(stack.after, |totals| Cell::Time(totals.exposed_ns))),
    words("thread", "").read(|stack, _| Cell::Text(stack.key.thread.clone().unwrap_or_default())),
    words("stack", "").read(|stack, _| Cell::Text(flame::line(&stack.key))),
    words("per", "").read(|_, (per, ..)| Cell::Text(per.name().to_owned())),
    number("divided_before_by", "").read(|_, (_, before, _)| Cell::Count(*before)),
    number("divided_after_by", "").read(|_, (.., after)| Cell::Count(*after)),
    number("count_before_each", "").read(|stack, _| each(stack.before, Order::Count)),
    number("count_after_each", "").read(|stack, _| each(stack.after, Order::Count)),
    number("gpu_time_before_each_ns", "").read(|stack, _| each(stack.before, Order::GpuTime)),
    number("gpu_time_after_each_ns", "").read(|stack, _| each(stack.after, Order::GpuTime)),
    number("exposed_before_each_ns", "").read(|stack, _| each(stack.before, Order::Exposed)),
    number("exposed_after_each_ns", "").read(|stack, _| each(stack.after, Order::Exposed)),
];

fn sum(side: Option<SideTotals>, cell: fn(Totals) -> Cell) -> Cell {
    Cell::some(side, |of_side| cell(of_side.totals))
}

fn each(side: Option<SideTotals>, measure: Order) -> Cell {
    Cell::some(side, |of_side| Cell::Nanos(of_side.by(measure)))
}

/// Writes the stacks.
pub(crate) fn write(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    let divided = (diff.per, diff.before.divided_by, diff.after.divided_by);
    write_csv(&[Table::for_programs("change", COLUMNS, diff.changes.iter().map(|stack| (stack, divided)))], out)
}
