//! Combines all groups: on which ranks the job hangs, and which group waits for which.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::finding::Finding;
use super::graph::{Graph, Rank};
use super::{
    Evidence, EvidenceKind, HangReport, HungGroup, NcclWarning, OpenGroup, Outcome, Standstill, matrix, paths,
    processes, shows_what_is_open, warnings,
};
use crate::answers::recording;
use crate::operation::Source;
use crate::operations::recorded_groups::{RecordedGroup, RecordedGroups, is_point_to_point};
use crate::records::Records;

/// Combines what the groups show.
pub(super) fn report(records: &Records, groups: &RecordedGroups, found: Vec<Finding>) -> HangReport {
    let all: Vec<(usize, &RecordedGroup, &Finding)> =
        groups.all.iter().zip(&found).enumerate().map(|(at, (group, finding))| (at, group, finding)).collect();
    let is = |finding: &Finding, outcome: Outcome| finding.outcome == Some(outcome);
    let is_hung = found.iter().any(|finding| is(finding, Outcome::Hung));
    let (culprits, circle) = ends(&all, groups);
    let whole = Whole::new(records, groups, &all, (&culprits, &circle));
    let hung_group = |(at, group, finding): &(usize, &RecordedGroup, &Finding)| whole.hung(*at, group, finding, groups);
    let blames = |finding: &Finding| !finding.stuck.is_empty() || !finding.missing.is_empty();
    let (mut hung, mut lagging, mut open, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in &all {
        let (at, group, finding) = part;
        match finding.outcome {
            Some(Outcome::Hung) => hung.push((whole.order(*at, finding), hung_group(part), *part)),
            Some(Outcome::Lagging) => lagging.push((hung_group(part), *part)),
            Some(Outcome::Unclear)
                if is_hung && (blames(finding) || whole.waits_for_unknown(*at, group, finding, groups)) =>
            {
                hung.push((whole.order(*at, finding), hung_group(part), *part));
            }
            Some(Outcome::Unclear) => open.push((whole.order(*at, finding), whole.open(*at, group, finding), *part)),
            _ => continue,
        }
        if is(finding, Outcome::Lagging) {
            rows.push(matrix::row(group, finding, records));
        }
    }
    hung.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| x.name.group.cmp(&y.name.group)));
    open.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| x.name.group.cmp(&y.name.group)));
    let parts = hung.iter().map(|(.., part)| part).chain(open.iter().map(|(.., part)| part));
    let matrix = parts.map(|(_, group, finding)| matrix::row(group, finding, records)).chain(rows).collect();
    let unknown = hung.iter().flat_map(|(_, group, _)| &group.unknown_ranks);
    let unknown: BTreeSet<u32> =
        unknown.chain(open.iter().flat_map(|(_, group, _)| &group.unknown_ranks)).copied().collect();
    let of =
        |ranks: &BTreeSet<Rank>| ranks.iter().map(|(_, rank)| *rank).collect::<BTreeSet<u32>>().into_iter().collect();
    let without = groups.ranks.iter().filter(|(_, count)| **count == 0).map(|(rank, _)| *rank).collect();
    let (losses, failed_calls) = (recording::losses(records), recording::failed_calls(records));
    let used = || all.iter().filter(|(_, group, _)| group.is_used(records));
    let group_count = used().count();
    let has_moved = |finding: &Finding| finding.moved.is_some_and(|(has_moved, _)| has_moved);
    let shows = |(_, group, finding): &(usize, &RecordedGroup, &Finding)| {
        shows_what_is_open(group.source) || has_moved(finding)
    };
    let sees_nothing = group_count > 0 && !used().any(shows);
    let frozen = || used().filter(|(.., finding)| finding.moved.is_some());
    let standstill = (sees_nothing && frozen().next().is_some()).then(|| Standstill {
        group_count: frozen().count(),
        duration_ns: frozen().filter_map(|(.., finding)| finding.moved?.1).max(),
    });
    let titles: BTreeSet<&'static str> =
        used().filter(|_| sees_nothing).map(|(_, group, _)| group.source.title()).collect();
    let of_operations = || records.operations.iter().map(|operation| operation.source.title());
    let titles: BTreeSet<&'static str> = if group_count == 0 { of_operations().collect() } else { titles };
    let is_judged = group_count > 0 || failed_calls.is_empty();
    let blamed: Vec<(&RecordedGroup, &HungGroup)> = hung
        .iter()
        .map(|(_, of, (_, group, _))| (*group, of))
        .chain(lagging.iter().map(|(of, (_, group, _))| (*group, of)))
        .collect();
    let newest = whole.last.values().filter_map(|at| records.operations[*at].enqueued).max();
    let since = |rank: u32| records.operations[*whole.last.get(&rank)?].enqueued;
    let mut processes = processes::to_look_at(groups, &blamed, since, newest);
    let (processes_without_ranks, fewer) = processes::without_ranks(records);
    processes.extend(fewer);
    let warnings = warnings::merged(records);
    let is_warned = warnings.iter().any(NcclWarning::is_telling);
    let is_reported = processes.iter().any(|process| process.group.is_none());
    let local = || groups.all.iter().filter(|group| !group.is_global).map(|group| group.members.len()).max();
    let by_place = local();
    // Ranks that only their processes show to be of the job.
    let global = groups.all.iter().filter(|group| group.is_global);
    let by_process: BTreeSet<u32> = global.flat_map(|group| group.members.keys()).copied().collect();
    let examined = || records.operations.iter().filter(|operation| !operation.did_not_run);
    HangReport {
        run: None,
        still: None,
        still_ns: None,
        outcome: match () {
            () if is_hung => Outcome::Hung,
            () if !lagging.is_empty() || is_reported => Outcome::Lagging,
            () if !open.is_empty() || !losses.is_empty() || !is_judged || standstill.is_some() || is_warned => {
                Outcome::Unclear
            }
            () if sees_nothing || group_count == 0 && processes_without_ranks.is_some() => Outcome::NothingSeen,
            () => Outcome::Clear,
        },
        culprits: of(&culprits),
        circle: of(&circle),
        hung: hung.into_iter().map(|(_, group, _)| group).collect(),
        lagging: lagging.into_iter().map(|(group, _)| group).collect(),
        open: open.into_iter().map(|(_, group, _)| group).collect(),
        matrix,
        processes,
        warnings,
        processes_without_ranks,
        standstill,
        rank_count: if groups.ranks.is_empty() {
            by_place.unwrap_or(0).max(by_process.len())
        } else {
            groups.ranks.len()
        },
        ranks_without_records: unknown.into_iter().collect(),
        ranks_without_operations: if records.operations.is_empty() { Vec::new() } else { without },
        operation_count: examined().count(),
        call_path_count: examined().filter(|operation| operation.recorded_path.is_some()).count(),
        group_count,
        sources: titles.into_iter().collect(),
        losses,
        failed_calls,
    }
}

/// The ranks at fault, and the ranks in a circle. Who waits in any group is at fault in none, also where it waits for ranks without records: if all
/// waiting ends at such ranks, the hang begins there.
fn ends(all: &[(usize, &RecordedGroup, &Finding)], groups: &RecordedGroups) -> (BTreeSet<Rank>, BTreeSet<Rank>) {
    let mut graph = Graph::default();
    let (mut proved, mut silent): (BTreeSet<Rank>, BTreeSet<Rank>) = Default::default();
    for (at, group, finding) in all {
        let scope = (!group.is_global).then_some(*at);
        if finding.outcome == Some(Outcome::Hung) && !finding.levels.is_empty() {
            graph.levels(scope, &finding.levels, &finding.waiting);
        }
        finding.waits.iter().for_each(|(waiting, awaited)| graph.wait((scope, *waiting), (scope, *awaited)));
        finding.crowds.iter().for_each(|(waiting, awaited)| graph.crowd(scope, waiting, awaited));
        proved.extend(finding.proved.iter().map(|rank| (scope, *rank)));
    }
    if all.iter().all(|(.., finding)| finding.outcome != Some(Outcome::Hung)) {
        return (BTreeSet::new(), BTreeSet::new());
    }
    // Ranks that wait for each other do so whatever others did.
    let circles = graph.ends().circles;
    let circle = if circles.is_disjoint(&proved) { circles } else { BTreeSet::new() };
    proved.extend(alone(all, &circle));
    for (at, group, finding) in all.iter().filter(|(.., finding)| !finding.waiting.is_empty()) {
        let scope = (!group.is_global).then_some(*at);
        let unknown = without_records(group, groups);
        if !unknown.is_empty() {
            let waiting: Vec<u32> = finding.waiting.iter().copied().collect();
            graph.crowd(scope, &waiting, &unknown);
            silent.extend(unknown.into_iter().map(|rank| (scope, rank)));
        }
    }
    let alone = graph.ends().alone;
    let known: BTreeSet<Rank> = alone.difference(&silent).chain(&proved).copied().collect();
    // What ranks without records did is unknown, so that whoever is proved to be awaited comes first.
    (if known.is_empty() && circle.is_empty() { alone } else { known }, circle)
}

/// The ranks of a circle that stand against more others: some wait in one group for the rest, and the rest in another group for them. Where ranks differ the
/// majority is believed, as with calls that differ.
fn alone(all: &[(usize, &RecordedGroup, &Finding)], circle: &BTreeSet<Rank>) -> BTreeSet<Rank> {
    let sides = |(at, group, finding): &(usize, &RecordedGroup, &Finding)| {
        let scope = (!group.is_global).then_some(*at);
        let of = |ranks: &BTreeSet<u32>| -> BTreeSet<Rank> {
            ranks.iter().map(|rank| (scope, *rank)).filter(|rank| circle.contains(rank)).collect()
        };
        (of(&finding.waiting), of(&finding.missing))
    };
    // A rank without records may be on either side.
    let is_known = |(_, group, _): &&(usize, &RecordedGroup, &Finding)| group.unknown().is_empty();
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
fn unknown_culprits(
    at: usize,
    group: &RecordedGroup,
    finding: &Finding,
    groups: &RecordedGroups,
    culprits: &BTreeSet<Rank>,
) -> Vec<u32> {
    let scope = (!group.is_global).then_some(at);
    let is_first = finding.missing.is_empty() && finding.stuck.is_empty() && !finding.waiting.is_empty();
    let unknown = if is_first { without_records(group, groups) } else { Vec::new() };
    unknown.into_iter().filter(|rank| culprits.contains(&(scope, *rank))).collect()
}

/// The ranks of a group without any records: one with records of other groups is judged by these.
fn without_records(group: &RecordedGroup, groups: &RecordedGroups) -> Vec<u32> {
    let is_unknown = |rank: &u32| !group.is_global || !groups.ranks.contains_key(rank);
    group.unknown().into_iter().filter(is_unknown).collect()
}

/// What is known beyond a single group.
struct Whole<'a> {
    records: &'a Records,
    culprits: &'a BTreeSet<Rank>,
    distance: BTreeMap<usize, u32>,
    /// By group without a rank at fault: the names of the groups that it waits for.
    waits_for: BTreeMap<usize, BTreeSet<String>>,
    /// By rank of the job: the last operation it enqueued.
    last: BTreeMap<u32, usize>,
}

impl<'a> Whole<'a> {
    fn new(
        records: &'a Records,
        groups: &RecordedGroups,
        all: &[(usize, &RecordedGroup, &Finding)],
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
            waits_for.insert(*at, others.iter().map(|other| all[*other].1.name.group.clone()).collect());
        }
        let is_root = |(at, group, finding): &&(usize, &RecordedGroup, &Finding)| {
            let scope = (!group.is_global).then_some(*at);
            let mut at_fault = finding.missing.iter().chain(&finding.stuck).chain(&finding.odd);
            let crowds = || finding.crowds.iter().flat_map(|(waiting, _)| waiting);
            let mut waiting = finding.waits.iter().map(|(rank, _)| rank).chain(crowds());
            let mut in_circle = || waiting.any(|rank| circle.contains(&(scope, *rank)));
            let begins_here =
                at_fault.any(|rank| culprits.contains(&(scope, *rank)) || circle.contains(&(scope, *rank)));
            begins_here || in_circle() || !unknown_culprits(*at, group, finding, groups, culprits).is_empty()
        };
        let roots = all.iter().filter(is_root).map(|(at, ..)| *at).collect();
        Whole { records, culprits, distance: waits.distances(roots), waits_for, last }
    }

    /// The sort key of a group: its distance, whether it lacks the number of a collective, and since when its ranks wait.
    fn order(&self, at: usize, finding: &Finding) -> (u32, bool, Option<crate::time::Ns>) {
        let oldest = finding.awaited.or_else(|| finding.oldest.values().next().copied());
        let since = oldest.and_then(|oldest| self.records.operations[oldest].enqueued);
        // Collective numbers are more specific than sends without receives.
        (self.distance.get(&at).copied().unwrap_or(u32::MAX), finding.sequence.is_none(), since)
    }

    /// Whether ranks of a group wait for one without records, at which the hang begins.
    fn waits_for_unknown(&self, at: usize, group: &RecordedGroup, finding: &Finding, groups: &RecordedGroups) -> bool {
        !unknown_culprits(at, group, finding, groups, self.culprits).is_empty()
    }

    fn hung(&self, at: usize, group: &RecordedGroup, finding: &Finding, groups: &RecordedGroups) -> HungGroup {
        let list = |ranks: &BTreeSet<u32>| ranks.iter().copied().collect::<Vec<u32>>();
        let mut evidence = finding.evidence.clone();
        let unknown = unknown_culprits(at, group, finding, groups, self.culprits);
        let oldest = self.oldest(finding).filter(|_| finding.collective.is_none());
        let collective = finding.collective.as_deref().or(oldest.and_then(|of| of.collective.as_deref()));
        let sequence = finding.sequence.or(oldest.filter(|of| !is_point_to_point(of)).and_then(|of| of.sequence));
        if !unknown.is_empty() {
            let none = Evidence::new(EvidenceKind::NoRecords, unknown.clone(), list(&finding.waiting));
            evidence.insert(0, Evidence { collective: collective.map(str::to_owned), sequence, ..none });
        }
        let is_dump = group.source == Source::FLIGHT_RECORDER;
        let is_empty = |rank: &&u32| is_dump && group.is_global && groups.ranks.get(rank) == Some(&0);
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
                let known = group.members.keys().copied().filter(|rank| self.is_culprit(at, group, *rank));
                known.chain(unknown).collect::<BTreeSet<u32>>().into_iter().collect()
            },
            evidence,
            evidence_left_out: finding.left_out,
            paths: paths::compare(group, finding, self.at_fault(at, group, finding), self.records),
        }
    }

    fn is_culprit(&self, at: usize, group: &RecordedGroup, rank: u32) -> bool {
        self.culprits.contains(&((!group.is_global).then_some(at), rank))
    }

    /// The operation of a rank at fault: the one it ran in place of what others wait in, or the last it enqueued. Culprits take precedence over ranks
    /// that others wait for but that themselves wait elsewhere.
    fn at_fault(&self, at: usize, group: &RecordedGroup, finding: &Finding) -> Option<usize> {
        let rank_of = |theirs: &usize| self.records.operations[*theirs].rank.map(|rank| rank.0);
        let missing = finding.missing.iter().find(|rank| self.is_culprit(at, group, **rank));
        let is_elsewhere =
            |theirs: &usize| missing.is_some() && rank_of(theirs).is_some_and(|rank| !self.is_culprit(at, group, rank));
        let last_of = || {
            let rank = missing.or(finding.missing.first())?;
            self.last.get(rank).copied().filter(|_| group.is_global)
        };
        finding.theirs.filter(|theirs| !is_elsewhere(theirs)).or_else(last_of)
    }

    /// The oldest incomplete operation of a group.
    fn oldest(&self, finding: &Finding) -> Option<&crate::operation::Operation> {
        let operations = finding.oldest.values().map(|at| &self.records.operations[*at]);
        operations.min_by_key(|operation| (operation.enqueued, operation.sequence))
    }

    fn open(&self, at: usize, group: &RecordedGroup, finding: &Finding) -> OpenGroup {
        let oldest = self.oldest(finding);
        let is_collective = |operation: &&crate::operation::Operation| !is_point_to_point(operation);
        OpenGroup {
            name: group.name.clone(),
            distance: self.distance.get(&at).copied(),
            collective: oldest.and_then(|operation| operation.collective.as_deref()).map(str::to_owned),
            sequence: oldest.filter(is_collective).and_then(|operation| operation.sequence),
            waiting_ranks: finding.waiting.difference(&finding.ended).copied().collect(),
            unknown_ranks: group.unknown(),
            ended_ranks: finding.ended.iter().copied().collect(),
            waits_for: self.waits_for.get(&at).into_iter().flatten().cloned().collect(),
        }
    }
}

/// Which groups wait for which. A group that waits for a rank depends on the groups in which that rank waits; a group without a rank at fault depends
/// on the groups in which its own ranks have waited longer. Edges are stored by rank, because the number of edges between groups would be quadratic.
#[derive(Default)]
struct Waits {
    /// By rank: the groups that wait for it.
    awaited_in: BTreeMap<u32, Vec<usize>>,
    /// By hung group: the ranks that wait in it.
    waiting: BTreeMap<usize, Vec<u32>>,
    /// By group without a rank at fault: the groups that it waits for.
    held_up: BTreeMap<usize, BTreeSet<usize>>,
}

impl Waits {
    fn find(records: &Records, all: &[(usize, &RecordedGroup, &Finding)]) -> Self {
        let mut waits = Waits::default();
        // By rank: the start and group of its oldest incomplete operation.
        let mut oldest: BTreeMap<u32, (Option<crate::time::Ns>, usize)> = BTreeMap::new();
        let global = || all.iter().filter(|(_, group, _)| group.is_global);
        for (at, _, finding) in global() {
            if finding.outcome == Some(Outcome::Hung) || !all[*at].1.unknown().is_empty() {
                waits.waiting.insert(*at, finding.waiting.iter().copied().collect());
            }
            let awaited: BTreeSet<u32> = finding.missing.union(&finding.stuck).copied().collect();
            awaited.into_iter().for_each(|rank| waits.awaited_in.entry(rank).or_default().push(*at));
            for (rank, operation) in &finding.oldest {
                let since = (records.operations[*operation].enqueued, *at);
                let known = oldest.entry(*rank).or_insert(since);
                *known = since.min(*known);
            }
        }
        for (at, _, finding) in global().filter(|(.., of)| of.missing.is_empty() && of.stuck.is_empty()) {
            let others = finding.waiting.iter().filter_map(|rank| oldest.get(rank)).map(|(_, other)| *other);
            waits.held_up.insert(*at, others.filter(|other| other != at).collect());
        }
        waits
    }

    /// The number of groups between each group and the roots.
    fn distances(&self, roots: Vec<usize>) -> BTreeMap<usize, u32> {
        let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, others) in &self.held_up {
            others.iter().for_each(|other| after.entry(*other).or_default().push(*at));
        }
        let mut distance: BTreeMap<usize, u32> = roots.iter().map(|root| (*root, 0)).collect();
        let mut next: VecDeque<usize> = roots.into();
        let mut followed: BTreeSet<u32> = BTreeSet::new();
        while let Some(at) = next.pop_front() {
            let of = distance.get(&at).copied().unwrap_or(0);
            // Groups that wait for a rank are reached from the first group in which that rank waits.
            let ranks = self.waiting.get(&at).into_iter().flatten().filter(|rank| followed.insert(**rank));
            let by_rank = ranks.filter_map(|rank| self.awaited_in.get(rank)).flatten();
            for other in by_rank.chain(after.get(&at).into_iter().flatten()) {
                if !distance.contains_key(other) {
                    distance.insert(*other, of + 1);
                    next.push_back(*other);
                }
            }
        }
        distance
    }
}
