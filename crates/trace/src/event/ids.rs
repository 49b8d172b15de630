//! The numbers among an event's arguments that relate it to other events, each under a name.
//!
//! An event's category determines which numbers it has. Only [`EventIds::read`] knows the rules; a reader finds values.

use super::Id;
use crate::names::args;
use crate::names::category::CategoryKind;

/// An argument that is an id; [`IdArg::KEYS`] has its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum IdArg {
    Correlation,
    ExternalId,
    PythonId,
    PythonParentId,
    SequenceNumber,
    ForwardThread,
    GraphId,
    GraphNodeId,
    Stream,
    CorrelationId,
}

impl IdArg {
    pub const COUNT: usize = IdArg::KEYS.len();

    /// The key of each in `args`, at its own discriminant.
    pub const KEYS: [(IdArg, &str); 10] = [
        (IdArg::Correlation, args::CORRELATION),
        (IdArg::ExternalId, args::EXTERNAL_ID),
        (IdArg::PythonId, args::PYTHON_ID),
        (IdArg::PythonParentId, args::PYTHON_PARENT_ID),
        (IdArg::SequenceNumber, args::SEQUENCE_NUMBER),
        (IdArg::ForwardThread, args::FORWARD_THREAD),
        (IdArg::GraphId, args::GRAPH_ID),
        (IdArg::GraphNodeId, args::GRAPH_NODE_ID),
        (IdArg::Stream, args::STREAM),
        (IdArg::CorrelationId, args::CORRELATION_ID),
    ];

    pub fn of_key(key: &[u8]) -> Option<IdArg> {
        IdArg::KEYS.iter().find(|(_, known)| known.as_bytes() == key).map(|(arg, _)| *arg)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdValue {
    /// There is no such argument, or its value is neither a whole number nor null.
    Missing,
    /// `null`
    Null,
    Number(i64),
}

/// The ids of an event, by its category. Profilers count from 1, so 0 means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventIds {
    Gpu {
        /// Shared with the call that launched it (CUPTI, ROCm).
        correlation: i64,
        /// The External id of the operator that launched it.
        external_id: i64,
        /// The CUDA graph that launched it; 0 if `graph_node_id` is 0.
        graph_id: i64,
        graph_node_id: i64,
        /// Its stream. The store forgets it where the thread id is the same number.
        stream: Option<i64>,
    },
    /// A runtime or driver call. An event without a category may be one.
    Call {
        /// Shared with the GPU work that it launched.
        correlation: i64,
    },
    /// An operator, or any other CPU work.
    Operator {
        external_id: i64,
        /// Autograd's sequence number; here 0 is an ordinary number.
        sequence_number: Option<i64>,
        /// The thread of its forward pass in PyTorch's numbering; 0 if there is no sequence number.
        forward_thread: i64,
    },
    Python {
        python_id: i64,
        python_caller: PythonCaller,
    },
}

/// Who called a Python function, as the profiler recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PythonCaller {
    /// Not recorded.
    Unknown,
    /// None: the function is the outermost of its thread.
    Nobody,
    Frame(i64),
}

impl EventIds {
    /// No ids.
    pub const NONE: EventIds = EventIds::Call { correlation: 0 };

    /// Reads the ids of an event of this kind, in the order in which Kineto writes them: a search of text goes on from the last. `value` finds the
    /// value of an argument; each is requested at most once.
    #[inline]
    pub fn read(kind: CategoryKind, mut value: impl FnMut(IdArg) -> IdValue) -> EventIds {
        match kind {
            CategoryKind::Frame => {
                let python_caller = python_caller(value(IdArg::PythonParentId));
                EventIds::Python { python_id: id(value(IdArg::PythonId)), python_caller }
            }
            CategoryKind::Cpu => {
                let external_id = id(value(IdArg::ExternalId));
                let sequence_number = sequence_number(value(IdArg::SequenceNumber));
                let forward_thread = match sequence_number {
                    Some(_) => id(value(IdArg::ForwardThread)),
                    None => 0,
                };
                EventIds::Operator { external_id, sequence_number, forward_thread }
            }
            CategoryKind::Kernel | CategoryKind::Gpu => {
                let external_id = id(value(IdArg::ExternalId));
                let stream = match value(IdArg::Stream) {
                    IdValue::Number(stream) if stream >= 0 => Some(stream),
                    _ => None,
                };
                let correlation = id(value(IdArg::Correlation));
                let graph_id = id(value(IdArg::GraphId));
                let graph_node_id = id(value(IdArg::GraphNodeId));
                let graph_id = if graph_node_id == 0 { 0 } else { graph_id };
                EventIds::Gpu { correlation, external_id, graph_id, graph_node_id, stream }
            }
            CategoryKind::Runtime => {
                let correlation = match id(value(IdArg::Correlation)) {
                    0 => id(value(IdArg::CorrelationId)),
                    known => known,
                };
                EventIds::Call { correlation }
            }
        }
    }

    /// The same without a stream that is the event's thread: so almost no GPU work takes memory for one.
    #[inline]
    pub(crate) fn without_own_stream(mut self, tid: &Id<'_>) -> EventIds {
        if let (EventIds::Gpu { stream, .. }, Id::Number(tid)) = (&mut self, tid) {
            *stream = stream.filter(|stream| *stream != i64::from(*tid));
        }
        self
    }
}

#[inline]
fn id(value: IdValue) -> i64 {
    match value {
        IdValue::Number(number) => number.max(0),
        IdValue::Missing | IdValue::Null => 0,
    }
}

#[inline]
fn sequence_number(value: IdValue) -> Option<i64> {
    match value {
        IdValue::Number(number) if number >= 0 => Some(number),
        // Counts as 0, as it does for a caller.
        IdValue::Null => Some(0),
        _ => None,
    }
}

#[inline]
fn python_caller(value: IdValue) -> PythonCaller {
    match value {
        IdValue::Number(0) | IdValue::Null => PythonCaller::Nobody,
        IdValue::Number(number) if number > 0 => PythonCaller::Frame(number),
        _ => PythonCaller::Unknown,
    }
}
