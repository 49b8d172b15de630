//! The causal graph of a job: the graphs of its ranks on one clock, joined at their collectives.
//!
//! A collective of several ranks has one more node, when its last member has arrived, and a second one for each member, when it ends there. Every node
//! happens at the latest of what comes first, each with a delay. One of these was binding when the job ran, and has the delay that was recorded; the
//! others have the least delay that their kind has anywhere on that rank. So with nothing changed every node happens when it was recorded.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub use super::nodes::{Edge, Node, PathKind, Role};
use super::nodes::{Edges, Nodes, PackedTimes};
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph};

/// What may differ from one run to another. Times are in ns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// By node: its own time.
    pub own: Vec<i64>,
    /// By node: how it waits, if not as recorded.
    pub(super) waits: BTreeMap<u32, Wait>,
}

/// The memory of runs that are over. The system takes about as long to give such a piece as a run takes to compute, and a job is rerun some sixty times.
static SPARE: Mutex<Vec<Vec<i64>>> = Mutex::new(Vec::new());

/// At most so many pieces are kept; of a job with more nodes than `FEW`, whose runs are computed one by one on each processor, as many as two need.
const SPARES: usize = 8;
const FEW: usize = 2_000_000;
const FEW_SPARES: usize = 2;

/// Smaller pieces are not asked of the system each time.
const LARGE: usize = 16_384;

/// Keeps the memory of a run that is over.
pub(super) fn spare(mut piece: Vec<i64>) {
    if piece.capacity() >= LARGE {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let most = if piece.capacity() > FEW { FEW_SPARES } else { SPARES };
        if spare.len() < most {
            piece.clear();
            spare.push(piece);
        }
    }
}

/// Gives the memory of runs back to the system, once no more of them are asked.
pub(crate) fn give_back() {
    *SPARE.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
}

/// Memory for the times of so many nodes.
fn piece(nodes: usize) -> Vec<i64> {
    let known = || SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if nodes < LARGE { None } else { known() }.unwrap_or_default()
}

impl Clone for Times {
    fn clone(&self) -> Self {
        let mut own = piece(self.own.len());
        own.extend_from_slice(&self.own);
        Times { own, waits: self.waits.clone() }
    }
}

/// The times of a run that are kept for later.
#[derive(Debug)]
pub(super) struct KeptTimes {
    own: PackedTimes,
    waits: BTreeMap<u32, Wait>,
}

impl KeptTimes {
    pub(super) fn of(mut times: Times) -> Self {
        KeptTimes { own: PackedTimes::of(&times.own), waits: std::mem::take(&mut times.waits) }
    }

    pub(super) fn times(&self) -> Times {
        let own = self.own.iter();
        let mut piece = piece(own.len());
        piece.extend(own);
        Times { own: piece, waits: self.waits.clone() }
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        spare(std::mem::take(&mut self.own));
    }
}

/// How a node waits for what comes first. Times are in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// When its own time begins if nothing comes first.
    pub begin: i64,
    /// How much longer than the least delay it took from what was binding.
    pub extra: i64,
    /// Whether a thread's node waits for anything but what is before it on its thread.
    pub is_asked: bool,
    /// It happens no earlier than this.
    pub earliest: i64,
}

/// The graph of a job, in an order in which nothing comes before what it waits for.
#[derive(Debug, Default)]
pub struct JobGraph {
    pub nodes: Nodes,
    /// Their times as recorded.
    pub times: Times,
    /// By node: the number of the edge after its last one.
    pub(super) last_edge: Vec<u32>,
    /// The edges into each node.
    pub(super) edges: Edges,
    /// By rank and node of its graph: the node that is its end.
    pub ends: Vec<Vec<u32>>,
    /// By rank and node of its graph: where it has arrived, if it is a member of a collective; otherwise its end.
    pub arrivals: Vec<Vec<u32>>,
    /// By rank: equal for ranks whose clocks are compared with each other.
    pub clocks: Vec<usize>,
    /// By rank: when its profiler began to record, in ns; `None` if that is unknown.
    pub profiled_from: Vec<Option<i64>>,
    /// Edges that were left out because nodes would wait for each other in a circle.
    pub circular: u64,
}

/// A node of a graph that has no order yet: its rank, or for a rendezvous the number of ranks, and its number among the nodes there.
pub(super) type Unordered = (u32, u32);

/// The nodes of a rank, or all rendezvous, which have no order yet.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) nodes: Nodes,
    /// By node, as in [`Times`].
    pub(super) own: Vec<i64>,
    /// As in [`JobGraph`], of edges from other nodes here. Nodes at the end that have none are not in it.
    last_edge: Vec<u32>,
    edges: Edges,
}

impl Draft {
    pub(super) fn with_room(nodes: usize) -> Self {
        Draft { nodes: Nodes::with_room(nodes), own: Vec::with_capacity(nodes), ..Draft::default() }
    }

    /// Makes room for so many edges.
    pub(super) fn expect_edges(&mut self, edges: usize) {
        self.last_edge = Vec::with_capacity(self.nodes.len());
        self.edges = Edges::with_room(edges);
    }

    pub(super) fn edges(&self) -> usize {
        self.edges.len()
    }

    pub(super) fn drop_edges(&mut self) {
        (self.last_edge, self.edges) = (Vec::new(), Edges::default());
    }

    pub(super) fn push(&mut self, node: Node, own: i64) -> u32 {
        self.nodes.push(node, 0);
        self.own.push(own);
        self.nodes.len() as u32 - 1
    }

    /// Adds the edges into a node. Those before it have theirs already.
    pub(super) fn add_edges(&mut self, to: u32, edges: impl Iterator<Item = Edge>) {
        self.last_edge.resize(to as usize, self.edges.len() as u32);
        edges.for_each(|edge| self.edges.push(edge));
        self.last_edge.push(self.edges.len() as u32);
    }

    #[inline]
    pub(super) fn edges_into(&self, to: u32) -> impl DoubleEndedIterator<Item = Edge> + Clone {
        let after = |at: usize| self.last_edge.get(at).or(self.last_edge.last()).copied().unwrap_or_default();
        self.edges.of((to as usize).checked_sub(1).map_or(0, after)..after(to as usize))
    }

    #[inline]
    pub(super) fn node(&self, at: u32) -> Node {
        self.nodes.get(at as usize)
    }

    #[inline]
    pub(super) fn time(&self, at: u32) -> i64 {
        self.node(at).time
    }

    /// When what comes first, apart from its own thread, let a node happen at the earliest, and the kind of the edge that was binding.
    pub(super) fn bound(&self, to: u32) -> Option<(i64, EdgeKind)> {
        let others = self.edges_into(to).filter(|edge| edge.kind != EdgeKind::Thread);
        others.map(|edge| (self.time(edge.from) + edge.least, edge.kind)).max()
    }

    /// When a thread's own time began: at the node before, or when it was recorded.
    pub(super) fn before(&self, to: u32) -> i64 {
        let before = self.edges_into(to).find(|edge| edge.kind == EdgeKind::Thread);
        before.map_or(self.node(to).start, |edge| self.time(edge.from))
    }
}

/// An edge between ranks, as in [`Edge`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    pub(super) from: Unordered,
    pub(super) to: Unordered,
    pub(super) least: i64,
    pub(super) kind: EdgeKind,
}

impl JobGraph {
    /// Adds a node that happens after all that come first. `extra` is as in [`Wait`].
    pub fn push(&mut self, node: Node, own: i64, extra: i64, edges: impl IntoIterator<Item = Edge>) {
        self.nodes.push(node, extra);
        self.times.own.push(own);
        edges.into_iter().for_each(|edge| self.edges.push(edge));
        self.last_edge.push(self.edges.len() as u32);
    }

    #[inline]
    pub fn node(&self, at: usize) -> Node {
        self.nodes.get(at)
    }

    #[inline]
    pub fn edges_into(&self, node: usize) -> impl DoubleEndedIterator<Item = Edge> + ExactSizeIterator + Clone {
        let first = node.checked_sub(1).map_or(0, |before| self.last_edge[before]);
        self.edges.of(first..self.last_edge[node])
    }

    #[inline]
    pub fn recorded_wait(&self, node: usize) -> Wait {
        Wait { begin: self.node(node).start, extra: self.nodes.extra(node), is_asked: true, earliest: i64::MIN }
    }

    /// How a node waits in a run.
    pub fn wait(&self, times: &Times, node: usize) -> Wait {
        times.waits.get(&(node as u32)).copied().unwrap_or_else(|| self.recorded_wait(node))
    }

    /// Changes how a node waits in a run.
    pub fn change_wait(&self, times: &mut Times, node: usize, change: impl FnOnce(&mut Wait)) {
        change(times.waits.entry(node as u32).or_insert_with(|| self.recorded_wait(node)));
    }
}

/// The nodes of the collectives of a rank, by their rows.
pub(super) struct Rows(Vec<u32>);

impl Rows {
    pub(super) fn of(graph: &RankGraph) -> Self {
        let mut nodes = Vec::new();
        for (node, at) in graph.nodes.iter().zip(0..) {
            let NodeKind::Collective(row) = node.kind else { continue };
            nodes.resize(nodes.len().max(row as usize + 1), NO_NODE);
            nodes[row as usize] = at;
        }
        Rows(nodes)
    }

    pub(super) fn node(&self, row: u32) -> Option<usize> {
        self.0.get(row as usize).filter(|at| **at != NO_NODE).map(|at| *at as usize)
    }
}
