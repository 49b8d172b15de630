//! The comparison of ranks for people: a table of the ranks, and the stacks with the most waiting.

use std::io::{self, Write};

use super::RankAnswer;
use super::critical;
use super::exposed;
use super::pipeline;
use super::verdict::has_launches;
use crate::analysis::origin::{Frames, names};
use crate::names::kernels::short_kernel;
use crate::ranks::report::{RankReport, RankWaits, StackWaits};
use crate::report::Screen;
use crate::report::column::{Align, Cell, Column, INDENT, Table};
use crate::report::format::{count, duration, percent, visible};
use crate::report::sheet::Sheet;
use crate::time::Ns;

/// The default number of stacks.
const STACKS: usize = 5;

/// With more ranks than this, only those that caused the most waiting and those that waited most are shown.
const RANKS: usize = 16;

/// How many of either.
const EXTREME: usize = 6;

const COLUMNS: &[Column<RankWaits>] = &[
    Column::right("rank", |rank, ()| rank.rank.to_string()),
    Column::number_at(5, "", "collectives", |rank: &RankWaits, ()| Cell::Time(rank.gpu_ns))
        .means("how long its kernels ran, in sum"),
    Column::number("", "waited", |rank, ()| Cell::known(rank.known(rank.waited_ns), Cell::Time)),
    Column::number("", "caused", |rank: &RankWaits, ()| Cell::known(rank.known(rank.caused_ns), Cell::Time))
        .means("how long the others waited where it came last"),
    Column::number("", "late", |rank: &RankWaits, ()| Cell::known(rank.known(rank.late_count), Cell::Count))
        .means("how often it came clearly after the one before it"),
    Column::number_at(4, "", "transfer", |rank, ()| Cell::known(rank.known(rank.transfer_ns), Cell::Time)),
    Column::number_at(3, "", "queue empty", |rank: &RankWaits, ()| Cell::known(rank.queue_empty_share, Cell::Share))
        .means("the share of its time in which nothing was queued on its GPU"),
    Column::dropped(2, Align::Right, "clock", |rank: &RankWaits, ()| clock(rank)).means(
        "how far its clock is ahead of that of the lowest rank that it is aligned with, and how certain that is",
    ),
];

/// The table of a page.
pub(super) fn rank_sheet(report: &RankReport) -> Sheet {
    Sheet::from_rows("Ranks", COLUMNS, report.ranks.iter())
}

/// `+0.630 µs ± 0.400 µs`
fn clock(rank: &RankWaits) -> String {
    let (Some(offset), Some(uncertainty)) = (rank.offset_ns, rank.uncertainty_ns) else { return "-".to_owned() };
    let sign = if offset > Ns::ZERO { "+" } else { "" };
    let drift =
        if rank.drift_ns_per_ms == 0.0 { String::new() } else { format!(", {:+.1} ns/ms", rank.drift_ns_per_ms) };
    // By its own clock a rank is not wrong.
    let error = if uncertainty == Ns::ZERO { String::new() } else { format!(" ± {}", duration(uncertainty)) };
    format!("{sign}{}{error}{drift}", duration(offset))
}

pub(super) fn ranks(answer: &RankAnswer<'_>, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let report = answer.report;
    writeln!(out)?;
    out.write_all(rank_table(report, screen).as_bytes())?;
    writeln!(out)?;
    if let Some(pipeline) = &report.pipeline {
        pipeline::text(pipeline, screen, out)?;
        writeln!(out)?;
    }
    if let Some(path) = &report.critical_path {
        critical::text(path, screen, out)?;
        writeln!(out)?;
    }
    stacks(report, screen, answer.limit.unwrap_or(STACKS), out)
}

/// The table of the ranks; of many, only the extremes.
pub(super) fn rank_table(report: &RankReport, screen: &Screen) -> String {
    let mut shown: Vec<&RankWaits> = report.ranks.iter().collect();
    let left_out = shown.len().saturating_sub(2 * EXTREME);
    let is_short = shown.len() > RANKS && !screen.verbose;
    if is_short {
        shown.sort_by_key(|rank| (std::cmp::Reverse(rank.caused_ns), rank.rank));
        let last = shown.split_off(EXTREME);
        let mut last: Vec<&RankWaits> = last;
        last.sort_by_key(|rank| (std::cmp::Reverse(rank.waited_ns), rank.rank));
        shown.extend(last.into_iter().take(EXTREME));
    }
    let mut table = Table::from_rows(COLUMNS, shown.into_iter().map(|rank| (rank, ())));
    table.drop_to(screen.room(0));
    let note = match is_short {
        true => format!("  … and {left_out} more; above are those with most caused, then those with most waited\n"),
        false => String::new(),
    };
    table.text() + &note
}

fn stacks(report: &RankReport, screen: &Screen, limit: usize, out: &mut impl Write) -> io::Result<()> {
    let stacks: Vec<Frames<'_>> = report.stacks.iter().map(StackWaits::naming).collect();
    let names = names(&stacks);
    let shown = report.stacks.iter().zip(&names).take(limit);
    for (stack, name) in shown {
        let mut name = name.iter().map(|frame| visible(frame));
        let none = if has_launches(report) { "(no launch in the trace)" } else { "(no call path in the records)" };
        let from = name.next().map_or(none.into(), |frame| screen.accent(&frame));
        let within: String = name.map(|frame| format!(" in {frame}")).collect();
        writeln!(out, "{}", screen.fill(&format!("{from}{within}")))?;
        let inner = Screen { width: screen.width.map(|width| width.saturating_sub(INDENT.len())), ..screen.clone() };
        for text in std::iter::once(stack_line(stack)).chain(exposed::sentence(report, stack)) {
            inner.fill(&text).lines().try_for_each(|line| writeln!(out, "{INDENT}{line}"))?;
        }
    }
    let more = report.stacks.len().saturating_sub(limit);
    if more > 0 {
        writeln!(out, "… and {} more stacks", count(more as u64))?;
    }
    Ok(())
}

/// `48 all_reduce: waited 61.2 of 70.1 ms, for rank 3 (55.1 %), rank 2 (40.2 %); transfer 8.9 ms at 320.1 GB/s, whole kernels 40.0 GB/s`
fn stack_line(stack: &StackWaits) -> String {
    // Where nothing else shows what they do, that is the name of their kernel.
    let collectives: Vec<_> = stack.collectives.keys().map(|name| visible(short_kernel(name))).collect();
    let mut text = format!("{} {}: ", count(stack.count), collectives.join(", "));
    let measured = stack.waited_ns + stack.transfer_ns;
    if measured == Ns::ZERO {
        return text + &format!("{}, not measured", duration(stack.gpu_ns));
    }
    text.push_str(&format!("waited {} of {}", duration(stack.waited_ns), duration(measured)));
    let late: Vec<String> = stack
        .late_ranks
        .iter()
        .filter(|(_, waited)| waited.share_of(stack.waited_ns).is_some_and(|share| share >= 0.1))
        .take(3)
        .map(|(rank, waited)| format!("rank {rank} ({})", percent(waited.share_of(stack.waited_ns).unwrap_or(0.0))))
        .collect();
    if !late.is_empty() {
        text.push_str(&format!(", for {}", late.join(", ")));
    }
    text.push_str(&format!("; transfer {}", duration(stack.transfer_ns)));
    if let Some(bandwidth) = stack.bandwidth {
        text.push_str(&format!(
            " at {:.1} GB/s, whole kernels {:.1} GB/s",
            bandwidth.transfer_gb_per_s, bandwidth.kernel_gb_per_s
        ));
    }
    let loads = stack.loads.iter().filter_map(|load| Some((load.rank, stack.load(load.rank)?)));
    let most = loads.max_by(|(_, a), (_, b)| a[0].max(a[1]).total_cmp(&b[0].max(b[1])));
    // Less rounds to the mean.
    if let Some((rank, load)) = most.filter(|(_, [received, sent])| received.max(*sent) >= 1.05) {
        text.push_str(&format!("; rank {rank} {}", loaded(load)));
    }
    text
}

/// `receives 2.0 times the mean`
pub(super) fn loaded([received, sent]: [f64; 2]) -> String {
    let verb = if received >= sent { "receives" } else { "sends" };
    format!("{verb} {:.1} times the mean", received.max(sent))
}
