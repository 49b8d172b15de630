//! Which ranks enter NCCL late: what every form says, a table of the ranks, and the page.

use std::io::{self, Write};

use serde::Serialize;

use super::entry_sentences::{group_name, signed, trust, verdict};
use crate::ranks::entries::{EntryRank, EntryReport};
use crate::report::answer::Answer;
use crate::report::column::{Align, Cell, Column, Table};
use crate::report::document::{Document, Finding, FindingKind, Link, Place};
use crate::report::form::Form;
use crate::report::format::{count, duration, percent};
use crate::report::html::Page;
use crate::report::sheet::Sheet;
use crate::report::{OnPage, Screen};
use crate::time::Ns;

/// With more ranks than this, only the latest are shown.
const RANKS: usize = 16;

/// The context is the name of the group.
const COLUMNS: &[Column<EntryRank, String>] = &[
    Column::right("rank", |row, _| row.rank.to_string()),
    Column::left("group", |_, group| group.clone()),
    Column::number("", "calls", |row, _| Cell::Count(row.calls)),
    Column::right("later by", |row, _| signed(row.lag_ns)),
    Column::number("", "last in", |row, _| Cell::Share(row.last_share)),
    Column::number_at(1, "", "added", |row, _| Cell::Time(row.added_ns)),
    Column::dropped(0, Align::Right, "score", |row, _| row.score.map_or("-".to_owned(), |score| format!("{score:.1}"))),
    Column::number_at(3, "", "largest", |row, _| Cell::Time(row.largest_lag_ns)),
    Column::dropped(0, Align::Left, "later by quarter", |row, _| {
        row.lag_by_quarter_ns.iter().map(|lag| signed(*lag)).collect::<Vec<_>>().join(", ")
    }),
    Column::dropped(2, Align::Left, "stream", |row, _| {
        row.stream.map_or("-".to_owned(), |stream| format!("{stream:#x}"))
    }),
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

impl<'a> EntriesAnswer<'a> {
    /// An answer with the defaults for a file.
    pub fn new(report: &'a EntryReport, name: &'a str) -> Self {
        EntriesAnswer { report, name, limit: None, on_page: OnPage::default() }
    }
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
            verdict: verdict(report),
            findings: findings(report),
            facts: vec![
                ("Ranks", count(report.ranks_here.len() as u64)),
                ("Calls", count(report.calls)),
                ("Compared", count(report.compared)),
            ],
            notes: trust(report),
            ..Document::default()
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
        let page = self.page_of("entries", self.name.to_owned(), &self.on_page)?;
        let commands = [("The same as text", ""), ("Everything, for programs", " --format json --output entries.json")];
        let notes = [&page.document.notes[..], &page.notes].concat();
        let commands = self.on_page.commands("entries", "ranks ", &commands);
        Ok(Page { sheets: vec![("entries", sheet(self.report))], commands, notes, ..page })
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
        link: Some(Link { text: "All ranks", view: "records", rank: Some(rank), ..Link::default() }),
        ..Finding::default()
    };
    let slow = report.slow.iter().map(|slow| {
        let row = &report.ranks[slow.row];
        let evidence = vec![format!("Last in {} of {} calls.", percent(row.last_share), count(row.calls))];
        finding(slow.rank, slow.row, format!("median {} late", duration(row.lag_ns)), row.lag_ns, evidence)
    });
    let once = report.delays.iter().map(|delay| {
        let evidence = vec![format!("A usual rank is at most {} late.", duration(delay.usual_ns))];
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
    let mut table = Table::from_rows(COLUMNS, rows.into_iter().map(|row| (row, group_name(&report.groups[row.group]))));
    table.drop_to(screen.room(0));
    out.write_all(table.text().as_bytes())?;
    if left_out > 0 {
        writeln!(out, "  … and {left_out} more; above are the latest")?;
    }
    writeln!(out)
}

/// The table of the page: slow ranks first.
fn sheet(report: &EntryReport) -> Sheet {
    let mut rows: Vec<&EntryRank> = report.ranks.iter().collect();
    let is_slow = |row: &EntryRank| report.slow.iter().any(|slow| slow.rank == row.rank);
    rows.sort_by_key(|row| (!is_slow(row), std::cmp::Reverse(row.lag_ns), row.rank));
    let name = |row: &EntryRank| format!("rank {}{}", row.rank, if is_slow(row) { ", late" } else { "" });
    let rows = rows.into_iter().map(|row| (name(row), row, group_name(&report.groups[row.group])));
    Sheet::named("Ranks by how late they enter", "rank", &COLUMNS[1..], rows)
}
