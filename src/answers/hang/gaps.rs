//! Ranks that have lost records.
//!
//! NCCL Inspector loses some where it cannot write fast enough, and at the end of a process. A rank that lacks between its records what its peers have may lack
//! the last, too: then the absence of an operation proves nothing. Small operations are left out on all ranks.

use std::collections::BTreeMap;

use crate::operation::{Counts, Operation};
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// The ranks that do not have, between their first and last numbers of a function, what others have.
pub(super) fn ranks(group: &RecordedGroup, records: &Records) -> Vec<u32> {
    let numbered = |at: &usize| -> Option<(&str, i64)> {
        let of: &Operation = &records.operations[*at];
        of.collective.as_deref().zip(of.sequence).filter(|_| of.counts == Counts::Function)
    };
    let mut all: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut own: BTreeMap<(&str, u32), Vec<i64>> = BTreeMap::new();
    for (rank, member) in &group.members {
        for (function, number) in member.collectives.iter().filter_map(numbered) {
            all.entry(function).or_default().push(number);
            own.entry((function, *rank)).or_default().push(number);
        }
    }
    for numbers in all.values_mut().chain(own.values_mut()) {
        numbers.sort_unstable();
        numbers.dedup();
    }
    let has_gap = |((function, rank), numbers): (&(&str, u32), &Vec<i64>)| {
        let all = &all[function];
        let (first, last) = (numbers.first()?, numbers.last()?);
        let between = all.partition_point(|number| number <= last) - all.partition_point(|number| number < first);
        (between > numbers.len()).then_some(*rank)
    };
    own.iter().filter_map(has_gap).collect()
}
