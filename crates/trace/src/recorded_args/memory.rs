//! The profiler's record of each allocation and release of memory (`profile_memory=True`): instants named `[memory]`.
//!
//! PyTorch's caching allocator reports them (`reportMemoryUsageToProfiler` in `c10/core/Allocator.h`).

use std::num::ParseIntError;

use super::operators::Recorded;
use crate::event::ArgValue;
use crate::id::SliceId;
use crate::names::args;
use crate::store::Store;
use crate::store::strings::StringId;

/// Reads these instants. Keys are looked up once per trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryKeys {
    name: Option<StringId>,
    address: Option<StringId>,
    bytes: Option<StringId>,
    allocated: Option<StringId>,
    reserved: Option<StringId>,
    device_type: Option<StringId>,
    device: Option<StringId>,
}

impl MemoryKeys {
    pub fn new(store: &Store) -> Self {
        MemoryKeys {
            name: store.strings.find(args::MEMORY),
            address: store.arg_key(args::MEMORY_ADDRESS),
            bytes: store.arg_key(args::MEMORY_BYTES),
            allocated: store.arg_key(args::MEMORY_ALLOCATED),
            reserved: store.arg_key(args::MEMORY_RESERVED),
            device_type: store.arg_key(args::MEMORY_DEVICE_TYPE),
            device: store.arg_key(args::MEMORY_DEVICE),
        }
    }

    /// The instants, in order.
    pub fn events(self, store: &Store) -> Vec<SliceId> {
        let Some(name) = self.name else { return Vec::new() };
        store.slices.ids().filter(|slice| store.slices.name(*slice) == name).collect()
    }

    pub fn address(self, store: &Store, event: SliceId) -> Recorded<u64> {
        // The profiler writes a signed number.
        number(store, event, self.address, |text| {
            text.parse().or_else(|_| text.parse().map(|number: i64| number as u64))
        })
    }

    /// The number of bytes allocated; negative if they were released.
    pub fn bytes(self, store: &Store, event: SliceId) -> Recorded<i64> {
        number(store, event, self.bytes, str::parse)
    }

    /// The number of bytes in use on the device afterwards.
    pub fn allocated(self, store: &Store, event: SliceId) -> Recorded<i64> {
        number(store, event, self.allocated, str::parse)
    }

    /// The number of bytes that the allocator holds on the device afterwards.
    pub fn reserved(self, store: &Store, event: SliceId) -> Recorded<i64> {
        number(store, event, self.reserved, str::parse)
    }

    /// The kind of the device, by PyTorch's number.
    pub fn device_type(self, store: &Store, event: SliceId) -> Recorded<i64> {
        number(store, event, self.device_type, str::parse)
    }

    /// The index of the device in its kind; -1 for the CPU.
    pub fn device(self, store: &Store, event: SliceId) -> Recorded<i64> {
        number(store, event, self.device, str::parse)
    }
}

/// PyTorch's kinds of devices by number (`c10/core/DeviceType.h`).
const KINDS: &str = "CPU CUDA MKLDNN OPENGL OPENCL IDEEP HIP FPGA MAIA XLA VULKAN METAL \
                     XPU MPS META HPU VE LAZY IPU MTIA PRIVATEUSE1";

/// A device in words, by its kind and its index: `CUDA 0`.
pub fn device_name(kind: Option<i64>, device: Option<i64>) -> String {
    let kind = match kind {
        None => "device of unknown kind".to_owned(),
        Some(number) => match usize::try_from(number).ok().and_then(|number| KINDS.split(' ').nth(number)) {
            Some(known) => known.to_owned(),
            None => format!("device of kind {number}"),
        },
    };
    match device {
        None | Some(-1) => kind,
        Some(device) => format!("{kind} {device}"),
    }
}

/// A whole number, which may be written as text.
fn number<T>(
    store: &Store,
    event: SliceId,
    key: Option<StringId>,
    parse: impl Fn(&str) -> Result<T, ParseIntError>,
) -> Recorded<T> {
    let Some(value) = key.and_then(|key| store.args.get(store.slices.args(event), key)) else {
        return Recorded::Missing;
    };
    let text = match value {
        ArgValue::Int(number) => number.to_string(),
        ArgValue::Real(number) => number.to_string(),
        ArgValue::Bool(is) => is.to_string(),
        ArgValue::Text(text) => store.strings.get(text).unwrap_or_default().to_owned(),
    };
    parse(text.trim()).map_or_else(|_| Recorded::Malformed(text.clone()), Recorded::Known)
}
