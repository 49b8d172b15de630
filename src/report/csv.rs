//! Answers for spreadsheets: one row each, numbers without units (the header has them), what is unknown is empty.

use std::io::{self, Write};

use super::folded;
use super::table::{KERNEL_COLUMNS, kernel_names, values};
use super::text::process_group;
use crate::analysis::stacks::{Stack, StackReport};
use crate::analysis::summary::KernelTable;

/// The columns of stacks.
const COLUMNS: [&str; 22] = [
    "count",
    "gpu_time_ns",
    "share_of_window",
    "mean_ns",
    "median_ns",
    "p95_ns",
    "min_ns",
    "max_ns",
    "exposed_ns",
    "overlapped_ns",
    "queue_delay_median_ns",
    "collective",
    "dtype",
    "bytes_min",
    "bytes_max",
    "process_group",
    "algbw_gb_per_s",
    "busbw_gb_per_s",
    "best_busbw_gb_per_s",
    "thread",
    "kernels",
    "stack",
];

/// Writes stacks.
///
/// # Errors
/// What the writer fails with.
pub fn stacks(report: &StackReport, out: &mut impl Write) -> io::Result<()> {
    write_rows(&COLUMNS, report.stacks.iter().map(stack), out)
}

/// Writes a table of kernels, with the columns of `nsys stats -r cuda_gpu_kern_sum --format csv`.
///
/// # Errors
/// What the writer fails with.
pub fn kernels(table: &KernelTable, out: &mut impl Write) -> io::Result<()> {
    let rows = table.rows.iter().map(|row| {
        [
            format!("{:.1}", row.share * 100.0),
            row.time.total.to_string(),
            row.instances.to_string(),
            format!("{:.1}", row.time.mean),
            format!("{:.1}", row.time.median),
            row.time.min.to_string(),
            row.time.max.to_string(),
            format!("{:.1}", row.time.std_dev),
            row.name.clone(),
        ]
    });
    write_rows(&KERNEL_COLUMNS, rows, out)
}

fn stack(stack: &Stack) -> [String; 22] {
    let (cost, messages) = (&stack.cost, &stack.collective);
    let time = &cost.gpu_time;
    let several = |found: &std::collections::BTreeMap<String, u64>| {
        if found.is_empty() { String::new() } else { values(found, stack.count) }
    };
    let bandwidth = messages.bandwidth;
    let groups: Vec<String> = messages.groups.iter().map(|group| process_group(group, stack.count)).collect();
    [
        stack.count.to_string(),
        time.total.to_string(),
        number(cost.share),
        time.mean.to_string(),
        time.median.to_string(),
        time.p95.to_string(),
        time.min.to_string(),
        time.max.to_string(),
        cost.exposed.to_string(),
        cost.overlapped.to_string(),
        number(cost.queue_delay.map(|delay| delay.median)),
        several(&messages.collectives),
        several(&messages.dtypes),
        messages.bytes.map_or(String::new(), |bytes| bytes.min.to_string()),
        messages.bytes.map_or(String::new(), |bytes| bytes.max.to_string()),
        groups.join("; "),
        number(bandwidth.map(|bandwidth| bandwidth.algorithm)),
        number(bandwidth.map(|bandwidth| bandwidth.bus)),
        number(bandwidth.map(|bandwidth| bandwidth.best_bus)),
        stack.key.thread.clone().unwrap_or_default(),
        kernel_names(stack),
        folded::line(&stack.key),
    ]
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Writes a table with these columns.
///
/// # Errors
/// What the writer fails with.
pub(super) fn write_rows<const N: usize>(
    columns: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns)?;
    for row in rows {
        writer.write_record(&row)?;
    }
    writer.flush()
}
