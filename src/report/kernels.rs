//! Kernels by name, as a table and as CSV, with the columns of `nsys stats -r cuda_gpu_kern_sum`, whose names scripts rely on.

use std::io::{self, Write};

use super::column::{Align, Column, Table};
use super::csv::write_rows;
use super::format::{count, grouped, shorten_right, visible};
use crate::analysis::summary::{KernelRow, KernelTable};
use crate::time::Ns;

/// Whether cells are for people or for programs.
#[derive(Clone, Copy)]
enum Style {
    /// Numbers with commas, names that are safe to show.
    Table,
    /// Plain numbers and names.
    Csv,
}

impl Style {
    fn whole(self, time: Ns) -> String {
        match (self, u64::try_from(time.0)) {
            (Style::Table, Ok(number)) => count(number),
            _ => time.to_string(),
        }
    }

    fn real(self, number: f64) -> String {
        match self {
            Style::Table => grouped(number, 1),
            Style::Csv => format!("{number:.1}"),
        }
    }
}

const NUMBERS: &[Column<KernelRow, Style>] = &[
    Column::right("Time (%)", |row, _| format!("{:.1}", row.share * 100.0)),
    Column::right("Total Time (ns)", |row, style| style.whole(row.time.total)),
    Column::right("Instances", |row, style| match style {
        Style::Table => count(row.instances),
        Style::Csv => row.instances.to_string(),
    }),
    Column::dropped(4, Align::Right, "Avg (ns)", |row, style| style.real(row.time.mean)),
    Column::dropped(1, Align::Right, "Med (ns)", |row, style| style.real(row.time.median)),
    Column::dropped(2, Align::Right, "Min (ns)", |row, style| style.whole(row.time.min)),
    Column::dropped(3, Align::Right, "Max (ns)", |row, style| style.whole(row.time.max)),
    Column::dropped(0, Align::Right, "StdDev (ns)", |row, style| style.real(row.time.std_dev)),
];

const NAME: Column<KernelRow, Style> = Column::left("Name", |row, style| match style {
    Style::Table => visible(&row.name).into_owned(),
    Style::Csv => row.name.clone(),
});

/// How much of a name identifies the kernel: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`.
const NAME_ROOM: usize = 42;

/// The table in lines of at most `width`. Columns of numbers are dropped before names lose their room.
pub(super) fn table(rows: &[KernelRow], width: Option<usize>) -> String {
    let mut table = Table::from_rows(NUMBERS, rows.iter().map(|row| (row, Style::Table)));
    if let Some(width) = width {
        table.drop_to(width.saturating_sub(NAME_ROOM));
    }
    table.push(NAME.header, rows.iter().map(|row| NAME.cell(row, &Style::Table).shown()).collect());
    let text = table.text();
    let fit = |line: &str| width.map_or(line.to_owned(), |width| shorten_right(line, width));
    text.lines().map(|line| format!("{}\n", fit(line))).collect()
}

/// Writes the table in lines of at most `width`.
///
/// # Errors
/// Returns the writer's error.
pub fn write_table(rows: &[KernelRow], width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    out.write_all(table(rows, width).as_bytes())
}

/// Writes the table as CSV.
///
/// # Errors
/// Returns the writer's error.
pub fn write_csv(table: &KernelTable, out: &mut impl Write) -> io::Result<()> {
    write_rows(NUMBERS.iter().chain([&NAME]), table.rows.iter().map(|row| (row, Style::Csv)), out)
}
