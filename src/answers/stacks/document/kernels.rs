//! Kernels by name, as a table with the columns of `nsys stats -r cuda_gpu_kern_sum`.

use crate::answers::stacks::summary::KernelRow;
use crate::document::format::{count, grouped, visible};
use crate::document::table::{Cell, Column, Table, name, number};
use crate::time::Ns;

/// A time in ns, without its unit.
fn whole(time: Ns) -> Cell {
    Cell::Text(u64::try_from(time.0).map_or_else(|_| time.to_string(), count))
}

/// How much of a name identifies the kernel: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.
const NAME_ROOM: usize = 42;

const COLUMNS: &[Column<KernelRow>] = &[
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

/// The table in lines of at most `width`.
pub(crate) fn table(rows: &[KernelRow], width: Option<usize>) -> String {
    Table::new("kernels", "Kernels", COLUMNS, rows.iter().map(|row| (row, ()))).text(width)
}
