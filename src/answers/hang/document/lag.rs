//! The answer about ranks that have done less than others, and about processes that a source reports.

use std::collections::BTreeSet;

use super::words;
use super::words::{by_log, capital, has, is_aborted, sentence};
use crate::answers::hang::{Evidence, EvidenceKind, HangReport, HungGroup};
use crate::document::format::{duration, ranks};

/// So many processes are named.
const NAMED: usize = 4;

/// The processes that a source reports, with what it says.
fn reported(report: &HangReport) -> String {
    let (mut all, mut faults): (Vec<String>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    let fewer: Vec<String> = report
        .processes
        .iter()
        .filter(|process| process.made_less)
        .map(|of| format!("{} made {}", words::process(of), of.faults.join(", ")))
        .collect();
    if let (Some(compared), [first, rest @ ..]) = (report.processes_without_ranks, &fewer[..]) {
        let more = if rest.is_empty() { String::new() } else { format!(", and {} more made less, too", rest.len()) };
        return format!(
            "Of {} processes {first} of the others{more}. This alone does not show whether it is stuck or slow.",
            compared.process_count
        );
    }
    let named = || report.processes.iter().filter(|process| process.group.is_none());
    if named().all(words::is_unknown) {
        let faults: Vec<String> = named().map(|of| capital(&of.faults.join(", "))).collect();
        return format!("{}. They cannot go on without it.", faults.join(". "));
    }
    for process in named() {
        all.push(words::process(process));
        faults.extend(process.faults.iter().map(String::as_str));
    }
    let more = all.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (is, its, it) = if all.len() == 1 { ("is", "Its", "it") } else { ("are", "Their", "them") };
    let faults: Vec<&str> = faults.into_iter().collect();
    all.truncate(NAMED);
    format!(
        "{}{more} {is} reported: {}. {its} peers cannot go on without {it}.",
        capital(&all.join("; ")),
        faults.join(", ")
    )
}

pub(crate) fn lagging(report: &HangReport) -> String {
    let group = report.lagging.first();
    if let (None, [], Some(awaited)) = (group, &report.processes[..], by_log(report)) {
        return format!("By the log, {awaited}. This alone does not show whether it is stuck or slow.");
    }
    if group.is_none() {
        return reported(report);
    }
    let is_it = |kind: EvidenceKind| group.is_some_and(|group| group.evidence.iter().any(|of| of.kind == kind));
    let what = group.and_then(|group| group.evidence.first()).map(sentence).unwrap_or_default();
    let of = group.map_or(String::new(), |group| group.name.group.clone());
    let further = match report.lagging.len() {
        0 | 1 => String::new(),
        n => {
            let groups = if n == 2 { "1 further group".to_owned() } else { format!("{} further groups", n - 1) };
            let waiting = report.lagging.iter().find(|of| !of.may_wait_elsewhere.is_empty());
            let waiting = waiting.map_or(String::new(), |of| {
                format!("; {} of {} may only wait for that", ranks(&of.may_wait_elsewhere), of.name.group)
            });
            format!(" In {groups} ranks have done less than others, too{waiting}.")
        }
    };
    if let Some(group) = group.filter(|group| is_aborted(group)) {
        return format!(
            "All ranks of {} are aborted. That is after the fact: somebody gave up, and the cause is in the logs before it.{further}",
            group.name.group
        );
    }
    let blamed = group.and_then(|group| group.evidence.first()).map_or(0, |of| of.ranks.len());
    let is_all = group.is_some_and(|group| group.name.ranks.len() == blamed);
    let why = match () {
        () if is_it(EvidenceKind::Fault) && is_all => {
            "All ranks are, so that this does not show which one holds the others up."
        }
        () if is_it(EvidenceKind::Fault) && blamed > 1 => "Their peers cannot go on without them.",
        () if is_it(EvidenceKind::Fault) => "Its peers cannot go on without it.",
        () if is_it(EvidenceKind::NoAnswer) => "Peers that call this communicator wait for it.",
        () => "This alone does not show whether it is stuck or slow.",
    };
    let is_fault = is_it(EvidenceKind::Fault) || is_it(EvidenceKind::NoAnswer);
    let why = group.filter(|_| !is_fault).and_then(between).unwrap_or_else(|| why.to_owned());
    format!("In {of}: {what} {why}{further}")
}

/// What two answers show of the ranks that have done less.
fn between(group: &HungGroup) -> Option<String> {
    let find = |kind: EvidenceKind| group.evidence.iter().find(|of| of.kind == kind);
    let within = |of: &Evidence| of.during_ns.map_or(String::new(), |time| format!(" in {}", duration(time)));
    if let Some(none) = find(EvidenceKind::NoProgress) {
        return Some(format!(
            "No count moved{}, which is too short to show whether it is stuck or slow.",
            within(none)
        ));
    }
    let progress = find(EvidenceKind::Progress)?;
    let fewer = group.evidence.iter().filter(|of| of.kind == EvidenceKind::FewerCalls);
    let fewer: BTreeSet<u32> = fewer.flat_map(|of| &of.ranks).copied().collect();
    let still: Vec<u32> = fewer.iter().copied().filter(|rank| has(&progress.peers, *rank)).collect();
    let moves = fewer.iter().all(|rank| has(&progress.ranks, *rank));
    Some(match (&still[..], fewer.len()) {
        ([], 1) if moves => "It moves, so this is slow and no hang.".to_owned(),
        ([], _) if moves => "They move, so this is slow and no hang.".to_owned(),
        ([], _) => "This alone does not show whether it is stuck or slow.".to_owned(),
        ([_], 1) => format!("It called nothing{} while its peers went on: it may hang.", within(progress)),
        ([one], _) => {
            format!("Of these rank {one} called nothing{} while others went on: it may hang.", within(progress))
        }
        (still, all) => {
            let who = if still.len() == all { "They".to_owned() } else { format!("Of these {}", ranks(still)) };
            format!("{who} called nothing{} while others went on: they may hang.", within(progress))
        }
    })
}
