//! The tables into which all sources are read. A reader fills those that its format knows something of.
//!
//! Positions in other tables are `usize` or `u32` into the same [`Records`]; appending one to another shifts them. All times are on the
//! clock of their source. `rank` is the rank of the job, and `place` that within the communicator.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::file::RecordFile;
use crate::operation::{Communicator, Operation, Source};
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::time::Ns;

#[derive(Debug, Clone, Default)]
pub struct Records {
    pub files: Vec<RecordFile>,
    /// The communicators that the other tables name, each once.
    pub communicators: Vec<Communicator>,
    pub operations: Vec<Operation>,
    /// By operation: its file.
    pub file_of: Vec<u32>,
    /// Call paths, outermost caller first.
    pub paths: Vec<Vec<Arc<str>>>,
    pub rank_status: Vec<RankStatus>,
    /// What ran on each channel of an operation.
    pub channels: Vec<KernelChannel>,
    /// What the proxy thread sent and received for an operation.
    pub proxy_ops: Vec<ProxyOp>,
    pub proxy_steps: Vec<ProxyStep>,
    pub profiler_events: Vec<ProfilerEvent>,
    /// Which operations were called within one group, or planned together.
    pub groups: Vec<Group>,
    /// The operations of these: pairs of positions, of a group and of an operation.
    pub group_members: Vec<(usize, usize)>,
    /// How many operations were read and are not here: see [`Keep::Ends`](super::Keep).
    pub left_out: u64,
    pub flow_ops: Vec<FlowOp>,
    pub flow_steps: Vec<FlowStep>,
    /// Calls that were counted, where a source may have more of them than are kept as operations: an operation like them, without times, and how many
    /// calls there were, those included that are kept.
    pub calls: Vec<(Operation, u64)>,
    /// What sources worked out themselves of operations.
    pub measures: Vec<Measure>,
    pub warnings: Vec<Warning>,
    /// By operation: the name of its call, where that says more than the collective: `all_reduce_barrier`.
    pub calls_by: BTreeMap<usize, Arc<str>>,
    /// By operation: how an all-to-all is divided, where a source says so.
    pub splits: BTreeMap<usize, Splits>,
    /// By NCCL's hash of a communicator: Megatrace's hash of it, or 0 where its interceptor has none, as for those that were split off. Of other
    /// communicators nothing says it.
    pub group_hashes: BTreeMap<u64, u64>,
    numbers: HashMap<Communicator, usize, RandomState>,
    /// Texts that many rows share.
    texts: HashSet<Arc<str>, RandomState>,
}

/// What a source says of a rank of a communicator at one time.
#[derive(Debug, Clone, Default)]
pub struct RankStatus {
    pub source: Source,
    pub file: u32,
    /// The communicator; `None` for the process as a whole.
    pub communicator: Option<usize>,
    pub rank: Option<RankId>,
    pub place: Option<u32>,
    /// When it was asked, since the Unix epoch.
    pub at: Option<Ns>,
    /// Of answers without a time, one after the other in a file: which one, from 0.
    pub answer: u32,
    pub host: Option<String>,
    pub pid: Option<i64>,
    pub device: Option<i64>,
    /// How many collectives it has enqueued, by the names of nccl-tests.
    pub counts: BTreeMap<String, u64>,
    /// The number of the last collective that it enqueued.
    pub last_enqueued: Option<i64>,
    pub last_started: Option<i64>,
    pub last_completed: Option<i64>,
    /// How many calls of NCCL's functions failed, by function and NCCL's number of the error; of the process as a whole.
    pub failed_calls: BTreeMap<(Arc<str>, u32), u64>,
    /// What is wrong with it: `unresponsive`, `considered dead`, `async error 6`, `aborted`, a word or two each.
    pub faults: Vec<String>,
    /// How far it has made the communicator.
    pub making: Making,
    /// Whether a line was lost that may have been its last call of this communicator: then the absence of a call proves nothing.
    pub is_cut: bool,
    /// Whether one of its collectives timed out; of the process as a whole.
    pub has_timed_out: bool,
    /// How it failed; of the process as a whole.
    pub failure: Option<String>,
    /// What others wait for it for; of the process as a whole.
    pub awaited: Option<Awaited>,
}

/// That others wait for a rank, as a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// What it did not do: `did not submit allreduce.x`.
    pub what: String,
    /// Whether the others go on waiting, so that it may come.
    pub may_come: bool,
}

impl RankStatus {
    /// Whether it says how a rank ended, and not how far it got.
    pub fn is_end(&self) -> bool {
        self.has_timed_out || self.failure.is_some() || self.awaited.is_some()
    }
}

/// How far a rank has made a communicator, where a log says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Making {
    #[default]
    Unknown,
    Began,
    Ended,
    Aborted,
}

/// How many elements an all-to-all sends to each rank of its communicator, and receives from each, by place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Splits {
    pub sent: Vec<u64>,
    pub received: Vec<u64>,
}

/// A warning of NCCL (`NCCL WARN`), once for each process and GPU however often it is printed with other numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Warning {
    pub file: u32,
    /// The byte offset of the first in the decompressed text.
    pub offset: u64,
    pub host: Option<String>,
    pub pid: Option<i64>,
    pub device: Option<i64>,
    /// What it is about: `network`, `cuda`, `system`, `setup`, `mismatch` or `other`.
    pub kind: &'static str,
    /// The host on the other side, if the text names one.
    pub peer: Option<String>,
    pub text: String,
    pub count: u64,
}

#[derive(Debug, Clone, Default)]
pub struct KernelChannel {
    pub operation: Option<usize>,
    pub channel: u32,
    /// When it started on the GPU's clock, since the Unix epoch.
    pub gpu_start: Option<Ns>,
    pub gpu_stop: Option<Ns>,
    /// How far the host's clock is ahead of the GPU's; 0 if they agree, or if nothing says so.
    pub gpu_offset: Ns,
    /// When the CPU saw it start.
    pub start: Option<Ns>,
    pub end: Option<Ns>,
}

impl KernelChannel {
    /// When it started and stopped on the host's clock: what the GPU measured, or what the CPU saw of a channel without that.
    pub fn on_host(&self) -> (Option<Ns>, Option<Ns>) {
        let shifted = |time: Option<Ns>| time.map(|time| time + self.gpu_offset);
        match self.gpu_start {
            Some(_) => (shifted(self.gpu_start), shifted(self.gpu_stop)),
            None => (self.start, self.end),
        }
    }
}

/// What a proxy thread did on one channel with one peer for an operation.
#[derive(Debug, Clone, Default)]
pub struct ProxyOp {
    /// The operation; `None` if the thread works for another process.
    pub operation: Option<usize>,
    /// The rank within the communicator that it worked for.
    pub place: Option<u32>,
    pub channel: u32,
    /// The other side, a rank within the communicator.
    pub peer: i64,
    pub is_send: bool,
    pub steps: u32,
    /// The most bytes of a step.
    pub chunk_bytes: Option<u64>,
    /// How many bytes went over the wire; LL counts its flags.
    pub bytes: Option<u64>,
    pub queued: Option<Ns>,
    /// When its first step could begin.
    pub start: Option<Ns>,
    pub end: Option<Ns>,
}

/// A step of a [`ProxyOp`]. The phases follow one another; each is how long the step was in it.
#[derive(Debug, Clone, Default)]
pub struct ProxyStep {
    pub proxy_op: usize,
    pub step: u32,
    pub start: Option<Ns>,
    pub end: Option<Ns>,
    /// Waiting for the GPU: to fill the buffer of a send, or to empty that of a receive.
    pub gpu_wait: Option<Ns>,
    /// A send waiting for the receiver to have room.
    pub peer_wait: Option<Ns>,
    /// On the network; of a receive that includes waiting for the other side to send.
    pub network: Option<Ns>,
    /// A receive flushing what arrived to the GPU.
    pub flush: Option<Ns>,
    pub bytes: Option<u64>,
}

/// An event of NCCL's profiler interface that is no operation, and no channel, proxy operation or step of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfilerEvent {
    pub file: u32,
    /// `net-ib`, `net-socket`, `net-plugin`, `proxy-control`, `kernel-phase`, `ce-sync`, `ce-batch` or `unknown`.
    pub kind: &'static str,
    pub rank: Option<RankId>,
    pub communicator: Option<usize>,
    pub place: Option<u32>,
    pub operation: Option<usize>,
    /// The step that a transfer belongs to.
    pub proxy_step: Option<usize>,
    pub channel: Option<u32>,
    /// What a phase is called, and what the proxy's thread does: `idle`, `sleep` or `append`.
    pub name: Option<Arc<str>>,
    /// When it began. Of a phase it is what the GPU measured, put onto the host's clock.
    pub start: Option<Ns>,
    pub end: Option<Ns>,
    pub bytes: Option<u64>,
    /// What only its kind has: the queue pair and the work request of a transfer over InfiniBand, the ranks of a synchronisation.
    pub details: Vec<(&'static str, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    pub file: u32,
    /// `calls`: what a program called between `ncclGroupStart` and `ncclGroupEnd`, or one call alone; `kernel`: what NCCL has planned together.
    pub kind: &'static str,
    pub rank: Option<RankId>,
    /// Of calls: how many groups were open within each other.
    pub depth: Option<u32>,
    pub start: Option<Ns>,
    pub end: Option<Ns>,
    pub operations: u32,
}

/// What a source worked out itself of an operation, to be compared with what follows from its size and time.
#[derive(Debug, Clone, Default)]
pub struct Measure {
    pub operation: usize,
    /// Its algorithm bandwidth in GB/s (10^9 bytes).
    pub algbw: Option<f64>,
    pub busbw: Option<f64>,
    /// How finely its time was written: times and bandwidths agree within that.
    pub resolution: Ns,
    /// How long its proxies waited for the GPU, in sum.
    pub gpu_wait: Option<Ns>,
    /// How long they waited for receivers to have room.
    pub peer_wait: Option<Ns>,
    /// How long they were on the network.
    pub network: Option<Ns>,
    /// How long they flushed what arrived to the GPU.
    pub flush: Option<Ns>,
}

/// A line of `proxy_flow_rank<R>.jsonl`: what NCCL planned for a rank on a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FlowOp {
    pub file: u32,
    /// Whether it is of a `flow_rank<R>.json`, which repeats the first line of the file of operations.
    pub is_aggregate: bool,
    /// `opCount`, relative to its plan.
    pub op_count: u64,
    pub rank: u32,
    pub channel: u32,
    pub steps: u32,
    /// The capacity of one slice in bytes.
    pub slice_bytes: i64,
    pub chunk_bytes: u64,
    pub slice_steps: u32,
    pub chunk_steps: u32,
    /// NCCL's number of the data type, of which only reductions know the user's.
    pub dtype: u32,
    pub reduction: u32,
    /// `RING_TWICE`.
    pub pattern: Option<Arc<str>>,
    pub protocol: Option<Arc<str>>,
    /// The neighbours on the ring of the channel: from which it receives, and to which it sends.
    pub ring: Option<(u32, u32)>,
}

/// A line of `flow_steps_rank<R>.jsonl`: a step of the FIFO with one peer in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FlowStep {
    pub file: u32,
    /// Whether it is of a `flow_rank<R>.json`, which repeats all lines of the file of steps.
    pub is_aggregate: bool,
    /// `opCount` of the communicator.
    pub op_count: u64,
    pub rank: u32,
    pub channel: u32,
    /// From 0.
    pub step: u32,
    pub is_send: bool,
    /// The other side, a rank within the communicator.
    pub peer: u32,
    pub bytes: i64,
    pub pattern: Option<Arc<str>>,
    pub protocol: Option<Arc<str>>,
    /// The stage as the file names it.
    pub recorded_stage: Option<Arc<str>>,
    /// The stage as it is, worked out from the pattern and the other steps; `None` if that cannot be.
    pub stage: Option<&'static str>,
}

impl Records {
    pub(super) fn none_of(file: RecordFile) -> Self {
        Records { files: vec![file], ..Records::default() }
    }

    pub fn communicator(&mut self, known: Communicator) -> usize {
        if let Some(number) = self.numbers.get(&known) {
            return *number;
        }
        let next = self.communicators.len();
        self.communicators.push(known.clone());
        self.numbers.insert(known, next);
        next
    }

    /// Notes Megatrace's hash of a communicator. One rank may know it where another does not.
    pub(super) fn add_group_hash(&mut self, hash: u64, group_hash: u64) {
        let known = self.group_hashes.entry(hash).or_default();
        *known = (*known).max(group_hash);
    }

    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// A collective by its name in a record, and what it is called in rows: by nccl-tests, or as recorded.
    pub(super) fn collective(&mut self, recorded: &str) -> (Arc<str>, Option<Collective>) {
        let of = Collective::of_record(recorded);
        (self.text(of.map_or(recorded, |of| of.name())), of)
    }

    /// Adds the records of another file, or of several. A file with the same text as one that is here is left out, with a note: a rank's
    /// file given twice would count twice.
    pub fn append(&mut self, other: Records) {
        if self.files.is_empty() {
            *self = other;
            return;
        }
        if let [file] = &other.files[..]
            && let Some(same) = self.files.iter().find(|known| known.is_same(file))
        {
            let left_out = file.left_out(format!("it has the same text as {}, and is left out", same.name));
            return self.files.push(left_out);
        }
        let file = self.files.len() as u32;
        let (operation, path) = (self.operations.len(), self.paths.len() as u32);
        let (proxy_op, proxy_step) = (self.proxy_ops.len(), self.proxy_steps.len());
        let numbers: Vec<usize> = other.communicators.into_iter().map(|known| self.communicator(known)).collect();
        let group = self.groups.len();
        let renumber = |communicator: &mut Option<usize>| *communicator = communicator.map(|number| numbers[number]);
        let shift = |of: &mut Option<usize>| *of = of.map(|of| of + operation);
        other.group_hashes.into_iter().for_each(|(hash, group_hash)| self.add_group_hash(hash, group_hash));
        self.files.extend(other.files);
        self.paths.extend(other.paths);
        self.left_out += other.left_out;
        move_into(&mut self.file_of, other.file_of, |of| *of += file);
        move_into(&mut self.operations, other.operations, |row| {
            renumber(&mut row.communicator);
            row.recorded_path = row.recorded_path.map(|of| of + path);
        });
        move_into(&mut self.rank_status, other.rank_status, |row| {
            renumber(&mut row.communicator);
            row.file += file;
        });
        move_into(&mut self.channels, other.channels, |row| shift(&mut row.operation));
        move_into(&mut self.proxy_ops, other.proxy_ops, |row| shift(&mut row.operation));
        move_into(&mut self.proxy_steps, other.proxy_steps, |row| row.proxy_op += proxy_op);
        move_into(&mut self.profiler_events, other.profiler_events, |row| {
            renumber(&mut row.communicator);
            shift(&mut row.operation);
            row.proxy_step = row.proxy_step.map(|of| of + proxy_step);
            row.file += file;
        });
        move_into(&mut self.groups, other.groups, |row| row.file += file);
        move_into(&mut self.group_members, other.group_members, |(of, member)| {
            (*of, *member) = (*of + group, *member + operation);
        });
        self.calls_by.extend(other.calls_by.into_iter().map(|(of, name)| (of + operation, name)));
        self.splits.extend(other.splits.into_iter().map(|(of, splits)| (of + operation, splits)));
        move_into(&mut self.warnings, other.warnings, |row| row.file += file);
        move_into(&mut self.measures, other.measures, |row| row.operation += operation);
        move_into(&mut self.flow_ops, other.flow_ops, |row| row.file += file);
        move_into(&mut self.flow_steps, other.flow_steps, |row| row.file += file);
        move_into(&mut self.calls, other.calls, |(like, _)| renumber(&mut like.communicator));
    }

    pub fn push(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.file_of.push(0);
        self.operations.len() - 1
    }

    pub fn communicator_of(&self, operation: &Operation) -> Option<&Communicator> {
        self.communicators.get(operation.communicator?)
    }
}

fn move_into<T>(into: &mut Vec<T>, mut rows: Vec<T>, change: impl FnMut(&mut T)) {
    rows.iter_mut().for_each(change);
    into.append(&mut rows);
}
