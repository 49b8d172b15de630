//! The traces of a store.
//!
//! Usually there is one. An archive, or several files, may hold the traces of all ranks of a job, which are queried together. Each trace numbers
//! its processes, threads, streams and ids itself, so code that uses an id from the file also needs its trace ([`Store::trace_of`]). Processes,
//! threads and tracks have rows of their own by trace. SQL shows the trace as `machine_id`, as Perfetto does. All traces share one time axis,
//! because the only common clock is the time of day that profilers write.

use std::collections::BTreeSet;

use super::Store;
use super::extent::{Counted, Extent};
use super::strings::StringId;
use super::tracks::Owner;
use crate::damage::DamageReport;
use crate::event::producers::Producer;
use crate::event::{ArgValue, Format, HeaderField};
use crate::id::{GpuId, ProcessId, SliceId, TraceId, TrackId};
use crate::names::ranks::host_of_file;
use crate::time::{Ns, Window};

/// One trace of a store. Its [`TraceId`] is its index in [`Store::traces`].
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Its name in its archive; `None` for a trace in its own file. If several inputs were loaded: the path of the file, as below.
    pub name: Option<String>,
    /// The path of the file, for an archive followed by the path inside it. Messages show it, and the trace's rank may be in it.
    pub file: String,
    /// The index of its file in its archive, in reading order.
    pub place: usize,
    /// The format of that file after decompression; `None` if it was not read from a file.
    pub format: Option<&'static Format>,
    /// The program that wrote it, if that is one of [`crate::event::producers::PRODUCERS`].
    pub producer: Option<&'static Producer>,
    pub events: u64,
    /// The length of its (decompressed) text in bytes.
    pub text_bytes: u64,
    /// For a truncated trace: the longest stretch of time in which consecutive kernels survived. What is missing from the rest of its span is
    /// unknown. `None` also if no kernel survived.
    pub survived: Option<Window>,
    pub damage: DamageReport,
}

/// A field of a trace's header, which is everything beside the events.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub trace: TraceId,
    /// The path of the value: `distributedInfo.rank`, `deviceProperties[0].name`.
    pub key: String,
    pub value: ArgValue<String>,
}

impl Field {
    pub(super) fn from_header(trace: TraceId, header: Vec<HeaderField>) -> impl Iterator<Item = Field> {
        header.into_iter().map(move |HeaderField { key, value }| Field { trace, key, value })
    }

    /// The same field under Perfetto's name, if it is in the header's `metadata` object or an attribute in Perfetto's protobuf; otherwise `None`.
    pub(super) fn metadata(&self) -> Option<Field> {
        if self.key.starts_with("trace_attribute.") {
            return Some(self.clone());
        }
        let key = self.key.strip_prefix("metadata.")?;
        Some(Field { key: format!("json_metadata.{key}"), ..self.clone() })
    }
}

impl Store {
    /// The host on which a trace was recorded, by its header or the name of its file.
    pub fn host_of<'s>(&'s self, trace: TraceId) -> Option<&'s str> {
        let of_key = |key: &str| self.header.iter().find(|of| of.trace == trace && of.key == key).map(|of| &of.value);
        let text =
            |value: &'s ArgValue<String>| if let ArgValue::Text(text) = value { Some(text.as_str()) } else { None };
        let rank = match of_key("distributedInfo.rank") {
            Some(ArgValue::Int(rank)) => Some(*rank),
            _ => None,
        };
        let of_header = ["host_name", "hostname"].into_iter().find_map(|key| text(of_key(key)?));
        let of_file = || host_of_file(&self.traces.get(trace.row())?.file, rank);
        of_header.filter(|host| !host.is_empty()).or_else(of_file)
    }

    #[inline]
    pub fn trace_of(&self, slice: SliceId) -> TraceId {
        if self.traces.len() < 2 {
            return TraceId(0);
        }
        self.tracks.track(self.slices.track(slice)).trace
    }

    /// From first start to last end of each trace's slices; `None` if it has no slices.
    pub fn spans(&self) -> Vec<Option<Window>> {
        let mut spans: Vec<Option<Window>> = vec![None; self.traces.len()];
        for slice in self.slices.ids() {
            let ts = self.slices.ts(slice);
            let span = spans[self.trace_of(slice).row()].get_or_insert(Window { start: ts, end: ts });
            span.end = span.end.max(ts + self.slices.dur(slice).max(Ns::ZERO));
        }
        spans
    }

    /// Each trace's own [`Store::span`].
    pub fn trace_spans(&self) -> Vec<Window> {
        if self.traces.len() < 2 {
            return vec![self.span];
        }
        let mut extents = vec![Extent::default(); self.traces.len()];
        let counted = Counted::find(&self.tracks, &self.slices, &self.kernels, &self.runtime_calls);
        for slice in self.slices.ids() {
            let counts = counted.counts(self.category_kind(slice), self.slices.track(slice));
            extents[self.trace_of(slice).row()].add(self.slices.ts(slice), self.slices.dur(slice), counts);
        }
        for kernel in &self.kernels {
            extents[self.trace_of(*kernel).row()].add_kernel(self.slices.ts(*kernel));
        }
        extents.iter().map(Extent::span).collect()
    }

    /// The traces whose times are probably nanoseconds, as in the output of XSigma's XPlane exporter: `displayTimeUnit` is `ns`, and everything
    /// that Kineto always writes is missing (Kineto writes microseconds whatever that field says): `schemaVersion`, `deviceProperties`, and slices
    /// with a category.
    pub fn in_nanoseconds(&self) -> Vec<TraceId> {
        let is_of_kineto =
            |field: &&Field| matches!(field.key.split('[').next(), Some("schemaVersion" | "deviceProperties"));
        let of_kineto: Vec<TraceId> = self.header.iter().filter(is_of_kineto).map(|field| field.trace).collect();
        let says_so = |field: &&Field| {
            field.key == "displayTimeUnit" && matches!(&field.value, ArgValue::Text(unit) if unit == "ns")
        };
        let mut traces: Vec<TraceId> = self.header.iter().filter(says_so).map(|field| field.trace).collect();
        traces.dedup();
        traces.retain(|trace| !of_kineto.contains(trace));
        // Other traces stop here, before their slices are searched.
        let mut slices = self.slices.ids();
        while !traces.is_empty()
            && let Some(slice) = slices.next()
        {
            if self.slices.category(slice) != StringId::NULL {
                let trace = self.trace_of(slice);
                traces.retain(|other| *other != trace);
            }
        }
        traces
    }

    pub fn damage_of(&self, trace: TraceId) -> &DamageReport {
        self.traces.get(trace.row()).map_or(&self.damage, |trace| &trace.damage)
    }

    /// The GPU on which a slice ran: its trace, and its process in that trace.
    pub fn gpu_of(&self, slice: SliceId) -> GpuId {
        self.gpus[self.slices.track(slice).row()]
    }

    /// Finds the GPU of each track. Asynchronous events have ids of their own, so that their tracks may belong to no process: they are on the only
    /// GPU of their trace, if it has only one.
    pub(super) fn find_gpus(&mut self) {
        let mut only: Vec<BTreeSet<ProcessId>> = vec![BTreeSet::new(); self.traces.len()];
        if self.tracks.tracks.iter().any(|track| track.owner == Owner::Operation(None)) {
            for kernel in &self.kernels {
                only[self.trace_of(*kernel).row()].extend(self.process_of(*kernel));
            }
        }
        let gpu = |track: TrackId| {
            let trace = if self.traces.len() < 2 { TraceId(0) } else { self.tracks.track(track).trace };
            let only = || only.get(trace.row()).and_then(|of| of.first().copied().filter(|_| of.len() == 1));
            GpuId { trace, process: self.process_of_track(track).or_else(only).unwrap_or_default() }
        };
        self.gpus = (0..self.tracks.tracks.len()).map(|row| gpu(TrackId::of_row(row))).collect();
    }
}
