//! Which ranks enter NCCL late: what every form says, a table of the ranks, and the page.

use std::io::{self, Write};

use serde::Serialize;

use super::sentences::{group_name, signed, trust, verdict};
use super::{EntryRank, EntryReport};
use crate::answers::OnPage;
use crate::answers::records::document::left_out;
use crate::document::Screen;
use crate::document::answer::Answer;
use crate::document::findings::{Document, Finding, FindingKind, Link, Place};
use crate::document::form::Form;
use crate::document::format::{count, duration};
use crate::document::html::Page;
use crate::document::table::{Cell, Column, Table, number, words};
use crate::time::Ns;

/// With more ranks than this, only the latest are shown.
const RANKS: usize = 16;

/// The context is the name of the group.
const COLUMNS: &[Column<EntryRank, String>] = &[
    number("", "rank").read(|row, _| Cell::Id(row.rank.into())),
    words("", "group").read(|_, group| Cell::Text(group.clone())),
    number("", "calls").read(|row, _| Cell::Count(row.calls)),
    number("", "later by").read(|row, _| Cell::Text(signed(row.lag_ns))),
    number("", "last in").read(|row, _| Cell::Share(row.last_share)),
    number("", "added").dropped(1).read(|row, _| Cell::Time(row.added_ns)),
    number("", "score")
        .dropped(0)
        .read(|row, _| Cell::Text(row.score.map_or("-".to_owned(), |score| format!("{score:.1}")))),
    number("", "largest").dropped(3).read(|row, _| Cell::Time(row.largest_lag_ns)),
    words("", "later by quarter")
        .dropped(0)
        .read(|row, _| Cell::Text(row.lag_by_quarter_ns.iter().map(|lag| signed(*lag)).collect::<Vec<_>>().join(", "))),
    words("", "stream")
        .dropped(2)
        .read(|row, _| Cell::Text(row.stream.map_or("-".to_owned(), |stream| format!("{stream:#x}")))),
];

/// Which ranks enter NCCL late, and how to show it.
#[derive(Debug, Clone)]
pub struct EntriesAnswer<'a> {
    /// The entries of all ranks.
    pub report: &'a EntryReport,
    /// The name of all files together.
    pub name: &'a str,
    /// How many ranks people see; `None` for as many as fit a screen.
    pub limit: Option<usize>,
    /// What a page shows besides.
    pub on_page: OnPage,
}

impl Answer for EntriesAnswer<'_> {
    const SCHEMA: &'static str = "ranks-entries";

    const OWN_FORMS: &'static [Form] = &[Form::Table, Form::Html];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        let report = self.report;
        Document {
            title: "Who enters NCCL late".to_owned(),
            damage: left_out(&report.left_out).into_iter().collect(),
            verdict: verdict(report),
            findings: findings(report),
            facts: vec![
                ("Ranks", count(report.ranks_here.len() as u64)),
                ("Calls", count(report.calls)),
                ("Compared", count(report.compared)),
            ],
            notes: trust(report),
        }
    }

    fn data(&self) -> impl Serialize {
        self.report
    }

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        writeln!(out)?;
        rank_table(self.report, self.limit, screen, out)
    }

    fn page(&self) -> io::Result<Page<'_>> {
        let page = self.page_of("entries", self.name.to_owned(), &self.on_page.notes)?;
        let commands = [("The same as text", ""), ("Everything, for programs", " --format json --output entries.json")];
        let notes = [&page.document.notes[..], &page.notes].concat();
        let commands = self.on_page.commands("entries", "ranks ", &commands);
        Ok(Page { sheets: vec![slow_first(self.report)], commands, notes, ..page })
    }
}

/// The slow ranks, then the ranks that were late once.
fn findings(report: &EntryReport) -> Vec<Finding> {
    let finding = |rank: u32, row: usize, cost: String, cost_ns: Ns, evidence: Vec<String>| Finding {
        kind: FindingKind::LateEntry,
        cost,
        cost_ns: Some(cost_ns),
        what: format!("rank {rank}"),
        place: Place {
            ranks: vec![rank],
            group: Some(group_name(&report.groups[report.ranks[row].group])),
            ..Place::default()
        },
        evidence,
        advice: advice(report, rank, row),
        link: Some(Link { text: "All ranks", view: "entries", rank: Some(rank), ..Link::default() }),
        ..Finding::default()
    };
    let slow = report.slow.iter().map(|slow| {
        let row = &report.ranks[slow.row];
        let by_quarter: Vec<String> = row.lag_by_quarter_ns.iter().map(|lag| signed(*lag)).collect();
        let evidence = vec![format!("By quarter of the calls: {}.", by_quarter.join(", "))];
        finding(slow.rank, slow.row, format!("median {} late", duration(row.lag_ns)), row.lag_ns, evidence)
    });
    let once = report.delays.iter().map(|delay| {
        let row = &report.ranks[delay.row];
        let evidence = vec![format!("Median of its {} calls: {}.", count(row.calls), signed(row.lag_ns))];
        finding(delay.rank, delay.row, format!("{} late, once", duration(delay.lag_ns)), delay.lag_ns, evidence)
    });
    slow.chain(once).collect()
}

/// What to do first about a rank: to compare it with a rank of its group.
fn advice(report: &EntryReport, rank: u32, row: usize) -> Option<String> {
    let of_slow = report.slow.iter().find(|slow| slow.row == row).and_then(|slow| slow.peers.first());
    let of_group = || report.groups[report.ranks[row].group].ranks.iter().find(|peer| **peer != rank);
    let peer = of_slow.or_else(of_group)?;
    Some(format!(
        "record a PyTorch trace of ranks {rank} and {peer} over the same steps, and compare them with `nccl-stacks ranks`: it says which code \
         comes late. A late entry is the CPU's; the GPUs wait for it only where nothing else is queued."
    ))
}

fn rank_table(report: &EntryReport, limit: Option<usize>, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let mut rows: Vec<&EntryRank> = report.ranks.iter().collect();
    let place = |row: &EntryRank| {
        let group = &report.groups[row.group];
        (group.not_judged.is_some(), group.role, row.group, row.rank)
    };
    rows.sort_by_key(|row| place(row));
    let most = limit.unwrap_or(if screen.verbose { usize::MAX } else { RANKS });
    let left_out = rows.len().saturating_sub(most);
    if left_out > 0 {
        rows.sort_by_key(|row| (std::cmp::Reverse(row.score.is_some()), std::cmp::Reverse(row.lag_ns), row.rank));
        rows.truncate(most);
    }
    if rows.is_empty() {
        return Ok(());
    }
    out.write_all(table(report, rows.into_iter()).text(screen.width).as_bytes())?;
    if left_out > 0 {
        writeln!(out, "  … and {left_out} more; above are the latest")?;
    }
    writeln!(out)
}

fn table<'r>(report: &'r EntryReport, rows: impl Iterator<Item = &'r EntryRank>) -> Table {
    let rows = rows.map(|row| (row, group_name(&report.groups[row.group])));
    Table::new("entries", "Ranks by how late they enter", COLUMNS, rows)
}

/// The table of the page: slow ranks first.
fn slow_first(report: &EntryReport) -> Table {
    let mut rows: Vec<&EntryRank> = report.ranks.iter().collect();
    let is_slow = |row: &EntryRank| report.slow.iter().any(|slow| slow.rank == row.rank);
    rows.sort_by_key(|row| (!is_slow(row), std::cmp::Reverse(row.lag_ns), row.rank));
    table(report, rows.into_iter())
}
