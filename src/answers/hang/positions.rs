//! How far each rank of a group got with its collectives: which ranks have not enqueued what others wait in, and which have an incomplete operation
//! that others have completed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::finding::{Finding, is_open};
use super::{Evidence, EvidenceKind, Outcome};
use crate::names::collectives::Collective;
use crate::operation::{Counts, Source, State};
use crate::operations::recorded_groups::{Member, RecordedGroup};
use crate::records::{RecordFile, Records};

/// The position of a rank in a group.
#[derive(Clone, Copy)]
struct Position {
    /// The last number it enqueued; `None` if its records have nothing of the group.
    enqueued: Option<i64>,
    /// The oldest incomplete number.
    open: Option<i64>,
    /// The least number that may be incomplete: less than `open` where a full ring has lost what was before that.
    from: i64,
    /// The operation with that number, if recorded.
    operation: Option<usize>,
    /// Whether it is unknown if the last operation it enqueued is complete.
    is_unknown: bool,
}

impl Position {
    /// The next number it has to complete, and whether it has enqueued that.
    fn next(self) -> (i64, bool) {
        match self.open {
            Some(open) => (open, true),
            None => (self.enqueued.map_or(i64::MIN, |enqueued| enqueued.saturating_add(1)), false),
        }
    }

    fn has_enqueued(self, sequence: i64) -> bool {
        self.enqueued.is_some_and(|enqueued| enqueued >= sequence)
    }
}

/// Whether the operations of a group have states and are numbered together: the recorder may have neither.
pub(super) fn are_known(group: &RecordedGroup, records: &Records) -> bool {
    let collectives =
        || group.members.values().flat_map(|member| &member.collectives).map(|at| &records.operations[*at]);
    collectives().any(|operation| matches!(operation.state, State::Started | State::Completed))
        && collectives().all(|operation| operation.counts == Counts::Collectives)
}

pub(super) fn of_group(group: &RecordedGroup, records: &Records) -> Finding {
    // The numbers of `pg_status` refer to the last operation, which may be a send or receive, and those are numbered separately. The recorder's
    // numbers refer to collectives.
    let has_peers = group.source != Source::RECORDER && group.has_peers();
    let is_recorded = group.source == Source::RECORDER;
    let shows = |member: &Member| !has_peers || shows_collectives(group.source, member, records);
    let mut positions: BTreeMap<u32, Position> = group
        .members
        .iter()
        .filter(|(_, member)| shows(member))
        .map(|(rank, member)| (*rank, position(member, records, !has_peers, is_recorded)))
        .collect();
    let mut finding = Finding { before_ring: resolve(&mut positions), ..Finding::default() };
    // A rank that may or may not wait counts only if it has not enqueued what others wait in.
    let open = positions.values().filter_map(|of| of.open).min();
    let waits_perhaps = |of: &Position| of.is_unknown && open.is_none_or(|open| of.has_enqueued(open));
    finding.unknown.extend(positions.iter().filter(|(_, of)| of.is_unknown).map(|(rank, _)| *rank));
    positions.retain(|_, of| !waits_perhaps(of));
    for (rank, position) in &positions {
        if position.open.is_some() {
            finding.waiting.insert(*rank);
            finding.outcome = Some(Outcome::Unclear);
        }
        if let Some(operation) = position.operation {
            finding.oldest.insert(*rank, operation);
        }
    }
    // The ranks in the order of what they have to complete next. Ranks that have enqueued it wait for all before them.
    let mut levels: BTreeMap<(i64, bool), Vec<u32>> = BTreeMap::new();
    for (rank, position) in &positions {
        levels.entry(position.next()).or_default().push(*rank);
    }
    let least = levels.keys().next().copied();
    if let Some(root) = ended_on_root(group, records, &positions) {
        finding.ended.insert(root);
        return finding;
    }
    let waited = levels.keys().copied().find(|key| key.1 && least.is_some_and(|least| least < *key));
    match (waited, least) {
        (Some((sequence, _)), _) => {
            finding.outcome = Some(Outcome::Hung);
            add_missing_and_stuck(group, records, &positions, Some(sequence), &mut finding);
            finding.levels = levels.into_values().collect();
        }
        // No rank waits for a missing one here, but some have completed what others have not.
        (None, Some((_, true))) if levels.len() > 1 => {
            add_missing_and_stuck(group, records, &positions, None, &mut finding);
        }
        _ => {}
    }
    finding
}

/// Settles how far ranks are whose full rings have lost the operations before the first that is there. One that may be where another rank is does not show that
/// it has completed what that waits in. Returns by rank the number that it waits in where it is one of the lost.
fn resolve(positions: &mut BTreeMap<u32, Position>) -> BTreeMap<u32, i64> {
    let opens: BTreeSet<i64> = positions.values().filter_map(|of| of.open).collect();
    let mut lost = BTreeMap::new();
    for (rank, position) in positions {
        let Some(open) = position.open.filter(|open| position.from < *open) else { continue };
        let mut others = opens.range(position.from..open);
        match (others.next(), others.next()) {
            (None, _) => {}
            (Some(other), None) if *other == position.from => {
                (position.open, position.operation) = (Some(*other), None);
                lost.insert(*rank, *other);
            }
            _ => (position.open, position.is_unknown) = (None, true),
        }
    }
    lost
}

/// The rank that alone has completed an operation with a root, which all ranks have enqueued. A root may end before the others take part, so that either side
/// may be at fault.
fn ended_on_root(group: &RecordedGroup, records: &Records, positions: &BTreeMap<u32, Position>) -> Option<u32> {
    let first = positions.values().filter_map(|of| of.open).min()?;
    let latest = positions.values().filter_map(|of| of.open).max()?;
    let is_rooted =
        || names(group, records).get(&first).copied().and_then(Collective::of_record).is_some_and(Collective::has_root);
    let mut ended = positions.iter().filter(|(_, of)| of.next().0 > first);
    let (Some((root, _)), None) = (ended.next(), ended.next()) else { return None };
    let is_one_of_several = positions.len() > 2 && positions.values().all(|of| of.has_enqueued(latest));
    (is_one_of_several && is_rooted()).then_some(*root)
}

/// Determines which ranks are missing from this collective and which are stuck before it; without a number, which are stuck at all.
fn add_missing_and_stuck(
    group: &RecordedGroup,
    records: &Records,
    positions: &BTreeMap<u32, Position>,
    sequence: Option<i64>,
    finding: &mut Finding,
) {
    if let Some(sequence) = sequence {
        let waits_here = |position: &Position| position.open.is_some_and(|open| open >= sequence);
        finding.waiting = positions.iter().filter(|(_, of)| waits_here(of)).map(|(rank, _)| *rank).collect();
    }
    let awaited = positions.values().filter(|of| of.open.is_some() && of.open == sequence).find_map(|of| of.operation);
    let names = names(group, records);
    let collective = awaited.and_then(|at| records.operations[at].collective.as_deref()).map(str::to_owned);
    let latest = positions.values().filter_map(|of| of.open).max().unwrap_or(i64::MAX);
    finding.sequence = sequence.filter(|_| awaited.is_some());
    // By the last operation: one line of evidence for all ranks with the same one.
    let mut never: BTreeMap<Option<i64>, Vec<u32>> = BTreeMap::new();
    let mut stuck: BTreeMap<(i64, Option<i64>), Vec<u32>> = BTreeMap::new();
    for (rank, position) in positions {
        if !position.has_enqueued(latest) {
            never.entry(position.enqueued).or_default().push(*rank);
        }
        if let Some(open) = position.open.filter(|open| sequence.is_none_or(|sequence| *open < sequence)) {
            stuck.entry((open, position.enqueued)).or_default().push(*rank);
        }
    }
    for (last, ranks) in never {
        finding.missing.extend(&ranks);
        finding.prove(|| {
            // The first collective that they did not enqueue and in which other ranks wait.
            let awaited = positions.values().filter_map(|of| of.open).filter(|open| Some(*open) > last).min();
            let peers = positions.iter().filter(|(_, of)| of.open.is_some_and(|open| Some(open) > last));
            let peers = peers.map(|(rank, _)| *rank).collect();
            let evidence = Evidence::new(EvidenceKind::NeverEnqueued, ranks, peers);
            let name = awaited.and_then(|number| names.get(&number).map(|name| (*name).to_owned()));
            Evidence { collective: name.or(collective.clone()), sequence: awaited, last, ..evidence }
        });
    }
    for ((open, last), ranks) in stuck {
        finding.stuck.extend(&ranks);
        let name = names.get(&open).copied();
        let is_rooted = name.and_then(Collective::of_record).is_some_and(Collective::has_root);
        // What has ended on one rank ran on all, so the fault is with the stuck rank itself.
        let kind = if is_rooted { EvidenceKind::StuckRooted } else { EvidenceKind::Stuck };
        if !is_rooted {
            finding.proved.extend(&ranks);
        }
        finding.prove(|| {
            let peers = positions.iter().filter(|(_, of)| of.next().0 > open).map(|(rank, _)| *rank).collect();
            let done = positions.values().map(|of| of.from).filter(|next| *next > open).min();
            let there = done.map(|next| next.saturating_sub(1).to_string());
            let evidence = Evidence::new(kind, ranks, peers);
            Evidence { collective: name.map(str::to_owned), sequence: Some(open), last, there, ..evidence }
        });
    }
    finding.collective = collective;
    finding.awaited = awaited;
    finding.theirs = finding.stuck.iter().find_map(|rank| positions.get(rank)?.operation);
}

/// The collective of each number, as the first rank recorded it.
fn names<'r>(group: &RecordedGroup, records: &'r Records) -> HashMap<i64, &'r str> {
    let mut found = HashMap::new();
    for operation in group.members.values().flat_map(|member| &member.collectives).map(|at| &records.operations[*at]) {
        if let Some((sequence, name)) = operation.sequence.zip(operation.collective.as_deref()) {
            found.entry(sequence).or_insert(name);
        }
    }
    found
}

/// Whether a rank that also sends and receives shows how far it is with its collectives. The watchdog has only those that it waits in, and a full ring may have
/// lost them.
fn shows_collectives(source: Source, member: &Member, records: &Records) -> bool {
    let file = member.peers.first().and_then(|at| records.file_of.get(*at)).map(|file| &records.files[*file as usize]);
    !member.collectives.is_empty() || source != Source::WATCHDOG && file.is_none_or(|file| !file.has_overwritten)
}

fn position(member: &Member, records: &Records, believes_status: bool, is_recorded: bool) -> Position {
    let sequence = |at: &usize| records.operations[*at].sequence;
    let mut enqueued = member.collectives.iter().filter_map(sequence).max();
    let operation = member.collectives.iter().find(|at| is_open(&records.operations[**at]) && sequence(at).is_some());
    let mut open = operation.and_then(sequence);
    let is_complete = |at: &&usize| records.operations[**at].state == State::Completed;
    let mut completed = member.collectives.iter().filter(is_complete).filter_map(sequence).max();
    let first = member.collectives.first();
    let file = |at: &usize| records.file_of.get(*at).and_then(|file| records.files.get(*file as usize));
    let is_full = |file: &RecordFile| file.has_overwritten || file.ring.is_some_and(|ring| ring.calls.is_some());
    let has_lost = first.and_then(file).is_some_and(is_full) && first.and_then(sequence) == open;
    // Nothing is known of those before it, unless a status says which have ended.
    let mut from = if has_lost { i64::MIN } else { i64::MAX };
    let mut is_cut = false;
    if let Some(status) = member.status.last().map(|at| &records.rank_status[*at]).filter(|_| believes_status) {
        enqueued = enqueued.max(status.last_enqueued);
        // The watchdog counts an operation only some time after it is complete.
        let after_last = status.last_completed.map(|last| last.max(completed.unwrap_or(last)).saturating_add(1));
        // Without the operations, which a dump that is cut off has lost, nothing says how late it counts.
        is_cut = records.files.get(status.file as usize).is_some_and(|file| file.is_cut);
        let after_last = after_last.filter(|_| !is_cut);
        from = from.max(status.last_completed.map_or(i64::MIN, |last| last.saturating_add(1)));
        open = open.or(after_last.filter(|next| enqueued.is_some_and(|enqueued| enqueued >= *next)));
        completed = completed.max(status.last_completed);
    }
    // A dump has every incomplete operation; a recording may have lost ends or never recorded them.
    let is_unknown = (is_recorded || is_cut) && open.is_none() && enqueued > completed;
    let next = open.unwrap_or_else(|| enqueued.map_or(i64::MIN, |enqueued| enqueued.saturating_add(1)));
    Position { enqueued, open, from: from.min(next), operation: operation.copied(), is_unknown }
}
