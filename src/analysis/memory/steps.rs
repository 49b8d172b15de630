//! The peaks of each step.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::device::Peak;
use super::events::Event;
use super::peaks::Peaks;
use crate::id::{ProcessId, SliceId, ThreadId};
use crate::nccl::category::CategoryKind;
use crate::nccl::steps::{ANNOTATION, priority};
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::time::{Ns, Window};

/// What a step needs on a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepPeak {
    /// Its name.
    pub name: String,
    /// When it began.
    #[serde(rename = "ts_ns")]
    pub at: Ns,
    /// How long it took.
    #[serde(rename = "dur_ns")]
    pub dur: Ns,
    /// How many events there are in it.
    pub events: u64,
    /// The largest `Total Allocated`, also that with which it begins.
    pub peak_allocated: Option<Peak>,
    /// The largest `Total Reserved`.
    pub peak_reserved: Option<Peak>,
}

/// The slices that are steps: those of the best kind that the trace has (see [`priority`]), which begin in the window, and only the outermost.
pub(super) fn slices(store: &Store, window: Window) -> Vec<SliceId> {
    let annotation = store.strings.find(ANNOTATION);
    let mut found: [Outermost; 3] = Default::default();
    for slice in store.slices.ids().filter(|slice| window.contains(store.slices.ts(*slice))) {
        if !matches!(store.category_kind(slice), CategoryKind::Cpu | CategoryKind::Frame) {
            continue;
        }
        let is_annotation = annotation == Some(store.slices.category(slice));
        if let Some(of) = priority(store.slice_name(slice), is_annotation).and_then(|at| found.get_mut(usize::from(at)))
        {
            of.add(store, slice);
        }
    }
    found.into_iter().map(|of| of.slices).find(|of| !of.is_empty()).unwrap_or_default()
}

/// Slices that lie in no other of them on their thread: what is within a step is a part of it.
#[derive(Default)]
struct Outermost {
    slices: Vec<SliceId>,
    /// By thread: when the last one ends.
    until: HashMap<Option<ThreadId>, Ns, FixedState>,
}

impl Outermost {
    fn add(&mut self, store: &Store, slice: SliceId) {
        let (thread, end) = (store.thread_of(slice), end(store, slice));
        let until = self.until.entry(thread).or_insert(store.slices.ts(slice));
        if end > *until || self.slices.is_empty() {
            *until = end;
            self.slices.push(slice);
        }
    }
}

/// When a slice ends; one without an end lasts to that of the trace.
fn end(store: &Store, slice: SliceId) -> Ns {
    let start = store.slices.ts(slice);
    match store.slices.dur(slice) {
        UNFINISHED => store.span.end.max(start),
        dur => start + dur,
    }
}

/// The peaks of the steps of a process on a device. Steps without an event are left out.
pub(super) fn peaks(store: &Store, steps: &[SliceId], process: Option<ProcessId>, events: &[Event]) -> Vec<StepPeak> {
    let allocated: Vec<Option<i64>> = events.iter().map(|event| event.allocated).collect();
    let reserved: Vec<Option<i64>> = events.iter().map(|event| event.reserved).collect();
    let (in_use, held) = (Peaks::of(&allocated), Peaks::of(&reserved));
    let of_step = |step: &SliceId| {
        let start = store.slices.ts(*step);
        let end = end(store, *step);
        let before = |at: Ns| events.partition_point(|event| event.at < at);
        let (from, to) = (before(start), before(end));
        if from == to {
            return None;
        }
        let peak = |peaks: &Peaks, totals: &[Option<i64>]| {
            let within = peaks.within(from, to).map(|(bytes, at)| Peak { bytes, at: events[at].at });
            // The step begins with what there is.
            let level = from.checked_sub(1).and_then(|last| totals[last]).map(|bytes| Peak { bytes, at: start });
            match (level, within) {
                (Some(level), Some(within)) if level.bytes >= within.bytes => Some(level),
                (level, within) => within.or(level),
            }
        };
        Some(StepPeak {
            name: store.slice_name(*step).to_owned(),
            at: start,
            dur: end - start,
            events: (to - from) as u64,
            peak_allocated: peak(&in_use, &allocated),
            peak_reserved: peak(&held, &reserved),
        })
    };
    steps.iter().filter(|step| store.process_of(**step) == process).filter_map(of_step).collect()
}
