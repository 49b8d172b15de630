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
#[derive(Debug)]
pub struct MemoryKeys {
    name: Option<StringId>,
    /// By the place in [`args::OF_MEMORY`].
    keys: Vec<Option<StringId>>,
}

impl MemoryKeys {
    pub fn new(store: &Store) -> Self {
        let keys = args::OF_MEMORY.iter().map(|key| store.arg_key(key)).collect();
        MemoryKeys { name: store.strings.find(args::MEMORY), keys }
    }

    /// The instants, in order.
    pub fn events(&self, store: &Store) -> Vec<SliceId> {
        let Some(name) = self.name else { return Vec::new() };
        store.slices.ids().filter(|slice| store.slices.name(*slice) == name).collect()
    }

    pub fn address(&self, store: &Store, event: SliceId) -> Recorded<u64> {
        // The profiler writes a signed number.
        self.parsed(store, event, args::MEMORY_ADDRESS, |text| {
            text.parse().or_else(|_| text.parse().map(|number: i64| number as u64))
        })
    }

    /// The number under a key, one of [`args::OF_MEMORY`]; it may be written as text.
    pub fn number(&self, store: &Store, event: SliceId, key: &str) -> Recorded<i64> {
        self.parsed(store, event, key, str::parse)
    }

    fn parsed<T>(
        &self,
        store: &Store,
        event: SliceId,
        key: &str,
        parse: impl Fn(&str) -> Result<T, ParseIntError>,
    ) -> Recorded<T> {
        let key = args::OF_MEMORY.iter().position(|known| *known == key).and_then(|at| self.keys[at]);
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
