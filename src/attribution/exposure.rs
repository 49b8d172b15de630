//! When each GPU was busy: with collectives, and with the compute kernels that may hide them.
//!
//! The time of a collective is **exposed** while no compute kernel runs on its GPU, on any stream but its own; the rest is overlapped. A kernel of its own stream that
//! has started already waits for it (programmatic dependent launch). A chosen compute kernel
//! is exposed while no other compute kernel runs. Kernels that may be communication ([`possible`]) count as neither. A GPU is a process of a
//! trace, because Kineto writes the device's number as the pid of GPU work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::busy::Busy;
use super::launches::Launched;
use super::possible::{self, Possible};
use super::selection::{Wanted, collectives};
use crate::id::{GpuId, SliceId, ThreadId};
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::Ns;

/// The activity of all GPUs of a trace.
#[derive(Debug, Default)]
pub(crate) struct GpuActivity {
    /// By GPU ([`Store::gpu_of`]).
    pub(crate) of: BTreeMap<GpuId, Activity>,
    /// Whether kernels of a name are collectives, by name.
    pub(crate) is_collective: Arc<[bool]>,
    /// The names of kernels that may be communication, in the order of their ids.
    pub(crate) possible: Arc<[Possible]>,
}

#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// When compute kernels ran.
    pub(crate) compute: Busy,
    /// When two or more compute kernels ran at once.
    pub(crate) several: Busy,
    pub(crate) collectives: Busy,
    /// When kernels ran that may be communication.
    pub(crate) possible: Busy,
    /// By stream on which collectives and compute kernels overlap: when compute kernels of other streams ran, which alone hide its collectives.
    others: BTreeMap<ThreadId, Busy>,
    /// The stream, start and length of each collective, if there are such streams.
    spans: Vec<(ThreadId, Ns, Ns)>,
}

impl Activity {
    /// When the compute kernels ran that can hide a collective of a stream.
    pub(crate) fn hides(&self, stream: Option<ThreadId>) -> &Busy {
        stream.and_then(|stream| self.others.get(&stream)).unwrap_or(&self.compute)
    }

    /// The time within a span during which collectives ran that nothing hid. `all` is all that ran.
    pub(crate) fn exposed(&self, all: &Activity, start: Ns, end: Ns) -> Ns {
        if all.others.is_empty() {
            return self.collectives.without(&all.compute, start, end);
        }
        let uncovered = |(stream, ts, dur): &(ThreadId, Ns, Ns)| {
            let pieces = all.hides(Some(*stream)).uncovered(*ts, *ts + *dur);
            pieces.map(|(from, until)| (from, until - from)).collect::<Vec<_>>()
        };
        let mut pieces: Vec<(Ns, Ns)> = self.spans.iter().flat_map(uncovered).collect();
        pieces.sort_unstable();
        Busy::from_spans(pieces).within(start, end)
    }

    /// When any kernel ran.
    pub(crate) fn any(&self) -> Busy {
        self.compute.with(&self.collectives).with(&self.possible)
    }

    /// The time within a span during which any kernel ran.
    pub(crate) fn busy(&self, start: Ns, end: Ns) -> Ns {
        let known = self.compute.within(start, end) + self.collectives.without(&self.compute, start, end);
        if self.possible == Busy::default() {
            return known;
        }
        known + self.possible.without(&self.compute.with(&self.collectives), start, end)
    }
}

impl GpuActivity {
    /// Of all kernels of a trace. A kernel that may be communication counts as a collective if its name is asked for.
    pub(crate) fn new(store: &Store, wanted: &Wanted) -> Self {
        let mut is_collective = collectives(store, wanted);
        let mut possible = possible::find(store, &is_collective);
        possible.retain(|of| {
            let is_asked = wanted.names(store.strings.get(of.kernel).unwrap_or_default());
            is_collective[of.kernel.0 as usize] |= is_asked;
            !is_asked
        });
        let (is_collective, possible) = (is_collective.into(), possible.into());
        GpuActivity { is_collective, possible, of: BTreeMap::new() }.of_kernels(store, store.kernels.iter().copied())
    }

    /// The same for some kernels, in order of their starts.
    pub(crate) fn of_kernels(&self, store: &Store, kernels: impl Iterator<Item = SliceId>) -> Self {
        let mut of: BTreeMap<GpuId, Activity> = BTreeMap::new();
        let kernels: Vec<SliceId> = kernels.collect();
        let mixed = self.mixed_streams(store, &kernels);
        let keeps_spans = !mixed.is_empty() || self.of.values().any(|of| !of.others.is_empty());
        for kernel in kernels.iter().copied() {
            let gpu = store.gpu_of(kernel);
            let device = of.entry(gpu).or_default();
            let (ts, dur) = (store.slices.ts(kernel), store.slices.dur(kernel));
            // Kernels come in order of their starts, because slice ids do.
            let name = store.slices.name(kernel);
            if self.is_collective[name.0 as usize] {
                device.collectives.push(ts, dur);
                let stream = store.stream_of(kernel).filter(|_| keeps_spans);
                device.spans.extend(stream.map(|stream| (stream, ts, dur)));
                continue;
            }
            if self.may_communicate(name).is_some() {
                device.possible.push(ts, dur);
                continue;
            }
            if let Some(before) = device.compute.end().filter(|before| *before > ts) {
                device.several.push(ts, dur.min(before - ts));
            }
            device.compute.push(ts, dur);
            if let Some(streams) = mixed.get(&gpu) {
                let own = store.stream_of(kernel);
                for stream in streams {
                    let others = device.others.entry(*stream).or_default();
                    if own != Some(*stream) {
                        others.push(ts, dur);
                    }
                }
            }
        }
        GpuActivity { of, is_collective: Arc::clone(&self.is_collective), possible: Arc::clone(&self.possible) }
    }

    /// By GPU: the streams on which a collective and a compute kernel overlap. On most GPUs there are none.
    fn mixed_streams(&self, store: &Store, kernels: &[SliceId]) -> BTreeMap<GpuId, BTreeSet<ThreadId>> {
        // By stream: when its collectives have ended so far, and its compute kernels.
        let mut ended = vec![[Ns::MIN; 2]; store.tracks.threads.len()];
        let mut mixed: BTreeMap<GpuId, BTreeSet<ThreadId>> = BTreeMap::new();
        if !kernels.iter().any(|kernel| self.is_collective[store.slices.name(*kernel).0 as usize]) {
            return mixed;
        }
        for kernel in kernels.iter().copied() {
            let Some(stream) = store.stream_of(kernel) else { continue };
            let of_compute = usize::from(!self.is_collective[store.slices.name(kernel).0 as usize]);
            let (start, dur) = (store.slices.ts(kernel), store.slices.dur(kernel));
            let ends = &mut ended[stream.row()];
            if ends[1 - of_compute] > start {
                mixed.entry(store.gpu_of(kernel)).or_default().insert(stream);
            }
            ends[of_compute] = ends[of_compute].max(start + dur);
        }
        mixed
    }

    /// The facts about kernels of this name, if they may be communication.
    pub(crate) fn may_communicate(&self, name: StringId) -> Option<&Possible> {
        let at = self.possible.binary_search_by_key(&name, |of| of.kernel);
        self.possible.get(at.ok()?)
    }

    /// Starts a sweep for the exposed times of kernels, in order of their starts.
    pub(crate) fn sweep<'a>(&'a self, store: &'a Store) -> Sweep<'a> {
        Sweep { activity: self, store, at: BTreeMap::new() }
    }
}

/// A sweep over the compute kernels of all GPUs in time order.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    activity: &'a GpuActivity,
    store: &'a Store,
    /// The position reached on each GPU: in what hides collectives, by stream if that matters, and in `several`.
    at: BTreeMap<(GpuId, Option<ThreadId>), (usize, usize)>,
}

impl Sweep<'_> {
    /// The time during which no other compute kernel overlaps a kernel. Kernels must be passed in order of their starts.
    pub(crate) fn exposed(&mut self, launched: &Launched) -> Ns {
        let (start, dur) = (self.store.slices.ts(launched.kernel), launched.gpu_time(self.store));
        let gpu = self.store.gpu_of(launched.kernel);
        let Some(device) = self.activity.of.get(&gpu) else { return dur };
        let is_mixed = |stream: &ThreadId| device.others.contains_key(stream);
        let stream =
            if device.others.is_empty() { None } else { self.store.stream_of(launched.kernel).filter(is_mixed) };
        let (in_compute, in_several) = self.at.entry((gpu, stream)).or_default();
        let name = self.store.slices.name(launched.kernel);
        let communicates =
            self.activity.is_collective[name.0 as usize] || self.activity.may_communicate(name).is_some();
        let (busy, from) = match communicates {
            true => (device.hides(stream), in_compute),
            false => (&device.several, in_several),
        };
        dur - busy.sweep(from, start, start + dur)
    }
}
