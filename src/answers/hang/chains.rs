//! Combines all groups: on which ranks the job hangs, and which group waits for which.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::graph::{Graph, PROCESSES, Rank};
use super::waits::{Part, Waits};
use super::{
    AwaitedRank, Evidence, EvidenceKind, FailedRank, HangReport, HungGroup, NcclWarning, OpenGroup, Outcome,
    Standstill, matrix, paths, processes, shows_what_is_open, warnings,
};
use crate::answers::recording;
use crate::operation::{Operation, Source, State};
use crate::operations::recorded_groups::{RecordedGroup, RecordedGroups};
use crate::records::{RankStatus, Records};
use crate::time::Ns;

/// Combines what the groups show.
pub(super) fn report(records: &Records, groups: &RecordedGroups, found: Vec<Finding>) -> HangReport {
    let part = |(at, (group, finding))| Part { at, group, finding, processes: &groups.processes };
    let all: Vec<Part<'_>> = groups.all.iter().zip(&found).enumerate().map(part).collect();
    let failed = |status: &RankStatus| Some(FailedRank { rank: status.rank?.0, what: status.failure.clone()? });
    let failed_ranks: Vec<FailedRank> = records.rank_status.iter().filter_map(failed).collect();
    let (culprits, circle) = ends(&all, groups, &failed_ranks);
    let is_hung = !culprits.is_empty() || found.iter().any(|finding| finding.outcome == Some(Outcome::Hung));
    let whole = Whole::new(records, groups, &all, (&culprits, &circle));
    let blames = |of: &Part<'_>| !of.finding.stuck.is_empty() || !of.finding.missing.is_empty();
    let (mut hung, mut lagging, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for part in &all {
        match part.finding.outcome {
            Some(Outcome::Hung) => hung.push((whole.order(part), whole.hung(part), *part)),
            Some(Outcome::Lagging) => lagging.push((whole.hung(part), *part)),
            Some(Outcome::Unclear)
                if is_hung && (blames(part) || !unknown_culprits(part, groups, &culprits).is_empty()) =>
            {
                hung.push((whole.order(part), whole.hung(part), *part));
            }
            Some(Outcome::Unclear) => open.push((whole.order(part), whole.open(part), *part)),
            _ => {}
        }
    }
    let differing = all.iter().filter(|part| !part.finding.differs.is_empty());
    let differing: Vec<HungGroup> = differing.map(|part| whole.differing(part)).collect();
    order_lagging(&mut lagging);
    hung.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| x.name.group.cmp(&y.name.group)));
    open.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| x.name.group.cmp(&y.name.group)));
    let parts = hung.iter().map(|(.., part)| part).chain(open.iter().map(|(.., part)| part));
    let parts = parts.chain(lagging.iter().map(|(_, part)| part));
    let matrix = parts.map(|part| matrix::row(part.group, part.finding, records)).collect();
    let unknown = hung.iter().flat_map(|(_, group, _)| &group.unknown_ranks);
    let mut unknown: BTreeSet<u32> =
        unknown.chain(open.iter().flat_map(|(_, group, _)| &group.unknown_ranks)).copied().collect();
    // Of a process the groups have the rank in each.
    let in_groups = |ranks: &BTreeSet<Rank>| -> Vec<u32> {
        let numbered = ranks.iter().filter(|(scope, _)| *scope != PROCESSES).map(|(_, rank)| *rank);
        let joined = all.iter().filter(|part| !part.group.is_global && part.finding.outcome == Some(Outcome::Hung));
        let joined =
            joined.flat_map(|part| part.group.members.keys().copied().filter(|rank| ranks.contains(&part.rank(*rank))));
        numbered.chain(joined).collect::<BTreeSet<u32>>().into_iter().collect()
    };
    let are_several = all.iter().filter(|part| part.finding.outcome == Some(Outcome::Hung)).count() > 1;
    let in_circle = circle.iter().filter(|(scope, _)| are_several && *scope == PROCESSES);
    let circle_processes = in_circle.map(|(_, at)| processes::of_process(&groups.processes.all[*at as usize]));
    let without = groups.ranks.iter().filter(|(_, count)| **count == 0).map(|(rank, _)| *rank).collect();
    let (losses, failed_calls) = (recording::losses(records), recording::failed_calls(records));
    let used = || all.iter().filter(|part| part.group.is_used(records));
    let group_count = used().count();
    let is_seen = !hung.is_empty() || !lagging.is_empty() || !open.is_empty();
    let (without_records_in, unseen) = if is_seen { (None, Vec::new()) } else { unseen(used(), groups) };
    unknown.extend(unseen);
    let open: Vec<OpenGroup> = open.into_iter().map(|(_, group, _)| group).collect();
    unknown.extend(gaps(&open, groups).into_iter().filter(|_| !is_hung));
    let has_moved = |finding: &Finding| finding.moved.is_some_and(|(has_moved, _)| has_moved);
    let shows = |part: &Part<'_>| shows_what_is_open(part.group.source) || has_moved(part.finding);
    let sees_nothing = group_count > 0 && !used().any(shows);
    let frozen = || used().filter_map(|part| part.finding.moved);
    let standstill = (sees_nothing && frozen().next().is_some()).then(|| Standstill {
        group_count: frozen().count(),
        duration_ns: frozen().filter_map(|(_, apart)| apart).max(),
    });
    let titles: BTreeSet<&'static str> =
        used().filter(|_| sees_nothing).map(|part| part.group.source.title()).collect();
    let of_operations = || records.operations.iter().map(|operation| operation.source.title());
    let titles: BTreeSet<&'static str> = if group_count == 0 { of_operations().collect() } else { titles };
    let is_judged = group_count > 0 || failed_calls.is_empty();
    let blamed = hung.iter().map(|(_, of, part)| (part.group, of));
    let blamed: Vec<(&RecordedGroup, &HungGroup)> =
        blamed.chain(lagging.iter().map(|(of, part)| (part.group, of))).collect();
    let newest = whole.last.values().filter_map(|at| records.operations[*at].enqueued).max();
    let since = |rank: u32| records.operations[*whole.last.get(&rank)?].enqueued;
    let mut processes = processes::to_look_at(groups, &blamed, since, newest);
    let (processes_without_ranks, fewer) = processes::without_ranks(records);
    processes.extend(fewer);
    let warnings = warnings::merged(records);
    let is_warned = warnings.iter().any(NcclWarning::is_telling);
    let is_reported = processes.iter().any(|process| process.group.is_none());
    let (global, local): (Vec<_>, Vec<_>) = groups.all.iter().partition(|group| group.is_global);
    let by_place = local.into_iter().map(|group| group.members.len()).max();
    // Ranks that only their processes show to be of the job.
    let by_process: BTreeSet<u32> = global.into_iter().flat_map(|group| group.members.keys()).copied().collect();
    let timed_out = records.rank_status.iter().filter(|status| status.has_timed_out);
    let timed_out: BTreeSet<u32> = timed_out.filter_map(|status| Some(status.rank?.0)).collect();
    let awaited = |status: &RankStatus| {
        let of = status.awaited.as_ref()?;
        Some(AwaitedRank { rank: status.rank?.0, what: of.what.clone(), may_come: of.may_come })
    };
    let mut awaited_ranks: Vec<AwaitedRank> = records.rank_status.iter().filter_map(awaited).collect();
    // Logs of several ranks may say it of one.
    awaited_ranks.sort_by_key(|of| (of.rank, of.may_come));
    awaited_ranks.dedup_by_key(|of| of.rank);
    let in_vain: Vec<u32> = awaited_ranks.iter().filter(|of| !of.may_come).map(|of| of.rank).collect();
    let has_timed_out = !failed_ranks.is_empty()
        || records.operations.iter().any(|of| of.source == Source::WATCHDOG)
        || !timed_out.is_empty();
    let examined = || records.operations.iter().filter(|operation| !operation.did_not_run);
    HangReport {
        run: None,
        still: None,
        still_ns: None,
        outcome: match () {
            () if is_hung || !in_vain.is_empty() => Outcome::Hung,
            () if !lagging.is_empty() || is_reported || !awaited_ranks.is_empty() => Outcome::Lagging,
            () if !open.is_empty() || !losses.is_empty() || !is_judged || standstill.is_some() => Outcome::Unclear,
            () if !unknown.is_empty() || !differing.is_empty() || has_timed_out => Outcome::Unclear,
            () if sees_nothing || group_count == 0 => Outcome::NothingSeen,
            () if is_warned => Outcome::Unclear,
            () => Outcome::Clear,
        },
        culprits: if is_hung { in_groups(&culprits) } else { in_vain },
        circle: in_groups(&circle),
        circle_processes: circle_processes.collect(),
        hung: hung.into_iter().map(|(_, group, _)| group).collect(),
        lagging: lagging.into_iter().map(|(group, _)| group).collect(),
        differing,
        open,
        matrix,
        processes,
        warnings,
        processes_without_ranks,
        standstill,
        rank_count: match groups.ranks.len() {
            0 => by_place.unwrap_or(0).max(by_process.len()),
            known => known,
        },
        ranks_without_records: unknown.into_iter().collect(),
        without_records_in,
        ranks_without_operations: if records.operations.is_empty() { Vec::new() } else { without },
        operation_count: examined().count(),
        call_path_count: examined().filter(|operation| operation.recorded_path.is_some()).count(),
        group_count,
        sources: titles.into_iter().collect(),
        failed_ranks,
        awaited_ranks,
        timed_out_ranks: timed_out.iter().copied().collect(),
        losses,
        failed_calls,
    }
}

/// Puts groups first in which no rank has, in another group, what others there have not: such a rank may wait there.
fn order_lagging(lagging: &mut [(HungGroup, Part<'_>)]) {
    let leads = |(_, part): &(HungGroup, Part<'_>)| {
        let fewer = part.finding.evidence.iter().filter(|of| of.kind == EvidenceKind::FewerCalls);
        part.all(fewer.flat_map(|of| &of.peers)).into_iter().collect::<BTreeSet<Rank>>()
    };
    let ahead: Vec<BTreeSet<Rank>> = lagging.iter().map(leads).collect();
    // A rank is in few groups, and a job has many.
    let mut ahead_in: BTreeMap<Rank, Vec<usize>> = BTreeMap::new();
    for (at, ranks) in ahead.iter().enumerate() {
        ranks.iter().for_each(|rank| ahead_in.entry(*rank).or_default().push(at));
    }
    for (at, (group, part)) in lagging.iter_mut().enumerate() {
        let leads =
            |rank: &&u32| ahead_in.get(&part.rank(**rank)).is_some_and(|groups| groups.iter().any(|of| *of != at));
        group.may_wait_elsewhere = group.missing_ranks.iter().filter(leads).copied().collect();
    }
    lagging.sort_by_key(|(group, _)| !group.may_wait_elsewhere.is_empty());
}

/// The ranks of groups without any records: nobody knows whether they wait, or are waited for. Where they are those of a communicator, of one, with its name.
fn unseen<'a>(used: impl Iterator<Item = &'a Part<'a>>, groups: &RecordedGroups) -> (Option<String>, Vec<u32>) {
    let mut of_job: BTreeSet<u32> = BTreeSet::new();
    let mut local: Option<(&RecordedGroup, Vec<u32>)> = None;
    for part in used {
        let unseen = without_records(part.group, groups);
        match part.group.is_global {
            true => of_job.extend(unseen),
            false if unseen.len() > local.as_ref().map_or(0, |(_, of)| of.len()) => local = Some((part.group, unseen)),
            false => {}
        }
    }
    match local {
        Some((group, unseen)) => (Some(group.name.group.clone()), unseen),
        None => (None, of_job.into_iter().collect()),
    }
}

/// The ranks at fault, and the ranks in a circle. Who waits in any group is at fault in none, also where it waits for ranks without records: if all
/// waiting ends at such ranks, the hang begins there. Where nothing else shows one, it begins at a rank that failed before it left any records of what others
/// wait in.
fn ends(all: &[Part<'_>], groups: &RecordedGroups, failed: &[FailedRank]) -> (BTreeSet<Rank>, BTreeSet<Rank>) {
    let mut graph = Graph::default();
    let (mut proved, mut silent): (BTreeSet<Rank>, BTreeSet<Rank>) = Default::default();
    for part in all {
        let finding = part.finding;
        if finding.outcome == Some(Outcome::Hung) && !finding.levels.is_empty() {
            graph.levels(&finding.levels, &finding.waiting, |rank| part.rank(rank));
        }
        finding.waits.iter().for_each(|(waiting, awaited)| graph.wait(part.rank(*waiting), part.rank(*awaited)));
        finding.crowds.iter().for_each(|(waiting, awaited)| graph.crowd(part.all(waiting), part.all(awaited)));
        proved.extend(part.all(&finding.proved));
    }
    if all.iter().all(|part| part.finding.outcome != Some(Outcome::Hung)) {
        let waits = all.iter().filter(|part| part.group.is_global && !part.finding.waiting.is_empty());
        let unknown: BTreeSet<u32> = waits.flat_map(|part| without_records(part.group, groups)).collect();
        let failed = failed.iter().filter(|of| unknown.contains(&of.rank)).map(|of| (None, of.rank));
        return (failed.collect(), BTreeSet::new());
    }
    // Ranks that wait for each other do so whatever others did.
    let circles = graph.ends().circles;
    let circle = if circles.is_disjoint(&proved) { circles } else { BTreeSet::new() };
    proved.extend(alone(all, &circle));
    for part in all.iter().filter(|part| !part.finding.waiting.is_empty()) {
        let unknown = part.all(&without_records(part.group, groups));
        if !unknown.is_empty() {
            graph.crowd(part.all(&part.finding.waiting), unknown.iter().copied());
            silent.extend(unknown);
        }
    }
    let alone = graph.ends().alone;
    let known: BTreeSet<Rank> = alone.difference(&silent).chain(&proved).copied().collect();
    // What ranks without records did is unknown, so that whoever is proved to be awaited comes first.
    (if known.is_empty() && circle.is_empty() { alone } else { known }, circle)
}

/// The ranks of a circle that stand against more others: some wait in one group for the rest, and the rest in another group for them. Where ranks differ the
/// majority is believed, as with calls that differ.
fn alone(all: &[Part<'_>], circle: &BTreeSet<Rank>) -> BTreeSet<Rank> {
    let sides = |part: &Part<'_>| {
        let of = |ranks: &BTreeSet<u32>| -> BTreeSet<Rank> {
            part.all(ranks).into_iter().filter(|rank| circle.contains(rank)).collect()
        };
        (of(&part.finding.waiting), of(&part.finding.missing))
    };
    // A rank without records may be on either side.
    let is_known = |part: &&Part<'_>| part.group.unknown().is_empty();
    let all: Vec<(BTreeSet<Rank>, BTreeSet<Rank>)> = all.iter().filter(is_known).map(sides).collect();
    let is_whole = |(waiting, awaited): &&(BTreeSet<Rank>, BTreeSet<Rank>)| {
        waiting.is_disjoint(awaited) && waiting.len() + awaited.len() == circle.len() && !awaited.is_empty()
    };
    let faces = |(waiting, awaited): &(BTreeSet<Rank>, BTreeSet<Rank>)| {
        all.iter().any(|(other, others_await)| other == awaited && others_await == waiting)
    };
    let of_few = all.iter().filter(is_whole).find(|sides| sides.1.len() < sides.0.len() && faces(sides));
    of_few.map(|(_, few)| few.clone()).unwrap_or_default()
}

/// The ranks of a group without records at which a hang begins, if others of the group wait, and for none with records.
fn unknown_culprits(part: &Part<'_>, groups: &RecordedGroups, culprits: &BTreeSet<Rank>) -> Vec<u32> {
    let Part { group, finding, .. } = *part;
    let is_first = finding.missing.is_empty() && finding.stuck.is_empty() && !finding.waiting.is_empty();
    let unknown = if is_first { without_records(group, groups) } else { Vec::new() };
    unknown.into_iter().filter(|rank| culprits.contains(&part.rank(*rank))).collect()
}

/// The ranks of a group without any records: one with records of other groups is judged by these.
fn without_records(group: &RecordedGroup, groups: &RecordedGroups) -> Vec<u32> {
    let is_unknown = |rank: &u32| !group.is_global || !groups.ranks.contains_key(rank);
    group.unknown().into_iter().filter(is_unknown).collect()
}

/// What is known beyond a single group.
struct Whole<'a> {
    records: &'a Records,
    groups: &'a RecordedGroups,
    culprits: &'a BTreeSet<Rank>,
    distance: BTreeMap<usize, u32>,
    /// By group without a rank at fault: the names of the groups that it waits for.
    waits_for: BTreeMap<usize, BTreeSet<String>>,
    /// By rank of the job: the last operation it enqueued.
    last: BTreeMap<u32, usize>,
    /// The ranks of the job that wait in any group, or whose state there is unknown.
    busy: BTreeSet<u32>,
}

/// Whether nothing says which ranks of the job a group has, as in logs of the watchdog.
fn has_no_list(group: &RecordedGroup) -> bool {
    group.source == Source::WATCHDOG && group.is_global && group.name.ranks.is_empty()
}

/// What ranks wait in, if some of that are sends or receives.
fn by_operation<'r>(oldest: impl Iterator<Item = (u32, &'r Operation)>) -> Vec<(String, Vec<u32>)> {
    let mut found: BTreeMap<(&str, Option<i64>), Vec<u32>> = BTreeMap::new();
    let mut has_peers = false;
    for (rank, of) in oldest {
        has_peers |= of.is_point_to_point();
        let number = of.sequence.filter(|_| !of.is_point_to_point());
        found.entry((of.collective.as_deref().unwrap_or_default(), number)).or_default().push(rank);
    }
    let named = |((name, number), ranks): ((&str, Option<i64>), Vec<u32>)| {
        (number.map_or(name.to_owned(), |number| format!("{name} {number}")), ranks)
    };
    found.into_iter().filter(|_| has_peers).map(named).collect()
}

/// The ranks without any records between those with records, or of a group whose sizes say how many it has, where nothing lists its ranks. Logs lack whole hosts
/// more often than most ranks of one.
fn gaps(open: &[OpenGroup], groups: &RecordedGroups) -> Vec<u32> {
    let Some((first, last)) = groups.ranks.keys().next().zip(groups.ranks.keys().next_back()) else {
        return Vec::new();
    };
    let is_unknown = |of: &&OpenGroup| {
        of.name.source == Source::WATCHDOG.name() && !of.name.ranks_are_local && of.name.ranks.is_empty()
    };
    let Some(group) = open.first().filter(is_unknown) else { return Vec::new() };
    let missing = group.size_by_elements.map(|size| size - group.known_ranks.len() as u64);
    let absent = |from: u32, to: u32| (from..=to).filter(|rank| !groups.ranks.contains_key(rank));
    let known = groups.ranks.len();
    // With a size that is as large as all of the log the group has all ranks up to that.
    let all = group.size_by_elements.and_then(|size| u32::try_from(size).ok()).filter(|size| size > last);
    if let Some(all) = all
        && missing == Some(u64::from(all) - known as u64)
    {
        return absent(0, all - 1).collect();
    }
    let between = u64::from(last - first) + 1 - known as u64;
    let is_few = 2 * between < known as u64 && missing.is_none_or(|missing| between <= missing);
    if is_few { absent(*first, *last).collect() } else { Vec::new() }
}

impl<'a> Whole<'a> {
    fn new(
        records: &'a Records,
        groups: &'a RecordedGroups,
        all: &[Part<'_>],
        (culprits, circle): (&'a BTreeSet<Rank>, &BTreeSet<Rank>),
    ) -> Self {
        let mut last: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, operation) in records.operations.iter().enumerate() {
            let Some(rank) = operation.rank.filter(|_| !operation.did_not_run) else { continue };
            let known = last.entry(rank.0).or_insert(at);
            if records.operations[*known].enqueued <= operation.enqueued {
                *known = at;
            }
        }
        let waits = Waits::find(records, all);
        let mut waits_for: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for (at, others) in &waits.held_up {
            waits_for.insert(*at, others.iter().map(|other| all[*other].group.name.group.clone()).collect());
        }
        let is_root = |part: &&Part<'_>| {
            let finding = part.finding;
            let at_fault = finding.missing.iter().chain(&finding.stuck).chain(&finding.odd);
            let crowds = || finding.crowds.iter().flat_map(|(waiting, _)| waiting);
            let mut waiting = finding.waits.iter().map(|(rank, _)| rank).chain(crowds());
            let mut in_circle = || waiting.any(|rank| circle.contains(&part.rank(*rank)));
            let begins_here =
                at_fault.map(|rank| part.rank(*rank)).any(|of| culprits.contains(&of) || circle.contains(&of));
            begins_here || in_circle() || !unknown_culprits(part, groups, culprits).is_empty()
        };
        let roots = all.iter().filter(is_root).map(|part| part.at).collect();
        let busy = all.iter().filter(|part| part.group.is_global).flat_map(|part| {
            let Finding { waiting, unknown, missing, .. } = part.finding;
            waiting.iter().chain(unknown).chain(missing).copied()
        });
        Whole { records, groups, culprits, distance: waits.distances(roots), waits_for, last, busy: busy.collect() }
    }

    /// The sort key of a group: its distance, whether it lacks the number of a collective, and since when its ranks wait.
    fn order(&self, Part { at, finding, .. }: &Part<'_>) -> (u32, bool, Option<Ns>) {
        let oldest = finding.awaited.or_else(|| finding.oldest.values().next().copied());
        let since = oldest.and_then(|oldest| self.records.operations[oldest].enqueued);
        // Collective numbers are more specific than sends without receives.
        (self.distance.get(at).copied().unwrap_or(u32::MAX), finding.sequence.is_none(), since)
    }

    fn hung(&self, part: &Part<'_>) -> HungGroup {
        let Part { at, group, finding, .. } = *part;
        let list = |ranks: &BTreeSet<u32>| ranks.iter().copied().collect::<Vec<u32>>();
        let mut evidence = finding.evidence.clone();
        let unknown = unknown_culprits(part, self.groups, self.culprits);
        let oldest = self.oldest(finding).filter(|_| finding.collective.is_none());
        let collective = finding.collective.as_deref().or(oldest.and_then(|of| of.collective.as_deref()));
        let sequence = finding.sequence.or(oldest.filter(|of| !of.is_point_to_point()).and_then(|of| of.sequence));
        if !unknown.is_empty() {
            let none = Evidence::new(EvidenceKind::NoRecords, unknown.clone(), list(&finding.waiting));
            evidence.insert(0, Evidence { collective: collective.map(str::to_owned), sequence, ..none });
        }
        let mut unmet: BTreeMap<u32, (Vec<u32>, usize)> = BTreeMap::new();
        for (peer, rank, at) in finding.unmet.iter().filter(|(peer, ..)| !unknown.contains(peer)) {
            if self.is_culprit(part, *peer) {
                unmet.entry(*peer).or_insert_with(|| (Vec::new(), *at)).0.push(*rank);
            }
        }
        for (peer, (waiting, at)) in &mut unmet {
            waiting.sort_unstable();
            waiting.dedup();
            let none = Evidence::new(EvidenceKind::NoRecords, vec![*peer], waiting.clone());
            let collective = self.records.operations[*at].collective.as_deref().map(str::to_owned);
            evidence.insert(0, Evidence { collective, ..none });
        }
        let is_dump = group.source == Source::FLIGHT_RECORDER;
        let is_empty = |rank: &&u32| is_dump && group.is_global && self.groups.ranks.get(rank) == Some(&0);
        let empty: Vec<u32> = finding.missing.iter().filter(is_empty).copied().collect();
        if !empty.is_empty() {
            evidence.push(Evidence::new(EvidenceKind::NoOperations, empty, Vec::new()));
        }
        HungGroup {
            name: group.name.clone(),
            distance: self.distance.get(&at).copied(),
            collective: collective.map(str::to_owned),
            sequence,
            missing_ranks: list(&finding.missing),
            stuck_ranks: list(&finding.stuck),
            odd_ranks: list(&finding.odd),
            waiting_ranks: finding
                .waiting
                .difference(&finding.odd)
                .filter(|rank| !finding.stuck.contains(rank))
                .copied()
                .collect(),
            unknown_ranks: group.unknown(),
            culprits: {
                let known = group.members.keys().copied().filter(|rank| self.is_culprit(part, *rank));
                known.chain(unknown).chain(unmet.into_keys()).collect::<BTreeSet<u32>>().into_iter().collect()
            },
            evidence,
            evidence_left_out: finding.left_out,
            may_wait_elsewhere: Vec::new(),
            paths: paths::compare(group, finding, self.at_fault(part), self.records),
        }
    }

    /// A group in which ranks called something different, which proves no hang.
    fn differing(&self, part: &Part<'_>) -> HungGroup {
        let evidence = &part.finding.differs;
        let odd = evidence.iter().filter(|of| !of.kind.is_tie()).flat_map(|of| &of.ranks).copied();
        let first = evidence.first();
        HungGroup {
            name: part.group.name.clone(),
            collective: first.and_then(|of| of.collective.clone()),
            sequence: first.and_then(|of| of.sequence),
            odd_ranks: odd.collect::<BTreeSet<u32>>().into_iter().collect(),
            unknown_ranks: part.group.unknown(),
            evidence: evidence.clone(),
            ..HungGroup::default()
        }
    }

    fn is_culprit(&self, part: &Part<'_>, rank: u32) -> bool {
        self.culprits.contains(&part.rank(rank))
    }

    /// The operation of a rank at fault: the one it ran in place of what others wait in, or the last it enqueued. Culprits take precedence over ranks
    /// that others wait for but that themselves wait elsewhere.
    fn at_fault(&self, part: &Part<'_>) -> Option<usize> {
        let finding = part.finding;
        let rank_of = |theirs: &usize| self.records.operations[*theirs].rank.map(|rank| rank.0);
        let missing = finding.missing.iter().find(|rank| self.is_culprit(part, **rank));
        let is_elsewhere =
            |theirs: &usize| missing.is_some() && rank_of(theirs).is_some_and(|rank| !self.is_culprit(part, rank));
        let last_of = || {
            let rank = missing.or(finding.missing.first())?;
            self.last.get(rank).copied().filter(|_| part.group.is_global)
        };
        finding.theirs.filter(|theirs| !is_elsewhere(theirs)).or_else(last_of)
    }

    /// The ranks that wait in no group, where nothing says which ranks this one has. They say nothing if they are more than its known ranks and than it lacks, or
    /// if other ranks have no records.
    fn idle(&self, group: &RecordedGroup) -> Vec<u32> {
        let is_idle = |rank: &&u32| !self.busy.contains(rank) && !group.members.contains_key(rank);
        let idle = || self.groups.ranks.keys().filter(is_idle);
        let ranks = &self.groups.ranks;
        let is_whole = ranks.keys().zip(0..).all(|(rank, at)| *rank == at);
        let lacks = group.size_by_elements(self.records).map_or(0, |size| size - group.members.len() as u64);
        let is_few = || idle().count() < group.members.len().max(lacks as usize + 1);
        if has_no_list(group) && is_whole && is_few() { idle().copied().collect() } else { Vec::new() }
    }

    fn oldest(&self, finding: &Finding) -> Option<&Operation> {
        let operations = finding.oldest.values().map(|at| &self.records.operations[*at]);
        operations.min_by_key(|operation| (operation.enqueued, operation.sequence))
    }

    fn open(&self, Part { at, group, finding, .. }: &Part<'_>) -> OpenGroup {
        let oldest = self.oldest(finding);
        let is_collective = |operation: &&Operation| !operation.is_point_to_point();
        let operations = || finding.oldest.iter().map(|(rank, at)| (*rank, &self.records.operations[*at]));
        let not_started = || operations().filter(|(_, of)| of.state == State::Scheduled).map(|(rank, _)| rank);
        let runs = operations().any(|(_, of)| of.state == State::Started);
        let is_one = operations().all(|(_, of)| is_collective(&of) && of.sequence == oldest.and_then(|of| of.sequence));
        // Only dumps have the other side.
        let is_idle = |rank: &&u32| {
            group.source == Source::WATCHDOG
                && oldest.is_some_and(Operation::is_point_to_point)
                && !finding.waiting.contains(rank)
        };
        OpenGroup {
            name: group.name.clone(),
            distance: self.distance.get(at).copied(),
            collective: oldest.and_then(|operation| operation.collective.as_deref()).map(str::to_owned),
            sequence: oldest.filter(is_collective).and_then(|operation| operation.sequence),
            waiting_ranks: finding.waiting.difference(&finding.ended).copied().collect(),
            unknown_ranks: group.unknown(),
            ended_ranks: finding.ended.iter().copied().collect(),
            not_started_ranks: if runs && is_one { not_started().collect() } else { Vec::new() },
            idle_ranks: group.members.keys().filter(is_idle).copied().chain(self.idle(group)).collect(),
            size_by_elements: group.size_by_elements(self.records).filter(|_| has_no_list(group)),
            by_operation: by_operation(operations()),
            known_ranks: group.members.keys().copied().collect(),
            waits_for: self.waits_for.get(at).into_iter().flatten().cloned().collect(),
        }
    }
}
