//! The comparison of ranks as tables: ranks, stacks, groups, steps, sizes.

use std::io::{self, Write};

use super::RankAnswer;
use super::document::WORTH_NAMING;
use super::text::rank_table;
use crate::operations::matching::GroupName;
use crate::ranks::report::{GroupWaits, RankReport, SizeRow, StackWaits, StepWaits};
use crate::report::Screen;
use crate::report::column::{Align, CALLED_FROM, Cell, Column, Table};
use crate::report::format::{count, duration, shorten_right, size, visible};
use crate::report::frames::shorten_frame;
use crate::report::sheet::Sheet;
use crate::time::Ns;

/// The default number of rows.
const ROWS: usize = 20;

/// The columns of the stacks of all ranks.
const STACKS: &[Column<StackWaits>] = &[
    Column::number("count", "count", |stack, ()| Cell::Count(stack.count)),
    Column::number("waited_ns", "waited", |stack, ()| Cell::known(stack.known(stack.waited_ns), Cell::Time)),
    Column::number_at(3, "caused_ns", "caused", |stack, ()| Cell::known(stack.known(stack.caused_ns), Cell::Time)),
    Column::number_at(0, "late_count", "late", |stack, ()| Cell::known(stack.known(stack.late_count), Cell::Count)),
    Column::number_at(2, "transfer_ns", "transfer", |stack, ()| {
        Cell::known(stack.known(stack.transfer_ns), Cell::Time)
    }),
    Column::words("late_rank", "mostly for", |stack, ()| Cell::Text(mostly(&stack.late_ranks))),
    Column::number_at(4, "transfer_busbw_gb_per_s", "busbw of transfer (GB/s)", |stack, ()| {
        Cell::known(stack.bandwidth.map(|of| of.transfer_gb_per_s), Cell::Bandwidth)
    }),
];

/// The table of a page.
pub(super) fn sheet(report: &RankReport) -> Sheet {
    let name = |stack: &StackWaits| stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned());
    let rows = report.stacks.iter().map(|stack| (name(stack), stack, ()));
    Sheet::named("Call stacks of all ranks", "from", STACKS, rows)
}

const GROUPS: &[Column<GroupWaits>] = &[
    Column::left("group", |group, ()| group_name(&group.group, &group.ranks_here)),
    Column::right("collectives", |group, ()| count(group.collectives)),
    Column::right("waited", |group, ()| duration(group.waited_ns)),
    Column::right("transfer", |group, ()| duration(group.transfer_ns)),
    Column::right("mostly for", |group, ()| mostly(&group.late_ranks)),
    Column::left("by", |group, ()| if group.by_clocks { "clocks" } else { "lengths" }.to_owned()),
];

/// Times are means over the ranks, but for the longest slice. The context is the rank that others waited for most, with its share.
const STEPS: &[Column<StepWaits, Option<(u32, f64)>>] = &[
    Column::number("length_ns", "on the CPU", |step, _| {
        Cell::known(step.length_ns.iter().flatten().max().copied(), Cell::Time)
    }),
    Column::number_at(1, "busy_ns", "GPU busy", |step, _| mean(&step.busy_ns)),
    Column::number_at(0, "compute_ns", "GPU compute", |step, _| mean(&step.compute_ns)),
    Column::number_at(2, "exposed_ns", "exposed", |step, _| mean(&step.exposed_ns)),
    Column::number("waited_ns", "waited", |step, _| mean(&step.waited_ns)),
    Column::words("late_rank", "mostly for", |_, late| {
        Cell::Text(late.map_or("-".to_owned(), |(rank, share)| format!("rank {rank} ({:.0} %)", 100.0 * share)))
    }),
];

/// The mean over ranks.
fn mean(times: &[Ns]) -> Cell {
    let sum: Ns = times.iter().copied().sum();
    if sum == Ns::ZERO { Cell::Empty } else { Cell::Time(Ns::rounded(sum.as_f64() / times.len() as f64)) }
}

/// The steps of a page.
pub(super) fn steps_sheet(report: &RankReport) -> Option<Sheet> {
    let rows = report.steps.iter().map(|step| (visible(&step.name).into_owned(), step, most_of_step(step, report)));
    (!report.has_spans && !report.steps.is_empty()).then(|| Sheet::named("Steps", "step", STEPS, rows))
}

const SIZES: &[Column<SizeRow>] = &[
    Column::left("collective", |row, ()| visible(&row.collective).into_owned()),
    Column::right("size", |row, ()| size(row.bytes)),
    Column::right("ranks", |row, ()| row.ranks.to_string()),
    Column::right("count", |row, ()| count(row.count)),
    Column::dropped(1, Align::Right, "transfer (median)", |row, ()| duration(row.median_transfer_ns)),
    Column::right("busbw of transfer", |row, ()| format!("{:.1} GB/s", row.bandwidth.transfer_gb_per_s)),
    Column::dropped(0, Align::Right, "of whole kernels", |row, ()| {
        format!("{:.1} GB/s", row.bandwidth.kernel_gb_per_s)
    }),
];

/// The rank that others waited for most in a step, and its share of that.
fn most_of_step(step: &StepWaits, report: &RankReport) -> Option<(u32, f64)> {
    let of_ranks = step.caused_ns.iter().zip(&report.ranks).filter(|(caused, _)| **caused > Ns::ZERO);
    let (caused, rank) = of_ranks.max_by_key(|(caused, rank)| (**caused, std::cmp::Reverse(rank.rank)))?;
    Some((rank.rank, caused.share_of(step.caused_ns.iter().copied().sum())?))
}

/// The rank that the others waited for most, with its share of that waiting; if ranks were late in turn, their number.
fn mostly(late: &[(u32, Ns)]) -> String {
    let all: Ns = late.iter().map(|(_, waited)| *waited).sum();
    let Some((rank, waited)) = late.first() else { return "-".to_owned() };
    match waited.share_of(all) {
        Some(share) if share < WORTH_NAMING => format!("{} ranks in turn", count(late.len() as u64)),
        share => format!("rank {rank}{}", share.map_or(String::new(), |share| format!(" ({:.0} %)", 100.0 * share))),
    }
}

/// The name of a group with its ranks, or with those that have a trace if the others are unknown.
pub(super) fn group_name(of: &GroupName, here: &[u32]) -> String {
    // PyTorch describes groups that were created without a description as `undefined`.
    let described = of.description.as_deref().filter(|description| *description != "undefined");
    let mut text = described.or(of.name.as_deref()).map_or(String::new(), |name| format!("{} ", visible(name)));
    if let Some((from, to)) = of.pair {
        return format!("{text}rank {from} to rank {to}");
    }
    text.push_str(&shorten_right(&crate::report::format::ranks(of.ranks.as_deref().unwrap_or(here)), 40));
    if of.inferred_from_stream.is_some() {
        text.push_str(" (inferred)");
    }
    text
}

pub(super) fn ranks(answer: &RankAnswer<'_>, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let report = answer.report;
    let limit = answer.limit.unwrap_or(ROWS);
    writeln!(out, "\n{}", rank_table(report, screen))?;
    let mut table = Table::from_rows(STACKS, report.stacks.iter().take(limit).map(|stack| (stack, ())));
    table.drop_to(screen.room(30));
    let room = screen.room(table.width() + 2).max(CALLED_FROM.len());
    let from = |stack: &StackWaits| {
        stack.headline.as_deref().map_or(String::new(), |frame| shorten_frame(&visible(frame), room))
    };
    table.push("from", report.stacks.iter().take(limit).map(from).collect());
    writeln!(out, "{}", table.text())?;
    let groups = Table::from_rows(GROUPS, report.groups.iter().take(limit).map(|group| (group, ())));
    writeln!(out, "{}", groups.text())?;
    if !report.steps.is_empty() {
        let mut steps =
            Table::from_rows(STEPS, report.steps.iter().take(limit).map(|step| (step, most_of_step(step, report))));
        steps.drop_to(screen.room(30));
        let names = report.steps.iter().take(limit).map(|step| shorten_right(&visible(&step.name), 40));
        steps.push(if report.has_spans { "span" } else { "step" }, names.collect());
        writeln!(out, "{}", steps.text())?;
    }
    if !report.sizes.is_empty() {
        let mut sizes = Table::from_rows(SIZES, report.sizes.iter().take(limit).map(|row| (row, ())));
        sizes.drop_to(screen.room(0));
        out.write_all(sizes.text().as_bytes())?;
    }
    Ok(())
}
