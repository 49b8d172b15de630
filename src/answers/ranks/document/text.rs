//! The comparison of ranks as text: a table of the ranks, and the stacks with the most waiting.

use std::io::{self, Write};

use super::findings::loaded;
use super::verdict::has_launches;
use super::{RankAnswer, critical, pipeline, table};
use crate::answers::ranks::data::{RankReport, RankWaits, StackWaits};
use crate::answers::stacks::origin::{Frames, names};
use crate::document::Screen;
use crate::document::format::{count, duration, percent, visible};
use crate::document::table::INDENT;
use crate::names::kernels::short_kernel;
use crate::time::Ns;

/// The default number of stacks.
const STACKS: usize = 5;

/// With more ranks than this, only those that caused the most waiting and those that waited most are shown.
const RANKS: usize = 16;

const EXTREME: usize = 6;

pub(crate) fn ranks(answer: &RankAnswer<'_>, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let report = answer.report;
    writeln!(out)?;
    out.write_all(rank_table(report, screen).as_bytes())?;
    writeln!(out)?;
    if let Some(pipeline) = &report.pipeline {
        let table = pipeline::table(pipeline);
        writeln!(out, "{}\n{}", table.title, table.text(screen.width))?;
    }
    if let Some(path) = &report.critical_path {
        critical::text(path, screen, out)?;
        writeln!(out)?;
    }
    stacks(report, screen, answer.limit.unwrap_or(STACKS), out)
}

/// The table of the ranks; of many, only the extremes.
fn rank_table(report: &RankReport, screen: &Screen) -> String {
    if report.ranks.len() <= RANKS || screen.verbose {
        return table::ranks(report.ranks.iter()).text(screen.width);
    }
    let mut caused: Vec<&RankWaits> = report.ranks.iter().collect();
    caused.sort_by_key(|rank| (std::cmp::Reverse(rank.caused_ns), rank.rank));
    let mut waited = caused.split_off(EXTREME);
    waited.sort_by_key(|rank| (std::cmp::Reverse(rank.waited_ns), rank.rank));
    let shown = caused.into_iter().chain(waited.into_iter().take(EXTREME));
    let left_out = report.ranks.len() - 2 * EXTREME;
    format!(
        "{}  … and {left_out} more; above are those with most caused, then those with most waited\n",
        table::ranks(shown).text(screen.width)
    )
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
        let mut below = std::iter::once(stack_line(stack)).chain(critical::exposed(report, stack));
        below.try_for_each(|text| screen.below(INDENT, &text, out))?;
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
    let late = stack.late_ranks.iter().filter_map(|(rank, waited)| Some((rank, waited.share_of(stack.waited_ns)?)));
    let late = late.filter(|(_, share)| *share >= 0.1).take(3);
    let late: Vec<String> = late.map(|(rank, share)| format!("rank {rank} ({})", percent(share))).collect();
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
