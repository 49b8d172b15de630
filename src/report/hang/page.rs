//! Whether a job hangs, as a page.

use std::collections::BTreeSet;
use std::io;

use super::verdict::{notes, verdict};
use super::words::{advice, operation, sentence};
use super::{HangForm, write};
use crate::analysis::hang::{HangReport, HungGroup, Outcome};
use crate::report::format::{count, ranks};
use crate::report::html::{Command, FINDINGS, Finding, Link, Page, ROWS, Top};
use crate::report::{OnPage, Screen};

/// How many pieces of evidence a finding shows.
const EVIDENCE: usize = 2;

pub(super) fn hang(report: &HangReport, name: &str, on_page: &OnPage, out: &mut Vec<u8>) -> io::Result<()> {
    let mut document = Vec::new();
    write(report, HangForm::Json, name, &Screen::default(), &OnPage::default(), &mut document)?;
    let title = match report.outcome {
        Outcome::Hung => "The job hangs",
        Outcome::Lagging => "A rank has done less than others",
        Outcome::Unclear => "Unclear whether the job hangs",
        _ => "No hang",
    };
    let mut sentences = vec![verdict(report)];
    sentences.extend(notes(report));
    let OnPage { inputs, options, .. } = on_page;
    let command = |what: &'static str, text: String| Command { view: "hang", what, text };
    let page = Page {
        kind: "hang",
        title: title.to_owned(),
        names: name.to_owned(),
        verdict: sentences,
        facts: vec![
            ("Ranks", count(report.rank_count as u64)),
            ("Groups", count(report.group_count as u64)),
            ("Operations", count(report.operation_count as u64)),
            ("Ranks without records", count(report.ranks_without_records.len() as u64)),
        ],
        findings: findings(report),
        top: top(report),
        documents: vec![("hang", document)],
        commands: vec![
            command("Whether it hangs, with all evidence", format!("nccl-stacks hang {inputs}{options} --verbose")),
            command(
                "The same for a script, with exit code 4 if it hangs",
                format!("nccl-stacks hang {inputs}{options} --json"),
            ),
            command("What the records have beside that", format!("nccl-stacks records {inputs}{options}")),
        ],
        notes: on_page.notes.clone(),
        ..Page::default()
    };
    page.write(out)
}

/// The groups in which the hang begins, then the groups that wait for them.
fn findings(report: &HangReport) -> Vec<Finding> {
    let is_open = report.culprits.is_empty();
    let mut groups: Vec<&HungGroup> = report.hung.iter().chain(&report.lagging).collect();
    groups.sort_by_key(|group| group.distance.unwrap_or(0));
    let finding = |group: &HungGroup| {
        let evidence: Vec<String> = group.evidence.iter().take(EVIDENCE).map(sentence).collect();
        // The line at which a rank differs says more than the operation.
        let path = group.paths.as_ref();
        let line =
            path.and_then(|paths| Some(format!("rank {}: {}", paths.rank, paths.path.get(paths.first_difference?)?)));
        let blamed = [&group.culprits, &group.odd_ranks, &group.stuck_ranks, &group.missing_ranks];
        let rank = blamed.into_iter().flatten().next();
        let what = format!("{} of {}", operation(group.collective.as_deref(), group.sequence), group.name.group);
        Finding {
            cost: match (&group.culprits[..], rank) {
                ([], None) => "No rank is known to be at fault".to_owned(),
                ([], Some(rank)) => format!("rank {rank}"),
                (culprits, _) => ranks(culprits),
            },
            what: line.map_or(what.clone(), |line| format!("{line}, in {what}")),
            text: evidence.into_iter().chain(advice(group, is_open)).collect::<Vec<_>>().join(" "),
            link: Some(Link { text: "Who is where", view: "hang", rank: rank.copied(), ..Link::default() }),
            ..Finding::default()
        }
    };
    // Other groups of the same ranks add nothing.
    let mut named: BTreeSet<u32> = BTreeSet::new();
    let is_new = |group: &&HungGroup| {
        let before = named.len();
        named.extend(&group.culprits);
        named.len() > before || named.is_empty()
    };
    let groups: Vec<&HungGroup> = groups.into_iter().filter(is_new).take(FINDINGS).collect();
    groups.into_iter().map(finding).collect()
}

fn top(report: &HangReport) -> Option<Top> {
    let list = |of: &[u32]| if of.is_empty() { String::new() } else { ranks(of) };
    let row = |group: &HungGroup| {
        vec![
            group.name.group.clone(),
            operation(group.collective.as_deref(), group.sequence),
            list(&group.missing_ranks),
            list(&group.stuck_ranks),
            list(&group.odd_ranks),
            list(&group.waiting_ranks),
        ]
    };
    let groups: Vec<&HungGroup> = report.hung.iter().chain(&report.lagging).collect();
    (!groups.is_empty()).then(|| Top {
        title: "Groups that wait",
        columns: vec!["group", "operation", "not enqueued by", "stuck on", "other call on", "waiting"],
        rows: groups.iter().take(ROWS).map(|group| row(group)).collect(),
        found: groups.len(),
    })
}
