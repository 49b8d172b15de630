//! Operations: one row per collective or point-to-point operation on one rank, whatever recorded it.
//!
//! A trace has a kernel for each, NCCL's own records have a call, a time of execution or a state. All of them are rows of one table, and
//! matching of ranks, waiting, hangs and bandwidths are questions to it. What a source does not say is `None`, never guessed.

pub mod ranges;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{GpuId, PathId, RankId, SliceId, ThreadId};
use crate::time::Ns;

/// A communicator, as far as a source says which ranks it has. Names are not unique over a job; the set of ranks and the description
/// are what two ranks agree on, and so is NCCL's hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Communicator {
    /// Its global ranks, sorted; `None` if the list is unknown or cut off. Written as ranges: a job of 10,000 ranks has as many such lists.
    #[serde(with = "ranges")]
    pub ranks: Option<Vec<u32>>,
    /// What it is for: `default_pg`, `mesh_tp`.
    pub description: Option<String>,
    /// PyTorch's name of the process group, or the name that the program gave to NCCL.
    pub name: Option<String>,
    /// How many ranks it has.
    pub size: Option<u64>,
    /// The number by which a source knows it. NCCL's plugins have its `commHash`. Another is the hash of its unique id, which Megatrace calls
    /// `groupHash` and NCCL's log `commId`.
    #[serde(skip)]
    pub hash: Option<u64>,
}

impl Communicator {
    /// How many ranks it has, by number or by list.
    pub(crate) fn rank_count(&self) -> Option<u64> {
        self.size.or_else(|| self.ranks.as_ref().map(|ranks| ranks.len() as u64))
    }

    /// The rank of the job that has a place in it, where the list of ranks is known.
    pub(crate) fn rank_at(&self, place: Option<u32>) -> Option<u32> {
        self.ranks.as_ref()?.get(place? as usize).copied()
    }

    /// What is equal on all of its ranks: description and ranks, `default_pg [0,1,2,3]`. Without the list of ranks it is NCCL's hash,
    /// `0x2fda2edc54faea7`; `None` without both.
    pub fn key(&self) -> Option<String> {
        let Some(ranks) = &self.ranks else { return self.hash.map(|hash| format!("{hash:#x}")) };
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let description = self.description.as_deref().unwrap_or_default();
        Some(format!("{description} [{}]", ranks.join(",")).trim_start().to_owned())
    }
}

/// How far an operation got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum State {
    /// The source does not say.
    #[default]
    Unknown,
    /// It was enqueued. Nothing says that its kernel started.
    Scheduled,
    /// Its kernel started, and the recording has no end of it.
    Started,
    /// Its kernel ran to its end.
    Completed,
}

impl State {
    /// Its name in SQL; `None` if it is unknown.
    pub fn name(self) -> Option<&'static str> {
        match self {
            State::Unknown => None,
            State::Scheduled => Some("scheduled"),
            State::Started => Some("started"),
            State::Completed => Some("completed"),
        }
    }
}

/// What recorded an operation. Sources are in the order of [`SourceRow::order`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(&'static SourceRow);

/// What is known of a source of operations.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRow {
    /// Its place among the sources, where answers list several.
    pub order: u8,
    /// Its name in SQL and JSON: `ras`.
    pub name: &'static str,
    /// What a sentence calls it: `NCCL RAS`.
    pub title: &'static str,
}

impl Source {
    /// A kernel of a trace.
    pub const TRACE: Source = Source(&SourceRow { order: 0, name: "trace", title: "a trace" });
    /// PyTorch's flight recorder.
    pub const FLIGHT_RECORDER: Source =
        Source(&SourceRow { order: 1, name: "flight-recorder", title: "PyTorch flight recorder" });
    /// NCCL's RAS subsystem.
    pub const RAS: Source = Source(&SourceRow { order: 2, name: "ras", title: "NCCL RAS" });
    /// NCCL Inspector.
    pub const INSPECTOR: Source = Source(&SourceRow { order: 3, name: "inspector", title: "NCCL Inspector" });
    /// Google's CoMMA.
    pub const COMMA: Source = Source(&SourceRow { order: 4, name: "comma", title: "CoMMA" });
    /// NCCL's example profiler plugin.
    pub const PLUGIN_DUMP: Source =
        Source(&SourceRow { order: 5, name: "plugin-dump", title: "NCCL's example profiler plugin" });
    /// Megatrace, or an interceptor with its format.
    pub const MEGATRACE: Source = Source(&SourceRow { order: 6, name: "megatrace", title: "Megatrace log" });
    /// What NCCL prints with `NCCL_DEBUG=INFO`.
    pub const DEBUG_LOG: Source = Source(&SourceRow { order: 7, name: "nccl-debug", title: "NCCL_DEBUG log" });
    /// The flow extractor.
    pub const FLOW: Source = Source(&SourceRow { order: 8, name: "flow", title: "flow extractor" });
    /// The recorder of this project, by its plugin, its interceptor, or both.
    pub const RECORDER: Source = Source(&SourceRow { order: 9, name: "recorder", title: "nccl-stacks recorder" });

    /// A source that no other part of the program asks for by name.
    pub const fn new(row: &'static SourceRow) -> Self {
        Source(row)
    }

    /// Its name in SQL and JSON.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What a sentence calls it.
    pub fn title(self) -> &'static str {
        self.0.title
    }
}

impl Default for Source {
    fn default() -> Self {
        Source::TRACE
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the number of an operation counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Counts {
    /// All collectives of a process group (PyTorch's `Seq`, `collective_seq_id`).
    #[default]
    Group,
    /// Each collective of a communicator by itself (NCCL's `seqNumber`).
    Function,
    /// All operations of a communicator (NCCL's `opCount`).
    Communicator,
    /// All collectives of a communicator, of a group of calls each (the recorder).
    Collectives,
    /// All calls on a stream (Megatrace's interceptor).
    Stream,
}

/// One collective or point-to-point operation on one rank. Times are on the source's own clock.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Operation {
    /// What recorded it.
    pub source: Source,
    /// The kernel that carried it out; sources without a trace have none.
    pub kernel: Option<SliceId>,
    /// The rank of the job. Sources that know only the rank within the communicator have that in `place`.
    pub rank: Option<RankId>,
    /// The rank within the communicator, as NCCL counts it.
    pub place: Option<u32>,
    /// The communicator: its position among those of the source.
    pub communicator: Option<usize>,
    /// The number of the operation.
    pub sequence: Option<i64>,
    /// What that number counts.
    pub counts: Counts,
    /// NCCL's own number of a collective among those of its function in the communicator, where a source counts otherwise and has both.
    pub nccl_sequence: Option<i64>,
    /// The collective as nccl-tests names it, or as recorded if nccl-tests has none like it.
    pub collective: Option<Arc<str>>,
    /// The type of the elements in PyTorch's words: `BFloat16`.
    pub dtype: Option<Arc<str>>,
    /// How many elements this rank gives.
    pub in_elements: Option<u64>,
    /// How many elements this rank gets.
    pub out_elements: Option<u64>,
    /// The size in bytes as nccl-tests counts it. If several kernels carry out one record, each has the record's size.
    pub bytes: Option<u64>,
    /// NCCL's number of the reduction: 0 sum, 1 product, 2 maximum, 3 minimum, 4 average.
    pub reduction: Option<u32>,
    /// The other side of a send or receive: a global rank in a trace, a rank within the communicator in NCCL's own records. Or the root:
    /// its place in the group's list of ranks.
    pub peer: Option<i64>,
    /// When it was enqueued: the start of PyTorch's `record_param_comms`, or the entry into NCCL's function.
    pub enqueued: Option<Ns>,
    /// The call that launched the kernel.
    pub launch: Option<SliceId>,
    /// When that call started.
    pub launched: Option<Ns>,
    /// When the kernel started.
    pub start: Option<Ns>,
    /// When it ended; `None` if it did not end within the recording.
    pub end: Option<Ns>,
    /// How long it was executed, where a source says that without saying when.
    pub duration: Option<Ns>,
    /// How far it got.
    pub state: State,
    /// Whether nothing ran by this call of NCCL: it failed, or it was captured into a graph, whose replays are operations of their own.
    pub did_not_run: bool,
    /// The algorithm: of a trace, as far as the kernel's name says.
    pub algorithm: Option<Arc<str>>,
    /// The protocol: of a trace, as far as the kernel's name says.
    pub protocol: Option<Arc<str>>,
    /// How many channels NCCL used.
    pub channels: Option<u32>,
    /// Whether the ranks exchange parts of different sizes, some perhaps empty.
    pub is_uneven: bool,
    /// The call path of the launch.
    pub path: Option<PathId>,
    /// The call path with which the kernel was captured into its graph.
    pub capture: Option<PathId>,
    /// The call path that a record has itself: its position among those of the source.
    pub recorded_path: Option<u32>,
    /// The GPU of the kernel.
    pub gpu: Option<GpuId>,
    /// The stream of a trace: the kernel's thread.
    pub stream: Option<ThreadId>,
    /// The number that the program gave to NCCL with the call, for profilers.
    pub user_tag: Option<u64>,
    /// The stream of a record: the handle that NCCL was given.
    pub stream_handle: Option<u64>,
}

impl Operation {
    /// Its rank within its communicator, or of the job where only that is known.
    pub(crate) fn place_or_rank(&self) -> Option<u32> {
        self.place.or(self.rank.map(|rank| rank.0))
    }

    /// Its rank of the job, or within its communicator where only that is known.
    pub(crate) fn rank_or_place(&self) -> Option<u32> {
        self.rank.map(|rank| rank.0).or(self.place)
    }

    /// How long it took: from its start to its end, or what the source says.
    pub fn took(&self) -> Option<Ns> {
        self.start.zip(self.end).map(|(start, end)| end - start).or(self.duration)
    }
}
