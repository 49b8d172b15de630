//! The stacks of a diff as a table. Each takes three lines, for before, after and the change: three numbers side by side for every
//! measure would fit no screen.

use std::io::{self, Write};

use super::measure::{change, fate, suffix, value};
use crate::answers::cost::Order;
use crate::answers::diff::delta::Per;
use crate::answers::diff::{Change, Diff};
use crate::answers::stacks::origin::origins;
use crate::document::format::visible;
use crate::document::table::{Cell, Column, Table, frames, number};

/// The context is the frames that name the stack or group, under `title`.
const fn columns(title: &'static str) -> [Column<Change, Vec<String>>; 6] {
    [
        number("", "").read(|stack, _| Cell::Text(format!("before\nafter\n{}", fate(stack).unwrap_or("change")))),
        number("", "count").under_title().read(|stack, _| lines(stack, Order::Count)),
        number("", "GPU time").under_title().read(|stack, _| lines(stack, Order::GpuTime)),
        number("", "exposed").under_title().read(|stack, _| lines(stack, Order::Exposed)),
        // The other columns imply it.
        number("", "mean").under_title().dropped(0).read(|stack, _| lines(stack, Order::Mean)),
        frames(title).read(|_, frames| Cell::Frames(frames.clone())),
    ]
}

fn lines(stack: &Change, measure: Order) -> Cell {
    let change = change(stack, measure).unwrap_or_default();
    Cell::Text(format!("{}\n{}\n{change}", value(stack.before, measure), value(stack.after, measure)))
}

/// Writes the stacks in lines of at most `width`.
pub(crate) fn write(diff: &Diff, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    if diff.changes.is_empty() {
        return Ok(());
    }
    if diff.per != Per::Total {
        writeln!(out, "What changed{}:", suffix(diff.per))?;
    }
    let names = origins(diff.changes.iter().map(|stack| &stack.telling)).into_iter();
    let names = names.map(|frames| frames.into_iter().map(|frame| visible(frame).into_owned()).collect());
    let columns = columns(if diff.grouped_by.is_empty() { "called from, innermost first" } else { "group" });
    out.write_all(Table::new("changes", "Changes", &columns, diff.changes.iter().zip(names)).text(width).as_bytes())
}
