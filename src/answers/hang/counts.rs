//! Sources with counts instead of states: RAS, which reports how many collectives each rank has enqueued, and logs, which end with the last call.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::{Evidence, EvidenceKind, Outcome};
use crate::operation::{Counts, Source, State};
use crate::operations::recorded_groups::{Member, RecordedGroup};
use crate::records::{RankStatus, Records};
use crate::time::Ns;

/// RAS counts a dozen collectives. A damaged file may contain as many names as ranks.
const MOST_NAMES: usize = 64;

/// Answers closer together do not show that counts no longer move. It is the time without progress after which RAS itself gives a connection up
/// (`RAS_STUCK_TIMEOUT`).
const STUCK: Ns = Ns(20_000_000_000);

/// What RAS reported about a communicator at one time, by rank.
type Answer<'a> = BTreeMap<u32, &'a RankStatus>;

/// Judges a communicator by the answers of RAS.
///
/// In a single answer, differing counts show which ranks have done less. Of two answers, ranks in both are compared: if no count moved, the
/// communicator has stopped, and the others wait for the ranks with the lowest counts, unless the answers are within [`STUCK`]. Equal counts that do not move may mean that all ranks are
/// stuck in one operation, or that the job does without it or is idle. Counts are of what was enqueued: whether that has ended is unknown.
pub(super) fn of_answers(group: &RecordedGroup, records: &Records) -> Finding {
    let mut answers: BTreeMap<(Option<Ns>, (u32, u32)), Answer<'_>> = BTreeMap::new();
    for (rank, member) in &group.members {
        for status in member.status.iter().map(|at| &records.rank_status[*at]) {
            let order = (status.at, if status.at.is_some() { (0, 0) } else { (status.file, status.answer) });
            answers.entry(order).or_default().insert(*rank, status);
        }
    }
    let mut finding = Finding::default();
    let Some(((asked, _), last)) = answers.last_key_value() else { return finding };
    faults(last, &mut finding);
    finding.unknown.extend(last.iter().filter(|(_, status)| !status.counts.is_empty()).map(|(rank, _)| *rank));
    let before = answers.iter().rev().nth(1);
    // Only JSON, which has a time, lists all ranks that answer.
    before.filter(|_| asked.is_some()).into_iter().for_each(|(_, before)| gone(before, last, &mut finding));
    let moves = before.and_then(|(_, before)| Moves::find(before, last));
    let is_frozen = moves.as_ref().is_some_and(|of| of.moved.is_empty() && of.is_whole);
    let apart = before.and_then(|((before, _), _)| asked.zip(*before)).map(|(asked, before)| asked - before);
    let says = moves.as_ref().filter(|of| is_frozen || !of.moved.is_empty());
    finding.moved = says.map(|of| (!of.moved.is_empty(), apart));
    let is_stuck = is_frozen && apart.is_none_or(|apart| apart >= STUCK);
    let uneven = uneven(last);
    let mut fewer: Vec<(u64, &Uneven<'_>, u64, &Vec<u32>)> = Vec::new();
    for of in &uneven {
        fewer.extend(of.fewer.iter().map(|(count, ranks)| (of.most - count, of, *count, ranks)));
    }
    fewer.sort_by_key(|(difference, ..)| std::cmp::Reverse(*difference));
    let Some((_, first, ..)) = fewer.first() else { return finding };
    finding.collective = Some(first.name.to_owned());
    finding.outcome = Some(if is_stuck { Outcome::Hung } else { Outcome::Lagging });
    if is_stuck {
        // At fault are the ranks that RAS reports, then those with the lowest counts; ranks in between may be held up by these.
        finding.proved.clone_from(&finding.missing);
        uneven.iter().for_each(|of| of.wait(&mut finding));
    }
    for (_, of, count, ranks) in fewer {
        finding.missing.extend(ranks);
        finding.prove(|| {
            let (here, there) = (Some(count.to_string()), Some(of.most.to_string()));
            let evidence = Evidence::new(EvidenceKind::FewerCalls, ranks.clone(), of.peers.clone());
            Evidence { collective: Some(of.name.to_owned()), here, there, ..evidence }
        });
    }
    let between = match moves {
        _ if is_frozen => Some(Evidence::new(EvidenceKind::NoProgress, last.keys().copied().collect(), Vec::new())),
        Some(of) if !of.moved.is_empty() => Some(Evidence::new(EvidenceKind::Progress, of.moved, of.still)),
        _ => None,
    };
    finding.evidence.extend(between.map(|of| Evidence { during_ns: apart, ..of }));
    finding
}

/// What two answers show of the ranks with counts. A rank that does not answer has no counts, which is not movement.
#[derive(Default)]
struct Moves {
    moved: Vec<u32>,
    /// The ranks whose counts are the same.
    still: Vec<u32>,
    /// Whether all ranks with counts now had counts before.
    is_whole: bool,
}

impl Moves {
    fn find(before: &Answer<'_>, now: &Answer<'_>) -> Option<Self> {
        let mut found = Moves { is_whole: true, ..Moves::default() };
        for (rank, status) in now.iter().filter(|(_, status)| !status.counts.is_empty()) {
            match before.get(rank).filter(|before| !before.counts.is_empty()) {
                Some(before) if before.counts == status.counts => found.still.push(*rank),
                Some(_) => found.moved.push(*rank),
                None => found.is_whole = false,
            }
        }
        (found.moved.len() + found.still.len() > 0).then_some(found)
    }
}

/// Notes the ranks that are not in the last answer, and were in the one before it.
fn gone(before: &Answer<'_>, last: &Answer<'_>, finding: &mut Finding) {
    let gone: Vec<u32> = before.keys().filter(|rank| !last.contains_key(rank)).copied().collect();
    if !gone.is_empty() {
        finding.outcome = Some(Outcome::Lagging);
        finding.missing.extend(&gone);
        let evidence = Evidence::new(EvidenceKind::NoAnswer, gone, last.keys().copied().collect());
        finding.evidence.push(evidence);
    }
}

/// How often each rank called a collective, if the numbers differ.
struct Uneven<'a> {
    name: &'a str,
    most: u64,
    /// The ranks that called it most often.
    peers: Vec<u32>,
    /// The other ranks, by number of calls.
    fewer: BTreeMap<u64, Vec<u32>>,
}

impl Uneven<'_> {
    /// Notes that all other ranks wait for those with the fewest calls.
    fn wait(&self, finding: &mut Finding) {
        let mut others = self.fewer.values();
        let Some(least) = others.next() else { return };
        let waiting: Vec<u32> = others.flatten().chain(&self.peers).copied().collect();
        finding.waiting.extend(&waiting);
        finding.crowds.push((waiting, least.clone()));
    }
}

/// The collectives that some ranks have enqueued more often than others.
fn uneven<'a>(answer: &Answer<'a>) -> Vec<Uneven<'a>> {
    let names: BTreeSet<&String> = answer.values().flat_map(|status| status.counts.keys()).collect();
    let mut found = Vec::new();
    for name in names.into_iter().take(MOST_NAMES) {
        let mut fewer: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (rank, status) in answer.iter().filter(|(_, status)| !status.counts.is_empty()) {
            fewer.entry(status.counts.get(name).copied().unwrap_or(0)).or_default().push(*rank);
        }
        let Some((most, peers)) = fewer.pop_last() else { continue };
        if !fewer.is_empty() {
            found.push(Uneven { name, most, peers, fewer });
        }
    }
    found
}

/// The faults that RAS itself reports.
fn faults(answer: &Answer<'_>, finding: &mut Finding) {
    let mut by_fault: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, status) in answer {
        status.faults.iter().for_each(|fault| by_fault.entry(fault).or_default().push(*rank));
    }
    for (fault, ranks) in by_fault {
        finding.outcome = Some(Outcome::Lagging);
        finding.missing.extend(&ranks);
        let evidence = Evidence::new(EvidenceKind::Fault, ranks, Vec::new());
        finding.evidence.push(Evidence { here: Some(fault.to_owned()), ..evidence });
    }
}

/// Judges a communicator by the last call of each rank: a log ends where its process did, or where it was copied.
pub(super) fn of_calls(group: &RecordedGroup, records: &Records) -> Finding {
    let mut by_function: BTreeMap<Option<&str>, BTreeMap<u32, i64>> = BTreeMap::new();
    // Where sends and receives advance the number, ranks that take no part in them have another. NCCL from 2.27 on may print `opCount 0` in every line.
    let believes_numbers = !group.has_peers() && is_numbered(group, records);
    for (rank, member) in &group.members {
        let mut found = counted(group, member, records, believes_numbers);
        if let Some(count) = recorded_count(group, member, records) {
            let reached = found.entry(None).or_default();
            *reached = count.max(*reached);
        }
        for (function, count) in found {
            by_function.entry(function).or_default().insert(*rank, count);
        }
    }
    let mut finding = Finding::default();
    // A logged call may still be running. A source that logs only completed calls has their ends.
    let is_complete = |at: &usize| {
        let operation = &records.operations[*at];
        operation.state == State::Completed || operation.end.is_some() || operation.duration.is_some()
    };
    let is_unknown = |member: &Member| !member.collectives.iter().any(is_complete);
    finding.unknown.extend(group.members.iter().filter(|(_, member)| is_unknown(member)).map(|(rank, _)| *rank));
    for (function, of_ranks) in by_function {
        let mut by_count: BTreeMap<Option<i64>, Vec<u32>> = BTreeMap::new();
        of_ranks.iter().for_each(|(rank, count)| by_count.entry(Some(*count)).or_default().push(*rank));
        if function.is_none() {
            // In these sources every call is a line. Sources that number each function write only some calls.
            let silent = group.members.keys().filter(|rank| !of_ranks.contains_key(rank));
            silent.for_each(|rank| by_count.entry(None).or_default().push(*rank));
        }
        let Some((Some(most), peers)) = by_count.pop_last() else { continue };
        for (count, ranks) in by_count {
            finding.outcome = Some(Outcome::Lagging);
            finding.missing.extend(&ranks);
            let collective = function.map(str::to_owned);
            finding.collective = finding.collective.or_else(|| collective.clone());
            finding.prove(|| {
                let here = count.map_or_else(|| "nothing".to_owned(), |count| count.to_string());
                let evidence = Evidence::new(EvidenceKind::FewerCalls, ranks, peers.clone());
                Evidence { collective, last: count, here: Some(here), there: Some(most.to_string()), ..evidence }
            });
        }
    }
    finding
}

/// Whether the numbers of a group's calls differ: they do not if each call of a rank has the number 0.
pub(super) fn is_numbered(group: &RecordedGroup, records: &Records) -> bool {
    let is_zero = |at: &usize| records.operations[*at].sequence == Some(0);
    let repeats = |member: &Member| member.collectives.len() > 1 && member.collectives.iter().all(is_zero);
    !group.members.values().any(repeats)
}

/// How far a rank got, by function if its source numbers functions separately: the last number, or else the number of calls.
fn counted<'r>(
    group: &RecordedGroup,
    member: &Member,
    records: &'r Records,
    believes_numbers: bool,
) -> BTreeMap<Option<&'r str>, i64> {
    let mut found: BTreeMap<Option<&str>, i64> = BTreeMap::new();
    for operation in member.collectives.iter().map(|at| &records.operations[*at]) {
        // What is left in a ring buffer does not show how many calls there were.
        if group.source == Source::RECORDER && operation.sequence.is_none() {
            continue;
        }
        let is_of_function = operation.counts == Counts::Function;
        let count = found.entry(operation.collective.as_deref().filter(|_| is_of_function)).or_default();
        let is_of_group = match operation.counts {
            Counts::Function | Counts::Collectives => true,
            Counts::Group | Counts::Communicator => believes_numbers,
            Counts::Stream => false,
        };
        *count = match operation.sequence.filter(|_| is_of_group) {
            Some(sequence) => sequence.max(*count),
            // Long logs keep only some calls.
            None => match member.called {
                Some(called) => i64::try_from(called).unwrap_or(i64::MAX),
                None => count.saturating_add(1),
            },
        };
    }
    found
}

/// The number of collectives that the recorder counted on a rank, possibly 0, if it numbers all functions together.
fn recorded_count(group: &RecordedGroup, member: &Member, records: &Records) -> Option<i64> {
    let is_of_all = |at: &usize| records.operations[*at].counts == Counts::Collectives;
    let is_counted = |member: &Member| member.collectives.iter().all(is_of_all);
    let status = member.status.last().filter(|_| group.source == Source::RECORDER)?;
    group.members.values().all(is_counted).then(|| records.rank_status[*status].last_enqueued.unwrap_or(0))
}
