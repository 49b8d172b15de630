//! Recorded operations as tables for people: all tables, each below its title.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::RecordsAnswer;
use super::flows;
use super::sentences::{first_advice, is_in_verdict, sentence, sizes};
use crate::analysis::recorded::{
    CensusRow, ChannelRow, CommunicatorRow, EventRow, FileRow, LinkRow, PairRow, ProxyRow, RecordsReport,
};
use crate::report::Screen;
use crate::report::column::{Align, Column, Table};
use crate::report::format::{count, duration, percent_or_unknown, size, visible};
use crate::time::Ns;

/// Operations.
pub(super) const CENSUS: &[Column<CensusRow>] = &[
    Column::left("collective", |row, ()| shown(row.collective.as_deref())),
    Column::right("size", |row, ()| row.size.map_or("?".to_owned(), |size| sizes(size.min_bytes, size.max_bytes))),
    Column::right("count", |row, ()| count(row.count)),
    Column::right("time", |row, ()| row.time.map_or("?".to_owned(), |time| duration(time.total))),
    Column::right("median", |row, ()| row.time.map_or("?".to_owned(), |time| duration(Ns::rounded(time.median)))),
    Column::dropped(3, Align::Right, "p95", |row, ()| row.time.map_or("?".to_owned(), |time| duration(time.p95))),
    Column::dropped(4, Align::Right, "algbw", |row, ()| bandwidth(row.algbw_gb_per_s)),
    Column::right("busbw (GB/s)", |row, ()| bandwidth(row.busbw_gb_per_s)),
    Column::left("algorithm", |row, ()| values(&row.algorithms, row.count)),
    Column::left("protocol", |row, ()| values(&row.protocols, row.count)),
    Column::right("channels", |row, ()| {
        let channels = row.channels.iter().map(|(channels, times)| (channels.to_string(), *times)).collect();
        values(&channels, row.count)
    }),
    Column::dropped(2, Align::Right, "ranks", |row, ()| count(row.ranks)),
    Column::dropped(1, Align::Left, "communicator", |row, ()| shown(row.communicator.as_deref())),
    Column::dropped(0, Align::Left, "recorded by", |row, ()| row.source.to_owned()),
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
    Column::right("GPU wait", |row, ()| percent_or_unknown(row.phases.gpu_wait.share_of(row.phases.all()))),
    Column::right("peer wait", |row, ()| percent_or_unknown(row.phases.peer_wait.share_of(row.phases.all()))),
    Column::right("network", |row, ()| percent_or_unknown(row.phases.network.share_of(row.phases.all()))),
    Column::right("flush", |row, ()| percent_or_unknown(row.phases.flush.share_of(row.phases.all()))),
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
    Column::right("busy", |row, ()| row.busy.map_or("?".to_owned(), duration)),
    Column::right("GB/s", |row, ()| bandwidth(row.gb_per_s)),
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
    Column::right("time", |row, ()| if row.timed > 0 { duration(row.time) } else { "?".to_owned() }),
    Column::right("bytes", |row, ()| row.bytes.map_or(String::new(), size)),
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
    section("Other events of NCCL's profiler", EVENTS, &report.profiler_events, limit, screen, out)?;
    if let Some(flows) = &report.flows {
        write!(out, "\nFlows\n{}", flows::table(flows))?;
    }
    section("Files", FILES, &report.files, limit, screen, out)
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

fn bandwidth(value: Option<f64>) -> String {
    value.map_or("?".to_owned(), |value| format!("{value:.2}"))
}

/// Values, each with its number of operations unless all have it.
fn values(values: &BTreeMap<String, u64>, all: u64) -> String {
    let one = |(value, times): (&String, &u64)| match *times == all {
        true => visible(value).into_owned(),
        false => format!("{} ×{}", visible(value), count(*times)),
    };
    values.iter().map(one).collect::<Vec<_>>().join(", ")
}
