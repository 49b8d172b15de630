//! Recorded operations for spreadsheets: a row for each row of the census, numbers without units, empty cells for unknown values. A file has
//! rows of one kind, so the other tables are not in it.

use std::collections::BTreeMap;
use std::io;

use super::RecordsAnswer;
use super::flows;
use crate::analysis::recorded::CensusRow;
use crate::report::column::Column;
use crate::report::csv::write_rows;
use crate::report::format::visible;

const COLUMNS: &[Column<CensusRow>] = &[
    Column::left("source", |row, ()| row.source.to_owned()),
    Column::left("communicator", |row, ()| shown(row.communicator.as_deref())),
    Column::left("collective", |row, ()| shown(row.collective.as_deref())),
    Column::right("bytes_min", |row, ()| known(row.size.map(|size| size.min_bytes))),
    Column::right("bytes_max", |row, ()| known(row.size.map(|size| size.max_bytes))),
    Column::right("count", |row, ()| row.count.to_string()),
    Column::right("ranks", |row, ()| row.ranks.to_string()),
    Column::right("timed", |row, ()| row.timed.to_string()),
    Column::right("total_ns", |row, ()| known(row.time.map(|time| time.total))),
    Column::right("median_ns", |row, ()| known(row.time.map(|time| time.median))),
    Column::right("p95_ns", |row, ()| known(row.time.map(|time| time.p95))),
    Column::right("min_ns", |row, ()| known(row.time.map(|time| time.min))),
    Column::right("max_ns", |row, ()| known(row.time.map(|time| time.max))),
    Column::right("algbw_gb_per_s", |row, ()| known(row.algbw_gb_per_s)),
    Column::right("busbw_gb_per_s", |row, ()| known(row.busbw_gb_per_s)),
    Column::left("algorithms", |row, ()| values(&row.algorithms)),
    Column::left("protocols", |row, ()| values(&row.protocols)),
    Column::left("channels", |row, ()| values(&row.channels)),
    Column::left("dtypes", |row, ()| values(&row.dtypes)),
];

/// The operations; if there are only flow files, their matrices.
pub(super) fn records(answer: &RecordsAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    if let (Some(flows), true) = (&answer.report.flows, answer.report.census.is_empty()) {
        return flows::csv(flows, out);
    }
    let rows = answer.report.census.iter().take(answer.limit.unwrap_or(usize::MAX));
    write_rows(COLUMNS.iter(), rows.map(|row| (row, ())), out)
}

fn shown(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| visible(name).into_owned())
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// `RING:12;TREE:4`
fn values(values: &BTreeMap<impl ToString, u64>) -> String {
    let one = |(value, times): (_, &u64)| format!("{}:{times}", visible(&ToString::to_string(value)));
    values.iter().map(one).collect::<Vec<_>>().join(";")
}
