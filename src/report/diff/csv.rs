//! The stacks of a diff for spreadsheets; a side that does not have the stack is empty.

use std::io::{self, Write};

use crate::analysis::cost::Totals;
use crate::analysis::diff::{Change, Diff};
use crate::report::column::Column;
use crate::report::csv::write_rows;
use crate::report::folded;

const COLUMNS: &[Column<Change>] = &[
    Column::right("count_before", |stack, ()| known(stack.before, |totals| totals.count.to_string())),
    Column::right("count_after", |stack, ()| known(stack.after, |totals| totals.count.to_string())),
    Column::right("gpu_time_before_ns", |stack, ()| known(stack.before, |totals| totals.gpu_time.to_string())),
    Column::right("gpu_time_after_ns", |stack, ()| known(stack.after, |totals| totals.gpu_time.to_string())),
    Column::right("exposed_before_ns", |stack, ()| known(stack.before, |totals| totals.exposed.to_string())),
    Column::right("exposed_after_ns", |stack, ()| known(stack.after, |totals| totals.exposed.to_string())),
    Column::left("thread", |stack, ()| stack.key.thread.clone().unwrap_or_default()),
    Column::left("stack", |stack, ()| folded::line(&stack.key)),
];

fn known(side: Option<Totals>, number: fn(Totals) -> String) -> String {
    side.map_or(String::new(), number)
}

/// Writes the stacks.
///
/// # Errors
/// What the writer fails with.
pub(super) fn write(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    write_rows(COLUMNS.iter(), diff.changes.iter().map(|stack| (stack, ())), out)
}
