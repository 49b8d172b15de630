//! One or more traces in memory: columns of slices and flows, interned strings, argument sets, threads and tracks.
//!
//! A [`batch::Shard`] collects the events of one reading thread. [`Builder`] takes the batches in file order, and [`Builder::finish`] processes them
//! in time order, nests slices and binds flows. The result is a [`Store`]: read-only, in id order, shared by all its readers.

pub mod args;
#[doc(hidden)]
pub mod batch;
mod builder;
mod copies;
mod extent;
pub mod flows;
pub mod ids;
pub mod max_tree;
mod nest;
mod order;
mod raw;
pub mod slices;
mod stages;
pub mod strings;
mod survived;
pub mod traces;
pub mod tracks;

#[doc(hidden)]
pub use builder::Builder;

use std::collections::BTreeSet;
use std::num::NonZero;

use crate::damage::{Damage, DamageReport};
use crate::event::ArgValue;
use crate::id::{GpuId, ProcessId, SliceId, ThreadId, TrackId};
use crate::names::args::{in_annotations, in_table};
use crate::names::category::CategoryKind;
use crate::names::families::may_be_of_any;
use crate::names::ranks::rank_of_file;
use crate::time::Window;
use args::{ArgSetId, Args};
use flows::Flows;
use slices::Slices;
use strings::{StringId, Strings};
use traces::{Field, Trace};
use tracks::{Owner, Tracks};

/// One whole trace, or all traces of an archive, ready for queries.
#[derive(Debug)]
pub struct Store {
    pub slices: Slices,
    pub flows: Flows,
    pub strings: Strings,
    pub args: Args,
    pub tracks: Tracks,
    /// The traces, by [`TraceId`](crate::id::TraceId).
    pub traces: Vec<Trace>,
    /// The fields of their headers, flattened.
    pub header: Vec<Field>,
    /// The fields of the headers' `metadata` objects and the attributes in Perfetto's protobuf, under Perfetto's names.
    pub metadata: Vec<Field>,
    /// The damage of all traces and of their archive.
    pub damage: DamageReport,
    pub events: u64,
    /// The distinct names of slices, by id.
    pub names: Vec<Name>,
    /// Kernels, and the copies that carry out collectives, in id order.
    pub kernels: Vec<SliceId>,
    /// Calls into a runtime or driver, in id order.
    pub runtime_calls: Vec<SliceId>,
    /// Slices on lanes ([`Owner::Lane`]) instead of their thread's track, in id order.
    pub spilled: Vec<SliceId>,
    /// The first slice of each track. Tracks after the last one with slices are missing: flow events alone make tracks too.
    pub first_slices: Vec<Option<SliceId>>,
    /// How many threads a question may use: as many as loaded the traces.
    pub threads: NonZero<usize>,
    /// Byte offsets of events in the text, if the load keeps them.
    pub offsets: EventOffsets,
    /// From the first start to the last end of all slices. A trace of a single instant ends 1 ns after it.
    pub bounds: Window,
    /// The span of all kernels and of the slices with a length on GPUs and on the threads that launch: the denominator of shares. Instants are excluded, because Kineto
    /// writes one at the end of its recording buffer (`Record Window End`), long after the last event, and so is what other threads do, such as the profiler's own
    /// start. A trace without kernels has the span of all slices with a length, one of instants only its bounds.
    pub span: Window,
    /// The tracks that belong to threads, by id.
    pub thread_tracks: Vec<TrackId>,
    /// The tracks that belong to processes, by id.
    pub process_tracks: Vec<TrackId>,
    /// By track.
    gpus: Vec<GpuId>,
    /// The kind of each text as a category, by [`StringId`].
    category_kinds: Vec<CategoryKind>,
    /// The arguments of flows: one set per pair of name and category.
    flow_args: Vec<((StringId, StringId), ArgSetId)>,
}

/// Byte offsets in the text of events other than slices, for code that copies events. They are known during nesting only.
#[derive(Debug, Default)]
pub struct EventOffsets {
    /// Slices closed by an event, and the byte offset of that event.
    pub ends: Vec<(SliceId, u64)>,
    /// The ends of flows that were bound to slices.
    pub flows: Vec<FlowEnd>,
}

/// One end of a flow, or a step between its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    /// The byte offset of its event in the text.
    pub offset: u64,
    /// The flow's number: `flow.trace_id` in SQL.
    pub flow: u64,
    pub slice: SliceId,
    /// Whether the flow leaves that slice.
    pub is_start: bool,
}

/// A slice name, and the kinds of slices that have it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Name {
    pub id: StringId,
    /// Whether a kernel has it, or a copy that carries out a collective.
    pub of_kernel: bool,
    pub of_cpu: bool,
    /// Whether GPU work other than kernels has it.
    pub of_gpu: bool,
    /// Whether kernels have it that may be of a [family](crate::names::families): asked once, because names may be long.
    pub may_be_of_family: bool,
}

impl Store {
    fn find_names_of_families(&mut self) {
        for name in self.names.iter_mut().filter(|name| name.of_kernel) {
            name.may_be_of_family = may_be_of_any(self.strings.get(name.id).unwrap_or_default());
        }
    }

    /// The argument set of a flow: its name and category. [`ArgSetId::NONE`] if it has neither.
    pub fn flow_args(&self, flow: usize) -> ArgSetId {
        let label = self.flows.label.get(flow).copied().unwrap_or_default();
        self.flow_args.iter().find(|(known, _)| *known == label).map_or(ArgSetId::NONE, |(_, set)| *set)
    }

    /// A slice's name; empty if it has none.
    pub fn slice_name(&self, slice: SliceId) -> &str {
        self.strings.get(self.slices.name(slice)).unwrap_or_default()
    }

    /// The thread of a slice, on the thread's own track or on one of its lanes. `None` if the track has no thread.
    pub fn thread_of(&self, slice: SliceId) -> Option<ThreadId> {
        self.tracks.thread_of(self.slices.track(slice))
    }

    /// The process of this thread, or of the track if the trace describes it.
    pub fn process_of(&self, slice: SliceId) -> Option<ProcessId> {
        self.process_of_track(self.slices.track(slice))
    }

    fn process_of_track(&self, track: TrackId) -> Option<ProcessId> {
        if let Some(thread) = self.tracks.thread_of(track) {
            return Some(self.tracks.thread(thread).upid);
        }
        match self.tracks.track(track).owner {
            Owner::Process(upid) | Owner::UnderProcess(upid) => Some(upid),
            _ => None,
        }
    }

    /// The processes that call the runtime, in the order of the file.
    pub fn calling_processes(&self) -> BTreeSet<ProcessId> {
        let mut is_caller = vec![false; self.tracks.tracks.len()];
        self.runtime_calls.iter().for_each(|call| is_caller[self.slices.track(*call).row()] = true);
        let tracks = (0..self.tracks.tracks.len()).filter(|track| is_caller[*track]).map(TrackId::of_row);
        tracks.filter_map(|track| Some(self.tracks.thread(self.tracks.thread_of(track)?).upid)).collect()
    }

    /// The rank in the name of a process or GPU, or in the text that the trace has for its number: `RANK 3 - GPU`, `[TP03] 4711`.
    pub fn rank_in_name(&self, process: ProcessId) -> Option<u32> {
        let process = self.tracks.process(process);
        let names = [Some(process.name), self.tracks.text_of(process.pid)].into_iter().flatten();
        names.filter_map(|name| rank_of_file(self.strings.get(name)?)).next()
    }

    /// The argument key of a name as the profiler writes it (the format determines the prefix); `None` if the trace does not have it.
    pub fn arg_key(&self, name: &str) -> Option<StringId> {
        self.strings.find(&in_table(name)).or_else(|| self.strings.find(&in_annotations(name)))
    }

    /// An argument of a set as a whole number, which may be written as text ([`ArgValue::whole`](crate::event::ArgValue::whole)).
    pub fn whole_arg(&self, set: ArgSetId, key: StringId) -> Option<i64> {
        self.args.get(set, key)?.whole(|text| self.strings.get(*text))
    }

    /// An argument of a set that is text.
    pub fn text_arg(&self, set: ArgSetId, key: StringId) -> Option<&str> {
        match self.args.get(set, key)? {
            ArgValue::Text(id) => self.strings.get(id),
            _ => None,
        }
    }

    /// Whether all slices were left out, because their times are negative.
    pub fn is_before_zero(&self) -> bool {
        self.slices.is_empty() && self.damage.get(Damage::NegativeTimestamp).count > 0
    }

    /// How many slices were left out because their times cannot be true.
    pub fn without_time(&self) -> u64 {
        self.damage.get(Damage::TimeAlone).count
    }

    pub fn has_python(&self) -> bool {
        self.category_kinds.contains(&CategoryKind::Frame)
    }

    pub fn category_kind(&self, slice: SliceId) -> CategoryKind {
        self.category_kinds.get(self.slices.category(slice).0 as usize).copied().unwrap_or(CategoryKind::Cpu)
    }
}
