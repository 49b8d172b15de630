//! The ids of slices ([`EventIds`]): packed into columns, and read by name.
//!
//! Every slice has two numbers, and a few have more, so the ids of most take eight bytes. Only `pack` and `unpack` know what they mean.

use super::Store;
use super::strings::StringId;
use crate::event::ids::{EventIds, PythonCaller};
use crate::id::{SliceId, ThreadId, TraceId};
use crate::names::category::CategoryKind;

/// The ids of an event as stored in the columns. 0 means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PackedIds {
    /// GPU work and calls: the correlation id. Python functions: the Python id. Operators: the External id.
    pub(super) first: i64,
    /// GPU work: the External id. Python functions: the caller's number plus 1, or 1 if there is no caller. Operators: the sequence
    /// number plus 1.
    pub(super) second: i64,
    /// GPU work: the ids of its graph and of its node in it, and the stream plus 1. Operators: the thread of the forward pass.
    pub(super) rare: [i64; 3],
}

impl PackedIds {
    #[inline]
    pub(super) fn pack(ids: EventIds) -> Self {
        match ids {
            EventIds::Gpu { correlation, external_id, graph_id, graph_node_id, stream } => {
                let rare = [graph_id, graph_node_id, plus_one(stream)];
                PackedIds { first: correlation, second: external_id, rare }
            }
            EventIds::Call { correlation } => PackedIds { first: correlation, ..PackedIds::default() },
            EventIds::Operator { external_id, sequence_number, forward_thread } => {
                PackedIds { first: external_id, second: plus_one(sequence_number), rare: [forward_thread, 0, 0] }
            }
            EventIds::Python { python_id, python_caller } => {
                let second = match python_caller {
                    PythonCaller::Unknown => 0,
                    PythonCaller::Nobody => 1,
                    PythonCaller::Frame(number) => number.saturating_add(1),
                };
                PackedIds { first: python_id, second, ..PackedIds::default() }
            }
        }
    }

    /// `kind` is the kind of the slice's category; [`CategoryKind::Runtime`] without a category.
    #[inline]
    pub(super) fn unpack(self, kind: CategoryKind) -> EventIds {
        let PackedIds { first, second, rare } = self;
        let minus_one = |number: i64| (number != 0).then(|| number - 1);
        match kind {
            CategoryKind::Kernel | CategoryKind::Gpu => {
                let [graph_id, graph_node_id, stream] = rare;
                let stream = minus_one(stream);
                EventIds::Gpu { correlation: first, external_id: second, graph_id, graph_node_id, stream }
            }
            CategoryKind::Runtime => EventIds::Call { correlation: first },
            CategoryKind::Cpu => {
                EventIds::Operator { external_id: first, sequence_number: minus_one(second), forward_thread: rare[0] }
            }
            CategoryKind::Frame => {
                let python_caller = match second {
                    0 => PythonCaller::Unknown,
                    1 => PythonCaller::Nobody,
                    more => PythonCaller::Frame(more - 1),
                };
                EventIds::Python { python_id: first, python_caller }
            }
        }
    }
}

/// 0 is none.
fn plus_one(number: Option<i64>) -> i64 {
    number.map_or(0, |number| number.saturating_add(1))
}

/// The numbers that autograd gives to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autograd {
    /// The sequence number, which an operator of the backward pass shares with its operator of the forward pass.
    pub sequence: i64,
    /// The thread of the forward pass in PyTorch's own numbering; 0 for operators of the forward pass itself.
    pub forward_thread: i64,
}

impl Store {
    pub fn ids(&self, slice: SliceId) -> EventIds {
        self.slices.packed_ids(slice).unpack(self.ids_kind(slice))
    }

    /// All ids except the rare ones, which take a search.
    #[inline]
    fn common_ids(&self, slice: SliceId) -> EventIds {
        let (first, second) = self.slices.common_ids(slice);
        PackedIds { first, second, ..PackedIds::default() }.unpack(self.ids_kind(slice))
    }

    /// The kind that determines the ids. A slice without a category may be a runtime call.
    #[inline]
    fn ids_kind(&self, slice: SliceId) -> CategoryKind {
        if self.slices.category(slice) == StringId::NULL { CategoryKind::Runtime } else { self.category_kind(slice) }
    }

    /// The correlation id, which GPU work shares with the call that launched it; CUPTI counts from 1. Slices without a category may have one too.
    pub fn correlation(&self, slice: SliceId) -> Option<i64> {
        // The first number is enough.
        let ids = PackedIds { first: self.slices.common_ids(slice).0, ..PackedIds::default() };
        match ids.unpack(self.ids_kind(slice)) {
            EventIds::Gpu { correlation, .. } | EventIds::Call { correlation } => {
                Some(correlation).filter(|id| *id != 0)
            }
            EventIds::Operator { .. } | EventIds::Python { .. } => None,
        }
    }

    /// The same with the slice's trace, because ids repeat in other traces.
    pub fn trace_correlation(&self, slice: SliceId) -> Option<(TraceId, i64)> {
        Some((self.trace_of(slice), self.correlation(slice)?))
    }

    /// The External id: the number of an operator, which the GPU work that it launched shares.
    pub fn external_id(&self, slice: SliceId) -> Option<i64> {
        match self.common_ids(slice) {
            EventIds::Gpu { external_id, .. } | EventIds::Operator { external_id, .. } => {
                Some(external_id).filter(|id| *id != 0)
            }
            EventIds::Call { .. } | EventIds::Python { .. } => None,
        }
    }

    /// The Python id of a function call, and its caller as recorded by the profiler.
    pub fn python_ids(&self, slice: SliceId) -> Option<(i64, PythonCaller)> {
        match self.common_ids(slice) {
            EventIds::Python { python_id, python_caller } => Some((python_id, python_caller)),
            _ => None,
        }
    }

    /// Autograd's numbers of an operator; `None` for other slices and for operators without a sequence number.
    pub fn autograd(&self, slice: SliceId) -> Option<Autograd> {
        let EventIds::Operator { sequence_number: Some(_), .. } = self.common_ids(slice) else { return None };
        match self.ids(slice) {
            EventIds::Operator { sequence_number: Some(sequence), forward_thread, .. } => {
                Some(Autograd { sequence, forward_thread })
            }
            _ => None,
        }
    }

    /// The CUDA graph that launched GPU work, and its node in this graph; `None` if no graph launched it.
    pub fn graph_node(&self, slice: SliceId) -> Option<(i64, i64)> {
        match self.ids(slice) {
            EventIds::Gpu { graph_id, graph_node_id, .. } if graph_node_id != 0 => Some((graph_id, graph_node_id)),
            _ => None,
        }
    }

    /// The stream of GPU work, as the thread whose number it is: the one that its arguments name, or its own.
    pub fn stream_of(&self, slice: SliceId) -> Option<ThreadId> {
        let thread = self.thread_of(slice)?;
        let EventIds::Gpu { stream: Some(stream), .. } = self.ids(slice) else { return Some(thread) };
        Some(self.tracks.find_thread(self.tracks.thread(thread).upid, stream).unwrap_or(thread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_by_name() {
        use CategoryKind::{Cpu, Frame, Gpu, Kernel, Runtime};
        let gpu_on = |stream| EventIds::Gpu { correlation: 4, external_id: 3, graph_id: 5, graph_node_id: 6, stream };
        let operator =
            |number, thread| EventIds::Operator { external_id: 3, sequence_number: number, forward_thread: thread };
        let python = |caller| EventIds::Python { python_id: 5, python_caller: caller };
        for (kind, ids) in [
            (Kernel, gpu_on(None)),
            (Gpu, gpu_on(Some(0))),
            (Gpu, gpu_on(Some(7))),
            (Runtime, EventIds::Call { correlation: i64::MAX }),
            (Runtime, EventIds::NONE),
            (Cpu, operator(None, 0)),
            (Cpu, operator(Some(0), 0)),
            (Cpu, operator(Some(9), 2)),
            (Frame, python(PythonCaller::Unknown)),
            (Frame, python(PythonCaller::Nobody)),
            (Frame, python(PythonCaller::Frame(7))),
        ] {
            assert_eq!(PackedIds::pack(ids).unpack(kind), ids);
        }
    }
}
