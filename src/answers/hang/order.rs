//! Two groups that some ranks started in another order than others.
//!
//! A GPU that runs a collective of one group may have no room for that of another, or they are on one stream. Then ranks that started group A wait in it for
//! ranks that started group B, and the other way round. Dumps show that as two operations that all ranks have enqueued, of which each rank has started one.

use std::collections::BTreeMap;

use super::finding::{Finding, is_open};
use super::{Evidence, EvidenceKind, Outcome};
use crate::operation::State;
use crate::operations::recorded_groups::RecordedGroups;
use crate::records::Records;

/// Ranks with more open groups are not compared.
const MOST: usize = 16;

/// The ranks that started the first of two groups, and those that started the second.
type Started = (Vec<u32>, Vec<u32>);

/// Adds the circles of two groups in which all ranks wait.
pub(super) fn add(groups: &RecordedGroups, records: &Records, found: &mut [Finding]) {
    // By rank: its open groups, by the oldest open operation.
    let mut open: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, (group, finding)) in groups.all.iter().zip(&*found).enumerate() {
        let is_whole = group.is_global && finding.outcome == Some(Outcome::Unclear) && group.unknown().is_empty();
        let of_group =
            finding.oldest.iter().filter(|(_, operation)| is_whole && is_open(&records.operations[**operation]));
        of_group.for_each(|(rank, operation)| open.entry(*rank).or_default().push((at, *operation)));
    }
    let mut pairs: BTreeMap<(usize, usize), Started> = BTreeMap::new();
    for (rank, of_rank) in open.into_iter().filter(|(_, of_rank)| (2..=MOST).contains(&of_rank.len())) {
        let state = |operation: usize| records.operations[operation].state;
        let enqueued = |operation: usize| records.operations[operation].enqueued;
        for (first, one) in of_rank.iter().filter(|(_, operation)| state(*operation) == State::Started) {
            for (second, other) in of_rank.iter().filter(|(_, operation)| state(*operation) == State::Scheduled) {
                // It was called first, too.
                if enqueued(*one).zip(enqueued(*other)).is_none_or(|(one, other)| one >= other) {
                    continue;
                }
                match first < second {
                    true => pairs.entry((*first, *second)).or_default().0.push(rank),
                    false => pairs.entry((*second, *first)).or_default().1.push(rank),
                }
            }
        }
    }
    for ((one, other), (first, second)) in pairs.into_iter().filter(|(_, (a, b))| !a.is_empty() && !b.is_empty()) {
        let named = |at: usize, finding: &Finding| {
            let operation = finding.oldest.values().next().map(|of| &records.operations[*of]);
            let what = operation.and_then(|of| Some((of.collective.as_deref()?.to_owned(), of.sequence)));
            let name = groups.all[at].name.group.clone();
            what.map_or(name.clone(), |(collective, sequence)| {
                format!("{collective}{} of {name}", sequence.map_or(String::new(), |number| format!(" {number}")))
            })
        };
        let there = named(other, &found[other]);
        let finding = &mut found[one];
        let operation = finding.oldest.values().next().map(|of| &records.operations[*of]);
        let evidence = Evidence {
            collective: operation.and_then(|of| of.collective.as_deref()).map(str::to_owned),
            sequence: operation.and_then(|of| of.sequence),
            here: Some(there),
            ..Evidence::new(EvidenceKind::OtherOrder, first.clone(), second.clone())
        };
        finding.collective = evidence.collective.clone();
        finding.sequence = evidence.sequence;
        finding.evidence.push(evidence);
        finding.outcome = Some(Outcome::Hung);
        finding.crowds.push((first.clone(), second.clone()));
        found[other].crowds.push((second, first));
    }
}
