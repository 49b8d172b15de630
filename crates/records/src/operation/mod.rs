//! Operations: one row per collective or point-to-point operation on one rank, whatever recorded it.
//!
//! A trace has a kernel for each; NCCL's own records have a call, a duration or a state. All of them are rows of one table, on which
//! matching, waits, hangs and bandwidths are queries. What a source does not record is `None`, never guessed.

pub mod ranges;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use nccl_stacks_trace::id::{GpuId, PathId, RankId, SliceId, ThreadId};
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::names::values;
use nccl_stacks_trace::time::Ns;

/// A communicator, as far as a source describes its ranks. Its name is not unique in a job. Two ranks agree on the set of ranks and the
/// description, and on NCCL's hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Communicator {
    /// Its global ranks, sorted; `None` if the list is unknown or truncated. Serialized as ranges, because 10,000 ranks have 10,000 lists.
    #[serde(with = "ranges")]
    pub ranks: Option<Vec<u32>>,
    /// Its purpose: `default_pg`, `mesh_tp`.
    pub description: Option<String>,
    /// PyTorch's name of the process group, or the name that the program passed to NCCL.
    pub name: Option<String>,
    pub size: Option<u64>,
    /// The hash by which a source identifies it: the `commHash` of NCCL's plugins, or the hash of NCCL's unique id, which Megatrace calls
    /// `groupHash` and NCCL's log `commId`.
    #[serde(skip)]
    pub hash: Option<u64>,
    /// RAS's second hash, as it writes it. It tells communicators apart whose first hashes are equal; other sources do not have it.
    #[serde(skip)]
    pub second_hash: Option<String>,
    /// `gloo` for PyTorch's backend of the CPU, which numbers its operations apart from those of the GPU's in a group of the same name.
    #[serde(skip)]
    pub backend: Option<&'static str>,
}

impl Communicator {
    /// The number of its ranks, as recorded or by the list.
    pub fn rank_count(&self) -> Option<u64> {
        self.size.or_else(|| self.ranks.as_ref().map(|ranks| ranks.len() as u64))
    }

    /// The global rank at a place in it, if the list of ranks is known.
    pub fn rank_at(&self, place: Option<u32>) -> Option<u32> {
        self.ranks.as_ref()?.get(place? as usize).copied()
    }

    /// A key that is equal on all its ranks: description and ranks, `default_pg [0,1,2,3]`. Without the list of ranks NCCL's hash,
    /// `0x2fda2edc54faea7`; `None` without both.
    pub fn key(&self) -> Option<String> {
        let Some(ranks) = &self.ranks else { return self.hash.map(|hash| format!("{hash:#x}")) };
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let description = self.description.as_deref().unwrap_or_default();
        Some(format!("{description} [{}]", ranks.join(",")).trim_start().to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum State {
    /// The source does not say.
    #[default]
    Unknown,
    /// It was enqueued. There is no evidence that its kernel started.
    Scheduled,
    /// Its kernel started, but did not end within the recording.
    Started,
    /// Its kernel ran to its end.
    Completed,
}

impl State {
    pub fn name(self) -> Option<&'static str> {
        match self {
            State::Unknown => None,
            State::Scheduled => Some("scheduled"),
            State::Started => Some("started"),
            State::Completed => Some("completed"),
        }
    }
}

/// What recorded an operation. Sources sort as in `SOURCES`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(u8);

/// By source, in the order of answers: its name in SQL and JSON, and in sentences.
const SOURCES: [(&str, &str); 10] = [
    ("trace", "a trace"),
    ("flight-recorder", "PyTorch flight recorder"),
    ("ras", "NCCL RAS"),
    ("inspector", "NCCL Inspector"),
    ("plugin-dump", "NCCL's example profiler plugin"),
    ("megatrace", "Megatrace log"),
    ("nccl-debug", "NCCL_DEBUG log"),
    ("flow", "flow extractor"),
    ("recorder", "nccl-stacks recorder"),
    ("watchdog", "PyTorch watchdog"),
];

impl Source {
    pub const TRACE: Source = Source(0);
    pub const FLIGHT_RECORDER: Source = Source(1);
    pub const RAS: Source = Source(2);
    pub const INSPECTOR: Source = Source(3);
    pub const PLUGIN_DUMP: Source = Source(4);
    /// Megatrace, or an interceptor that writes its format.
    pub const MEGATRACE: Source = Source(5);
    /// What NCCL prints with `NCCL_DEBUG=INFO`.
    pub const DEBUG_LOG: Source = Source(6);
    pub const FLOW: Source = Source(7);
    /// This project's recorder: its plugin, its interceptor, or both.
    pub const RECORDER: Source = Source(8);
    pub const WATCHDOG: Source = Source(9);

    /// Its name in SQL and JSON: `ras`.
    pub fn name(self) -> &'static str {
        SOURCES[usize::from(self.0)].0
    }

    /// Its name in sentences: `NCCL RAS`.
    pub fn title(self) -> &'static str {
        SOURCES[usize::from(self.0)].1
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an operation's sequence number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Counts {
    /// All collectives of a process group (PyTorch's `Seq`, `collective_seq_id`).
    #[default]
    Group,
    /// Each function of a communicator separately (NCCL's `seqNumber`).
    Function,
    /// All operations of a communicator (NCCL's `opCount`).
    Communicator,
    /// All collectives of a communicator, also within one group call (the recorder).
    Collectives,
    /// All calls on a stream (Megatrace's interceptor).
    Stream,
}

/// One collective or point-to-point operation on one rank. Times are on the source's own clock.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    pub source: Source,
    /// The kernel that carried it out; only traces have it.
    pub kernel: Option<SliceId>,
    /// The global rank. Sources that know only the rank within the communicator set `place` instead.
    pub rank: Option<RankId>,
    /// The rank within the communicator, in NCCL's numbering.
    pub place: Option<u32>,
    /// The communicator: its index among those of the source.
    pub communicator: Option<usize>,
    pub sequence: Option<i64>,
    pub counts: Counts,
    /// NCCL's own sequence number of a collective, among those of its function in the communicator, if the source has it beside another.
    pub nccl_sequence: Option<i64>,
    /// The collective's name in nccl-tests, or as recorded if nccl-tests does not have it.
    pub collective: Option<Arc<str>>,
    /// The element type in PyTorch's words: `BFloat16`.
    pub dtype: Option<Arc<str>>,
    pub in_elements: Option<u64>,
    pub out_elements: Option<u64>,
    /// The size in bytes, counted as in nccl-tests. If several kernels carry out one record, each has the size of the record.
    pub bytes: Option<u64>,
    /// NCCL's code of the reduction: 0 sum, 1 product, 2 maximum, 3 minimum, 4 average.
    pub reduction: Option<u32>,
    /// The peer of a send or receive: a global rank in a trace, a rank within the communicator in NCCL's own records. Or the root: its
    /// index in the group's list of ranks.
    pub peer: Option<i64>,
    /// If one kernel carries out several sends and receives: these.
    pub messages: Vec<Message>,
    /// When it was enqueued: the start of PyTorch's `record_param_comms`, or the entry into NCCL's function.
    pub enqueued: Option<Ns>,
    /// The call that launched the kernel.
    pub launch: Option<SliceId>,
    pub launched: Option<Ns>,
    pub start: Option<Ns>,
    /// The end of the kernel; `None` if it did not end within the recording.
    pub end: Option<Ns>,
    /// The duration of the execution, if the source measured it by itself.
    pub duration: Option<Ns>,
    pub state: State,
    /// Whether this NCCL call ran nothing: it failed, or it was captured into a graph, whose replays are separate operations.
    pub did_not_run: bool,
    /// The algorithm; in a trace as far as the kernel's name has it.
    pub algorithm: Option<Arc<str>>,
    /// The protocol; in a trace as far as the kernel's name has it.
    pub protocol: Option<Arc<str>>,
    pub channels: Option<u32>,
    /// How the data of an all-to-all is divided among the ranks.
    pub split: Split,
    pub path: Option<PathId>,
    /// The call path of the capture of the kernel into its graph.
    pub capture: Option<PathId>,
    /// The call path in the record itself: its index among those of the source.
    pub recorded_path: Option<u32>,
    pub gpu: Option<GpuId>,
    /// The stream of a trace: a thread of the GPU, as the store knows it (`Store::stream_of`).
    pub stream: Option<ThreadId>,
    /// The number that the program passed to NCCL with the call, for profilers.
    pub user_tag: Option<u64>,
    /// The stream of a record: the handle that was passed to NCCL.
    pub stream_handle: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Split {
    #[default]
    Even,
    /// All get something, some more than others.
    Uneven,
    /// Some may get nothing.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Message {
    /// The other side: a global rank.
    pub peer: i64,
    pub is_send: bool,
}

impl Operation {
    /// Sets elements and bytes, as far as they follow from what a call was given: its count, among so many ranks. The type has been set.
    pub(crate) fn set_size(&mut self, of: Option<Collective>, count: Option<u64>, ranks: Option<u64>) {
        if let Some((of, count)) = of.zip(count) {
            (self.in_elements, self.out_elements) = values::elements(of, count, ranks);
            self.bytes = self.dtype.as_deref().and_then(|dtype| values::bytes(of, count, dtype, ranks));
        }
    }

    /// The collective by its name, if nccl-tests has it.
    pub fn known_collective(&self) -> Option<Collective> {
        Collective::of_record(self.collective.as_deref()?)
    }

    /// The elements of the smaller side, and how many ranks take part by those of the larger one, of a collective that gathers or scatters as many for each. Of
    /// several that are one operation, too, unless both sides have as many, as sends and receives have.
    pub fn gathered(&self) -> Option<(u64, u64)> {
        let is_size = |elements: &u64| (1..u64::MAX).contains(elements);
        let (input, output) = self.in_elements.filter(is_size).zip(self.out_elements.filter(is_size))?;
        let (less, more) = match self.known_collective() {
            Some(Collective::AllGather) => (input, output),
            Some(Collective::ReduceScatter) => (output, input),
            None if self.collective.as_deref() == Some("coalesced") => (input.min(output), input.max(output)),
            _ => return None,
        };
        (more > less && more % less == 0).then_some((less, more / less))
    }

    /// Whether only two ranks take part.
    pub fn is_point_to_point(&self) -> bool {
        self.known_collective().is_some_and(Collective::is_point_to_point)
    }

    /// Its rank within its communicator, or else its global rank.
    pub fn place_or_rank(&self) -> Option<u32> {
        self.place.or(self.rank.map(|rank| rank.0))
    }

    /// Its global rank, or else its rank within the communicator.
    pub fn rank_or_place(&self) -> Option<u32> {
        self.rank.map(|rank| rank.0).or(self.place)
    }

    /// How long it took: as its source measured it, or else from start to end. The measure comes first, because Inspector measures on the GPU's clock and
    /// reads start and end from the CPU's. A negative time is unknown.
    pub fn took(&self) -> Option<Ns> {
        let from_start = || self.start.zip(self.end).map(|(start, end)| end - start);
        self.duration.or_else(from_start).filter(|took| *took >= Ns::ZERO)
    }
}
