//! Which ranks enter NCCL late, as a page.

use std::io;

use super::entries::{EntryForm, advice, entries, signed, trust, verdict};
use crate::ranks::entries::{EntryRank, EntryReport, SlowRank};
use crate::report::format::{count, duration, percent};
use crate::report::html::{Command, FINDINGS, Finding, Link, Page, ROWS, Top};
use crate::report::{OnPage, Screen};

/// Writes the page.
///
/// # Errors
/// Returns the writer's error.
pub fn page(report: &EntryReport, name: &str, on_page: &OnPage, out: &mut Vec<u8>) -> io::Result<()> {
    let mut document = Vec::new();
    entries(report, EntryForm::Json, name, None, &Screen::default(), &mut document)?;
    let OnPage { inputs, options, .. } = on_page;
    let command = |what: &'static str, rest: &str| Command {
        view: "entries",
        what,
        text: format!("nccl-stacks ranks {inputs}{options}{rest}"),
    };
    let mut sentences = verdict(report, &Screen::default());
    sentences.extend(advice(report));
    let page = Page {
        kind: "entries",
        title: "Who enters NCCL late".to_owned(),
        names: name.to_owned(),
        verdict: sentences,
        facts: vec![
            ("Ranks", count(report.ranks_here.len() as u64)),
            ("Calls", count(report.calls)),
            ("Compared", count(report.compared)),
        ],
        findings: findings(report),
        top: top(report),
        documents: vec![("entries", document)],
        commands: vec![
            command("The same as text", ""),
            command("Everything, for programs", " --format json --output entries.json"),
        ],
        notes: trust(report).into_iter().chain(on_page.notes.clone()).collect(),
        ..Page::default()
    };
    page.write(out)
}

fn findings(report: &EntryReport) -> Vec<Finding> {
    let finding = |slow: &SlowRank| {
        let row = &report.ranks[slow.row];
        Finding {
            cost: format!("median {} late", duration(row.lag)),
            what: format!("rank {}", slow.rank),
            text: format!("Last in {} of {} calls.", percent(row.last_share), count(row.calls)),
            link: Some(Link { text: "All ranks", view: "records", rank: Some(slow.rank), ..Link::default() }),
            ..Finding::default()
        }
    };
    report.slow.iter().take(FINDINGS).map(finding).collect()
}

fn top(report: &EntryReport) -> Option<Top> {
    let mut rows: Vec<&EntryRank> = report.ranks.iter().collect();
    // Slow ranks come first.
    let is_slow = |row: &EntryRank| report.slow.iter().any(|slow| slow.rank == row.rank);
    rows.sort_by_key(|row| (!is_slow(row), std::cmp::Reverse(row.lag), row.rank));
    let row = |of: &&EntryRank| {
        vec![
            format!("rank {}", of.rank),
            count(of.calls),
            signed(of.lag),
            percent(of.last_share),
            duration(of.added),
            duration(of.largest),
        ]
    };
    (!rows.is_empty()).then(|| Top {
        title: "Ranks by how late they enter",
        columns: vec!["rank", "calls", "later by", "last in", "added", "largest"],
        rows: rows.iter().take(ROWS).map(row).collect(),
        found: rows.len(),
    })
}
