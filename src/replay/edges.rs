//! The edges within a rank: their least delays, and what was binding.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::job::{Draft, Edge};
use super::rank::{EdgeKind, NodeKind, RankEdge, RankGraph};

/// The least delay of edges, and whether any of them came from the latest of what comes first.
#[derive(Debug, Clone, Copy)]
struct Least {
    delay: i64,
    was_binding: bool,
}

/// So many kinds of edges.
const KINDS: usize = EdgeKind::Cpus as usize + 1;

/// The edges of a rank, with the nodes of the job's graph at which those of the rank's graph are freed and end.
struct RankEdges<'a> {
    graph: &'a RankGraph,
    arrivals: &'a [u32],
    ends: &'a [u32],
    /// By kind, and by the name of the call that launches or waits.
    least: [Vec<Option<Least>>; KINDS],
    of_kinds: [Least; KINDS],
}

/// Adds the edges within a rank, and the own times of its threads.
pub(super) fn add_edges(draft: &mut Draft, graph: &RankGraph, arrivals: &[u32], ends: &[u32]) {
    let of_kinds = [Least { delay: i64::MAX, was_binding: false }; KINDS];
    let mut edges = RankEdges { graph, arrivals, ends, least: Default::default(), of_kinds };
    edges.measure(draft);
    let shortest = edges.shortest(draft);
    for (at, of) in graph.edges.iter().enumerate() {
        let (kind, to) = (graph.nodes[at].kind, arrivals[at]);
        draft.add_edges(to, of.iter().map(|edge| edges.edge(at, edge)));
        let (node, bound) = (draft.nodes[to as usize], draft.bound(to));
        let is_blocked = bound.is_some_and(|(latest, _)| latest > node.start);
        if kind.is_cpu() {
            let active = match kind {
                NodeKind::Blocked | NodeKind::Launch if is_blocked => {
                    let shortest = shortest.get(&graph.nodes[at].name).copied().unwrap_or_default();
                    (node.start + shortest).min(node.time)
                }
                // Until it is known for whom it waits.
                NodeKind::CpuLeft(_) | NodeKind::Woken => node.start,
                _ => node.time,
            };
            draft.own[to as usize] = active - draft.before(to);
        }
        if let Some((latest, binding)) = bound.filter(|_| !kind.is_cpu() || is_blocked || kind == NodeKind::Woken) {
            (draft.extra[to as usize], draft.nodes[to as usize].binding) = (node.freed() - latest, binding);
        }
    }
}

impl RankEdges<'_> {
    /// The call of an edge whose delay depends on it.
    fn call(&self, at: usize, edge: &RankEdge) -> usize {
        match edge.kind {
            EdgeKind::Launch => self.graph.nodes[edge.from as usize].name as usize,
            EdgeKind::Blocked => self.graph.nodes[at].name as usize,
            _ => 0,
        }
    }

    fn ended(&self, draft: &Draft, edge: &RankEdge) -> i64 {
        draft.time(self.ends[edge.from as usize])
    }

    fn measure(&mut self, draft: &Draft) {
        for (at, edges) in self.graph.edges.iter().enumerate() {
            let freed = draft.nodes[self.arrivals[at] as usize].freed();
            let latest = edges.iter().map(|edge| self.ended(draft, edge)).max();
            for edge in edges.iter().filter(|edge| edge.kind != EdgeKind::Thread) {
                let (ended, call, kind) = (self.ended(draft, edge), self.call(at, edge), edge.kind as usize);
                let delay = freed - ended;
                let of_kind = &mut self.least[kind];
                of_kind.resize(of_kind.len().max(call + 1), None);
                let of_call = of_kind[call].get_or_insert(Least { delay, was_binding: false });
                for least in [of_call, &mut self.of_kinds[kind]] {
                    least.delay = least.delay.min(delay);
                    least.was_binding |= Some(ended) == latest;
                }
            }
        }
    }

    fn edge(&self, at: usize, edge: &RankEdge) -> Edge {
        let of_kind = self.of_kinds[edge.kind as usize];
        let least = |of: Least| match edge.kind {
            _ if of.was_binding => of.delay,
            // A call whose work always had to wait for something else does not show how soon it could have started.
            EdgeKind::Launch | EdgeKind::Blocked if of_kind.was_binding => of.delay.min(of_kind.delay),
            _ => of.delay.min(0),
        };
        let least = self.least[edge.kind as usize].get(self.call(at, edge)).copied().flatten().map_or(0, least);
        Edge { from: self.ends[edge.from as usize], least, kind: edge.kind }
    }

    /// By name: how long a call takes at least that does not have to wait.
    fn shortest(&self, draft: &Draft) -> HashMap<u32, i64, FixedState> {
        let mut found: HashMap<u32, i64, FixedState> = HashMap::default();
        let nodes = || self.graph.nodes.iter().enumerate();
        let blocks = |at: usize| self.graph.edges[at].iter().any(|edge| edge.kind == EdgeKind::Blocked);
        // Launches wait on few traces.
        let launches_wait = nodes().any(|(at, node)| node.kind == NodeKind::Launch && blocks(at));
        let is_call = |kind: NodeKind| kind == NodeKind::Blocked || launches_wait && kind == NodeKind::Launch;
        for (at, node) in nodes().filter(|(_, node)| is_call(node.kind)) {
            let of = draft.nodes[self.ends[at] as usize];
            let mut waited = self.graph.edges[at].iter().filter(|edge| edge.kind == EdgeKind::Blocked);
            if waited.all(|edge| self.ended(draft, edge) <= of.start) {
                let length = of.time - of.start;
                found.entry(node.name).and_modify(|shortest| *shortest = (*shortest).min(length)).or_insert(length);
            }
        }
        found
    }
}
