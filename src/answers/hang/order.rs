//! Groups that some ranks started in another order than others.
//!
//! A GPU that runs a collective of one group may have no room for that of another, or they are on one stream. Then ranks that started group A wait in it for
//! ranks that started group B, and the other way round, or by way of further groups. Dumps show that as operations that all ranks have enqueued, of which each
//! rank has started one. Without timing no rank has started any, and the order in which the groups were called is taken.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, is_open};
use super::graph::{Graph, Rank};
use super::{Evidence, EvidenceKind, Outcome};
use crate::operation::{Operation, State};
use crate::operations::recorded_groups::RecordedGroups;
use crate::records::Records;

/// Ranks with more open groups are not compared.
const MOST: usize = 16;

/// By two groups: the ranks on which the first goes before the second.
type Before = BTreeMap<(usize, usize), Vec<u32>>;

/// Adds the circles of groups in which all ranks wait.
pub(super) fn add(groups: &RecordedGroups, records: &Records, found: &mut [Finding]) {
    // By rank: its open groups, by the oldest open operation.
    let mut open: BTreeMap<u32, Vec<(usize, &Operation)>> = BTreeMap::new();
    let mut started: BTreeSet<usize> = BTreeSet::new();
    for (at, (group, finding)) in groups.all.iter().zip(&*found).enumerate() {
        let is_whole = group.is_global && finding.outcome == Some(Outcome::Unclear) && group.unknown().is_empty();
        let oldest = finding.oldest.iter().map(|(rank, of)| (*rank, &records.operations[*of]));
        for (rank, operation) in oldest.filter(|(_, of)| is_whole && is_open(of)) {
            started.extend((operation.state == State::Started).then_some(at));
            open.entry(rank).or_default().push((at, operation));
        }
    }
    let mut before = Before::new();
    let mut waits = Graph::default();
    for (rank, of_rank) in open.into_iter().filter(|(_, of_rank)| (2..=MOST).contains(&of_rank.len())) {
        for (first, one) in &of_rank {
            for (second, other) in &of_rank {
                let by_start = one.state == State::Started && other.state == State::Scheduled;
                let is_timed = started.contains(first) || started.contains(second);
                let by_call = !is_timed && !one.is_point_to_point() && !other.is_point_to_point();
                // It was called first, too.
                let is_first = one.enqueued.zip(other.enqueued).is_some_and(|(one, other)| one < other);
                if is_first && (by_start || by_call) {
                    before.entry((*first, *second)).or_default().push(rank);
                    waits.wait(group_of(*second), group_of(*first));
                }
            }
        }
    }
    for circle in waits.circles() {
        let circle: Vec<usize> = circle.into_iter().map(|(_, group)| group as usize).collect();
        let is_timed = circle.iter().any(|group| started.contains(group));
        add_circle(&circle, &before, is_timed, (groups, records), found);
    }
}

/// A group as a node of a graph.
fn group_of(at: usize) -> Rank {
    (None, u32::try_from(at).unwrap_or(u32::MAX))
}

/// Adds a circle: evidence to the first group of two, or to each of several.
fn add_circle(
    circle: &[usize],
    before: &Before,
    is_timed: bool,
    (groups, records): (&RecordedGroups, &Records),
    found: &mut [Finding],
) {
    let oldest = |finding: &Finding| finding.oldest.values().next().map(|of| &records.operations[*of]);
    let named = |at: usize, finding: &Finding| {
        let what = oldest(finding).and_then(|of| Some((of.collective.as_deref()?.to_owned(), of.sequence)));
        let name = groups.all[at].name.group.clone();
        what.map_or(name.clone(), |(collective, sequence)| {
            format!("{collective}{} of {name}", sequence.map_or(String::new(), |number| format!(" {number}")))
        })
    };
    let none = Vec::new();
    let ranks = |first: usize, second: usize| before.get(&(first, second)).unwrap_or(&none);
    for (place, at) in circle.iter().enumerate() {
        let others = || circle.iter().filter(|other| *other != at);
        let first: BTreeSet<u32> = others().flat_map(|other| ranks(*at, *other)).copied().collect();
        let second: BTreeSet<u32> = others().flat_map(|other| ranks(*other, *at)).copied().collect();
        found[*at].crowds.push((first.into_iter().collect(), second.into_iter().collect()));
        let evidence: Vec<Evidence> = match (circle, place) {
            ([one, other], 0) => {
                let kind = EvidenceKind::OtherOrder;
                let evidence = Evidence::new(kind, ranks(*one, *other).clone(), ranks(*other, *one).clone());
                vec![Evidence { here: Some(named(*other, &found[*other])), ..evidence }]
            }
            ([_, _], _) => continue,
            _ => {
                let held_up = others().filter(|other| !ranks(*at, **other).is_empty());
                let evidence = held_up.map(|other| {
                    let evidence = Evidence::new(EvidenceKind::HoldsUp, ranks(*at, *other).clone(), Vec::new());
                    Evidence { here: Some(named(*other, &found[*other])), ..evidence }
                });
                evidence.collect()
            }
        };
        let operation = oldest(&found[*at]);
        let collective = operation.and_then(|of| of.collective.as_deref()).map(str::to_owned);
        let sequence = operation.and_then(|of| of.sequence);
        let there = Some(if is_timed { "started" } else { "called" }.to_owned());
        let finding = &mut found[*at];
        finding.evidence.extend(evidence.into_iter().map(|of| Evidence {
            collective: collective.clone(),
            sequence,
            there: there.clone(),
            ..of
        }));
        (finding.collective, finding.sequence, finding.outcome) = (collective, sequence, Some(Outcome::Hung));
    }
}
