//! The edges within a rank: their least latencies, and what was binding.
//!
//! How soon a slice can start after its launch, or a call return after the end that it waits for, shows only where nothing else held it: the least of that is the
//! latency of its class, over all ranks. One odd edge has its own latency and changes no other.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::build::ROUNDED;
use super::job::{Draft, Edge};
use super::rank::{EdgeKind, NodeKind, RankEdge, RankGraph};
use crate::names::calls::Work;
use crate::numbers::Numbers;

/// What edges have in common whose latencies are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Class {
    kind: EdgeKind,
    /// The call that launches or waits.
    call: String,
    /// What it launches: kernels, fills, or copies of that name, which says from where to where.
    work: String,
    /// Whether that starts before the call returns.
    starts_inside: bool,
}

/// Calls that have the same reason to wait.
fn family(call: &str) -> &str {
    let families = ["StreamSynchronize", "EventSynchronize", "DeviceSynchronize", "CtxSynchronize"];
    families.into_iter().find(|family| call.ends_with(family)).unwrap_or("")
}

/// The least latencies of edges that were binding, in ns.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    of: HashMap<Class, i64, FixedState>,
}

impl Latencies {
    /// Those of several ranks together.
    pub(super) fn add(&mut self, other: Latencies) {
        for (class, least) in other.of {
            self.of.entry(class).and_modify(|known| *known = (*known).min(least)).or_insert(least);
        }
    }

    /// That of a class. Of one that was never binding that of similar ones.
    fn least(&self, class: &Class) -> i64 {
        let similar = |(other, _): &(&Class, &i64)| {
            let is_of_family = class.kind != EdgeKind::Blocked || family(&other.call) == family(&class.call);
            other.kind == class.kind && is_of_family
        };
        let similar = || self.of.iter().filter(similar).map(|(_, least)| *least).min();
        self.of.get(class).copied().or_else(similar).unwrap_or_default().max(0)
    }
}

/// The edges of a rank, with the nodes of the job's graph at which those of the rank's graph are freed and end.
pub(super) struct RankEdges<'a> {
    graph: &'a RankGraph,
    arrivals: &'a [u32],
    ends: &'a [u32],
    /// By text: what a slice of that name is.
    work: Vec<u16>,
    works: Vec<String>,
}

/// A class by numbers: the kind, the text of a call, the work, and whether that starts inside.
type Number = (EdgeKind, u32, u16, bool);

impl<'a> RankEdges<'a> {
    pub(super) fn new(graph: &'a RankGraph, arrivals: &'a [u32], ends: &'a [u32]) -> Self {
        let mut works: Numbers<String> = Numbers::default();
        let work = |text: &String| {
            let work = match Work::of_slice(text, false) {
                Some(Work::Copy) => text.as_str(),
                Some(Work::Fill) => "fill",
                _ => "kernel",
            };
            works.number(work.to_owned()) as u16
        };
        let work = graph.texts.iter().map(work).collect();
        RankEdges { graph, arrivals, ends, work, works: works.list }
    }

    /// The class of an edge. An edge by which a call may wait is as one by which it does.
    fn number(&self, at: usize, edge: &RankEdge) -> Number {
        let (node, from) = (&self.graph.nodes[at], &self.graph.nodes[edge.from as usize]);
        match edge.kind {
            EdgeKind::Launch => (edge.kind, from.name, self.work[node.name as usize], from.start == from.end),
            EdgeKind::Blocked | EdgeKind::MayBlock => (EdgeKind::Blocked, node.name, 0, false),
            kind => (kind, 0, 0, false),
        }
    }

    fn class(&self, (kind, call, work, starts_inside): Number) -> Class {
        let is_call = matches!(kind, EdgeKind::Launch | EdgeKind::Blocked);
        let call = if is_call { self.graph.texts[call as usize].clone() } else { String::new() };
        let work = if kind == EdgeKind::Launch { self.works[work as usize].clone() } else { String::new() };
        Class { kind, call, work, starts_inside }
    }

    fn ended(&self, draft: &Draft, edge: &RankEdge) -> i64 {
        draft.time(self.ends[edge.from as usize])
    }

    fn latency(&self, draft: &Draft, at: usize, edge: &RankEdge) -> i64 {
        draft.node(self.arrivals[at]).freed() - self.ended(draft, edge)
    }

    /// The least latencies of this rank. An edge was binding if it comes from the latest of what comes first.
    pub(super) fn measure(&self, draft: &Draft) -> Latencies {
        let mut found: HashMap<Number, i64, FixedState> = HashMap::default();
        for (at, edges) in self.graph.edges.iter().enumerate() {
            let others = || edges.iter().filter(|edge| !matches!(edge.kind, EdgeKind::Thread | EdgeKind::MayBlock));
            let Some(latest) = others().map(|edge| self.ended(draft, edge)).max() else { continue };
            for edge in others().filter(|edge| self.ended(draft, edge) == latest) {
                let latency = self.latency(draft, at, edge);
                let least = found.entry(self.number(at, edge)).or_insert(latency);
                *least = (*least).min(latency);
            }
        }
        Latencies { of: found.into_iter().map(|(number, least)| (self.class(number), least)).collect() }
    }

    /// Adds the edges, and the own times of threads.
    pub(super) fn add(&self, draft: &mut Draft, latencies: &Latencies) {
        let mut known: HashMap<Number, i64, FixedState> = HashMap::default();
        let shortest = self.shortest(draft);
        draft.expect_edges(self.graph.edges.count());
        for (at, of) in self.graph.edges.iter().enumerate() {
            let (kind, to) = (self.graph.nodes[at].kind, self.arrivals[at]);
            let edge = |edge: &RankEdge| {
                let (from, latency) = (self.ends[edge.from as usize], self.latency(draft, at, edge));
                let is_thread = edge.kind == EdgeKind::Thread;
                // What ended later than what waited for it did not hold it, but for how times are rounded.
                (is_thread || latency >= -ROUNDED.0).then(|| {
                    let number = self.number(at, edge);
                    let mut least = || *known.entry(number).or_insert_with(|| latencies.least(&self.class(number)));
                    let least = if is_thread { 0 } else { least().min(latency).max(0) };
                    Edge { from, least, kind: edge.kind }
                })
            };
            let edges: smallvec::SmallVec<[Edge; 2]> = of.iter().filter_map(edge).collect();
            draft.add_edges(to, edges.into_iter());
            let (node, bound) = (draft.node(to), draft.bound(to));
            let waits = self.graph.edges[at].iter().any(|edge| edge.kind == EdgeKind::Blocked);
            let is_late = bound.is_some_and(|(latest, _)| latest > node.start);
            let is_blocked = waits && (kind == NodeKind::Blocked || is_late);
            if kind.is_cpu() {
                let active = match kind {
                    NodeKind::Blocked if is_blocked => node.start,
                    NodeKind::Launch | NodeKind::Returned if is_blocked => {
                        let shortest = shortest.get(&self.graph.nodes[at].name).copied().unwrap_or_default();
                        (node.start + shortest).min(node.time)
                    }
                    // Until it is known for whom it waits.
                    NodeKind::CpuLeft(_) | NodeKind::Woken => node.start,
                    _ => node.time,
                };
                draft.own[to as usize] = active - draft.before(to);
            }
            let waits = !kind.is_cpu() || is_blocked || kind == NodeKind::Woken;
            if let Some((latest, binding)) = bound.filter(|_| waits) {
                draft.nodes.bind(to as usize, node.freed() - latest, binding);
            }
        }
    }

    /// By name: how long a call that launches takes at least, on a rank on which some of them wait for a place in the queue.
    fn shortest(&self, draft: &Draft) -> HashMap<u32, i64, FixedState> {
        let mut found: HashMap<u32, i64, FixedState> = HashMap::default();
        let launches = || {
            let nodes = self.graph.nodes.iter().enumerate();
            nodes.filter(|(_, node)| matches!(node.kind, NodeKind::Launch | NodeKind::Returned))
        };
        let waits = |at: usize| self.graph.edges[at].iter().filter(|edge| edge.kind == EdgeKind::Blocked);
        if !launches().any(|(at, _)| waits(at).next().is_some()) {
            return found;
        }
        for (at, node) in launches().filter(|(_, node)| node.start < node.end) {
            let of = draft.node(self.ends[at]);
            if waits(at).all(|edge| self.ended(draft, edge) <= of.start) {
                let length = of.time - of.start;
                found.entry(node.name).and_modify(|shortest| *shortest = (*shortest).min(length)).or_insert(length);
            }
        }
        found
    }
}
