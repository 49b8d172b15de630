//! What the profiler recorded about memory: totals and peaks of each device, peaks by step, and which code holds most at the peak.

pub mod device;
mod events;
mod peaks;
pub mod steps;

use serde::Serialize;

use super::gpu_spans::within_trace;
use super::losses::Losses;
use super::malformed::Malformed;
use crate::attribution::call_tree::{CallTree, Climber};
use crate::attribution::forward::Forwards;
use crate::store::Store;
use crate::time::{Ns, Window};
use device::{Held, Peak, Stacks, Totals};
use events::{DeviceKey, Event, Events};
use steps::{StepPeak, Steps};

/// All memory events in a window.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryReport {
    /// When the window begins.
    #[serde(rename = "start_ns")]
    pub start: Ns,
    /// The number of events.
    pub events: u64,
    /// The number of events without an address or size; no sum includes them.
    pub incomplete: u64,
    /// The devices, most allocated bytes first.
    pub devices: Vec<DeviceMemory>,
    /// Values of an unexpected form.
    pub malformed: Vec<Malformed>,
    /// What is wrong with the trace.
    pub damage: Losses,
}

/// The memory of a device as used by one process.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// The name of the trace in its archive, or among several files; `None` if it is the only one.
    pub trace: Option<String>,
    /// The pid.
    pub pid: Option<i64>,
    /// PyTorch's number for the kind of device.
    pub device_type: Option<i64>,
    /// The index among devices of this kind; -1 for the CPU.
    pub device_id: Option<i64>,
    /// Kind and index in words.
    pub name: String,
    /// Sums over the events.
    #[serde(flatten)]
    pub totals: Totals,
    /// The largest `Total Allocated`.
    pub peak_allocated: Option<Peak>,
    /// The largest `Total Reserved`.
    pub peak_reserved: Option<Peak>,
    /// The memory in use at the peak of `Total Allocated`; without totals, at the peak by sizes.
    pub held: Held,
    /// The peaks by step.
    pub steps: Vec<StepPeak>,
}

/// PyTorch's kinds of devices by number (`c10/core/DeviceType.h`).
const KINDS: [&str; 21] = [
    "CPU",
    "CUDA",
    "MKLDNN",
    "OPENGL",
    "OPENCL",
    "IDEEP",
    "HIP",
    "FPGA",
    "MAIA",
    "XLA",
    "VULKAN",
    "METAL",
    "XPU",
    "MPS",
    "META",
    "HPU",
    "VE",
    "LAZY",
    "IPU",
    "MTIA",
    "PRIVATEUSE1",
];

fn name(kind: Option<i64>, device: Option<i64>) -> String {
    let kind = match kind {
        None => "device of unknown kind".to_owned(),
        Some(number) => match usize::try_from(number).ok().and_then(|number| KINDS.get(number)) {
            Some(known) => (*known).to_owned(),
            None => format!("device of kind {number}"),
        },
    };
    match device {
        None | Some(-1) => kind,
        Some(device) => format!("{kind} {device}"),
    }
}

/// Reads the memory events in a window. The trace must have been loaded with [`ArgsWanted::MEMORY`](crate::event::ArgsWanted::MEMORY). At most
/// `limit` call paths are listed for each device.
pub fn memory_report(store: &Store, window: Window, limit: usize) -> MemoryReport {
    let events = Events::read(store, window);
    let steps = Steps::find(store, window);
    let (climber, forwards) = (Climber::new(store, false), Forwards::new(store));
    let mut stacks = Stacks { tree: CallTree::default(), climber, forwards };
    let mut devices: Vec<DeviceMemory> =
        events.of.iter().map(|(key, events)| device_memory(store, *key, events, &steps, &mut stacks, limit)).collect();
    devices.sort_by_key(|device| std::cmp::Reverse(device.totals.allocated_bytes));
    MemoryReport {
        start: within_trace(store, window).start,
        events: events.count,
        incomplete: events.incomplete,
        devices,
        malformed: events.malformed,
        damage: Losses::count(store),
    }
}

fn device_memory(
    store: &Store,
    (process, device_type, device_id): DeviceKey,
    events: &[Event],
    steps: &Steps,
    stacks: &mut Stacks<'_>,
    limit: usize,
) -> DeviceMemory {
    let trace = events.first().and_then(|event| store.traces.get(store.trace_of(event.slice).row()));
    DeviceMemory {
        trace: trace.and_then(|trace| trace.name.clone()),
        pid: process.map(|process| store.tracks.process(process).pid),
        device_type,
        device_id,
        name: name(device_type, device_id),
        totals: device::totals(events),
        peak_allocated: device::peak(events, |event| event.allocated).map(|(_, peak)| peak),
        peak_reserved: device::peak(events, |event| event.reserved).map(|(_, peak)| peak),
        held: device::held(events, stacks, limit),
        steps: steps.peaks(store, process, events),
    }
}
