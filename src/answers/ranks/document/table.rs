//! The tables of ranks: ranks, stacks, groups, steps, sizes.

use super::findings::WORTH_NAMING;
use super::{critical, pipeline};
use crate::answers::ranks::data::{GroupWaits, RankReport, RankWaits, SizeRow, StackWaits, StepWaits};
use crate::document::format::{count, duration, shorten_right, visible};
use crate::document::table::{Cell, Column, Table, name, number, words};
use crate::operations::matching::GroupName;
use crate::time::Ns;

/// For people and for spreadsheets. A new column is one line here.
const RANKS: &[Column<RankWaits>] = &[
    number("rank", "rank").read(|rank, ()| Cell::Id(rank.rank.into())),
    words("trace", "").read(|rank, ()| Cell::Text(visible(&rank.trace).into_owned())),
    number("count", "").read(|rank, ()| Cell::Count(rank.kernels)),
    number("gpu_ns", "collectives")
        .dropped(5)
        .means("how long its kernels ran, in sum")
        .read(|rank, ()| Cell::Time(rank.gpu_ns)),
    number("waited_ns", "waited").read(|rank, ()| Cell::known(rank.known(rank.waited_ns), Cell::Time)),
    number("caused_ns", "caused")
        .means("how long the others waited where it came last")
        .read(|rank, ()| Cell::known(rank.known(rank.caused_ns), Cell::Time)),
    number("late_count", "late")
        .means("how often it came clearly after the one before it")
        .read(|rank, ()| Cell::known(rank.known(rank.late_count), Cell::Count)),
    number("transfer_ns", "transfer").dropped(4).read(|rank, ()| Cell::known(rank.known(rank.transfer_ns), Cell::Time)),
    number("offset_ns", "").read(|rank, ()| Cell::known(rank.offset_ns, Cell::Time)),
    number("uncertainty_ns", "").read(|rank, ()| Cell::known(rank.uncertainty_ns, Cell::Time)),
    number("queue_empty_share", "queue empty")
        .dropped(3)
        .means("the share of its time in which nothing was queued on its GPU")
        .read(|rank, ()| Cell::known(rank.queue_empty_share, Cell::Share)),
    number("", "clock")
        .dropped(2)
        .means("how far its clock is ahead of that of the lowest rank that it is aligned with, and how certain that is")
        .read(|rank, ()| Cell::Text(clock(rank))),
];

/// `+0.63 µs ± 0.40 µs`
fn clock(rank: &RankWaits) -> String {
    let (Some(offset), Some(uncertainty)) = (rank.offset_ns, rank.uncertainty_ns) else { return "-".to_owned() };
    let sign = if offset > Ns::ZERO { "+" } else { "" };
    let drift =
        if rank.drift_ns_per_ms == 0.0 { String::new() } else { format!(", {:+.1} ns/ms", rank.drift_ns_per_ms) };
    // By its own clock a rank is not wrong.
    let error = if uncertainty == Ns::ZERO { String::new() } else { format!(" ± {}", duration(uncertainty)) };
    format!("{sign}{}{error}{drift}", duration(offset))
}

const STACKS: &[Column<StackWaits>] = &[
    number("count", "count").read(|stack, ()| Cell::Count(stack.count)),
    number("gpu_ns", "").read(|stack, ()| Cell::Time(stack.gpu_ns)),
    number("waited_ns", "waited").read(|stack, ()| Cell::known(stack.known(stack.waited_ns), Cell::Time)),
    number("caused_ns", "caused").dropped(3).read(|stack, ()| Cell::known(stack.known(stack.caused_ns), Cell::Time)),
    number("late_count", "late").dropped(0).read(|stack, ()| Cell::known(stack.known(stack.late_count), Cell::Count)),
    number("transfer_ns", "transfer")
        .dropped(2)
        .read(|stack, ()| Cell::known(stack.known(stack.transfer_ns), Cell::Time)),
    number("late_rank", "")
        .read(|stack, ()| Cell::known(stack.late_ranks.first(), |(rank, _)| Cell::Id((*rank).into()))),
    words("", "mostly for").read(|stack, ()| Cell::Text(mostly(&stack.late_ranks))),
    number("transfer_busbw_gb_per_s", "busbw of transfer (GB/s)")
        .dropped(4)
        .read(|stack, ()| Cell::known(stack.bandwidth.map(|of| of.transfer_gb_per_s), Cell::Bandwidth)),
    number("kernel_busbw_gb_per_s", "")
        .read(|stack, ()| Cell::known(stack.bandwidth.map(|of| of.kernel_gb_per_s), Cell::Bandwidth)),
    words("headline", "").read(|stack, ()| Cell::Text(frames(stack.headline.as_slice()))),
    words("stack", "").read(|stack, ()| Cell::Text(frames(&stack.frames))),
    name("from")
        .read(|stack, ()| Cell::Text(stack.headline.as_deref().map_or("(no launch)".into(), visible).into_owned())),
];

fn frames(frames: &[String]) -> String {
    frames.iter().map(|frame| visible(frame).into_owned()).collect::<Vec<_>>().join(";")
}

const GROUPS: &[Column<GroupWaits>] = &[
    words("", "group").read(|group, ()| Cell::Text(group_name(&group.group, &group.ranks_here))),
    number("", "collectives").means("how many ran on all its ranks").read(|group, ()| Cell::Count(group.collectives)),
    number("", "waited").read(|group, ()| Cell::Time(group.waited_ns)),
    number("", "transfer").read(|group, ()| Cell::Time(group.transfer_ns)),
    words("", "mostly for").read(|group, ()| Cell::Text(mostly(&group.late_ranks))),
    words("", "by").read(|group, ()| Cell::Text(if group.by_clocks { "clocks" } else { "lengths" }.to_owned())),
];

/// Times are means over the ranks, but for the longest slice. The context is the rank that others waited for most, with its share.
const STEPS: &[Column<StepWaits, Option<(u32, f64)>>] = &[
    number("", "on the CPU").read(|step, _| Cell::known(step.length_ns.iter().flatten().max().copied(), Cell::Time)),
    number("", "GPU busy").dropped(1).read(|step, _| mean(&step.busy_ns)),
    number("", "GPU compute").dropped(0).read(|step, _| mean(&step.compute_ns)),
    number("", "exposed").dropped(2).read(|step, _| mean(&step.exposed_ns)),
    number("", "waited").read(|step, _| mean(&step.waited_ns)),
    words("", "mostly for").read(|_, late| {
        Cell::Text(late.map_or("-".to_owned(), |(rank, share)| format!("rank {rank} ({:.0} %)", 100.0 * share)))
    }),
    name("name").read(|step, _| Cell::Text(visible(&step.name).into_owned())),
];

fn mean(times: &[Ns]) -> Cell {
    let sum: Ns = times.iter().copied().sum();
    if sum == Ns::ZERO { Cell::Empty } else { Cell::Time(Ns::rounded(sum.as_f64() / times.len() as f64)) }
}

const SIZES: &[Column<SizeRow>] = &[
    words("", "collective").read(|row, ()| Cell::Text(visible(&row.collective).into_owned())),
    number("", "size").read(|row, ()| Cell::Bytes(row.bytes)),
    number("", "ranks").read(|row, ()| Cell::Count(row.ranks)),
    number("", "count").read(|row, ()| Cell::Count(row.count)),
    number("", "transfer (median)").dropped(1).read(|row, ()| Cell::Time(row.median_transfer_ns)),
    number("", "busbw of transfer (GB/s)").read(|row, ()| Cell::Bandwidth(row.bandwidth.transfer_gb_per_s)),
    number("", "of whole kernels").dropped(0).read(|row, ()| Cell::Bandwidth(row.bandwidth.kernel_gb_per_s)),
];

/// All tables, in the order of their use.
pub(crate) fn tables(report: &RankReport) -> Vec<Table> {
    let mut tables = vec![
        ranks(report.ranks.iter()),
        Table::new("waits", "Call stacks of all ranks", STACKS, rows(&report.stacks)),
        Table::new("groups", "Groups", GROUPS, rows(&report.groups)),
    ];
    let steps = report.steps.iter().map(|step| (step, most_of_step(step, report)));
    let (id, title) = if report.has_spans { ("spans", "Spans") } else { ("steps", "Steps") };
    tables.push(Table::new(id, title, STEPS, steps));
    tables.push(Table::new("bandwidths", "Bandwidths by size", SIZES, rows(&report.sizes)));
    tables.extend(report.critical_path.iter().map(critical::table));
    tables.extend(report.pipeline.iter().map(pipeline::table));
    tables
}

pub(crate) fn ranks<'r>(ranks: impl Iterator<Item = &'r RankWaits>) -> Table {
    Table::new("ranks", "Ranks", RANKS, ranks.map(|rank| (rank, ())))
}

/// The rows of spreadsheets: the ranks, then the stacks.
pub(crate) fn for_programs(report: &RankReport) -> [Table; 2] {
    [
        Table::for_programs("rank", RANKS, rows(&report.ranks)),
        Table::for_programs("stack", STACKS, rows(&report.stacks)),
    ]
}

fn rows<Row>(of: &[Row]) -> impl Iterator<Item = (&Row, ())> {
    of.iter().map(|row| (row, ()))
}

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
pub(crate) fn group_name(of: &GroupName, here: &[u32]) -> String {
    // PyTorch describes groups that were created without a description as `undefined`.
    let described = of.description.as_deref().filter(|description| *description != "undefined");
    let mut text = described.or(of.name.as_deref()).map_or(String::new(), |name| format!("{} ", visible(name)));
    if let Some((from, to)) = of.pair {
        return format!("{text}rank {from} to rank {to}");
    }
    text.push_str(&shorten_right(&crate::document::format::ranks(of.ranks.as_deref().unwrap_or(here)), 40));
    if of.inferred_from_stream.is_some() {
        text.push_str(" (inferred)");
    }
    text
}
