//! The stacks of a diff as a table. Each takes three lines, for before, after and the change: three numbers side by side for every
//! measure would fit no screen.

use std::io::{self, Write};

use super::measure::{change, fate, suffix, value};
use crate::analysis::cost::Order;
use crate::analysis::delta::Per;
use crate::analysis::diff::{Change, Diff};
use crate::analysis::origin::origins;
use crate::report::column::{Align, CALLED_FROM, Column, INDENT, Table};
use crate::report::format::visible;
use crate::report::frames::shorten_frame;

/// With less room than this for frames, they go below their row.
const MIN_FRAME: usize = 36;

/// The lines of a row.
const LINES: usize = 3;

const COLUMNS: &[Column<Change>] = &[
    Column::all_right("", |stack, ()| format!("before\nafter\n{}", fate(stack).unwrap_or("change"))),
    Column::all_right("count", |stack, ()| lines(stack, Order::Count)),
    Column::all_right("GPU time", |stack, ()| lines(stack, Order::GpuTime)),
    Column::all_right("exposed", |stack, ()| lines(stack, Order::Exposed)),
    // The other columns imply it.
    Column::dropped(0, Align::AllRight, "mean", |stack, ()| lines(stack, Order::Mean)),
];

fn lines(stack: &Change, measure: Order) -> String {
    let change = change(stack, measure).unwrap_or_default();
    format!("{}\n{}\n{change}", value(stack.before, measure), value(stack.after, measure))
}

/// Writes the stacks in lines of at most `width`. Without room for everything the mean is dropped first; then the frames go below.
pub(super) fn write(diff: &Diff, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    if diff.changes.is_empty() {
        return Ok(());
    }
    let width = width.unwrap_or(usize::MAX);
    let mut table = Table::from_rows(COLUMNS, diff.changes.iter().map(|stack| (stack, ())));
    table.drop_to(width.saturating_sub(MIN_FRAME));
    let is_beside = table.width() + MIN_FRAME <= width;
    let room = width.saturating_sub(if is_beside { table.width() + 2 } else { INDENT.len() });
    let origins: Vec<Vec<String>> = origins(diff.changes.iter().map(|stack| &stack.telling))
        .into_iter()
        .map(|frames| frames.into_iter().map(|frame| shorten_frame(&visible(frame), room)).collect())
        .collect();
    if is_beside {
        let header = if diff.grouped_by.is_empty() { CALLED_FROM } else { "group" };
        table.push(header, origins.iter().map(|frames| frames.join("\n")).collect());
    }
    let text = table.text();
    let mut text = text.lines();
    if diff.per != Per::Total {
        writeln!(out, "What changed{}:", suffix(diff.per))?;
    }
    text.next().into_iter().try_for_each(|header| writeln!(out, "{header}"))?;
    for frames in &origins {
        writeln!(out)?;
        text.by_ref().take(LINES).try_for_each(|line| writeln!(out, "{line}"))?;
        if !is_beside {
            frames.iter().try_for_each(|frame| writeln!(out, "{INDENT}{frame}"))?;
        }
    }
    Ok(())
}
