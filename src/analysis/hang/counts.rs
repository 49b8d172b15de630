//! Sources that count without states: RAS, which says how many collectives each rank has enqueued, and logs, which end with the last call.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{Finding, Group, Member, is_point_to_point};
use super::{Evidence, EvidenceKind, Outcome};
use crate::operation::{Counts, Source};
use crate::records::{RankStatus, Records};
use crate::time::Ns;

/// RAS counts a dozen collectives. A damaged file may have as many names as ranks.
const MOST_NAMES: usize = 64;

/// What RAS said of a communicator at one time, by rank.
type Answer<'a> = BTreeMap<u32, &'a RankStatus>;

/// Judges a communicator by the answers of RAS.
///
/// Of one answer, counts that differ show who has done less. Of two, ranks that are in both: if no count moved, the communicator has
/// stopped, and those with the lowest counts are the ones that others wait for. Equal counts that do not move may be one operation in
/// which all are stuck, or a job that does nothing: nothing is said of these.
pub(super) fn of_answers(group: &Group, records: &Records) -> Finding {
    let mut answers: BTreeMap<(Option<Ns>, u32), Answer<'_>> = BTreeMap::new();
    for (rank, member) in &group.members {
        for status in member.status.iter().map(|at| &records.rank_status[*at]) {
            let order = (status.at, if status.at.is_some() { 0 } else { status.file });
            answers.entry(order).or_default().insert(*rank, status);
        }
    }
    let mut finding = Finding::default();
    let Some((_, last)) = answers.last_key_value() else { return finding };
    faults(last, &mut finding);
    let mut fewer = fewer_calls(last);
    let Some(most) = fewer.iter().map(|(_, evidence)| evidence.ranks.len()).max() else { return finding };
    let before = answers.values().rev().nth(1);
    let both = before.map(|before| {
        last.iter().filter_map(|(rank, now)| Some((rank, before.get(rank)?.counts.clone(), now.counts.clone())))
    });
    let moved: Option<Vec<u32>> =
        both.map(|both| both.filter(|(_, before, now)| before != now).map(|(rank, ..)| *rank).collect());
    let compared = before.map_or(0, |before| last.keys().filter(|rank| before.contains_key(*rank)).count());
    debug_assert!(most > 0);
    fewer.sort_by_key(|(difference, _)| std::cmp::Reverse(*difference));
    finding.collective = fewer.first().and_then(|(_, evidence)| evidence.collective.clone());
    let is_frozen = moved.as_ref().is_some_and(Vec::is_empty) && compared == last.len();
    finding.outcome = Some(if is_frozen { Outcome::Hung } else { Outcome::Lagging });
    for (_, evidence) in fewer {
        finding.missing.extend(&evidence.ranks);
        if is_frozen {
            finding.waiting.extend(&evidence.peers);
            finding.levels = vec![evidence.ranks.clone(), evidence.peers.clone()];
        }
        finding.evidence.push(evidence);
    }
    finding.proved.extend(finding.missing.iter().filter(|_| is_frozen));
    match moved {
        Some(_) if is_frozen => {
            finding.evidence.push(Evidence::of(EvidenceKind::NoProgress, last.keys().copied().collect(), Vec::new()));
        }
        Some(moved) if !moved.is_empty() => {
            finding.evidence.push(Evidence::of(EvidenceKind::Progress, moved, Vec::new()))
        }
        _ => {}
    }
    finding
}

/// The ranks that have enqueued fewer of a collective than others, with how many fewer. Those that enqueued fewer by different numbers
/// are apart.
fn fewer_calls(answer: &Answer<'_>) -> Vec<(u64, Evidence)> {
    let names: BTreeSet<&String> = answer.values().flat_map(|status| status.counts.keys()).collect();
    let mut found = Vec::new();
    for name in names.into_iter().take(MOST_NAMES) {
        let mut by_count: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (rank, status) in answer.iter().filter(|(_, status)| !status.counts.is_empty()) {
            by_count.entry(status.counts.get(name).copied().unwrap_or(0)).or_default().push(*rank);
        }
        let Some((most, peers)) = by_count.pop_last() else { continue };
        for (count, ranks) in by_count {
            let evidence = Evidence::of(EvidenceKind::FewerCalls, ranks, peers.clone());
            let (here, there) = (Some(count.to_string()), Some(most.to_string()));
            found.push((most - count, Evidence { collective: Some(name.clone()), here, there, ..evidence }));
        }
    }
    found
}

/// What RAS itself says is wrong.
fn faults(answer: &Answer<'_>, finding: &mut Finding) {
    let mut by_fault: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, status) in answer {
        status.faults.iter().for_each(|fault| by_fault.entry(fault).or_default().push(*rank));
    }
    for (fault, ranks) in by_fault {
        finding.outcome = Some(Outcome::Lagging);
        finding.missing.extend(&ranks);
        let evidence = Evidence::of(EvidenceKind::Fault, ranks, Vec::new());
        finding.evidence.push(Evidence { here: Some(fault.to_owned()), ..evidence });
    }
}

/// Judges a communicator by the last call of each rank: a log ends where its process did, or where it was copied.
pub(super) fn of_calls(group: &Group, records: &Records) -> Finding {
    let mut by_function: BTreeMap<Option<&str>, BTreeMap<u32, i64>> = BTreeMap::new();
    let has_peers = group.members.values().any(|member| !member.peers.is_empty());
    for (rank, member) in &group.members {
        let mut counted: BTreeMap<Option<&str>, i64> = BTreeMap::new();
        for operation in member.collectives.iter().map(|at| &records.operations[*at]) {
            debug_assert!(!is_point_to_point(operation));
            let is_of_function = operation.counts == Counts::Function;
            // What is left in a ring says nothing of how many there were.
            if group.source == Source::Recorder && operation.sequence.is_none() {
                continue;
            }
            let key = operation.collective.as_deref().filter(|_| is_of_function);
            let count = counted.entry(key).or_default();
            // Where sends and receives advance the number, it differs between ranks that have nothing to do with them.
            let is_of_group = match operation.counts {
                Counts::Function | Counts::Collectives => true,
                Counts::Group | Counts::Communicator => !has_peers,
                Counts::Stream => false,
            };
            *count = match operation.sequence.filter(|_| is_of_group) {
                Some(sequence) => sequence.max(*count),
                None => count.saturating_add(1),
            };
        }
        if let Some(count) = recorded_count(group, member, records) {
            let reached = counted.entry(None).or_default();
            *reached = count.max(*reached);
        }
        for (key, count) in counted {
            by_function.entry(key).or_default().insert(*rank, count);
        }
    }
    let mut finding = Finding::default();
    for (function, of_ranks) in by_function {
        let mut by_count: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        of_ranks.iter().for_each(|(rank, count)| by_count.entry(*count).or_default().push(*rank));
        let Some((most, peers)) = by_count.pop_last() else { continue };
        for (count, ranks) in by_count {
            finding.outcome = Some(Outcome::Lagging);
            finding.missing.extend(&ranks);
            let evidence = Evidence::of(EvidenceKind::FewerCalls, ranks, peers.clone());
            let (here, there) = (Some(count.to_string()), Some(most.to_string()));
            let collective = function.map(str::to_owned);
            finding.collective = finding.collective.or_else(|| collective.clone());
            finding.evidence.push(Evidence { collective, last: Some(count), here, there, ..evidence });
        }
    }
    finding
}

/// How many collectives the recorder counted on a rank, none included, where it numbers all functions together.
fn recorded_count(group: &Group, member: &Member, records: &Records) -> Option<i64> {
    let is_of_all = |at: &usize| records.operations[*at].counts == Counts::Collectives;
    let is_counted = |member: &Member| member.collectives.iter().all(is_of_all);
    let status = member.status.last().filter(|_| group.source == Source::Recorder)?;
    group.members.values().all(is_counted).then(|| records.rank_status[*status].last_enqueued.unwrap_or(0))
}
