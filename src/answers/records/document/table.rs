//! The tables of recorded operations.

use std::collections::BTreeMap;

use super::flows;
use super::sentences::sizes;
use crate::answers::records::{
    CensusRow, ChannelRow, CommunicatorRow, EventRow, FileRow, GroupRow, LinkRow, PairRow, Phases, ProxyRow,
    RecordsReport,
};
use crate::document::format::{count, visible};
use crate::document::table::{Cell, Column, Table, number, words};
use crate::time::Ns;

/// Operations, for people and for spreadsheets.
const CENSUS: &[Column<CensusRow>] = &[
    words("collective", "collective").read(|row, ()| known(row.collective.as_deref())),
    number("", "size")
        .read(|row, ()| row.size.map_or(Cell::Unknown, |size| Cell::Text(sizes(size.min_bytes, size.max_bytes)))),
    number("bytes_min", "").read(|row, ()| Cell::known(row.size.map(|size| size.min_bytes), Cell::Bytes)),
    number("bytes_max", "").read(|row, ()| Cell::known(row.size.map(|size| size.max_bytes), Cell::Bytes)),
    number("count", "count").read(|row, ()| Cell::Count(row.count)),
    number("timed", "").read(|row, ()| Cell::Count(row.timed)),
    number("total_ns", "time").read(|row, ()| Cell::known(row.time.map(|time| time.total_ns), Cell::Time)),
    number("median_ns", "median").read(|row, ()| Cell::known(row.time.map(|time| time.median_ns), Cell::Nanos)),
    number("p95_ns", "p95").dropped(3).read(|row, ()| Cell::known(row.time.map(|time| time.p95_ns), Cell::Time)),
    number("min_ns", "").read(|row, ()| Cell::known(row.time.map(|time| time.min_ns), Cell::Time)),
    number("max_ns", "").read(|row, ()| Cell::known(row.time.map(|time| time.max_ns), Cell::Time)),
    number("algbw_gb_per_s", "algbw").dropped(4).read(|row, ()| bandwidth(row.algbw_gb_per_s)),
    number("busbw_gb_per_s", "busbw (GB/s)").read(|row, ()| bandwidth(row.busbw_gb_per_s)),
    words("algorithms", "algorithm").read(|row, ()| values(&row.algorithms, row.count)),
    words("protocols", "protocol").read(|row, ()| values(&row.protocols, row.count)),
    number("channels", "channels").read(|row, ()| values(&row.channels, row.count)),
    words("dtypes", "").read(|row, ()| values(&row.dtypes, row.count)),
    number("ranks", "ranks").dropped(2).read(|row, ()| Cell::Count(row.ranks)),
    words("communicator", "communicator").dropped(1).read(|row, ()| known(row.communicator.as_deref())),
    words("source", "recorded by").dropped(0).read(|row, ()| Cell::Text(row.source.to_owned())),
];

const COMMUNICATORS: &[Column<CommunicatorRow>] = &[
    words("", "communicator").read(|row, ()| known(Some(&row.communicator))),
    words("", "name").read(|row, ()| Cell::some(row.name.as_deref(), |name| known(Some(name)))),
    number("", "size").read(|row, ()| Cell::known(row.size, Cell::Count)),
    number("", "ranks here").read(|row, ()| Cell::Count(row.ranks_here)),
    number("", "operations").read(|row, ()| Cell::Count(row.operations)),
    words("", "recorded by").read(|row, ()| Cell::Text(row.sources.join(", "))),
];

const PROXIES: &[Column<ProxyRow>] = &[
    number("", "rank").read(|row, ()| id(row.rank)),
    words("", "direction").read(|row, ()| Cell::Text(row.direction.to_owned())),
    number("", "operations").read(|row, ()| Cell::Count(row.operations)),
    number("", "steps").read(|row, ()| Cell::Count(row.steps)),
    number("", "GPU wait").read(|row, ()| share(row.phases, row.phases.gpu_wait_ns)),
    number("", "peer wait").read(|row, ()| share(row.phases, row.phases.peer_wait_ns)),
    number("", "network").read(|row, ()| share(row.phases, row.phases.network_ns)),
    number("", "flush").read(|row, ()| share(row.phases, row.phases.flush_ns)),
    words("", "bound by").read(|row, ()| known(row.bound)),
    words("", "communicator").dropped(0).read(|row, ()| known(row.communicator.as_deref())),
];

const LINKS: &[Column<LinkRow>] = &[
    number("", "rank").read(|row, ()| id(row.rank)),
    words("", "direction").read(|row, ()| Cell::Text(row.direction.to_owned())),
    number("", "peer").read(|row, ()| Cell::Id(row.peer)),
    number("", "channel").read(|row, ()| Cell::Id(row.channel.into())),
    number("", "operations").read(|row, ()| Cell::Count(row.operations)),
    number("", "bytes").read(|row, ()| Cell::known(row.bytes, Cell::Bytes)),
    number("", "busy").read(|row, ()| Cell::known(row.busy_ns, Cell::Time)),
    number("", "GB/s").read(|row, ()| Cell::known(row.gb_per_s, Cell::Ratio)),
    words("", "communicator").dropped(0).read(|row, ()| known(row.communicator.as_deref())),
];

const CHANNELS: &[Column<ChannelRow>] = &[
    number("", "rank").read(|row, ()| id(row.rank)),
    number("", "channels").read(|row, ()| Cell::Count(row.channels)),
    number("", "mean time").read(|row, ()| Cell::known(row.time, |of| Cell::Nanos(of.mean))),
    number("", "longest").read(|row, ()| Cell::known(row.time, |of| Cell::Nanos(of.max))),
    number("", "its channel").read(|row, ()| id(row.time.map(|of| of.channel))),
    number("", "longest / mean").read(|row, ()| Cell::known(row.time, |of| Cell::Ratio(of.ratio))),
    number("", "most bytes / mean").read(|row, ()| Cell::known(row.bytes, |of| Cell::Ratio(of.ratio))),
    words("", "communicator").dropped(0).read(|row, ()| known(row.communicator.as_deref())),
];

const PAIRS: &[Column<PairRow>] = &[
    number("", "from").read(|row, ()| Cell::Id(row.from.into())),
    number("", "to").read(|row, ()| Cell::Id(row.to.into())),
    number("", "bytes").read(|row, ()| Cell::Bytes(row.bytes)),
    words("", "by").read(|row, ()| Cell::Text(row.by.to_owned())),
    words("", "communicator").dropped(0).read(|row, ()| known(row.communicator.as_deref())),
];

/// Other events from NCCL's profiler interface.
const EVENTS: &[Column<EventRow>] = &[
    words("", "kind").read(|row, ()| Cell::Text(row.kind.to_owned())),
    number("", "count").read(|row, ()| Cell::Count(row.count)),
    number("", "time").read(|row, ()| if row.timed > 0 { Cell::Time(row.time_ns) } else { Cell::Unknown }),
    number("", "bytes").read(|row, ()| Cell::some(row.bytes, Cell::Bytes)),
    number("", "ranks").read(|row, ()| Cell::Count(row.ranks)),
];

const GROUPS: &[Column<GroupRow>] = &[
    words("", "group of").read(|row, ()| Cell::Text(row.kind.to_owned())),
    number("", "depth").read(|row, ()| Cell::some(row.depth, |depth| Cell::Count(depth.into()))),
    number("", "operations").read(|row, ()| Cell::Count(row.operations.into())),
    number("", "groups").read(|row, ()| Cell::Count(row.count)),
    number("", "median").read(|row, ()| Cell::known(row.median_ns, Cell::Time)),
    number("", "ranks").read(|row, ()| Cell::Count(row.ranks)),
];

const FILES: &[Column<FileRow>] = &[
    words("", "file").read(|row, ()| known(Some(&row.name))),
    words("", "recorded by").read(|row, ()| Cell::Text(row.source.unwrap_or("not known").to_owned())),
    words("", "version").dropped(0).read(|row, ()| known(row.version.as_deref())),
    number("", "records").read(|row, ()| Cell::Count(row.records)),
    number("", "bytes").read(|row, ()| Cell::Bytes(row.bytes)),
    number("", "left out").read(|row, ()| Cell::Count(row.skipped)),
    number("", "repaired").read(|row, ()| Cell::Count(row.repaired)),
];

/// All tables, in the order of their use.
pub(crate) fn tables(report: &RecordsReport) -> Vec<Table> {
    let mut planned: Vec<_> = flows::links(report).collect();
    planned.sort_by_key(|(link, _)| std::cmp::Reverse(link.bytes));
    let mut tables = vec![
        Table::new("operations", "Operations", CENSUS, rows(&report.census)),
        Table::new("flows", "Flow files", flows::RUNS, flows::runs(report).map(|run| (run, ()))),
        Table::new("planned", "Planned bytes from rank to rank, at most", flows::MATRIX, planned.into_iter()),
        Table::new("communicators", "Communicators", COMMUNICATORS, rows(&report.communicators)),
        Table::new("proxies", "Proxies", PROXIES, rows(&report.proxies)),
        Table::new("links", "Links", LINKS, rows(&report.links)),
        Table::new("channels", "Channels", CHANNELS, rows(&report.channels)),
        Table::new("bytes", "Bytes from rank to rank", PAIRS, rows(&report.pairs)),
        Table::new("groups", "Groups", GROUPS, rows(&report.groups)),
        Table::new("events", "Other events of NCCL's profiler", EVENTS, rows(&report.profiler_events)),
        Table::new("files", "Files", FILES, rows(&report.files)),
    ];
    tables.retain(|table| !table.is_empty());
    tables
}

/// The rows of spreadsheets, which are of one kind: operations, or the matrices of flow files alone.
pub(crate) fn for_programs(report: &RecordsReport, limit: Option<usize>) -> Table {
    if report.census.is_empty() && report.flows.is_some() {
        return Table::for_programs("link", flows::MATRIX, flows::links(report));
    }
    Table::for_programs("operation", CENSUS, rows(&report.census).take(limit.unwrap_or(usize::MAX)))
}

fn rows<Row>(of: &[Row]) -> impl Iterator<Item = (&Row, ())> {
    of.iter().map(|row| (row, ()))
}

/// A name, or `?` if it is unknown.
fn known(name: Option<&str>) -> Cell {
    Cell::known(name, |name| Cell::Text(visible(name).into_owned()))
}

/// A number that names something.
fn id(number: Option<u32>) -> Cell {
    Cell::known(number, |number| Cell::Id(number.into()))
}

/// A part of the proxies' time.
fn share(phases: Phases, time: Ns) -> Cell {
    Cell::known(time.share_of(phases.all()), Cell::Share)
}

fn bandwidth(gb_per_s: Option<f64>) -> Cell {
    Cell::known(gb_per_s, Cell::Ratio)
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
