//! Stacks for spreadsheets: one row each, numbers without units (the header names them), empty cells for unknown values.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::column::Column;
use super::folded;
use super::format::{kernel_names, process_group, values, visible};
use crate::analysis::stacks::{Stack, StackReport};

const COLUMNS: &[Column<Stack>] = &[
    Column::right("count", |stack, ()| stack.count.to_string()),
    Column::right("gpu_time_ns", |stack, ()| stack.cost.gpu_time.total.to_string()),
    Column::right("share_of_window", |stack, ()| known(stack.cost.share)),
    Column::right("mean_ns", |stack, ()| stack.cost.gpu_time.mean.to_string()),
    Column::right("median_ns", |stack, ()| stack.cost.gpu_time.median.to_string()),
    Column::right("p95_ns", |stack, ()| stack.cost.gpu_time.p95.to_string()),
    Column::right("min_ns", |stack, ()| stack.cost.gpu_time.min.to_string()),
    Column::right("max_ns", |stack, ()| stack.cost.gpu_time.max.to_string()),
    Column::right("exposed_ns", |stack, ()| stack.cost.exposed.to_string()),
    Column::right("overlapped_ns", |stack, ()| stack.cost.overlapped.to_string()),
    Column::right("queue_delay_median_ns", |stack, ()| known(stack.cost.queue_delay.map(|delay| delay.median))),
    Column::left("collective", |stack, ()| known_values(&stack.collective.collectives, stack)),
    Column::left("dtype", |stack, ()| known_values(&stack.collective.dtypes, stack)),
    Column::right("bytes_min", |stack, ()| known(stack.collective.bytes.map(|bytes| bytes.min))),
    Column::right("bytes_max", |stack, ()| known(stack.collective.bytes.map(|bytes| bytes.max))),
    Column::left("process_group", |stack, ()| process_groups(stack)),
    Column::right("algbw_gb_per_s", |stack, ()| known(stack.collective.bandwidth.map(|of| of.algorithm))),
    Column::right("busbw_gb_per_s", |stack, ()| known(stack.collective.bandwidth.map(|of| of.bus))),
    Column::right("best_busbw_gb_per_s", |stack, ()| known(stack.collective.bandwidth.map(|of| of.best_bus))),
    Column::left("thread", |stack, ()| stack.key.thread.clone().unwrap_or_default()),
    Column::left("kernels", |stack, ()| kernel_names(stack)),
    Column::left("rank", |stack, ()| shown(stack.rank.as_deref())),
    Column::left("headline", |stack, ()| shown(stack.headline.as_deref())),
    Column::left("stack", |stack, ()| folded::line(&stack.key)),
    Column::right("fastest_ns", |stack, ()| known(stack.collective.fastest)),
];

/// Writes the stacks, then the kernels without a launch by reason.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn stacks(report: &StackReport, out: &mut impl Write) -> io::Result<()> {
    let rows = report.stacks.iter().chain(&report.without_launch);
    write_rows(COLUMNS.iter(), rows.map(|stack| (stack, ())), out)
}

/// A name with its control characters escaped.
fn shown(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| visible(name).into_owned())
}

/// A value, or an empty cell if it is unknown.
pub(super) fn known(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn known_values(found: &BTreeMap<String, u64>, stack: &Stack) -> String {
    if found.is_empty() { String::new() } else { values(found, stack) }
}

fn process_groups(stack: &Stack) -> String {
    let groups = stack.collective.groups.iter().map(|group| process_group(group, stack.count));
    groups.collect::<Vec<_>>().join("; ")
}

/// Writes a header, then the rows, each with its context.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn write_rows<'r, Row: 'r, Context: 'r>(
    columns: impl Iterator<Item = &'r Column<Row, Context>> + Clone,
    rows: impl Iterator<Item = (&'r Row, Context)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.clone().map(|column| column.header))?;
    for (row, context) in rows {
        writer.write_record(columns.clone().map(|column| (column.get)(row, &context)))?;
    }
    writer.flush()
}

/// CSV in which no cell starts like a spreadsheet formula, with `=`, `+`, `-`, `@`, a tab or a carriage return: such a cell gets a leading `'`,
/// which marks it as text. Numbers stay as they are.
pub fn without_formulas(csv: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(csv.len());
    let mut rest = csv;
    while !rest.is_empty() {
        let quotes = usize::from(rest[0] == b'"');
        let end = cell_end(rest);
        let text = &rest[quotes..end];
        let is_number = || std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
        let begins = text.first().is_some_and(|first| b"=+-@\t\r".contains(first));
        out.extend_from_slice(&rest[..quotes]);
        if begins && !is_number() {
            out.push(b'\'');
        }
        // Includes the separator.
        let next = (end + 1).min(rest.len());
        out.extend_from_slice(&rest[quotes..next]);
        rest = &rest[next..];
    }
    out
}

/// The length of the cell at the start of `csv`: it ends at the first comma or line end outside quotes.
fn cell_end(csv: &[u8]) -> usize {
    let mut is_quoted = false;
    let is_end = |byte: &u8| {
        is_quoted ^= *byte == b'"';
        !is_quoted && matches!(byte, b',' | b'\n')
    };
    csv.iter().position(is_end).unwrap_or(csv.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_texts() {
        let guarded = |text: &str| String::from_utf8(without_formulas(text.as_bytes())).unwrap();
        for (csv, want) in [
            ("a,=1+1,-5\n", "a,'=1+1,-5\n"),
            ("=a\n@b\n+c\n-d", "'=a\n'@b\n'+c\n'-d"),
            ("\"=a,\"\"b\"\"\n=c\",\"d,=e\"\n", "\"'=a,\"\"b\"\"\n=c\",\"d,=e\"\n"),
            // In quotes it is text even if it looks like a number.
            ("-1.5e9,+3,-inf,--5,\"-7\"\n", "-1.5e9,+3,-inf,'--5,\"'-7\"\n"),
            ("\tx,,\"\"\n\n", "'\tx,,\"\"\n\n"),
            ("", ""),
        ] {
            assert_eq!(guarded(csv), want);
        }
    }
}
