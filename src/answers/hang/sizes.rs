//! All-to-alls that send something else than they receive: each rank has sizes of its own, so that only all of them together can be wrong.

use std::collections::BTreeMap;

use super::finding::{Finding, is_open};
use super::{Evidence, EvidenceKind, Outcome};
use crate::names::collectives::Collective;
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// How many pairs of ranks are named.
const PAIRS: usize = 8;

/// Adds the first all-to-all in which all ranks wait and whose sizes do not fit.
pub(super) fn add(group: &RecordedGroup, records: &Records, finding: &mut Finding) {
    if finding.outcome != Some(Outcome::Unclear) || !group.unknown().is_empty() || group.members.len() < 2 {
        return;
    }
    let mut by_number: BTreeMap<i64, BTreeMap<u32, usize>> = BTreeMap::new();
    for (rank, member) in &group.members {
        for at in &member.collectives {
            let operation = &records.operations[*at];
            let is_all_to_all = operation.known_collective() == Some(Collective::AllToAll);
            if let Some(sequence) = operation.sequence.filter(|_| is_all_to_all && is_open(operation)) {
                by_number.entry(sequence).or_default().insert(*rank, *at);
            }
        }
    }
    let whole = by_number.into_iter().filter(|(_, of)| of.len() == group.members.len());
    for (sequence, of_number) in whole {
        let evidence = match pairs(&of_number, records) {
            pairs if !pairs.is_empty() => pairs,
            _ => totals(&of_number, records).into_iter().collect(),
        };
        if evidence.is_empty() {
            continue;
        }
        let ranks: Vec<u32> = of_number.keys().copied().collect();
        let first = of_number.values().next().copied();
        finding.outcome = Some(Outcome::Hung);
        finding.collective = Some(Collective::AllToAll.name().to_owned());
        finding.sequence = Some(sequence);
        finding.awaited = first;
        finding.waiting.extend(&ranks);
        finding.crowds.push((ranks.clone(), ranks));
        let collective = finding.collective.clone();
        finding.evidence.extend(evidence.into_iter().map(|of| Evidence {
            collective: collective.clone(),
            sequence: Some(sequence),
            ..of
        }));
        return;
    }
}

/// The pairs of ranks of which one sends what the other does not receive. The places of a group are its ranks in order.
fn pairs(of_number: &BTreeMap<u32, usize>, records: &Records) -> Vec<Evidence> {
    let ranks: Vec<u32> = of_number.keys().copied().collect();
    let splits: Option<Vec<_>> = of_number.values().map(|at| records.splits.get(at)).collect();
    let Some(splits) = splits.filter(|all| all.iter().all(|of| of.sent.len() == ranks.len())) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (from, giver) in splits.iter().enumerate() {
        for (to, receiver) in splits.iter().enumerate() {
            let (sent, received) = (giver.sent[to], receiver.received[from]);
            if sent != received && found.len() < PAIRS {
                let evidence = Evidence::new(EvidenceKind::OtherMessage, vec![ranks[from]], vec![ranks[to]]);
                found.push(Evidence { here: Some(sent.to_string()), there: Some(received.to_string()), ..evidence });
            }
        }
    }
    found
}

/// What all ranks send together, if they do not receive as much.
fn totals(of_number: &BTreeMap<u32, usize>, records: &Records) -> Option<Evidence> {
    let operations = || of_number.values().map(|at| &records.operations[*at]);
    let first = operations().next()?;
    if operations().any(|operation| operation.dtype != first.dtype) {
        return None;
    }
    let sum = |elements: fn(&crate::operation::Operation) -> Option<u64>| {
        operations().map(elements).try_fold(0_u64, |sum, of| sum.checked_add(of?))
    };
    let (sent, received) = (sum(|operation| operation.in_elements)?, sum(|operation| operation.out_elements)?);
    let evidence = Evidence::new(EvidenceKind::OtherTotals, of_number.keys().copied().collect(), Vec::new());
    (sent != received).then(|| Evidence { here: Some(sent.to_string()), there: Some(received.to_string()), ..evidence })
}
