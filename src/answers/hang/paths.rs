//! The call path of a rank at fault next to that of a waiting rank.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::finding::Finding;
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// With so many of the ranks that wait the path of a rank at fault is compared.
const MOST_COMPARED: usize = 64;

/// By so many calls too many or too few the paths of ranks are compared. Of equally good ones the last counts.
const SHIFTS: [i64; 8] = [4, -4, 3, -3, 2, -2, -1, 1];

/// Two call paths side by side, outermost caller first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparedPaths {
    /// The rank at fault.
    pub rank: u32,
    /// What it did: the odd or incomplete operation, or the last one it enqueued.
    pub collective: Option<String>,
    /// Its call path.
    pub path: Vec<String>,
    /// A rank that waits.
    pub other_rank: u32,
    /// The operation that it waits in.
    pub other_collective: Option<String>,
    /// Its call path.
    pub other_path: Vec<String>,
    /// The index of the first frame that differs, from 0; `None` if the paths are equal.
    pub first_difference: Option<usize>,
    /// The number of the operations, if these are not the last ones: from here on the ranks came by different paths to the operations of the group.
    pub since_sequence: Option<i64>,
}

/// Compares the operation that ranks wait in with that of a rank at fault. `None` if either has no call path.
pub(super) fn compare(
    group: &RecordedGroup,
    finding: &Finding,
    at_fault: Option<usize>,
    records: &Records,
) -> Option<ComparedPaths> {
    let (at_fault, awaited) = (at_fault?, finding.awaited?);
    // One of those that wait may have a path of its own by right, as the first rank often has: the one that is most alike shows the fault.
    let sequence = records.operations[awaited].sequence;
    let of_rank = |rank: &u32| {
        let member = group.members.get(rank)?;
        member.collectives.iter().copied().find(|at| sequence.is_some() && records.operations[*at].sequence == sequence)
    };
    let rank_of = |at: usize| records.operations[at].rank_or_place();
    let others = finding.waiting.difference(&finding.odd).filter(|rank| Some(**rank) != rank_of(at_fault));
    let others = others.filter_map(of_rank).filter(|at| *at != awaited).take(MOST_COMPARED);
    let all = std::iter::once(awaited).chain(others).filter_map(|awaited| with_one(group, at_fault, awaited, records));
    let alike = |of: &ComparedPaths| match (of.first_difference, of.since_sequence) {
        (None, _) => (i64::MAX, usize::MAX),
        (Some(first), since) => (since.unwrap_or(i64::MIN), first),
    };
    all.reduce(|best, next| if alike(&next) > alike(&best) { next } else { best })
}

fn with_one(group: &RecordedGroup, at_fault: usize, awaited: usize, records: &Records) -> Option<ComparedPaths> {
    let last = of_two(at_fault, awaited, records)?;
    if last.first_difference.is_some() {
        return Some(last);
    }
    // One call too many or too few shifts all that follow: the paths part where that was.
    let shifted = shifted(group, &last, records).and_then(|(one, other)| {
        let of = of_two(one, other, records)?;
        Some(ComparedPaths { since_sequence: records.operations[one].sequence, ..of })
    });
    Some(shifted.unwrap_or(last))
}

/// The first operations of two ranks from which on their paths differ. Calls that are shifted may have equal paths by chance, so that those are followed that are
/// equal with the shift; else those with equal numbers have different paths up to the last that both have.
fn shifted(group: &RecordedGroup, of: &ComparedPaths, records: &Records) -> Option<(usize, usize)> {
    let by_number = |rank: u32| {
        let member = group.members.get(&rank)?;
        let numbered = member.collectives.iter().filter_map(|at| Some((records.operations[*at].sequence?, *at)));
        Some(numbered.collect::<BTreeMap<i64, usize>>())
    };
    let (one, other) = (by_number(of.rank)?, by_number(of.other_rank)?);
    let path = |at: usize| records.operations[at].recorded_path;
    let is_other = |(one, other): &(usize, usize)| {
        path(*one).zip(path(*other)).is_some_and(|(one, other)| differ(one, other, records))
    };
    // The operations of both ranks with one number, by how far the other is ahead with equal paths, the last ones first.
    let from = |shift: i64| {
        let is_equal = |(number, at): &(&i64, &usize)| {
            let other = number.checked_add(shift).and_then(|number| other.get(&number));
            other.is_some_and(|other| path(**at).is_some() && !is_other(&(**at, *other)))
        };
        let last = other.keys().next_back().map_or(i64::MAX, |last| last.saturating_sub(shift));
        let both =
            one.range(..=last).rev().take_while(is_equal).filter_map(|(number, at)| Some((*at, *other.get(number)?)));
        both.collect::<Vec<(usize, usize)>>()
    };
    let shifted = SHIFTS.into_iter().map(from).max_by_key(Vec::len).unwrap_or_default();
    let both = one.iter().rev().filter_map(|(number, at)| Some((*at, *other.get(number)?)));
    let apart: Vec<(usize, usize)> = both.take_while(is_other).collect();
    let first = shifted.iter().rev().find(|pair| is_other(pair)).filter(|_| shifted.len() > apart.len());
    first.or(apart.last()).copied()
}

fn differ(one: u32, other: u32, records: &Records) -> bool {
    one != other && records.paths.get(one as usize) != records.paths.get(other as usize)
}

/// Compares two operations. `None` if either has no call path.
fn of_two(at_fault: usize, awaited: usize, records: &Records) -> Option<ComparedPaths> {
    let of = |at: usize| {
        let operation = &records.operations[at];
        let path: &Vec<Arc<str>> = records.paths.get(operation.recorded_path? as usize)?;
        let rank = operation.rank.map(|rank| rank.0).or(operation.place)?;
        Some((rank, operation.collective.as_deref().map(str::to_owned), path))
    };
    let (rank, collective, path) = of(at_fault)?;
    let (other_rank, other_collective, other_path) = of(awaited)?;
    let same = path.iter().zip(other_path).take_while(|(a, b)| a == b).count();
    let owned = |path: &[Arc<str>]| path.iter().map(|frame| frame.as_ref().to_owned()).collect();
    Some(ComparedPaths {
        rank,
        collective,
        path: owned(path),
        other_rank,
        other_collective,
        other_path: owned(other_path),
        first_difference: (path != other_path).then_some(same),
        since_sequence: None,
    })
}
