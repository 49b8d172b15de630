//! What recordings lack, and which calls of NCCL failed in them: every answer that they give depends on it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::names::values::result_of_number;
use crate::records::{Records, Remark};

/// Something that recordings lack and that may be what a rank did last, so that nothing follows from what is not there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// What is counted: `communicators for which there was no room`, or `processes that could not record`.
    pub what: &'static str,
    /// Why a process could not record, in the system's words: `No space left on device`.
    pub why: Option<String>,
    /// How many, in all files.
    pub count: u64,
}

/// What some recordings lack, in the order of its names.
pub fn losses(records: &Records) -> Vec<Loss> {
    let mut found: BTreeMap<(&'static str, Option<&str>), u64> = BTreeMap::new();
    for file in &records.files {
        let lost = file.skipped.iter().filter(|remark| remark.may_be_last);
        let lost = lost.map(|Remark { what, count, .. }| (*what, None, *count));
        let process = file.not_recorded.as_deref().map(|why| ("processes that could not record", Some(why), 1));
        for (what, why, count) in lost.chain(process) {
            let sum = found.entry((what, why)).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    found.into_iter().map(|((what, why), count)| Loss { what, why: why.map(str::to_owned), count }).collect()
}

/// Calls of a function of NCCL that returned one error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedCalls {
    /// The function: `ncclAllReduce`.
    pub function: String,
    /// NCCL's number of the error.
    pub error: u32,
    /// Its name: `ncclInvalidArgument`; `None` if this program does not know it.
    pub name: Option<&'static str>,
    /// On which ranks, as far as they are known.
    pub ranks: Vec<u32>,
    /// How many calls.
    pub count: u64,
}

/// On which ranks calls failed, and how many.
type Failures = (BTreeSet<u32>, u64);

/// The calls that failed, those of which there are most first.
pub(super) fn failed_calls(records: &Records) -> Vec<FailedCalls> {
    let mut found: BTreeMap<(&str, u32), Failures> = BTreeMap::new();
    for status in &records.rank_status {
        for ((function, error), count) in &status.failed_calls {
            let (ranks, sum) = found.entry((function, *error)).or_default();
            ranks.extend(status.rank.map(|rank| rank.0));
            *sum = sum.saturating_add(*count);
        }
    }
    let failed = |((function, error), (ranks, count)): ((&str, u32), Failures)| FailedCalls {
        function: function.to_owned(),
        error,
        name: result_of_number(error),
        ranks: ranks.into_iter().collect(),
        count,
    };
    let mut all: Vec<FailedCalls> = found.into_iter().map(failed).collect();
    all.sort_by_key(|failed| std::cmp::Reverse(failed.count));
    all
}
