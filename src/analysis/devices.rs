//! What ran on each GPU when: the collectives, and the compute kernels that may hide them.
//!
//! A collective's time is **exposed** as far as no compute kernel runs on its GPU meanwhile, on whatever stream; the rest is
//! overlapped. Exposed time is what faster communication, or more overlap, could win. A GPU is a process of the trace: Kineto
//! writes the device's number where other events have their process.

use std::collections::BTreeMap;

use super::busy::Busy;
use super::launches::Launched;
use crate::store::Store;

/// All GPUs of a trace that ran kernels, by upid.
#[derive(Debug, Default)]
pub struct Devices(pub BTreeMap<u32, Device>);

/// What ran on a GPU.
#[derive(Debug, Default)]
pub struct Device {
    /// When compute kernels ran.
    pub compute: Busy,
    /// When collectives ran.
    pub collectives: Busy,
    /// When any kernel ran.
    pub any: Busy,
}

impl Devices {
    /// Of all kernels of a trace. `is_collective` says by name which are collectives; the others compute.
    pub fn new(store: &Store, is_collective: &[bool]) -> Self {
        let mut devices: BTreeMap<u32, Device> = BTreeMap::new();
        for kernel in store.kernels.iter().map(|kernel| *kernel as usize) {
            let device = devices.entry(store.process_of(kernel).unwrap_or(0)).or_default();
            let (ts, dur) = (store.slices.ts(kernel), store.slices.dur(kernel));
            let is_collective = is_collective[store.slices.name(kernel).0 as usize];
            // Slices are numbered in the order of their starts.
            if is_collective { &mut device.collectives } else { &mut device.compute }.push(ts, dur);
            device.any.push(ts, dur);
        }
        Devices(devices)
    }

    /// Asks for the exposed time of kernels in order of their starts.
    pub fn sweep<'a>(&'a self, store: &'a Store) -> Sweep<'a> {
        Sweep { devices: self, store, at: BTreeMap::new() }
    }
}

/// A way through the compute kernels of all GPUs.
#[derive(Debug)]
pub struct Sweep<'a> {
    devices: &'a Devices,
    store: &'a Store,
    /// How far it has come on each GPU.
    at: BTreeMap<u32, usize>,
}

impl Sweep<'_> {
    /// How many ns of a kernel no compute kernel overlaps. It starts no earlier than those asked for before.
    pub fn exposed(&mut self, launched: &Launched) -> i64 {
        let (start, dur) = (launched.kernel_ts, launched.kernel_dur.max(0));
        let process = self.store.process_of(launched.kernel as usize).unwrap_or(0);
        let Some(device) = self.devices.0.get(&process) else { return dur };
        dur - device.compute.sweep(self.at.entry(process).or_default(), start, start.saturating_add(dur))
    }
}
