//! The traces that a store is made of.
//!
//! Mostly that is one. An archive may hold the traces of all ranks of a job, which are asked about together. Each of them is a
//! machine of its own: processes, threads, streams and all ids in a trace are numbered without regard to the others, so that
//! what has equal numbers in two traces has nothing to do with each other. Processes, threads and tracks have rows of their own for
//! each machine, which keeps apart all that is known by them; who looks for an id of the file asks for its machine, too
//! ([`Store::trace_of`]). Time is one for all: a profiler writes the time of day, and nothing better is known.

use super::Store;
use crate::damage::DamageReport;
use crate::event::{ArgValue, HeaderField};
use crate::id::{GpuId, SliceId, TraceId};

/// One trace of a store. Its machine's number is its place in [`Store::traces`].
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// What it is called in its archive; `None` if it is a file of its own.
    pub name: Option<String>,
    /// The path of the file, for an archive with the path in it: what messages call the trace, and what may name its rank.
    pub file: String,
    /// Which of the archive's files it is, in the order in which they are read.
    pub place: usize,
    /// How many events were read.
    pub events: u64,
    /// How many bytes of (decompressed) text it has.
    pub text_bytes: u64,
    /// Which share of its file could not be decompressed, 0 to 1.
    pub unread: f64,
    /// What was wrong with it.
    pub damage: DamageReport,
}

/// What stands beside the events of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The machine of the trace.
    pub trace: TraceId,
    /// The path of the value: `distributedInfo.rank`, `deviceProperties[0].name`.
    pub key: String,
    /// The value.
    pub value: ArgValue<String>,
}

impl Field {
    /// The fields of a header as the trace with this number has them.
    pub(super) fn of(trace: TraceId, header: Vec<HeaderField>) -> impl Iterator<Item = Field> {
        header.into_iter().map(move |HeaderField { key, value }| Field { trace, key, value })
    }

    /// A field of the header's `metadata` object, or an attribute of Perfetto's protobuf, under the name that Perfetto gives it, if
    /// it is one.
    pub(super) fn metadata(&self) -> Option<Field> {
        if self.key.starts_with("trace_attribute.") {
            return Some(self.clone());
        }
        let key = self.key.strip_prefix("metadata.")?;
        Some(Field { key: format!("json_metadata.{key}"), ..self.clone() })
    }
}

impl Store {
    /// The machine, which is the trace, to which a slice belongs.
    #[inline]
    pub fn trace_of(&self, slice: SliceId) -> TraceId {
        if self.traces.len() < 2 {
            return TraceId(0);
        }
        self.tracks.track(self.slices.track(slice)).trace
    }

    /// By machine: first start and last end of its slices, in ns; `None` if it has none.
    pub fn spans(&self) -> Vec<Option<(i64, i64)>> {
        let mut spans: Vec<Option<(i64, i64)>> = vec![None; self.traces.len()];
        for slice in self.slices.ids() {
            let ts = self.slices.ts(slice);
            let span = spans[self.trace_of(slice).row()].get_or_insert((ts, ts));
            span.1 = span.1.max(ts + self.slices.dur(slice).max(0));
        }
        spans
    }

    /// What was wrong with the trace of a machine.
    pub fn damage_of(&self, trace: TraceId) -> &DamageReport {
        self.traces.get(trace.row()).map_or(&self.damage, |trace| &trace.damage)
    }

    /// The GPU on which a slice ran: its machine, and its process there.
    pub fn gpu_of(&self, slice: SliceId) -> GpuId {
        GpuId { trace: self.trace_of(slice), process: self.process_of(slice).unwrap_or_default() }
    }
}
