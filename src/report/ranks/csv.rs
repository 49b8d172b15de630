//! Many ranks for spreadsheets: a row for each rank, then a row for each stack; numbers have no units, and values that a row lacks are empty.

use std::io::{self, Write};

use crate::ranks::report::{RankReport, RankWaits, StackWaits};
use crate::report::column::Column;
use crate::report::csv::write_rows;
use crate::report::format::visible;

/// A row of either kind.
enum Row<'a> {
    Rank(&'a RankWaits),
    Stack(&'a StackWaits),
}

/// The columns, as a function because rows hold references.
fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::left("row", |row, ()| if matches!(row, Row::Rank(_)) { "rank" } else { "stack" }.to_owned()),
        Column::right("rank", |row, ()| of_rank(row, |rank| rank.rank)),
        Column::left("trace", |row, ()| of_rank(row, |rank| visible(&rank.trace).into_owned())),
        Column::right("count", |row, ()| both(row, |rank| rank.kernels, |stack| stack.count)),
        Column::right("gpu_ns", |row, ()| both(row, |rank| rank.gpu_ns, |stack| stack.gpu_ns)),
        Column::right("waited_ns", |row, ()| {
            both(row, |rank| known(rank.known(rank.waited_ns)), |stack| known(stack.known(stack.waited_ns)))
        }),
        Column::right("caused_ns", |row, ()| {
            both(row, |rank| known(rank.known(rank.caused_ns)), |stack| known(stack.known(stack.caused_ns)))
        }),
        Column::right("late_count", |row, ()| {
            both(row, |rank| known(rank.known(rank.late_count)), |stack| known(stack.known(stack.late_count)))
        }),
        Column::right("transfer_ns", |row, ()| {
            both(row, |rank| known(rank.known(rank.transfer_ns)), |stack| known(stack.known(stack.transfer_ns)))
        }),
        Column::right("offset_ns", |row, ()| of_rank(row, |rank| known(rank.offset_ns))),
        Column::right("uncertainty_ns", |row, ()| of_rank(row, |rank| known(rank.uncertainty_ns))),
        Column::right("queue_empty_share", |row, ()| of_rank(row, |rank| known(rank.queue_empty_share))),
        Column::right("late_rank", |row, ()| {
            of_stack(row, |stack| known(stack.late_ranks.first().map(|(rank, _)| *rank)))
        }),
        Column::right("transfer_busbw_gb_per_s", |row, ()| {
            of_stack(row, |stack| known(stack.bandwidth.map(|of| of.transfer_gb_per_s)))
        }),
        Column::right("kernel_busbw_gb_per_s", |row, ()| {
            of_stack(row, |stack| known(stack.bandwidth.map(|of| of.kernel_gb_per_s)))
        }),
        Column::left("headline", |row, ()| of_stack(row, |stack| frames(stack.headline.as_slice()))),
        Column::left("stack", |row, ()| of_stack(row, |stack| frames(&stack.frames))),
    ]
}

pub(super) fn ranks(report: &RankReport, out: &mut impl Write) -> io::Result<()> {
    let columns = columns();
    let rows: Vec<Row<'_>> = report.ranks.iter().map(Row::Rank).chain(report.stacks.iter().map(Row::Stack)).collect();
    write_rows(columns.iter(), rows.iter().map(|row| (row, ())), out)
}

fn of_rank<T: ToString>(row: &Row<'_>, get: fn(&RankWaits) -> T) -> String {
    if let Row::Rank(rank) = row { get(rank).to_string() } else { String::new() }
}

fn of_stack(row: &Row<'_>, get: fn(&StackWaits) -> String) -> String {
    if let Row::Stack(stack) = row { get(stack) } else { String::new() }
}

fn both<T: ToString>(row: &Row<'_>, of_rank: fn(&RankWaits) -> T, of_stack: fn(&StackWaits) -> T) -> String {
    match row {
        Row::Rank(rank) => of_rank(rank).to_string(),
        Row::Stack(stack) => of_stack(stack).to_string(),
    }
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn frames(frames: &[String]) -> String {
    frames.iter().map(|frame| visible(frame).into_owned()).collect::<Vec<_>>().join(";")
}
