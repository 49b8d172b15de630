//! Recorded operations as tables for people: all tables, each below its title.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::RecordsAnswer;
use super::flows;
use super::sentences::{first_advice, is_in_verdict, sentence, sizes};
use crate::analysis::recorded::{
    CensusRow, ChannelRow, CommunicatorRow, EventRow, FileRow, GroupRow, LinkRow, PairRow, ProxyRow, RecordsReport,
};
use crate::report::Screen;
use crate::report::column::{Align, Cell, Column, Table};
use crate::report::format::{count, duration, percent_or_unknown, size, visible};
use crate::report::sheet::Sheet;
use crate::time::Ns;

/// Operations, for people and for spreadsheets.
pub(super) const CENSUS: &[Column<CensusRow>] = &[
    Column::words("collective", "collective", |row, ()| known(row.collective.as_deref())),
    Column::number("", "size", |row, ()| {
        row.size.map_or(Cell::Unknown, |size| Cell::Text(sizes(size.min_bytes, size.max_bytes)))
    }),
    Column::number("bytes_min", "", |row, ()| Cell::known(row.size.map(|size| size.min_bytes), Cell::Bytes)),
    Column::number("bytes_max", "", |row, ()| Cell::known(row.size.map(|size| size.max_bytes), Cell::Bytes)),
    Column::number("count", "count", |row, ()| Cell::Count(row.count)),
    Column::number("timed", "", |row, ()| Cell::Count(row.timed)),
    Column::number("total_ns", "time", |row, ()| Cell::known(row.time.map(|time| time.total_ns), Cell::Time)),
    Column::number("median_ns", "median", |row, ()| Cell::known(row.time.map(|time| time.median_ns), Cell::Nanos)),
    Column::number_at(3, "p95_ns", "p95", |row, ()| Cell::known(row.time.map(|time| time.p95_ns), Cell::Time)),
    Column::number("min_ns", "", |row, ()| Cell::known(row.time.map(|time| time.min_ns), Cell::Time)),
    Column::number("max_ns", "", |row, ()| Cell::known(row.time.map(|time| time.max_ns), Cell::Time)),
    Column::number_at(4, "algbw_gb_per_s", "algbw", |row, ()| bandwidth(row.algbw_gb_per_s)),
    Column::number("busbw_gb_per_s", "busbw (GB/s)", |row, ()| bandwidth(row.busbw_gb_per_s)),
    Column::words("algorithms", "algorithm", |row, ()| values(&row.algorithms, row.count)),
    Column::words("protocols", "protocol", |row, ()| values(&row.protocols, row.count)),
    Column::number("channels", "channels", |row, ()| values(&row.channels, row.count)),
    Column::words("dtypes", "", |row, ()| values(&row.dtypes, row.count)),
    Column::number_at(2, "ranks", "ranks", |row, ()| Cell::Count(row.ranks)),
    Column::words_at(1, "communicator", "communicator", |row, ()| known(row.communicator.as_deref())),
    Column::words_at(0, "source", "recorded by", |row, ()| Cell::Text(row.source.to_owned())),
];

const COMMUNICATORS: &[Column<CommunicatorRow>] = &[
    Column::left("communicator", |row, ()| visible(&row.communicator).into_owned()),
    Column::left("name", |row, ()| row.name.as_deref().map_or(String::new(), |name| visible(name).into_owned())),
    Column::right("size", |row, ()| row.size.map_or("?".to_owned(), count)),
    Column::right("ranks here", |row, ()| count(row.ranks_here)),
    Column::right("operations", |row, ()| count(row.operations)),
    Column::left("recorded by", |row, ()| row.sources.join(", ")),
];

pub(super) const PROXIES: &[Column<ProxyRow>] = &[
    Column::right("rank", |row, ()| number(row.rank)),
    Column::left("direction", |row, ()| row.direction.to_owned()),
    Column::right("operations", |row, ()| count(row.operations)),
    Column::right("steps", |row, ()| count(row.steps)),
    Column::right("GPU wait", |row, ()| percent_or_unknown(row.phases.gpu_wait_ns.share_of(row.phases.all()))),
    Column::right("peer wait", |row, ()| percent_or_unknown(row.phases.peer_wait_ns.share_of(row.phases.all()))),
    Column::right("network", |row, ()| percent_or_unknown(row.phases.network_ns.share_of(row.phases.all()))),
    Column::right("flush", |row, ()| percent_or_unknown(row.phases.flush_ns.share_of(row.phases.all()))),
    Column::left("bound by", |row, ()| row.bound.unwrap_or("?").to_owned()),
    Column::dropped(0, Align::Left, "communicator", |row, ()| shown(row.communicator.as_deref())),
];

const LINKS: &[Column<LinkRow>] = &[
    Column::right("rank", |row, ()| number(row.rank)),
    Column::left("direction", |row, ()| row.direction.to_owned()),
    Column::right("peer", |row, ()| row.peer.to_string()),
    Column::right("channel", |row, ()| row.channel.to_string()),
    Column::right("operations", |row, ()| count(row.operations)),
    Column::right("bytes", |row, ()| row.bytes.map_or("?".to_owned(), size)),
    Column::right("busy", |row, ()| row.busy_ns.map_or("?".to_owned(), duration)),
    Column::number("", "GB/s", |row, ()| bandwidth(row.gb_per_s)),
    Column::dropped(0, Align::Left, "communicator", |row, ()| shown(row.communicator.as_deref())),
];

const CHANNELS: &[Column<ChannelRow>] = &[
    Column::right("rank", |row, ()| number(row.rank)),
    Column::right("channels", |row, ()| count(row.channels)),
    Column::right("mean time", |row, ()| row.time.map_or("?".to_owned(), |of| duration(Ns::rounded(of.mean)))),
    Column::right("longest", |row, ()| row.time.map_or("?".to_owned(), |of| duration(Ns::rounded(of.max)))),
    Column::right("its channel", |row, ()| number(row.time.map(|of| of.channel))),
    Column::right("longest / mean", |row, ()| row.time.map_or("?".to_owned(), |of| format!("{:.2}", of.ratio))),
    Column::right("most bytes / mean", |row, ()| row.bytes.map_or("?".to_owned(), |of| format!("{:.2}", of.ratio))),
    Column::dropped(0, Align::Left, "communicator", |row, ()| shown(row.communicator.as_deref())),
];

const PAIRS: &[Column<PairRow>] = &[
    Column::right("from", |row, ()| row.from.to_string()),
    Column::right("to", |row, ()| row.to.to_string()),
    Column::right("bytes", |row, ()| size(row.bytes)),
    Column::left("by", |row, ()| row.by.to_owned()),
    Column::dropped(0, Align::Left, "communicator", |row, ()| shown(row.communicator.as_deref())),
];

/// Other events from NCCL's profiler interface.
pub(super) const EVENTS: &[Column<EventRow>] = &[
    Column::left("kind", |row, ()| row.kind.to_owned()),
    Column::right("count", |row, ()| count(row.count)),
    Column::right("time", |row, ()| if row.timed > 0 { duration(row.time_ns) } else { "?".to_owned() }),
    Column::right("bytes", |row, ()| row.bytes.map_or(String::new(), size)),
    Column::right("ranks", |row, ()| count(row.ranks)),
];

const GROUPS: &[Column<GroupRow>] = &[
    Column::left("group of", |row, ()| row.kind.to_owned()),
    Column::right("depth", |row, ()| row.depth.map_or(String::new(), |depth| count(depth.into()))),
    Column::right("operations", |row, ()| count(row.operations.into())),
    Column::right("groups", |row, ()| count(row.count)),
    Column::right("median", |row, ()| row.median_ns.map_or_else(|| "?".to_owned(), duration)),
    Column::right("ranks", |row, ()| count(row.ranks)),
];

const FILES: &[Column<FileRow>] = &[
    Column::left("file", |row, ()| visible(&row.name).into_owned()),
    Column::left("recorded by", |row, ()| row.source.unwrap_or("not known").to_owned()),
    Column::dropped(0, Align::Left, "version", |row, ()| shown(row.version.as_deref())),
    Column::right("records", |row, ()| count(row.records)),
    Column::right("bytes", |row, ()| size(row.bytes)),
    Column::right("left out", |row, ()| count(row.skipped)),
    Column::right("repaired", |row, ()| count(row.repaired)),
];

pub(super) fn records(answer: &RecordsAnswer<'_>, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let report = answer.report;
    if let Some(advice) = first_advice(report) {
        writeln!(out, "{}", screen.fill(&advice))?;
    }
    let mut others = report.diagnoses.iter().enumerate().filter(|of| !is_in_verdict(of));
    others.try_for_each(|(_, of)| writeln!(out, "{}", screen.fill(&sentence(of))))?;
    let limit = answer.limit;
    section("Operations", CENSUS, &report.census, limit, screen, out)?;
    bandwidths(report, screen, out)?;
    section("Communicators", COMMUNICATORS, &report.communicators, limit, screen, out)?;
    section("Proxies", PROXIES, &report.proxies, limit, screen, out)?;
    section("Links", LINKS, &report.links, limit, screen, out)?;
    section("Channels", CHANNELS, &report.channels, limit, screen, out)?;
    section("Bytes from rank to rank", PAIRS, &report.pairs, limit, screen, out)?;
    section("Groups", GROUPS, &report.groups, limit, screen, out)?;
    section("Other events of NCCL's profiler", EVENTS, &report.profiler_events, limit, screen, out)?;
    if let Some(flows) = &report.flows {
        write!(out, "\nFlows\n{}", flows::table(flows))?;
    }
    section("Files", FILES, &report.files, limit, screen, out)
}

/// The tables of a page, each by its name, without those that have no rows.
pub(super) fn sheets(report: &RecordsReport) -> Vec<(&'static str, Sheet)> {
    let mut sheets = vec![
        ("operations", Sheet::from_rows("Operations by size", CENSUS, report.census.iter())),
        ("flows", flows::sheet(report)),
        ("planned", flows::matrix_sheet(report)),
        ("links", Sheet::from_rows("Links", LINKS, report.links.iter())),
        ("proxies", Sheet::from_rows("Proxies", PROXIES, report.proxies.iter())),
        ("channels", Sheet::from_rows("Channels", CHANNELS, report.channels.iter())),
        ("bytes", Sheet::from_rows("Bytes from rank to rank", PAIRS, report.pairs.iter())),
        ("groups", Sheet::from_rows("Groups", GROUPS, report.groups.iter())),
        ("events", Sheet::from_rows("Other events of NCCL's profiler", EVENTS, report.profiler_events.iter())),
    ];
    sheets.retain(|(_, sheet)| !sheet.is_empty());
    sheets
}

/// Whether the recorded bandwidths match the computed ones.
pub(super) fn bandwidths(report: &RecordsReport, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let Some(check) = &report.bandwidth_check else { return Ok(()) };
    let line = format!(
        "Bus bandwidths: {} of {} recorded ones follow from size and time within the rounding of the time.",
        count(check.agree),
        count(check.recorded)
    );
    writeln!(out, "\n{}", screen.fill(&line))
}

/// Writes a title and a table, unless it has no rows.
pub(super) fn section<Row>(
    title: &str,
    columns: &[Column<Row>],
    rows: &[Row],
    limit: Option<usize>,
    screen: &Screen,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let limit = limit.unwrap_or(usize::MAX);
    let mut table = Table::from_rows(columns, rows.iter().take(limit).map(|row| (row, ())));
    table.drop_empty();
    if let Some(width) = screen.width {
        table.drop_to(width);
    }
    write!(out, "\n{title}\n{}", table.text())?;
    let more = rows.len().saturating_sub(limit);
    if more > 0 {
        writeln!(out, "… and {} more", count(more as u64))?;
    }
    Ok(())
}

/// A name, or `?` if it is unknown.
fn shown(name: Option<&str>) -> String {
    name.map_or("?".to_owned(), |name| visible(name).into_owned())
}

fn number(value: Option<u32>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}

/// A name for people and for spreadsheets.
fn known(name: Option<&str>) -> Cell {
    Cell::known(name, |name| Cell::Text(visible(name).into_owned()))
}

/// A bandwidth with two decimals for people.
fn bandwidth(value: Option<f64>) -> Cell {
    Cell::known(value, |value| Cell::Both(format!("{value:.2}"), value.to_string()))
}

/// Values, each with its number of operations, for people unless all have it: `RING ×12, TREE ×4`, and `RING:12;TREE:4`.
fn values(values: &BTreeMap<impl ToString, u64>, all: u64) -> Cell {
    let one = |(value, times): (&_, &u64)| (visible(&ToString::to_string(value)).into_owned(), *times);
    let counted: Vec<(String, u64)> = values.iter().map(one).collect();
    let shown = counted.iter().map(|(value, times)| match *times == all {
        true => value.clone(),
        false => format!("{value} ×{}", count(*times)),
    });
    let plain = counted.iter().map(|(value, times)| format!("{value}:{times}"));
    Cell::Both(shown.collect::<Vec<_>>().join(", "), plain.collect::<Vec<_>>().join(";"))
}
