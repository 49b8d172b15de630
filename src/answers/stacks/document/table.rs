//! Stacks as a table: one row each, for people with the frames that best show where it comes from. The columns are those of spreadsheets, too. And
//! kernels by name.

use std::collections::BTreeMap;

use super::flame;
use crate::answers::stacks::collective_info::{Bandwidth, ProcessGroup};
use crate::answers::stacks::data::{Stack, StackReport};
use crate::answers::stacks::origin::origins;
use crate::answers::stacks::summary::KernelRow;
use crate::document::format::{count, counted, grouped, values_of, visible};
use crate::document::frames::lines;
use crate::document::table::{Cell, Column, Table, frames, name, number, words};
use crate::time::Ns;

/// The stack's number, which kernels without a launch lack, and the frames that name it.
type Context = (Option<usize>, Vec<String>);

/// A new column is one line here, for people and for spreadsheets.
const COLUMNS: &[Column<Stack, Context>] = &[
    number("", "#").read(|_, (number, _)| Cell::some(*number, |number| Cell::Id(number as i64))),
    words("rank", "rank").read(|stack, _| text(stack.rank.as_deref())),
    number("count", "count").read(|stack, _| Cell::Count(stack.count)),
    number("gpu_time_ns", "GPU time").read(|stack, _| Cell::Time(stack.cost.gpu_time.total_ns)),
    number("share_of_window", "share").dropped(4).read(|stack, _| Cell::known(stack.cost.share_of_window, Cell::Share)),
    number("exposed_ns", "exposed").dropped(5).read(|stack, _| Cell::Time(stack.cost.exposed_ns)),
    number("critical_ns", "critical").dropped(6).read(|stack, _| Cell::some(stack.cost.critical_ns, Cell::Time)),
    number("overlapped_ns", "").read(|stack, _| Cell::Time(stack.cost.overlapped_ns)),
    number("mean_ns", "mean").dropped(1).read(|stack, _| Cell::Nanos(stack.cost.gpu_time.mean_ns)),
    number("median_ns", "").read(|stack, _| Cell::Nanos(stack.cost.gpu_time.median_ns)),
    number("p95_ns", "").read(|stack, _| Cell::Time(stack.cost.gpu_time.p95_ns)),
    number("min_ns", "").read(|stack, _| Cell::Time(stack.cost.gpu_time.min_ns)),
    number("max_ns", "max").dropped(0).read(|stack, _| Cell::Time(stack.cost.gpu_time.max_ns)),
    number("fastest_ns", "").read(|stack, _| Cell::known(stack.messages.fastest_ns, Cell::Time)),
    number("queue_delay_median_ns", "")
        .read(|stack, _| Cell::known(stack.cost.queue_delay.map(|delay| delay.median_ns), Cell::Nanos)),
    words("collective", "collective").dropped(3).read(|stack, _| shares(&stack.messages.collectives, stack)),
    words("dtype", "").read(|stack, _| shares(&stack.messages.dtypes, stack)),
    number("bytes_min", "").read(|stack, _| Cell::known(stack.messages.bytes.map(|of| of.min), Cell::Count)),
    number("bytes_max", "").read(|stack, _| Cell::known(stack.messages.bytes.map(|of| of.max), Cell::Count)),
    words("process_group", "").read(|stack, _| {
        let groups = stack.messages.groups.iter().map(|group| process_group(group, stack.count));
        Cell::Text(groups.collect::<Vec<_>>().join("; "))
    }),
    number("algbw_gb_per_s", "").read(|stack, _| bandwidth(stack, |of| of.algorithm_gb_per_s)),
    number("busbw_gb_per_s", "busbw (GB/s)").dropped(2).read(|stack, _| bandwidth(stack, |of| of.bus_gb_per_s)),
    number("best_busbw_gb_per_s", "").read(|stack, _| bandwidth(stack, |of| of.best_bus_gb_per_s)),
    words("thread", "").read(|stack, _| Cell::Text(stack.key.thread.clone().unwrap_or_default())),
    words("kernels", "").read(|stack, _| Cell::Text(kernel_names(stack))),
    words("headline", "").read(|stack, _| text(stack.headline.as_deref())),
    words("stack", "").read(|stack, _| Cell::Text(flame::line(&stack.key))),
    frames("called from, innermost first").read(|_, (_, frames)| Cell::Frames(frames.clone())),
];

/// A name with its control characters escaped.
fn text(name: Option<&str>) -> Cell {
    Cell::some(name, |name| Cell::Text(visible(name).into_owned()))
}

/// Values, each with its number of kernels. If nothing is known, people read so, and programs get nothing.
fn shares(found: &BTreeMap<String, u64>, stack: &Stack) -> Cell {
    let text = values(found, stack);
    if found.is_empty() { Cell::Both(text, String::new()) } else { Cell::Text(text) }
}

fn bandwidth(stack: &Stack, get: fn(Bandwidth) -> f64) -> Cell {
    Cell::known(stack.messages.bandwidth.map(get), Cell::Bandwidth)
}

/// The stacks, then the kernels without a launch by reason, one row each.
pub(crate) fn table(report: &StackReport) -> Table {
    let names = origins(report.stacks.iter().map(|stack| &stack.telling)).into_iter();
    let names = names.map(|frames| frames.into_iter().map(|frame| visible(frame).into_owned()).collect());
    let stacks = report.stacks.iter().zip((1..).map(Some).zip(names));
    let reason = |row: &Stack| lines(&row.key).into_iter().map(|line| line.into_owned()).collect();
    let without = report.without_launch.iter().map(|row| (row, (None, reason(row))));
    Table::new("stacks", "Call stacks", COLUMNS, stacks.chain(without))
}

/// The stacks under their labels, for a page.
pub(crate) fn labelled(report: &StackReport, labels: &[Vec<String>]) -> Table {
    let rows = report.stacks.iter().zip((1..).map(Some).zip(labels.iter().cloned()));
    Table::new("stacks", "Call stacks", COLUMNS, rows)
}

pub(crate) fn rows(report: &StackReport) -> Table {
    let rows = report.stacks.iter().chain(&report.without_launch);
    Table::for_programs("stack", COLUMNS, rows.map(|stack| (stack, (None, Vec::new()))))
}

/// Values, each with the number of the stack's kernels that have it; the number is left out if all of them do. The remaining kernels are
/// unknown.
pub(crate) fn values(values: &BTreeMap<String, u64>, stack: &Stack) -> String {
    values_of(values, stack.count)
}

/// The names of a stack's kernels, written like [`values`].
pub(crate) fn kernel_names(stack: &Stack) -> String {
    counted(stack.kernels_by_name.iter().map(|(name, kernels)| (name.as_str(), kernels.count)), stack.count)
}

/// A process group with its number of kernels: `3 (tp), 4 ranks [0, 1, 2, 3]`.
pub(crate) fn process_group(group: &ProcessGroup, all: u64) -> String {
    let mut text = group.name.as_deref().map_or("unnamed".into(), visible).into_owned();
    if let Some(description) = &group.description {
        text.push_str(&format!(" ({})", visible(description)));
    }
    if let Some(size) = group.size {
        text.push_str(&format!(", {size} ranks"));
    }
    if let Some(ranks) = &group.ranks {
        text.push_str(&format!(" {}", visible(ranks)));
    }
    if group.kernels != all {
        text.push_str(&format!(" ×{}", count(group.kernels)));
    }
    text
}

/// A time in ns, without its unit.
fn whole(time: Ns) -> Cell {
    Cell::Text(u64::try_from(time.0).map_or_else(|_| time.to_string(), count))
}

/// How much of a name identifies the kernel: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.
const NAME_ROOM: usize = 42;

/// The columns of `nsys stats -r cuda_gpu_kern_sum`.
const KERNEL_COLUMNS: &[Column<KernelRow>] = &[
    number("", "Time (%)").read(|row, ()| Cell::Text(format!("{:.1}", row.share_of_kernels * 100.0))),
    number("", "Total Time (ns)").read(|row, ()| whole(row.time.total_ns)),
    number("", "Instances").read(|row, ()| Cell::Count(row.instances)),
    number("", "Avg (ns)").dropped(4).read(|row, ()| Cell::Text(grouped(row.time.mean_ns, 1))),
    number("", "Med (ns)").dropped(1).read(|row, ()| Cell::Text(grouped(row.time.median_ns, 1))),
    number("", "Min (ns)").dropped(2).read(|row, ()| whole(row.time.min_ns)),
    number("", "Max (ns)").dropped(3).read(|row, ()| whole(row.time.max_ns)),
    number("", "StdDev (ns)").dropped(0).read(|row, ()| Cell::Text(grouped(row.time.std_dev_ns, 1))),
    name("Name").room(NAME_ROOM).read(|row, ()| Cell::Text(visible(&row.name).into_owned())),
];

/// The kernels by name, in lines of at most `width`.
pub(crate) fn kernels(rows: &[KernelRow], width: Option<usize>) -> String {
    Table::new("kernels", "Kernels", KERNEL_COLUMNS, rows.iter().map(|row| (row, ()))).text(width)
}
