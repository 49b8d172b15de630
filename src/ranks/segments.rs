//! What launching threads did between launches of collectives, and what ran on the GPU between these.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::reduction::{Row, Segment};
use crate::attribution::busy::Busy;
use crate::id::{SliceId, ThreadId};
use crate::names::calls::waits_for_gpu;
use crate::store::Store;
use crate::time::{Ns, Window};

/// Texts, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub(super) list: Vec<String>,
    at: HashMap<String, u32, FixedState>,
}

impl Texts {
    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if let Some(at) = self.at.get(text) {
            return *at;
        }
        let at = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.at.insert(text.to_owned(), at);
        at
    }
}

/// The segments that end with these launches, which are in the order of their starts and have a thread. The first of a thread begins with the window,
/// or with the thread.
pub(super) fn find(store: &Store, launches: &[SliceId], window: Window) -> Vec<Segment> {
    let mut threads: BTreeMap<ThreadId, (u32, Ns)> = BTreeMap::new();
    for thread in launches.iter().filter_map(|call| store.thread_of(*call)) {
        let next = threads.len() as u32;
        threads.entry(thread).or_insert((next, Ns::MAX));
    }
    for slice in store.slices.ids() {
        if let Some((_, first)) = store.thread_of(slice).and_then(|thread| threads.get_mut(&thread)) {
            *first = (*first).min(store.slices.ts(slice));
        }
    }
    let mut waits: BTreeMap<ThreadId, Vec<(Ns, Ns)>> = BTreeMap::new();
    for call in store.runtime_calls.iter().copied().filter(|call| waits_for_gpu(store.slice_name(*call))) {
        let span = (store.slices.ts(call), store.slices.dur(call).max(Ns::ZERO));
        store.thread_of(call).into_iter().for_each(|thread| waits.entry(thread).or_default().push(span));
    }
    let waits: BTreeMap<ThreadId, Busy> =
        waits.into_iter().map(|(thread, spans)| (thread, Busy::from_spans(spans))).collect();
    let mut ends: BTreeMap<ThreadId, Ns> = BTreeMap::new();
    let segment = |call: &SliceId| {
        let thread = store.thread_of(*call)?;
        let (number, first) = *threads.get(&thread)?;
        let start = ends.get(&thread).copied().unwrap_or_else(|| first.max(window.start));
        let at = store.slices.ts(*call);
        let end = (at + store.slices.dur(*call).max(Ns::ZERO)).max(start);
        ends.insert(thread, end);
        let blocked = waits.get(&thread).map_or(Ns::ZERO, |waits| waits.within(start, end));
        Some(Segment { thread: number, start, call: at, end, blocked })
    };
    launches.iter().filter_map(segment).collect()
}

/// Finds for how long kernels ran, and none did, between the collectives; `kernels` are those that compute.
pub(super) fn find_busy(store: &Store, rows: &mut [Row], kernels: &[SliceId]) {
    let spans = kernels.iter().map(|kernel| (store.slices.ts(*kernel), store.slices.dur(*kernel).max(Ns::ZERO)));
    let busy = Busy::from_spans(spans);
    let mut last: Option<Ns> = None;
    for row in rows {
        let start = last.unwrap_or(row.start);
        row.busy_before = busy.within(start, row.start);
        row.idle_before = (row.start - start).max(Ns::ZERO) - row.busy_before;
        last = Some(row.end().max(start));
    }
}
