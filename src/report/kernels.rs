//! Kernels by name, as a table with the columns of `nsys stats -r cuda_gpu_kern_sum`.

use super::column::{Align, Column, Table};
use super::format::{count, grouped, shorten_right, visible};
use crate::analysis::summary::KernelRow;
use crate::time::Ns;

fn whole(time: Ns) -> String {
    u64::try_from(time.0).map_or_else(|_| time.to_string(), count)
}

const NUMBERS: &[Column<KernelRow>] = &[
    Column::right("Time (%)", |row, ()| format!("{:.1}", row.share_of_kernels * 100.0)),
    Column::right("Total Time (ns)", |row, ()| whole(row.time.total_ns)),
    Column::right("Instances", |row, ()| count(row.instances)),
    Column::dropped(4, Align::Right, "Avg (ns)", |row, ()| grouped(row.time.mean_ns, 1)),
    Column::dropped(1, Align::Right, "Med (ns)", |row, ()| grouped(row.time.median_ns, 1)),
    Column::dropped(2, Align::Right, "Min (ns)", |row, ()| whole(row.time.min_ns)),
    Column::dropped(3, Align::Right, "Max (ns)", |row, ()| whole(row.time.max_ns)),
    Column::dropped(0, Align::Right, "StdDev (ns)", |row, ()| grouped(row.time.std_dev_ns, 1)),
];

/// How much of a name identifies the kernel: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.
const NAME_ROOM: usize = 42;

/// The table in lines of at most `width`. Columns of numbers are dropped before names lose their room.
pub(super) fn table(rows: &[KernelRow], width: Option<usize>) -> String {
    let mut table = Table::from_rows(NUMBERS, rows.iter().map(|row| (row, ())));
    if let Some(width) = width {
        table.drop_to(width.saturating_sub(NAME_ROOM));
    }
    table.push("Name", rows.iter().map(|row| visible(&row.name).into_owned()).collect());
    let text = table.text();
    let fit = |line: &str| width.map_or(line.to_owned(), |width| shorten_right(line, width));
    text.lines().map(|line| format!("{}\n", fit(line))).collect()
}
