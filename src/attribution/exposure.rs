//! What ran on each GPU when: the collectives, and the compute kernels that may hide them.
//!
//! A collective's time is **exposed** while no compute kernel runs on its GPU, on any stream; the rest is overlapped. Of a compute kernel,
//! if one is asked for, it is the time in which no other compute kernel runs. A GPU is a process of a trace: Kineto writes the device's
//! number where other events have their process.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::busy::Busy;
use super::launches::Launched;
use crate::id::{GpuId, SliceId};
use crate::store::Store;
use crate::time::Ns;

/// What ran on all GPUs of a trace.
#[derive(Debug, Default)]
pub(crate) struct GpuActivity {
    /// By GPU ([`Store::gpu_of`]).
    pub(crate) of: BTreeMap<GpuId, Activity>,
    /// By name: whether its kernels are collectives.
    pub(crate) is_collective: Arc<[bool]>,
}

/// What ran on a GPU.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// When compute kernels ran.
    pub(crate) compute: Busy,
    /// When two compute kernels ran, or more.
    pub(crate) several: Busy,
    /// When collectives ran.
    pub(crate) collectives: Busy,
}

impl GpuActivity {
    /// Of all kernels of a trace. `is_collective` says by name which are collectives; the others compute.
    pub(crate) fn new(store: &Store, is_collective: Vec<bool>) -> Self {
        GpuActivity::of(store, store.kernels.iter().copied(), is_collective.into())
    }

    /// Of some kernels, in the order of their starts.
    pub(crate) fn of(store: &Store, kernels: impl Iterator<Item = SliceId>, is_collective: Arc<[bool]>) -> Self {
        let mut of: BTreeMap<GpuId, Activity> = BTreeMap::new();
        for kernel in kernels {
            let device = of.entry(store.gpu_of(kernel)).or_default();
            let (ts, dur) = (store.slices.ts(kernel), store.slices.dur(kernel));
            // Slices are numbered in the order of their starts.
            if is_collective[store.slices.name(kernel).0 as usize] {
                device.collectives.push(ts, dur);
                continue;
            }
            if let Some(before) = device.compute.end().filter(|before| *before > ts) {
                device.several.push(ts, dur.min(before - ts));
            }
            device.compute.push(ts, dur);
        }
        GpuActivity { of, is_collective }
    }

    /// Asks for the exposed time of kernels in order of their starts.
    pub(crate) fn sweep<'a>(&'a self, store: &'a Store) -> Sweep<'a> {
        Sweep { activity: self, store, at: BTreeMap::new() }
    }
}

/// A sweep over the compute kernels of all GPUs in the order of time.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    activity: &'a GpuActivity,
    store: &'a Store,
    /// How far it has come on each GPU: in `compute` and in `several`.
    at: BTreeMap<GpuId, (usize, usize)>,
}

impl Sweep<'_> {
    /// How long no other compute kernel overlaps a kernel. Kernels must be asked for in the order of their starts.
    pub(crate) fn exposed(&mut self, launched: &Launched) -> Ns {
        let (start, dur) = (self.store.slices.ts(launched.kernel), launched.gpu_time(self.store));
        let gpu = self.store.gpu_of(launched.kernel);
        let Some(device) = self.activity.of.get(&gpu) else { return dur };
        let (in_compute, in_several) = self.at.entry(gpu).or_default();
        let name = self.store.slices.name(launched.kernel);
        let (busy, from) = match self.activity.is_collective[name.0 as usize] {
            true => (&device.compute, in_compute),
            false => (&device.several, in_several),
        };
        dur - busy.sweep(from, start, start + dur)
    }
}
