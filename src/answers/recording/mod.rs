//! What recordings lack, and which NCCL calls failed in them: every answer from recordings depends on it.

pub mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::names::values::result_of_number;
use crate::records::{Records, Remark, RingSpan};
use crate::time::{Ns, Window};

/// Something that recordings lack. It may be what a rank did last, so the absence of an operation proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loss {
    /// What is counted: `communicators for which there was no room`, or `processes that could not record`.
    pub what: &'static str,
    /// Why processes could not record: `the disk is full`; `None` for everything else.
    pub why: Option<String>,
    /// What helps, as a sentence, where something does.
    pub advice: Option<&'static str>,
    /// The number in all files.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
}

/// What the recordings lack, sorted by name.
pub fn losses(records: &Records) -> Vec<Loss> {
    let mut found: BTreeMap<(&'static str, Option<&str>), Loss> = BTreeMap::new();
    for file in &records.files {
        let lost = file.skipped.iter().filter(|remark| remark.may_be_last);
        let lost = lost.map(|Remark { what, count, advice, .. }| (*what, None, *count, *advice));
        let process = file.not_recorded.as_ref();
        let process = process.map(|of| ("processes that could not record", Some(of.why.as_str()), 1, of.advice));
        for (what, why, count, advice) in lost.chain(process) {
            let new = || Loss { what, why: why.map(str::to_owned), advice, count: 0 };
            let loss = found.entry((what, why)).or_insert_with(new);
            loss.count = loss.count.saturating_add(count);
        }
    }
    found.into_values().collect()
}

/// How much of a job the full rings of its recordings still hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// How far back calls go in all full rings; `None` if no ring of calls has overwritten anything.
    pub calls: Option<Ns>,
    /// The same of events.
    pub events: Option<Ns>,
    /// From the beginning of the recording to what was recorded last.
    pub whole: Ns,
    /// How many records are left.
    pub kept: u64,
    pub all: u64,
}

/// What full rings cover; `None` if no ring has overwritten anything.
pub fn covered(records: &Records) -> Option<Covered> {
    let rings = || records.files.iter().filter_map(|file| file.ring);
    let began = rings().map(|ring| ring.began).min()?;
    // Before the latest beginning one of the rings has nothing.
    let left = |of: fn(RingSpan) -> Option<Window>| {
        let join =
            |one: Window, other: Window| Window { start: one.start.max(other.start), end: one.end.max(other.end) };
        rings().filter_map(of).reduce(join)
    };
    let (calls, events) = (left(|ring| ring.calls), left(|ring| ring.events));
    let length = |window: Window| (window.end - window.start).max(Ns::ZERO);
    let end = calls.into_iter().chain(events).map(|window| window.end).max()?;
    let sum = |of: fn(RingSpan) -> u64| rings().map(of).fold(0, u64::saturating_add);
    Some(Covered {
        calls: calls.map(length),
        events: events.map(length),
        whole: (end - began).max(Ns::ZERO),
        kept: sum(|ring| ring.kept),
        all: sum(|ring| ring.all),
    })
}

/// Calls of an NCCL function that returned the same error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailedCalls {
    /// The function: `ncclAllReduce`.
    pub function: String,
    /// NCCL's error code.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub error: u32,
    /// Its name: `ncclInvalidArgument`; `None` if unknown to this program.
    pub name: Option<&'static str>,
    /// The ranks of the job it occurred on, where known.
    pub ranks: Vec<u32>,
    /// The number of calls.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
}

/// The ranks with failed calls, and the number of these calls.
type Failures = (BTreeSet<u32>, u64);

/// The failed calls, most frequent first.
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
