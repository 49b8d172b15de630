//! The NCCL calls of a rank, derived from the events that a profiler would record, with the numbers that NCCL counts.

use std::collections::HashMap;

use super::super::Job;
use super::super::events::{Comm, Event, Name, Peer, Stream, What};
use super::super::layout::Layout;
use super::super::model::ELEMENT_BYTES;
use super::super::rng::Rng;

/// For a kernel that no trace has: the time from the call to its start, and its duration. Nothing else is known of it.
const LOST_START: i64 = 4_000;
const LOST_LENGTH: i64 = 30_000;

/// A call of NCCL.
pub(super) struct Call<'a> {
    pub(super) comm: Comm,
    /// NCCL's name: `AllReduce`.
    pub(super) function: &'static str,
    /// The argument `count`.
    pub(super) count: u64,
    /// The peer of a send or receive, as its place in the group.
    pub(super) peer: Option<u32>,
    /// When PyTorch enqueued it, when NCCL was called, and when NCCL returned. Nanoseconds since the start of the job.
    pub(super) enqueued: i64,
    pub(super) called: i64,
    pub(super) returned: i64,
    /// Start and end of the kernel, if the trace has it.
    pub(super) kernel: Option<(i64, i64)>,
    /// When it ran, whether the trace has it or not.
    pub(super) ran: (i64, i64),
    /// The Python functions around it, innermost first.
    pub(super) frames: Vec<&'a str>,
    pub(super) stream: Stream,
    /// NCCL's number, counted per communicator and function.
    pub(super) sequence: u64,
    /// Its number among all calls of the communicator, and on its stream, from 0.
    pub(super) of_comm: u64,
    pub(super) of_stream: u64,
    pub(super) plan: Plan,
}

/// What NCCL chose for a call.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) algorithm: Option<&'static str>,
    pub(super) protocol: Option<&'static str>,
    pub(super) channels: u32,
}

impl Call<'_> {
    /// The size in bytes that NCCL computes from its arguments.
    pub(super) fn bytes(&self) -> u64 {
        self.count * ELEMENT_BYTES
    }

    pub(super) fn is_collective(&self) -> bool {
        self.peer.is_none()
    }
}

/// All calls of a rank, in order. Only kernels of calls from a certain time on are in the trace.
pub(super) fn calls<'a>(
    job: &Job,
    layout: &Layout,
    rank: u32,
    events: &[Event<'a>],
    traced_from: i64,
) -> Vec<Call<'a>> {
    let (mut launches, mut kernels) = (HashMap::new(), HashMap::new());
    for event in events {
        match event.what {
            What::Call { launch, launches: true } => launches.insert(launch.external, (event.start, event.end)),
            What::Kernel { launch, comm: Some(_), .. } => kernels.insert(launch.external, (event.start, event.end)),
            _ => None,
        };
    }
    let (mut open, mut found): (Vec<(&str, i64)>, Vec<Call<'_>>) = (Vec::new(), Vec::new());
    let mut counters: HashMap<(usize, &str), u64> = HashMap::new();
    let mut count = |group: usize, what: &'static str, first: u64| {
        let next = counters.entry((group, what)).or_insert(first);
        *next += 1;
        *next - 1
    };
    for event in events {
        let (name, start) = (event.name, event.start);
        if !matches!(event.what, What::Kernel { .. } | What::Copy { .. }) {
            open.retain(|(_, end)| *end > start);
        }
        match (&event.what, name) {
            (What::Frame { .. }, Name::Text(name)) => open.push((name, event.end)),
            (What::Record { external, comm }, _) => {
                let function = function(comm.collective);
                let peer = comm.peer.map(|peer| match peer {
                    Peer::To(rank) | Peer::From(rank) => layout.place(comm.group, rank),
                });
                let (called, returned) = launches.get(&Some(*external)).copied().unwrap_or((event.start, event.end));
                let kernel = kernels.get(&Some(*external)).copied();
                let stream = stream(function);
                let elements = if function == "ReduceScatter" { comm.elements_out } else { comm.elements_in };
                found.push(Call {
                    comm: *comm,
                    function,
                    count: elements,
                    peer,
                    enqueued: event.start,
                    called,
                    returned,
                    kernel: kernel.filter(|_| event.start >= traced_from),
                    ran: kernel.unwrap_or((returned + LOST_START, returned + LOST_START + LOST_LENGTH)),
                    frames: open.iter().rev().map(|(name, _)| *name).collect(),
                    stream,
                    sequence: count(comm.group, function, first(job, comm.group)),
                    of_comm: count(comm.group, "", first(job, comm.group)),
                    of_stream: count(usize::MAX, stream_name(stream), 0),
                    plan: plan(comm.group, function, elements * ELEMENT_BYTES),
                });
            }
            _ => {}
        }
    }
    debug_assert!(found.iter().all(|call| layout.groups[call.comm.group].ranks.contains(&rank)));
    found
}

/// The number of the first call: the job ran for a while before the recording.
fn first(job: &Job, group: usize) -> u64 {
    Rng::new(job.seed, 3_100_000_000 + group as u64).next() % 500
}

/// NCCL's number for a communicator, the same on all of its ranks.
pub(super) fn comm_hash(group: usize) -> u64 {
    Rng::new(group as u64, 3_000_000_000).next()
}

/// Megatrace's hash, which differs from NCCL's.
pub(super) fn group_hash(group: usize) -> u64 {
    Rng::new(group as u64, 3_000_000_001).next()
}

/// The handle of a stream, which no other source records.
pub(super) fn handle(stream: Stream) -> u64 {
    0x5591_9d27_0000 + 0x1000 * stream.index() as u64
}

fn function(collective: &str) -> &'static str {
    match collective {
        "_reduce_scatter_base" => "ReduceScatter",
        "_allgather_base" => "AllGather",
        "send" => "Send",
        "recv" => "Recv",
        _ => "AllReduce",
    }
}

fn stream(function: &str) -> Stream {
    match function {
        "AllReduce" => Stream::Tensor,
        "Send" | "Recv" => Stream::Pipeline,
        _ => Stream::Data,
    }
}

fn stream_name(stream: Stream) -> &'static str {
    ["stream 0", "stream 1", "stream 2", "stream 3"][stream.index()]
}

/// A plausible choice of NCCL. The kernels' names differ from it, as in real traces: they name what the kernel was compiled for, not what it is
/// asked to run.
fn plan(group: usize, function: &str, bytes: u64) -> Plan {
    let (algorithm, protocol, channels) = match function {
        "AllReduce" if bytes < 8192 => (Some("TREE"), Some("LL"), 1),
        "AllReduce" if group.is_multiple_of(2) => (Some("NVLS"), Some("SIMPLE"), 4),
        "AllReduce" => (Some("RING"), Some("SIMPLE"), 2),
        "ReduceScatter" => (Some("RING"), Some("LL128"), 2),
        "AllGather" => (Some("RING"), Some("SIMPLE"), 3),
        _ => (None, None, 2),
    };
    Plan { algorithm, protocol, channels }
}
