//! What every form says about a hang: the verdict, the groups in which it begins, and facts.

use std::collections::BTreeSet;

use super::verdict::{notes, sentences};
use super::words::{advice, capital, command, is_reported, operation, process, sentence, warned, whereabouts};
use crate::answers::hang::{Evidence, EvidenceKind, HangReport, HungGroup, NcclWarning, Outcome};
use crate::document::findings::{Document, Finding, FindingKind, Link, Place};
use crate::document::format::{count, ranks, visible};

/// How many warnings of NCCL are findings.
const WARNINGS: usize = 8;

/// How many pieces of evidence a finding shows.
const EVIDENCE: usize = 2;

pub(crate) fn document(report: &HangReport) -> Document {
    let title = match report.outcome {
        Outcome::Hung => "The job hangs",
        Outcome::Lagging
            if report.awaited_ranks.is_empty()
                && report.processes.iter().all(|of| !of.made_less)
                && report.lagging.iter().all(is_reported) =>
        {
            "A process is reported"
        }
        Outcome::Lagging => "A rank has done less than others",
        Outcome::Unclear => "Unclear whether the job hangs",
        Outcome::NothingSeen if report.warnings.first().is_some_and(NcclWarning::is_telling) => "NCCL warned",
        Outcome::NothingSeen => "Nothing seen",
        Outcome::Clear => "No hang",
    };
    Document {
        title: title.to_owned(),
        verdict: sentences(report).collect(),
        findings: findings(report),
        facts: vec![
            ("Ranks", count(report.rank_count as u64)),
            ("Groups", count(report.group_count as u64)),
            ("Operations", count(report.operation_count as u64)),
            ("Ranks without records", count(report.ranks_without_records.len() as u64)),
        ],
        notes: notes(report),
        ..Document::default()
    }
}

/// The groups in which the hang begins, then the groups that wait for them.
fn findings(report: &HangReport) -> Vec<Finding> {
    let mut groups: Vec<&HungGroup> = report.hung.iter().chain(&report.lagging).collect();
    groups.sort_by_key(|group| group.distance.unwrap_or(0));
    let finding = |group: &HungGroup| {
        let own = report.processes.iter().filter(|process| process.group.as_ref() == Some(&group.name.group));
        let processes = own.take(EVIDENCE).filter_map(whereabouts);
        let evidence: Vec<String> = group.evidence.iter().take(EVIDENCE).map(sentence).chain(processes).collect();
        // The line at which a rank differs says more than the operation.
        let path = group.paths.as_ref();
        let frame = path.and_then(|paths| paths.path.get(paths.first_difference?).cloned());
        let line = path.zip(frame.as_ref()).map(|(paths, frame)| format!("rank {}: {frame}", paths.rank));
        let blamed = [&group.culprits, &group.odd_ranks, &group.stuck_ranks, &group.missing_ranks];
        let is_ahead = |of: &&Evidence| of.kind == EvidenceKind::Ahead;
        let ahead = group.evidence.iter().find(is_ahead).and_then(|of| of.ranks.first());
        let rank = ahead.or(blamed.into_iter().flatten().next());
        let what = match is_reported(group) {
            true => group.name.group.clone(),
            false => format!("{} of {}", operation(group.collective.as_deref(), group.sequence), group.name.group),
        };
        let ranks_of: Vec<u32> =
            if group.culprits.is_empty() { rank.copied().into_iter().collect() } else { group.culprits.clone() };
        let is_hung = report.hung.iter().any(|of| std::ptr::eq(of, group));
        Finding {
            kind: if is_hung { FindingKind::Hang } else { FindingKind::Lag },
            place: Place { ranks: ranks_of, line: frame, group: Some(group.name.group.clone()), ..Place::default() },
            cost: match (&group.culprits[..], rank) {
                ([], None) => "No rank is known to be at fault".to_owned(),
                ([], Some(rank)) => format!("rank {rank}"),
                (culprits, _) => ranks(culprits),
            },
            what: line.map_or(what.clone(), |line| format!("{line}, in {what}")),
            evidence,
            advice: advice(report, group),
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
    let groups: Vec<&HungGroup> = groups.into_iter().filter(is_new).collect();
    groups.into_iter().chain(&report.differing).map(finding).chain(reported(report)).collect()
}

/// What a source reports beside the ranks of groups: processes, and what NCCL warned of.
fn reported(report: &HangReport) -> impl Iterator<Item = Finding> {
    let processes = report.processes.iter().filter(|of| of.group.is_none()).map(|of| Finding {
        kind: FindingKind::Lag,
        cost: of.faults.join(", "),
        what: capital(&process(of)),
        advice: command(of).map(|command| format!("read the end of its log; if it still runs: {command}.")),
        ..Finding::default()
    });
    let awaited = report.awaited_ranks.iter().take(WARNINGS).map(|of| Finding {
        kind: if of.may_come { FindingKind::Lag } else { FindingKind::Hang },
        place: Place { ranks: vec![of.rank], ..Place::default() },
        cost: format!("rank {}", of.rank),
        what: capital(&visible(&of.what)),
        ..Finding::default()
    });
    let warnings = report.warnings.iter().take(WARNINGS).map(|of| Finding {
        kind: FindingKind::Warned,
        cost: "NCCL warned".to_owned(),
        what: warned(of),
        ..Finding::default()
    });
    processes.chain(awaited).chain(warnings)
}
