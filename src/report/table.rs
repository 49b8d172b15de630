//! Stacks as a table for people: one row each, with the frames that best show where it comes from.

use std::borrow::Cow;
use std::io::{self, Write};

use super::column::{Align, CALLED_FROM, Column, INDENT, Table};
use super::format::{count, duration, percent_or_unknown, values, visible};
use super::frames::{least_width, lines, shorten_frame};
use crate::analysis::origin::origins;
use crate::analysis::stacks::{Stack, StackReport};
use crate::time::Ns;

/// The numbers of stacks; the context is the stack's number, which kernels without a launch lack.
const NUMBERS: &[Column<Stack, Option<usize>>] = &[
    Column::right("#", |_, number| number.map_or(String::new(), |number| number.to_string())),
    Column::left("rank", |stack, _| stack.rank.as_deref().map_or(String::new(), |rank| visible(rank).into_owned())),
    Column::right("count", |stack, _| count(stack.count)),
    Column::right("GPU time", |stack, _| duration(stack.cost.gpu_time.total)),
    Column::dropped(4, Align::Right, "share", |stack, _| percent_or_unknown(stack.cost.share)),
    Column::dropped(5, Align::Right, "exposed", |stack, _| duration(stack.cost.exposed)),
    Column::dropped(1, Align::Right, "mean", |stack, _| duration(Ns::rounded(stack.cost.gpu_time.mean))),
    Column::dropped(0, Align::Right, "max", |stack, _| duration(stack.cost.gpu_time.max)),
    Column::dropped(3, Align::Left, "collective", |stack, _| values(&stack.collective.collectives, stack)),
    Column::dropped(2, Align::Right, "busbw (GB/s)", |stack, _| {
        stack.collective.bandwidth.map_or("?".to_owned(), |bandwidth| format!("{:.1}", bandwidth.bus))
    }),
];

/// Writes stacks, then the kernels without a launch by reason, one row each, in lines of at most `width`. Frames go beside the numbers, or below
/// them if `file.py(line): function` would not fit. If that is not enough, columns of numbers are dropped one by one.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn stacks(report: &StackReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let width = width.unwrap_or(usize::MAX);
    let numbered = report.stacks.iter().zip((1..).map(Some));
    let mut table =
        Table::from_rows(NUMBERS, numbered.chain(report.without_launch.iter().zip(std::iter::repeat(None))));
    table.drop_empty();
    let without = report.without_launch.iter().map(|row| lines(&row.key).into_iter().map(Cow::into_owned).collect());
    let origins: Vec<Vec<String>> = origins(report.stacks.iter().map(|stack| &stack.telling))
        .into_iter()
        .map(|frames| frames.into_iter().map(|frame| visible(frame).into_owned()).collect())
        .chain(without)
        .collect();
    let whole = origins.iter().flatten().filter_map(|frame| least_width(frame));
    let needed = whole.chain([CALLED_FROM.len()]).max().unwrap_or(0);
    if let Some(room) = width.checked_sub(table.width() + 2).filter(|room| *room >= needed) {
        let shortened =
            |frames: &Vec<String>| frames.iter().map(|frame| shorten_frame(frame, room)).collect::<Vec<_>>();
        table.push(CALLED_FROM, origins.iter().map(|frames| shortened(frames).join("\n")).collect());
        return out.write_all(table.text().as_bytes());
    }
    table.drop_to(width);
    let room = width.saturating_sub(INDENT.len());
    for (line, frames) in table.text().lines().zip(std::iter::once(&Vec::new()).chain(&origins)) {
        writeln!(out, "{line}")?;
        frames.iter().try_for_each(|frame| writeln!(out, "{INDENT}{}", shorten_frame(frame, room)))?;
    }
    Ok(())
}
