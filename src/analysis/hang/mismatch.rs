//! Ranks that called something else than the others at the same number: another collective, another type, another size.
//!
//! The majority is believed, whichever rank comes first. Where there is none, nothing says who is right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::groups::{Finding, Group};
use super::{Evidence, EvidenceKind, Outcome};
use crate::nccl::collectives::Collective;
use crate::operation::{Counts, Operation, State};
use crate::records::Records;

/// Ranks of a damaged file may all differ. So many different calls are looked at, and so many of them are evidence.
const MOST_SIDES: usize = 1000;
const MOST_EVIDENCE: usize = 100;

/// What has to be equal on all ranks of a group, of the operations of one number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    collective: Vec<Option<Arc<str>>>,
    dtype: Vec<Option<Arc<str>>>,
    elements: Vec<Option<u64>>,
}

impl Call {
    fn add(&mut self, operation: &Operation) {
        self.collective.push(operation.collective.clone());
        self.dtype.push(operation.dtype.clone());
        self.elements.push(elements(operation));
    }
}

/// The number of elements that all ranks have to have alike; `None` where they may differ. What a broadcast gives is the root's own
/// affair if its ranks have different parts, and so is what a reduction gets.
fn elements(operation: &Operation) -> Option<u64> {
    match operation.collective.as_deref().and_then(Collective::of_record)? {
        Collective::AllReduce | Collective::AllGather | Collective::Reduce => operation.in_elements,
        Collective::ReduceScatter | Collective::Broadcast => operation.out_elements,
        _ => None,
    }
}

/// Looks for the first number at which the ranks of a group differ.
pub(super) fn add(group: &Group, records: &Records, finding: &mut Finding) {
    let mut calls: BTreeMap<i64, BTreeMap<u32, (Call, usize)>> = BTreeMap::new();
    let mut open: BTreeSet<i64> = BTreeSet::new();
    for (rank, member) in &group.members {
        for at in &member.collectives {
            let operation = &records.operations[*at];
            let Some(sequence) = operation.sequence else { continue };
            // Numbers that count one function, or a stream's calls, are not of the group.
            if !matches!(operation.counts, Counts::Group | Counts::Communicator | Counts::Collectives) {
                continue;
            }
            if operation.state != State::Completed {
                open.insert(sequence);
            }
            let none = || (Call { collective: Vec::new(), dtype: Vec::new(), elements: Vec::new() }, *at);
            calls.entry(sequence).or_default().entry(*rank).or_insert_with(none).0.add(operation);
        }
    }
    // What all ranks have completed went well, by whatever names.
    let differs = |of_ranks: &BTreeMap<u32, (Call, usize)>| {
        let mut calls = of_ranks.values().map(|(call, _)| call);
        calls.next().is_some_and(|first| calls.any(|call| differ(first, call).is_some()))
    };
    let found = calls.iter().find(|(sequence, of_ranks)| open.contains(sequence) && differs(of_ranks));
    if let Some((sequence, of_ranks)) = found {
        judge(*sequence, of_ranks, records, finding);
    }
}

/// In what two calls differ.
fn differ(one: &Call, other: &Call) -> Option<EvidenceKind> {
    let both = |a: &[Option<Arc<str>>], b: &[Option<Arc<str>>]| {
        a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.is_some() && b.is_some() && a != b)
    };
    if both(&one.collective, &other.collective) {
        return Some(EvidenceKind::OtherCollective);
    }
    if both(&one.dtype, &other.dtype) {
        return Some(EvidenceKind::OtherType);
    }
    let sizes = one.elements.iter().zip(&other.elements);
    sizes.clone().any(|(a, b)| a.is_some() && b.is_some() && a != b).then_some(EvidenceKind::OtherSize)
}

/// The ranks and the operation of each of some calls that are equal.
type Side<'a> = (&'a Call, Vec<u32>, usize);

fn judge(sequence: i64, of_ranks: &BTreeMap<u32, (Call, usize)>, records: &Records, finding: &mut Finding) {
    let mut sides: Vec<Side<'_>> = Vec::new();
    for (rank, (call, at)) in of_ranks {
        let has_room = sides.len() < MOST_SIDES;
        match sides.iter_mut().find(|(known, ..)| differ(known, call).is_none()) {
            Some((_, ranks, _)) => ranks.push(*rank),
            None if has_room => sides.push((call, vec![*rank], *at)),
            None => {}
        }
    }
    sides.sort_by(|(_, a, _), (_, b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
    let [(call, most, awaited), others @ ..] = &sides[..] else { return };
    let is_tie = others.first().is_some_and(|(_, ranks, _)| ranks.len() == most.len());
    before(sequence, finding);
    finding.outcome = Some(Outcome::Hung);
    finding.collective = records.operations[*awaited].collective.as_deref().map(str::to_owned);
    finding.sequence = Some(sequence);
    finding.awaited = Some(*awaited);
    finding.waiting.extend(most);
    let mut odd: Vec<u32> = Vec::new();
    for (other, ranks, theirs) in others {
        let Some(kind) = differ(call, other) else { continue };
        odd.extend(ranks);
        if finding.evidence.len() >= MOST_EVIDENCE {
            continue;
        }
        let [here, there] = [other, call].map(|call| text(call, kind));
        let kind = if is_tie { EvidenceKind::Undecidable } else { kind };
        let evidence = Evidence::of(kind, ranks.clone(), most.clone());
        let (here, there) = (Some(here), Some(there));
        let collective = finding.collective.clone();
        finding.evidence.push(Evidence { collective, sequence: Some(sequence), here, there, ..evidence });
        finding.theirs = finding.theirs.or(Some(*theirs));
    }
    finding.crowds.push((most.clone(), odd.clone()));
    match is_tie {
        // Each waits for what the other does not do.
        true => finding.crowds.push((odd, most.clone())),
        false => {
            finding.odd.extend(&odd);
            finding.proved.extend(odd);
        }
    }
}

/// Leaves of what was found before only that which is of earlier operations: from the first difference on, numbers mean different things.
fn before(sequence: i64, finding: &mut Finding) {
    if finding.sequence.is_some_and(|found| found >= sequence) || finding.sequence.is_none() {
        let waiting = std::mem::take(&mut finding.waiting);
        let oldest = std::mem::take(&mut finding.oldest);
        *finding = Finding { waiting, oldest, ..Finding::default() };
    } else {
        finding.theirs = None;
    }
}

/// What a person reads of a call.
fn text(call: &Call, kind: EvidenceKind) -> String {
    let list = |items: Vec<String>| if items.is_empty() { "nothing".to_owned() } else { items.join(", ") };
    let words =
        |items: &[Option<Arc<str>>]| list(items.iter().map(|item| item.as_deref().unwrap_or("?").to_owned()).collect());
    match kind {
        EvidenceKind::OtherType => words(&call.dtype),
        EvidenceKind::OtherSize => {
            list(call.elements.iter().map(|n| n.map_or("?".to_owned(), |n| format!("{n} elements"))).collect())
        }
        _ => words(&call.collective),
    }
}
