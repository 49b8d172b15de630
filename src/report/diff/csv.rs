//! The stacks of a diff for spreadsheets; the cells of a side without the stack are empty. Sums come first, then the divisors, then the
//! quotients, by which the rows are sorted.

use std::io::{self, Write};

use crate::analysis::cost::{Order, Totals};
use crate::analysis::delta::{Divided, SideTotals};
use crate::analysis::diff::{Change, Diff};
use crate::report::column::Column;
use crate::report::csv::write_rows;
use crate::report::stacks::folded;

const COLUMNS: &[Column<Change, Divided>] = &[
    Column::right("count_before", |stack, _| known(stack.before, |totals| totals.count.to_string())),
    Column::right("count_after", |stack, _| known(stack.after, |totals| totals.count.to_string())),
    Column::right("gpu_time_before_ns", |stack, _| known(stack.before, |totals| totals.gpu_time_ns.to_string())),
    Column::right("gpu_time_after_ns", |stack, _| known(stack.after, |totals| totals.gpu_time_ns.to_string())),
    Column::right("exposed_before_ns", |stack, _| known(stack.before, |totals| totals.exposed_ns.to_string())),
    Column::right("exposed_after_ns", |stack, _| known(stack.after, |totals| totals.exposed_ns.to_string())),
    Column::left("thread", |stack, _| stack.key.thread.clone().unwrap_or_default()),
    Column::left("stack", |stack, _| folded::line(&stack.key)),
    Column::left("per", |_, (per, ..)| per.name().to_owned()),
    Column::right("divided_before_by", |_, (_, before, _)| before.to_string()),
    Column::right("divided_after_by", |_, (.., after)| after.to_string()),
    Column::right("count_before_each", |stack, _| each(stack.before, Order::Count)),
    Column::right("count_after_each", |stack, _| each(stack.after, Order::Count)),
    Column::right("gpu_time_before_each_ns", |stack, _| each(stack.before, Order::GpuTime)),
    Column::right("gpu_time_after_each_ns", |stack, _| each(stack.after, Order::GpuTime)),
    Column::right("exposed_before_each_ns", |stack, _| each(stack.before, Order::Exposed)),
    Column::right("exposed_after_each_ns", |stack, _| each(stack.after, Order::Exposed)),
];

fn known(side: Option<SideTotals>, number: fn(Totals) -> String) -> String {
    side.map_or(String::new(), |of_side| number(of_side.totals))
}

fn each(side: Option<SideTotals>, measure: Order) -> String {
    side.map_or(String::new(), |of_side| of_side.by(measure).to_string())
}

/// Writes the stacks.
pub(super) fn write(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    let divided = (diff.per, diff.before.divided_by, diff.after.divided_by);
    write_rows(COLUMNS.iter(), diff.changes.iter().map(|stack| (stack, divided)), out)
}
