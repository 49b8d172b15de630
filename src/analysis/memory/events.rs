//! Reads the memory events in a window and groups them by device.

use std::collections::BTreeMap;

use crate::analysis::malformed::{Malformed, MalformedValues};
use crate::id::{ProcessId, SliceId};
use crate::names::args;
use crate::recorded_args::{MemoryKeys, Recorded};
use crate::store::Store;
use crate::time::{Ns, Window};

/// An allocation or a release.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) slice: SliceId,
    pub(super) at: Ns,
    pub(super) address: u64,
    /// Negative for a release.
    pub(super) bytes: i64,
    pub(super) allocated: Option<i64>,
    pub(super) reserved: Option<i64>,
}

/// A device: the allocating process, the kind of device and its number. Each process has its own addresses.
pub(super) type DeviceKey = (Option<ProcessId>, Option<i64>, Option<i64>);

/// All events in a window.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The number of events, including incomplete ones.
    pub(super) count: u64,
    /// Events without an address or size.
    pub(super) incomplete: u64,
    pub(super) malformed: Vec<Malformed>,
    /// In order of time.
    pub(super) of: BTreeMap<DeviceKey, Vec<Event>>,
}

impl Events {
    pub(super) fn read(store: &Store, window: Window) -> Self {
        let keys = MemoryKeys::new(store);
        let (mut events, mut malformed) = (Events::default(), MalformedValues::default());
        for slice in keys.events(store) {
            let at = store.slices.ts(slice);
            if !window.contains(at) {
                continue;
            }
            events.count += 1;
            let mut known = |key, value| match value {
                Recorded::Known(number) => Some(number),
                Recorded::Missing => None,
                Recorded::Malformed(text) => {
                    malformed.add(key, &text);
                    None
                }
            };
            let bytes = known(args::MEMORY_BYTES, keys.bytes(store, slice));
            let allocated = known(args::MEMORY_ALLOCATED, keys.allocated(store, slice));
            let reserved = known(args::MEMORY_RESERVED, keys.reserved(store, slice));
            let kind = known(args::MEMORY_DEVICE_TYPE, keys.device_type(store, slice));
            let device = known(args::MEMORY_DEVICE, keys.device(store, slice));
            let address = match keys.address(store, slice) {
                Recorded::Known(address) => Some(address),
                Recorded::Missing => None,
                Recorded::Malformed(text) => {
                    malformed.add(args::MEMORY_ADDRESS, &text);
                    None
                }
            };
            let (Some(bytes), Some(address)) = (bytes, address) else {
                events.incomplete += 1;
                continue;
            };
            let key = (store.process_of(slice), kind, device);
            events.of.entry(key).or_default().push(Event { slice, at, address, bytes, allocated, reserved });
        }
        events.malformed = malformed.found();
        events
    }
}
