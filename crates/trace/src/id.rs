//! Typed ids, so that row numbers of slices, threads and tracks cannot be mixed up.
//!
//! Each is the number of a row in the table of the same name, counted from 0, and the value of that table's id column in SQL. 32 bits are
//! enough, because memory limits a trace to fewer than 2^32 events; a larger load is refused.

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            #[inline]
            pub fn of_row(row: usize) -> Self {
                $name(row as u32)
            }

            /// The row, as an index into columns.
            #[inline]
            pub fn row(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0.into()
            }
        }
    )*};
}

ids! {
    /// A slice: `slice.id`. Ids follow the order of starts.
    SliceId;
    /// A thread: `thread.utid`. A GPU stream is a thread too.
    ThreadId;
    /// A process: `process.upid`. A GPU is a process too.
    ProcessId;
    /// A track: `track.id`.
    TrackId;
    /// A trace of a store: `machine_id` in Perfetto's tables, where each file of an archive counts as a machine.
    TraceId;
    /// A call path: `call_path.id`.
    PathId;
    /// A collective or point-to-point operation of a rank: `collective.id`.
    OperationId;
    /// A rank of the job: its global number, as `torch.distributed.get_rank()` returns it.
    RankId;
}

/// A GPU: a process of a trace, because Kineto writes the device's number as the pid of GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuId {
    pub trace: TraceId,
    pub process: ProcessId,
}
