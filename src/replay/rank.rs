//! The causal graph of one rank: what had to happen before each launch, wait and slice of its trace.
//!
//! | node | happens |
//! |---|---|
//! | [`NodeKind::Launch`] | when a call that puts work onto the GPU returns; when it begins, if the work starts before that |
//! | [`NodeKind::Returned`] | when a call returns whose work may start before that |
//! | [`NodeKind::Blocked`] | when a call that waits for the GPU returns |
//! | [`NodeKind::Unknown`], [`NodeKind::Profiler`] | when a thread goes on that was blocked by what nobody knows, or by the profiler |
//! | [`NodeKind::End`] | when a thread has ended its last step |
//! | [`NodeKind::Woken`] | when a thread goes on that waited for another thread |
//! | [`NodeKind::CpuArrival`], [`NodeKind::CpuLeft`] | when a thread comes to a collective of CPUs, and when it leaves |
//! | [`NodeKind::Slice`], [`NodeKind::Collective`] | when work on a stream ends |
//! | [`NodeKind::Earlier`] | when work on a stream ends that was launched before the window |
//!
//! An edge leads to a node from what it cannot have happened before.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Index;

use smallvec::SmallVec;

use crate::id::SliceId;
use crate::time::Ns;

pub const NO_NODE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A thread has launched something.
    Launch,
    /// A call has returned whose work may start before that: a copy's, or a graph's.
    Returned,
    /// A call that waits for the GPU has returned. It starts when it begins to wait.
    Blocked,
    /// A thread goes on that was blocked in a call for longer than such calls take, and no end of work shows by what.
    Unknown,
    /// A thread goes on after the profiler has written its buffers, at the end of a call that waits for the device.
    Profiler,
    /// A thread has ended its last step, or its last call.
    End,
    /// A thread that waited for another one goes on.
    Woken,
    /// A thread has come to a collective of CPUs. It has the collective's number on this rank.
    CpuArrival(u32),
    /// A thread has left that collective.
    CpuLeft(u32),
    /// A kernel, copy or fill has ended.
    Slice,
    /// The kernel of a collective has ended. It has a position in the rank's rows.
    Collective(u32),
    /// What a stream still ran when the window began has ended.
    Earlier,
}

impl NodeKind {
    /// Whether it is on a CPU thread.
    pub fn is_cpu(self) -> bool {
        !matches!(self, NodeKind::Slice | NodeKind::Collective(_) | NodeKind::Earlier)
    }
}

/// Why a node cannot happen before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// A thread does one thing after the other.
    Thread,
    /// A slice starts after its launch.
    Launch,
    /// A stream runs one slice after the other.
    Stream,
    /// A call made a stream wait for another.
    WaitEvent,
    /// Neither its launch nor its stream explains why a slice did not start earlier, and this slice of another stream ended last before.
    Unexplained,
    /// A call returns after the slice that it waits for.
    Blocked,
    /// A call would return after this slice. It did not have to wait for it.
    MayBlock,
    /// A thread goes on after another one has launched.
    Wake,
    /// All members of a collective have arrived.
    Rendezvous,
    /// All members of a collective of CPUs have arrived.
    Cpus,
}

impl EdgeKind {
    /// All of them, in their order.
    pub(super) const ALL: [EdgeKind; 10] = [
        EdgeKind::Thread,
        EdgeKind::Launch,
        EdgeKind::Stream,
        EdgeKind::WaitEvent,
        EdgeKind::Unexplained,
        EdgeKind::Blocked,
        EdgeKind::MayBlock,
        EdgeKind::Wake,
        EdgeKind::Rendezvous,
        EdgeKind::Cpus,
    ];
}

/// The number of a step, if there is one, in as many bytes as a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeStep(Option<NonZero<u32>>);

impl NodeStep {
    pub fn get(self) -> Option<u32> {
        self.0.map(|after| after.get() - 1)
    }
}

impl From<Option<u32>> for NodeStep {
    fn from(step: Option<u32>) -> Self {
        NodeStep(step.and_then(|step| NonZero::new(step.wrapping_add(1))))
    }
}

/// A node of a rank's graph. Times are on the trace's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankNode {
    pub kind: NodeKind,
    /// When the slice or call starts. A slice starts no earlier than the slice before it on its stream ends.
    pub start: Ns,
    pub end: Ns,
    /// Its thread or stream, by the order of first use.
    pub lane: u32,
    /// The name of the slice or call: a position in the texts.
    pub name: u32,
    /// The step in which it was launched.
    pub step: NodeStep,
    /// Equal for nodes of like ranks that do the same, in all steps.
    pub place: u64,
    /// A position in the intervals.
    pub interval: u32,
}

impl RankNode {
    /// A node of which only the kind is known yet.
    pub(super) fn new(kind: NodeKind) -> Self {
        let none = Ns::ZERO;
        RankNode { kind, start: none, end: none, lane: 0, name: 0, step: NodeStep::default(), place: 0, interval: 0 }
    }
}

/// An edge into a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankEdge {
    /// The node that comes first.
    pub from: u32,
    pub kind: EdgeKind,
}

/// The edges into a node, while they are found.
pub type RankEdges = SmallVec<[RankEdge; 2]>;

/// By node: the edges into it, in one piece of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgesByNode {
    /// By node: how many edges come before the end of its own.
    ends: Vec<u32>,
    edges: Vec<RankEdge>,
}

impl EdgesByNode {
    /// Room for so many nodes, and edges.
    pub(super) fn with_room(nodes: usize, edges: usize) -> Self {
        EdgesByNode { ends: Vec::with_capacity(nodes), edges: Vec::with_capacity(edges) }
    }

    /// Adds the edges into the next node.
    pub(super) fn push(&mut self, edges: impl IntoIterator<Item = RankEdge>) {
        self.edges.extend(edges);
        self.ends.push(self.edges.len() as u32);
    }

    /// Adds an edge into a node. No later node has any yet.
    pub(super) fn add(&mut self, to: usize, edge: RankEdge) {
        self.fill(to + 1);
        self.edges.push(edge);
        self.ends[to] += 1;
    }

    /// Adds nodes without edges, up to so many.
    pub(super) fn fill(&mut self, nodes: usize) {
        self.ends.resize(nodes.max(self.ends.len()), self.edges.len() as u32);
    }

    pub(super) fn nodes(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn count(&self) -> usize {
        self.edges.len()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[RankEdge]> + Clone {
        (0..self.ends.len()).map(|at| &self[at])
    }
}

impl Index<usize> for EdgesByNode {
    type Output = [RankEdge];

    #[inline]
    fn index(&self, at: usize) -> &[RankEdge] {
        let first = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.edges[first as usize..self.ends[at] as usize]
    }
}

impl<E: IntoIterator<Item = RankEdge>> FromIterator<E> for EdgesByNode {
    fn from_iter<I: IntoIterator<Item = E>>(nodes: I) -> Self {
        let mut found = EdgesByNode::default();
        nodes.into_iter().for_each(|edges| found.push(edges));
        found
    }
}

/// What a thread or a stream does from one collective to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interval {
    /// Equal for intervals of like ranks in which the same happens, in all steps.
    pub place: u64,
    pub step: Option<u32>,
    /// Of a thread: how long it was itself in which function (a position in the texts), without waiting, longest first. Functions that are not
    /// listed take at most as long as the last one, if there are [`FUNCTIONS`], and no time otherwise.
    pub functions: Vec<(u32, Ns)>,
}

/// Puts the functions of an interval into their order.
pub(super) fn longest_first(functions: &mut [(u32, Ns)]) {
    functions.sort_unstable_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
}

/// How many functions of an interval are kept.
pub const FUNCTIONS: usize = 32;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankGraph {
    pub nodes: Vec<RankNode>,
    pub edges: EdgesByNode,
    /// By node: its slice in the trace, if it is one. Empty in a file of parts, where there is no trace.
    pub slices: Vec<Option<SliceId>>,
    /// The intervals between collectives.
    pub intervals: Vec<Interval>,
    /// Names of slices, calls and functions.
    pub texts: Vec<String>,
    /// Which of these, ascending, are of annotations alone: they say when a thread did something.
    pub annotations: Vec<u32>,
    pub steps: u32,
    /// How many of these were left out, because another rank does not have them.
    pub left_out_steps: u32,
    /// When the profiler began to record, if the trace says so.
    pub profiled_from: Option<Ns>,
}

impl RankGraph {
    pub fn name(&self, node: u32) -> &str {
        &self.texts[self.nodes[node as usize].name as usize]
    }

    /// Whether a text is of an annotation, not of a function.
    pub fn is_annotation(&self, text: u32) -> bool {
        self.annotations.binary_search(&text).is_ok()
    }

    /// The rows of collectives, by the nodes of their launches. One call may launch many kernels of a graph.
    pub fn rows_by_launch(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (node, edges) in self.nodes.iter().zip(self.edges.iter()) {
            let NodeKind::Collective(row) = node.kind else { continue };
            let launch = edges.iter().find(|edge| edge.kind == EdgeKind::Launch);
            launch.into_iter().for_each(|launch| found.entry(launch.from).or_default().push(row));
        }
        found
    }

    /// Whether it has what threads did, and not only streams.
    pub fn has_threads(&self) -> bool {
        self.nodes.iter().any(|node| node.kind.is_cpu())
    }

    /// Whether it has no nodes: nothing was recorded, or only what has no causes (NCCL's own records).
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
