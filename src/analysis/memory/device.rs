//! A single device: totals, peaks, and what is in use at the peak.
//!
//! A release belongs to the last allocation at its address. Memory allocated before the first event is included in the totals that the profiler
//! records, but not in any allocation: its size is the difference.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::events::Event;
use crate::analysis::stack_key::StackKey;
use crate::attribution::call_tree::{CallTree, Climber};
use crate::attribution::forward::Forwards;
use crate::id::{PathId, SliceId};
use crate::names::frames::UserCode;
use crate::time::Ns;

/// The largest total, and when it was first reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Peak {
    /// The total in bytes.
    pub bytes: i64,
    /// When it was reached.
    #[serde(rename = "ts_ns")]
    pub at: Ns,
}

/// Sums over the events of a device. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// The number of events.
    pub events: u64,
    /// The number of allocations.
    pub allocations: u64,
    /// The number of releases.
    pub releases: u64,
    /// The bytes of all allocations.
    pub allocated_bytes: u64,
    /// The bytes of all releases.
    pub released_bytes: u64,
    /// Releases at addresses without an allocation in the window.
    pub unknown_releases: u64,
    /// Their bytes.
    pub unknown_released_bytes: u64,
    /// Releases whose size differs from the allocation at the address.
    pub other_size_releases: u64,
    /// Allocations at an address in use: its release is not recorded.
    pub overwritten: u64,
    /// Events whose total differs from the previous total plus their bytes.
    pub unsteady: u64,
    /// Allocations of the window still in use at its end.
    pub alive_at_end: u64,
    /// Their bytes.
    pub alive_at_end_bytes: u64,
}

/// The memory in use at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Held {
    /// The bytes of known allocations.
    pub bytes: u64,
    /// The rest of the total, allocated before the first event. `None` without a total.
    pub before_bytes: Option<i64>,
    /// The call paths that hold the most memory.
    pub stacks: Vec<HeldStack>,
    /// The number of these, including those left out by a limit.
    pub stacks_found: u64,
}

/// Allocations from one call path in use at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeldStack {
    /// Their bytes.
    pub bytes: u64,
    /// The number of allocations.
    pub allocations: u64,
    /// The size of the largest.
    pub largest: u64,
    /// The most telling frame of the call path; `None` if no caller is recorded.
    pub headline: Option<String>,
    /// The most telling frames, best first.
    #[serde(skip)]
    pub telling: Vec<String>,
    /// The callers, outermost first.
    pub frames: Vec<String>,
}

/// Allocations in use: their size and event, by address.
type Alive = HashMap<u64, (u64, SliceId), FixedState>;

/// Updates the allocations in use with an event.
fn apply(alive: &mut Alive, event: &Event, totals: &mut Totals) {
    let size = event.bytes.unsigned_abs();
    totals.events += 1;
    if event.bytes > 0 {
        totals.allocations += 1;
        totals.allocated_bytes = totals.allocated_bytes.saturating_add(size);
        totals.overwritten += u64::from(alive.insert(event.address, (size, event.slice)).is_some());
    } else if event.bytes < 0 {
        totals.releases += 1;
        totals.released_bytes = totals.released_bytes.saturating_add(size);
        match alive.remove(&event.address) {
            Some((known, _)) => totals.other_size_releases += u64::from(known != size),
            None => {
                totals.unknown_releases += 1;
                totals.unknown_released_bytes = totals.unknown_released_bytes.saturating_add(size);
            }
        }
    }
}

fn bytes(alive: &Alive) -> u64 {
    alive.values().fold(0, |sum, (size, _)| sum.saturating_add(*size))
}

/// Sums up the events of a device.
pub(super) fn totals(events: &[Event]) -> Totals {
    let (mut totals, mut alive) = (Totals::default(), Alive::default());
    let mut before = None;
    for event in events {
        apply(&mut alive, event, &mut totals);
        if let (Some(before), Some(after)) = (before, event.allocated) {
            totals.unsteady += u64::from(event.bytes.checked_add(before) != Some(after));
        }
        before = event.allocated;
    }
    (totals.alive_at_end, totals.alive_at_end_bytes) = (alive.len() as u64, bytes(&alive));
    totals
}

/// The index of the event with the largest of these totals.
pub(super) fn peak(events: &[Event], total: impl Fn(&Event) -> Option<i64>) -> Option<(usize, Peak)> {
    let known = events.iter().enumerate().filter_map(|(at, event)| Some((at, total(event)?)));
    let (at, bytes) = known.reduce(|most, next| if next.1 > most.1 { next } else { most })?;
    Some((at, Peak { bytes, at: events[at].at }))
}

/// The index of the event at which, judged by sizes alone, the most memory is in use.
fn peak_of_sizes(events: &[Event]) -> usize {
    let mut in_use = 0_i128;
    let sums = events.iter().map(|event| {
        in_use += i128::from(event.bytes);
        in_use
    });
    sums.enumerate().reduce(|most, next| if next.1 > most.1 { next } else { most }).map_or(0, |(at, _)| at)
}

/// Finds the call paths of events.
pub(super) struct Stacks<'a> {
    pub(super) tree: CallTree,
    pub(super) climber: Climber<'a>,
    pub(super) forwards: Forwards<'a>,
}

/// The memory in use after the event with the largest total.
pub(super) fn held(events: &[Event], stacks: &mut Stacks<'_>, limit: usize) -> Held {
    let at = peak(events, |event| event.allocated).map_or_else(|| peak_of_sizes(events), |(at, _)| at);
    let mut alive = Alive::default();
    let upto = &events[..events.len().min(at + 1)];
    upto.iter().for_each(|event| apply(&mut alive, event, &mut Totals::default()));
    let mut by_stack: HashMap<(Option<PathId>, Option<PathId>), HeldStack, FixedState> = HashMap::default();
    for (size, slice) in alive.values() {
        let found = stacks.climber.caller(&mut stacks.tree, *slice);
        let forward = stacks.forwards.path(found, &mut stacks.climber, &mut stacks.tree);
        let of = by_stack.entry((found.path, forward)).or_default();
        of.bytes = of.bytes.saturating_add(*size);
        of.allocations += 1;
        of.largest = of.largest.max(*size);
    }
    let mut found: Vec<_> = by_stack.into_iter().collect();
    found.sort_by_key(|(stack, held)| (std::cmp::Reverse((held.bytes, held.allocations)), *stack));
    let stacks_found = found.len() as u64;
    let named = |((path, forward), mut held): ((Option<PathId>, Option<PathId>), HeldStack)| {
        let mut frames = path.map_or(Vec::new(), |path| stacks.tree.call_path(path).frames);
        // The event itself.
        frames.pop();
        let forward = forward.map(|path| stacks.tree.call_path(path));
        let key = StackKey { frames, forward, ..StackKey::default() };
        held.telling = key.telling_frames(&UserCode::default());
        held.headline = held.telling.first().cloned();
        held.frames = key.frames;
        held
    };
    let bytes = bytes(&alive);
    let total = upto.last().and_then(|event| event.allocated);
    let before_bytes = total.and_then(|total| total.checked_sub_unsigned(bytes));
    Held { bytes, before_bytes, stacks: found.into_iter().take(limit).map(named).collect(), stacks_found }
}
