//! What the flow extractor planned: as text with a table of its operations, the checks, the matrix of bytes, and what is wrong; as a table
//! with a row for each run.

use std::fmt::Write;

use crate::answers::records::RecordsReport;
use crate::answers::records::flows::{FlowReport, FlowRunReport, Link, PatternRow, Tree};
use crate::document::format::{count, size, visible};
use crate::document::table::{Cell, Column, Table, number, words};

/// With more ranks than this, a matrix becomes a list of pairs.
const WIDEST_MATRIX: usize = 9;

/// How many pairs such a list has.
const PAIRS: usize = 20;

const PATTERNS: &[Column<PatternRow>] = &[
    words("", "pattern").read(|row, ()| name(&row.pattern)),
    words("", "protocol").read(|row, ()| name(&row.protocol)),
    number("", "operations").read(|row, ()| Cell::Count(row.ops)),
    number("", "steps").read(|row, ()| Cell::Count(row.steps)),
    number("", "wrong stages").read(|row, ()| Cell::Count(row.wrong_stages)),
    number("", "unknown stages").read(|row, ()| Cell::Count(row.unknown_stages)),
];

/// A row for each folder.
pub(crate) const RUNS: &[Column<FlowRunReport>] = &[
    words("", "folder").read(|run, ()| Cell::Text(visible(folder(run)).into_owned())),
    number("", "ranks").read(|run, ()| Cell::Count(run.ranks.len() as u64)),
    number("", "channels").read(|run, ()| Cell::Count(run.channels as u64)),
    number("", "operations").read(|run, ()| Cell::Count(run.ops)),
    number("", "steps").read(|run, ()| Cell::Count(run.steps)),
    number("", "expected").read(|run, ()| Cell::known(run.expected_steps, Cell::Count)),
    number("", "broken").read(|run, ()| Cell::Count(run.broken_sequences)),
    number("", "unpaired").read(|run, ()| Cell::Count(run.unpaired_steps)),
    number("", "wrong peers").read(|run, ()| Cell::Count(run.wrong_ring_peers)),
    number("", "repeated").read(|run, ()| Cell::Count(run.repeated_steps)),
    number("", "wrong stages").read(|run, ()| Cell::Count(run.patterns.iter().map(|row| row.wrong_stages).sum())),
    number("", "aggregates differ")
        .read(|run, ()| Cell::Text(format!("{} of {}", run.differing_aggregates, run.aggregates))),
];

/// The matrices; the context is the folder.
pub(crate) const MATRIX: &[Column<Link, String>] = &[
    words("folder", "folder").read(|_, folder| name(folder)),
    number("from_rank", "from").read(|link, _| Cell::Id(link.from.into())),
    number("to_rank", "to").read(|link, _| Cell::Id(link.to.into())),
    number("steps", "steps").read(|link, _| Cell::Count(link.steps)),
    number("bytes", "bytes").read(|link, _| Cell::Bytes(link.bytes)),
];

fn name(of: &str) -> Cell {
    Cell::Text(visible(of).into_owned())
}

pub(crate) fn folder(run: &FlowRunReport) -> &str {
    if run.folder.is_empty() { "this folder" } else { &run.folder }
}

pub(crate) fn runs(report: &RecordsReport) -> impl Iterator<Item = &FlowRunReport> {
    report.flows.iter().flat_map(|flows| &flows.runs)
}

pub(crate) fn links(report: &RecordsReport) -> impl Iterator<Item = (&Link, String)> {
    runs(report).flat_map(|run| run.matrix.iter().map(|link| (link, run.folder.clone())))
}

/// `Flow files of 2 runs: 120 operations, 960 steps.`
pub(crate) fn verdict(report: &FlowReport) -> String {
    let runs = report.runs.len();
    let (ops, steps) = report.runs.iter().fold((0, 0), |(ops, steps), run| (ops + run.ops, steps + run.steps));
    let of = if runs == 1 { "one folder".to_owned() } else { format!("{runs} folders") };
    let off = report.runs.iter().filter(|run| !run.findings.is_empty()).count();
    let remarks = match off {
        0 => String::new(),
        _ if runs == 1 => " What is wrong, or looks wrong, is listed below.".to_owned(),
        off => format!(" In {off} of them something is wrong, or looks wrong."),
    };
    format!("Flow files of {of}: {} operations on channels, {} steps.{remarks}", count(ops), count(steps))
}

/// All runs in turn.
pub fn text(report: &FlowReport) -> String {
    let runs: Vec<String> = report.runs.iter().map(run).collect();
    runs.join("\n")
}

fn run(run: &FlowRunReport) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "Flows in {}: {}", visible(folder(run)), summary(run));
    for finding in &run.findings {
        let _ = writeln!(out, "  {}", finding.what);
    }
    let patterns = Table::new("patterns", "Patterns", PATTERNS, run.patterns.iter().map(|row| (row, ())));
    let _ = writeln!(out, "\n{}", patterns.text(None).trim_end());
    let _ = writeln!(out, "\n{}", checks(run));
    for tree in &run.trees {
        let _ = writeln!(out, "{}", tree_line(tree));
    }
    if !run.matrix.is_empty() {
        let _ = write!(out, "\n{}", matrix(run));
    }
    out
}

fn summary(run: &FlowRunReport) -> String {
    let ranks = match run.size {
        Some(size) if size as usize == run.ranks.len() => format!("{size} ranks"),
        Some(size) => format!("{} of {size} ranks", run.ranks.len()),
        None => format!("{} ranks, of a communicator of unknown size", run.ranks.len()),
    };
    let channels = if run.channels == 1 { "1 channel".to_owned() } else { format!("{} channels", run.channels) };
    format!("{ranks}, {channels}, {} operations, {} steps", count(run.ops), count(run.steps))
}

fn checks(run: &FlowRunReport) -> String {
    let expected = run.expected_steps.map_or("unknown".to_owned(), count);
    let aggregates = match run.aggregates {
        0 => "no aggregates".to_owned(),
        of => format!("{} of {of} aggregates differ", run.differing_aggregates),
    };
    format!(
        "Checks: {} steps of {expected} expected; {} broken sequences; {} unpaired steps, {} pairs; {} wrong neighbours; \
         {} repeated steps, {} repeated operations; {aggregates}",
        count(run.steps),
        count(run.broken_sequences),
        count(run.unpaired_steps),
        count(run.paired_steps),
        count(run.wrong_ring_peers),
        count(run.repeated_steps),
        count(run.repeated_ops),
    )
}

fn tree_line(tree: &Tree) -> String {
    let edges: Vec<String> = tree
        .parents
        .iter()
        .map(|(rank, parent)| parent.map_or(format!("{rank} is the root"), |parent| format!("{rank} under {parent}")))
        .chain(tree.unknown.iter().map(|rank| format!("{rank} unknown")))
        .collect();
    format!("Tree of channel {}: {}", tree.channel, edges.join(", "))
}

/// Bytes from rank to rank; with many ranks the pairs with the most bytes.
fn matrix(run: &FlowRunReport) -> String {
    let mut out =
        String::from("Bytes of data at most, from the rank of a row to that of a column (hosts are not recorded)\n");
    let mut ranks: Vec<u32> = run.matrix.iter().flat_map(|link| [link.from, link.to]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() > WIDEST_MATRIX {
        let mut links = run.matrix.clone();
        links.sort_by_key(|link| (std::cmp::Reverse(link.bytes), link.from, link.to));
        let pairs = Table::new("planned", "", &MATRIX[1..], links.iter().map(|link| (link, String::new())));
        out.push_str(&pairs.first(Some(PAIRS)).text(None));
    } else {
        let cell = |from: u32, to: u32| {
            let link = run.matrix.iter().find(|link| (link.from, link.to) == (from, to));
            link.map_or("-".to_owned(), |link| size(link.bytes))
        };
        let row = |head: String, cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
            format!("{head:>4} {}\n", cells.join(" "))
        };
        out.push_str(&row(String::new(), ranks.iter().map(u32::to_string).collect()));
        for from in &ranks {
            out.push_str(&row(from.to_string(), ranks.iter().map(|to| cell(*from, *to)).collect()));
        }
    }
    if run.unsized_steps > 0 {
        let _ = writeln!(out, "without {} steps of unknown size", count(run.unsized_steps));
    }
    out
}
