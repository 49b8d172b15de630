//! The memory peaks of each step.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::device::Peak;
use super::events::Event;
use super::peaks::Peaks;
use crate::id::{ProcessId, SliceId, ThreadId};
use crate::names::category::CategoryKind;
use crate::names::steps::{ANNOTATION, priority};
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::time::{Ns, Window};

/// The memory that a step needs on a device.
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
    /// The number of events in it.
    pub events: u64,
    /// The largest `Total Allocated`, including the one at its start.
    pub peak_allocated: Option<Peak>,
    /// The largest `Total Reserved`.
    pub peak_reserved: Option<Peak>,
}

/// The slices that are steps: of the best priority in the trace (see [`priority`]), beginning in the window, and outermost.
fn slices(store: &Store, window: Window) -> Vec<SliceId> {
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

/// The slices not nested in another on their thread: a slice within a step is part of it.
#[derive(Default)]
struct Outermost {
    slices: Vec<SliceId>,
    /// By thread: the end of the last slice.
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

/// The end of a slice; an unfinished slice lasts until the end of the trace.
fn end(store: &Store, slice: SliceId) -> Ns {
    let start = store.slices.ts(slice);
    match store.slices.dur(slice) {
        UNFINISHED => store.span.end.max(start),
        dur => start + dur,
    }
}

/// Steps sorted by start.
#[derive(Debug)]
struct Ordered {
    slices: Vec<SliceId>,
    starts: Vec<Ns>,
    ends: Peaks,
}

impl Ordered {
    fn new(store: &Store, mut slices: Vec<SliceId>) -> Self {
        slices.sort_by_key(|slice| store.slices.ts(*slice));
        let ends: Vec<Option<i64>> = slices.iter().map(|slice| Some(end(store, *slice).0)).collect();
        let starts = slices.iter().map(|slice| store.slices.ts(*slice)).collect();
        Ordered { slices, starts, ends: Peaks::find(&ends) }
    }

    /// The indices of the steps that contain an event, in order. Each step is found at its first event: it begins after the event before that, and
    /// ends later. So the time depends on the events and the steps found, not on all steps of the process.
    fn with_events(&self, events: &[Event]) -> Vec<usize> {
        let (mut found, mut ranges) = (Vec::new(), Vec::new());
        let mut from = 0;
        for event in events {
            let to = from + self.starts[from..].partition_point(|start| *start <= event.at);
            ranges.push((from, to));
            while let Some((from, to)) = ranges.pop() {
                let Some((_, at)) = self.ends.within(from, to).filter(|(end, _)| *end > event.at.0) else { continue };
                found.push(at);
                ranges.extend([(from, at), (at + 1, to)]);
            }
            from = to;
        }
        found.sort_unstable();
        found
    }
}

/// The steps of all processes.
#[derive(Debug)]
pub(super) struct Steps {
    of: HashMap<Option<ProcessId>, Ordered, FixedState>,
}

impl Steps {
    /// Finds the steps that begin in the window.
    pub(super) fn find(store: &Store, window: Window) -> Self {
        let mut of: HashMap<Option<ProcessId>, Vec<SliceId>, FixedState> = HashMap::default();
        for slice in slices(store, window) {
            of.entry(store.process_of(slice)).or_default().push(slice);
        }
        Steps { of: of.into_iter().map(|(process, slices)| (process, Ordered::new(store, slices))).collect() }
    }

    /// The peaks of a process's steps on a device. Steps without an event are left out. `events` are in order of time.
    pub(super) fn peaks(&self, store: &Store, process: Option<ProcessId>, events: &[Event]) -> Vec<StepPeak> {
        let Some(steps) = self.of.get(&process) else { return Vec::new() };
        let of_device = OfDevice::new(events);
        let found = steps.with_events(events).into_iter();
        found.map(|at| of_device.peak_of(store, steps.slices[at])).collect()
    }
}

/// The totals of a device.
struct OfDevice<'a> {
    events: &'a [Event],
    allocated: (Vec<Option<i64>>, Peaks),
    reserved: (Vec<Option<i64>>, Peaks),
}

impl<'a> OfDevice<'a> {
    fn new(events: &'a [Event]) -> Self {
        let totals = |total: fn(&Event) -> Option<i64>| {
            let totals: Vec<Option<i64>> = events.iter().map(total).collect();
            let peaks = Peaks::find(&totals);
            (totals, peaks)
        };
        OfDevice { events, allocated: totals(|event| event.allocated), reserved: totals(|event| event.reserved) }
    }

    fn peak_of(&self, store: &Store, step: SliceId) -> StepPeak {
        let (start, end) = (store.slices.ts(step), end(store, step));
        let before = |at: Ns| self.events.partition_point(|event| event.at < at);
        let (from, to) = (before(start), before(end));
        let peak = |(totals, peaks): &(Vec<Option<i64>>, Peaks)| {
            let within = peaks.within(from, to).map(|(bytes, at)| Peak { bytes, at: self.events[at].at });
            // A step starts with the memory already in use.
            let level = from.checked_sub(1).and_then(|last| totals[last]).map(|bytes| Peak { bytes, at: start });
            match (level, within) {
                (Some(level), Some(within)) if level.bytes >= within.bytes => Some(level),
                (level, within) => within.or(level),
            }
        };
        StepPeak {
            name: store.slice_name(step).to_owned(),
            at: start,
            dur: end - start,
            events: (to - from) as u64,
            peak_allocated: peak(&self.allocated),
            peak_reserved: peak(&self.reserved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a search of all steps: some overlap, are empty, or have an event at an end.
    #[test]
    fn steps_with_events_are_those_of_a_search() {
        let steps: Vec<(i64, i64)> = (0..40).map(|at: i64| (at * 5 / 2, at * 5 / 2 + (at * 7_919) % 23)).collect();
        let ordered = Ordered {
            slices: Vec::new(),
            starts: steps.iter().map(|(start, _)| Ns(*start)).collect(),
            ends: Peaks::find(&steps.iter().map(|(_, end)| Some(*end)).collect::<Vec<_>>()),
        };
        for every in [1, 3, 10, 37, 200] {
            let event =
                |at| Event { slice: SliceId(0), at: Ns(at), address: 0, bytes: 1, allocated: None, reserved: None };
            let events: Vec<Event> = (0..120).step_by(every).flat_map(|at| [event(at), event(at)]).collect();
            let has_event = |(start, end): (i64, i64)| events.iter().any(|event| (start..end).contains(&event.at.0));
            let want: Vec<usize> = (0..steps.len()).filter(|at| has_event(steps[*at])).collect();
            assert_eq!(ordered.with_events(&events), want, "{every}");
        }
    }
}
