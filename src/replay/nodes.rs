//! The nodes and edges of a job's graph in few bytes each: a job of a thousand ranks has millions of them, and what takes time is reading them.
//!
//! Nearly all lengths are below two seconds, and nearly all least times between nodes below a quarter of one. Others are in a table.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::rank::EdgeKind;

/// What a piece of the critical path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// What a thread does.
    Cpu,
    /// From the end of a launch to the start of what it launched.
    LaunchLatency,
    /// A kernel, copy or fill.
    Compute,
    /// A collective once all members have arrived, of GPUs or of CPUs. Of a collective of which no other rank is known, all of its time.
    Transfer,
    /// A stream does nothing though its work is launched, a thread wakes up after it has waited for the GPU, or nothing is known of that time.
    Idle,
    /// A thread is blocked in a call, and nothing shows by what.
    BlockedUnknown,
    /// The profiler writes its buffers.
    Profiler,
    /// A collective waits for a rank that is not here, or transfers slowly.
    Absent,
}

impl PathKind {
    /// All of them, in the order in which they are printed.
    pub const ALL: [PathKind; 8] = [
        PathKind::Cpu,
        PathKind::LaunchLatency,
        PathKind::Compute,
        PathKind::Transfer,
        PathKind::Idle,
        PathKind::BlockedUnknown,
        PathKind::Profiler,
        PathKind::Absent,
    ];

    /// As programs read it.
    pub fn word(self) -> &'static str {
        match self {
            PathKind::LaunchLatency => "launch-latency",
            PathKind::Cpu => "cpu",
            PathKind::BlockedUnknown => "blocked-unknown",
            PathKind::Absent => "absent",
            plain => plain.name(),
        }
    }

    /// As a table names it.
    pub fn name(self) -> &'static str {
        match self {
            PathKind::Cpu => "CPU",
            PathKind::LaunchLatency => "launch latency",
            PathKind::Compute => "compute",
            PathKind::Transfer => "transfer",
            PathKind::Idle => "idle",
            PathKind::BlockedUnknown => "blocked, unknown by what",
            PathKind::Profiler => "profiler",
            PathKind::Absent => "waiting for a rank that is not here",
        }
    }
}

/// What a node's own time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Of a thread: since the node before on its thread.
    Cpu,
    /// Of a slice: since its start.
    Gpu,
    /// The same, of a collective that was matched with none of another rank: how much of it is waiting is unknown.
    Alone,
    /// None: a member of a collective has arrived.
    Arrival,
    /// None: all members of a collective have arrived.
    Rendezvous,
    /// Of a member of a collective: since all have arrived.
    Transfer,
    /// Nobody's work, as it is on the critical path: of a thread since the node before, of a stream since the beginning.
    Outside(PathKind),
}

impl Role {
    /// Whether the rank's own doing determines the node's own time.
    pub fn is_work(self) -> bool {
        matches!(self, Role::Cpu | Role::Gpu)
    }
}

/// A node of a job's graph. Times are in ns on the job's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// What its own time is.
    pub role: Role,
    /// A position in the ranks; of a rendezvous its first member.
    pub rank: u32,
    /// Its node in the rank's graph; [`NO_NODE`](super::rank::NO_NODE) for a rendezvous.
    pub of: u32,
    pub time: i64,
    /// When its own time began.
    pub start: i64,
    pub binding: EdgeKind,
}

impl Node {
    /// When what comes first let it happen.
    pub(super) fn freed(&self) -> i64 {
        if matches!(self.role, Role::Gpu | Role::Alone) { self.start } else { self.time }
    }
}

/// An edge into a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The node that comes first.
    pub from: u32,
    /// The least time between them, in ns.
    pub least: i64,
    pub kind: EdgeKind,
}

/// What does not fit, by its place.
type Wide = HashMap<u32, i64, FixedState>;

/// The value of what does not fit.
const WIDE: i32 = i32::MIN;

fn narrow(value: i64, at: usize, wide: &mut Wide) -> i32 {
    match i32::try_from(value) {
        Ok(value) if value != WIDE => value,
        _ => {
            wide.insert(at as u32, value);
            WIDE
        }
    }
}

#[inline]
fn widened(value: i32, at: usize, wide: &Wide) -> i64 {
    if value == WIDE { of_table(at, wide) } else { i64::from(value) }
}

#[cold]
fn of_table(at: usize, wide: &Wide) -> i64 {
    wide[&(at as u32)]
}

/// Times by node, in half as many bytes.
#[derive(Debug, Default)]
pub(super) struct PackedTimes {
    stored: Vec<i32>,
    wide: Wide,
}

impl PackedTimes {
    pub(super) fn of(times: &[i64]) -> Self {
        let mut wide = Wide::default();
        let stored = times.iter().enumerate().map(|(at, time)| narrow(*time, at, &mut wide)).collect();
        PackedTimes { stored, wide }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = i64> {
        self.stored.iter().enumerate().map(|(at, time)| widened(*time, at, &self.wide))
    }
}

/// Nodes, each with how much longer than the least delay it took from what was binding, in ns.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    stored: Vec<StoredNode>,
    lengths: Wide,
    extras: Wide,
}

#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed(4))]
struct StoredNode {
    time: i64,
    rank: u32,
    of: u32,
    length: i32,
    extra: i32,
    role: Role,
    binding: EdgeKind,
}

impl Nodes {
    pub(super) fn with_room(nodes: usize) -> Self {
        Nodes { stored: Vec::with_capacity(nodes), ..Nodes::default() }
    }

    pub fn len(&self) -> usize {
        self.stored.len()
    }

    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    pub(super) fn push(&mut self, node: Node, extra: i64) {
        let (Node { role, rank, of, time, start, binding }, at) = (node, self.len());
        let length = narrow(time.wrapping_sub(start), at, &mut self.lengths);
        let extra = narrow(extra, at, &mut self.extras);
        self.stored.push(StoredNode { time, rank, of, length, extra, role, binding });
    }

    #[inline]
    pub fn get(&self, at: usize) -> Node {
        let StoredNode { time, rank, of, length, role, binding, .. } = self.stored[at];
        let start = time.wrapping_sub(widened(length, at, &self.lengths));
        Node { role, rank, of, time, start, binding }
    }

    #[inline]
    pub fn extra(&self, at: usize) -> i64 {
        widened(self.stored[at].extra, at, &self.extras)
    }

    pub(super) fn bind(&mut self, at: usize, extra: i64, binding: EdgeKind) {
        let extra = narrow(extra, at, &mut self.extras);
        let node = &mut self.stored[at];
        (node.extra, node.binding) = (extra, binding);
    }

    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Node> + Clone {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// Edges, by their numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Edges {
    /// From where, and the kind with the least time.
    stored: Vec<(u32, u32)>,
    leasts: Wide,
}

/// So many bits are the least time; the others are the kind.
const LEAST_BITS: u32 = 28;

/// The value of a least time that does not fit.
const WIDE_LEAST: u32 = (1 << LEAST_BITS) - 1;

impl Edges {
    pub(super) fn with_room(edges: usize) -> Self {
        Edges { stored: Vec::with_capacity(edges), leasts: Wide::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn push(&mut self, Edge { from, least, kind }: Edge) {
        let narrow = u32::try_from(least).ok().filter(|least| *least < WIDE_LEAST);
        if narrow.is_none() {
            self.leasts.insert(self.len() as u32, least);
        }
        self.stored.push((from, (kind as u32) << LEAST_BITS | narrow.unwrap_or(WIDE_LEAST)));
    }

    pub(super) fn append(&mut self, other: Edges) {
        let before = self.len() as u32;
        self.stored.extend(other.stored);
        self.leasts.extend(other.leasts.into_iter().map(|(at, least)| (before + at, least)));
    }

    #[inline]
    pub(super) fn of(&self, range: Range<u32>) -> impl DoubleEndedIterator<Item = Edge> + ExactSizeIterator + Clone {
        let edges = self.stored[range.start as usize..range.end as usize].iter().enumerate();
        edges.map(move |(at, (from, packed))| {
            let kind = EdgeKind::ALL[(packed >> LEAST_BITS) as usize];
            let least = match packed & WIDE_LEAST {
                WIDE_LEAST => of_table(range.start as usize + at, &self.leasts),
                least => i64::from(least),
            };
            Edge { from: *from, least, kind }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: [i64; 11] = [
        0,
        1,
        -1,
        (1 << 28) - 2,
        (1 << 28) - 1,
        1 << 28,
        i32::MAX as i64,
        i32::MIN as i64,
        i32::MIN as i64 - 1,
        i64::MAX,
        i64::MIN,
    ];

    #[test]
    fn nodes_and_edges_are_what_they_were() {
        assert_eq!((size_of::<StoredNode>(), size_of::<(u32, u32)>()), (28, 8));
        let roles = [Role::Cpu, Role::Gpu, Role::Outside(PathKind::Absent), Role::Rendezvous];
        let (mut nodes, mut edges, mut others) = (Nodes::default(), Edges::default(), Edges::default());
        let (mut expected, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (start, extra)) in LARGE.iter().flat_map(|a| LARGE.iter().map(move |b| (*a, *b))).enumerate() {
            let binding = EdgeKind::ALL[at % EdgeKind::ALL.len()];
            let node = Node { role: roles[at % roles.len()], rank: 7, of: at as u32, time: 1_000, start, binding };
            let edge = Edge { from: at as u32, least: extra, kind: binding };
            let (edges, list) = if at % 2 == 0 { (&mut edges, &mut first) } else { (&mut others, &mut last) };
            edges.push(edge);
            list.push(edge);
            nodes.push(node, extra);
            expected.push((node, extra));
        }
        edges.append(others);
        first.append(&mut last);
        assert!(edges.of(0..edges.len() as u32).eq(first));
        for (at, (node, extra)) in expected.into_iter().enumerate() {
            assert_eq!((nodes.get(at), nodes.extra(at)), (node, extra));
            nodes.bind(at, extra ^ 1, EdgeKind::Wake);
            assert_eq!((nodes.get(at), nodes.extra(at)), (Node { binding: EdgeKind::Wake, ..node }, extra ^ 1));
        }
    }
}
