//! Stacks as a table: one row each, for people with the frames that best show where it comes from. The columns are those of spreadsheets, too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::folded;
use crate::analysis::collective_info::Bandwidth;
use crate::analysis::origin::origins;
use crate::analysis::stacks::{Stack, StackReport};
use crate::report::column::{CALLED_FROM, Cell, Column, INDENT, Table};
use crate::report::format::{kernel_names, process_group, values, visible};
use crate::report::frames::{least_width, lines, shorten_frame};

/// The columns of stacks; the context is the stack's number, which kernels without a launch lack. A new column is one line here, for people
/// and for spreadsheets.
pub(super) const COLUMNS: &[Column<Stack, Option<usize>>] = &[
    Column::number("", "#", |_, number| Cell::Both(number.map_or(String::new(), |n| n.to_string()), String::new())),
    Column::words("rank", "rank", |stack, _| text(stack.rank.as_deref())),
    Column::number("count", "count", |stack, _| Cell::Count(stack.count)),
    Column::number("gpu_time_ns", "GPU time", |stack, _| Cell::Time(stack.cost.gpu_time.total_ns)),
    Column::number_at(4, "share_of_window", "share", |stack, _| Cell::known(stack.cost.share_of_window, Cell::Share)),
    Column::number_at(5, "exposed_ns", "exposed", |stack, _| Cell::Time(stack.cost.exposed_ns)),
    Column::number_at(6, "critical_ns", "critical", |stack, _| stack.cost.critical_ns.map_or(Cell::Empty, Cell::Time)),
    Column::number("overlapped_ns", "", |stack, _| Cell::Time(stack.cost.overlapped_ns)),
    Column::number_at(1, "mean_ns", "mean", |stack, _| Cell::Nanos(stack.cost.gpu_time.mean_ns)),
    Column::number("median_ns", "", |stack, _| Cell::Nanos(stack.cost.gpu_time.median_ns)),
    Column::number("p95_ns", "", |stack, _| Cell::Time(stack.cost.gpu_time.p95_ns)),
    Column::number("min_ns", "", |stack, _| Cell::Time(stack.cost.gpu_time.min_ns)),
    Column::number_at(0, "max_ns", "max", |stack, _| Cell::Time(stack.cost.gpu_time.max_ns)),
    Column::number("fastest_ns", "", |stack, _| Cell::known(stack.messages.fastest_ns, Cell::Time)),
    Column::number("queue_delay_median_ns", "", |stack, _| {
        Cell::known(stack.cost.queue_delay.map(|delay| delay.median_ns), Cell::Nanos)
    }),
    Column::words_at(3, "collective", "collective", |stack, _| shares(&stack.messages.collectives, stack)),
    Column::words("dtype", "", |stack, _| shares(&stack.messages.dtypes, stack)),
    Column::number("bytes_min", "", |stack, _| Cell::known(stack.messages.bytes.map(|of| of.min), Cell::Count)),
    Column::number("bytes_max", "", |stack, _| Cell::known(stack.messages.bytes.map(|of| of.max), Cell::Count)),
    Column::words("process_group", "", |stack, _| {
        let groups = stack.messages.groups.iter().map(|group| process_group(group, stack.count));
        Cell::Text(groups.collect::<Vec<_>>().join("; "))
    }),
    Column::number("algbw_gb_per_s", "", |stack, _| bandwidth(stack, |of| of.algorithm_gb_per_s)),
    Column::number_at(2, "busbw_gb_per_s", "busbw (GB/s)", |stack, _| bandwidth(stack, |of| of.bus_gb_per_s)),
    Column::number("best_busbw_gb_per_s", "", |stack, _| bandwidth(stack, |of| of.best_bus_gb_per_s)),
    Column::words("thread", "", |stack, _| Cell::Text(stack.key.thread.clone().unwrap_or_default())),
    Column::words("kernels", "", |stack, _| Cell::Text(kernel_names(stack))),
    Column::words("headline", "", |stack, _| text(stack.headline.as_deref())),
    Column::words("stack", "", |stack, _| Cell::Text(folded::line(&stack.key))),
];

/// A name with its control characters escaped.
fn text(name: Option<&str>) -> Cell {
    name.map_or(Cell::Empty, |name| Cell::Text(visible(name).into_owned()))
}

/// Values, each with its number of kernels. If nothing is known, people read so, and programs get nothing.
fn shares(found: &BTreeMap<String, u64>, stack: &Stack) -> Cell {
    let text = values(found, stack);
    if found.is_empty() { Cell::Both(text, String::new()) } else { Cell::Text(text) }
}

fn bandwidth(stack: &Stack, get: fn(Bandwidth) -> f64) -> Cell {
    Cell::known(stack.messages.bandwidth.map(get), Cell::Bandwidth)
}

/// Writes stacks, then the kernels without a launch by reason, one row each, in lines of at most `width`. Frames go beside the numbers, or below
/// them if `file.py(line): function` would not fit. If that is not enough, columns of numbers are dropped one by one.
pub(super) fn stacks(report: &StackReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let width = width.unwrap_or(usize::MAX);
    let numbered = report.stacks.iter().zip((1..).map(Some));
    let mut table =
        Table::from_rows(COLUMNS, numbered.chain(report.without_launch.iter().zip(std::iter::repeat(None))));
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
