//! Joins the graphs of ranks to that of their job.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use foldhash::fast::FixedState;

use super::edges::add_edges;
use super::job::{Draft, Edge, Edges, JobGraph, Node, Role, rows};
use super::joins::{join_collectives, join_cpus, members, shifts};
use super::rank::{NO_NODE, NodeKind, RankGraph};
use crate::operations::clocks::{Clocks, RankClock};
use crate::operations::matching::Matches;
use crate::time::Ns;

impl JobGraph {
    /// Joins the graphs of ranks.
    pub fn join(ranks: &[&RankGraph], matches: &Matches, clocks: &Clocks) -> Self {
        let (shifts, members) = (shifts(ranks, matches, clocks), members(matches));
        let mut draft = Draft { nodes: Vec::new(), times: Vec::new(), edges: Vec::new() };
        let (mut arrivals, mut ends) = (Vec::new(), Vec::new());
        for (rank, graph) in ranks.iter().enumerate() {
            let time = |time: Ns| clocks.ranks[rank].aligned(time).0 - shifts[rank];
            let (mut own_arrivals, mut own_ends) = (Vec::new(), Vec::new());
            for (node, of) in graph.nodes.iter().zip(0..) {
                let (start, end) = (time(node.start), time(node.end));
                let role = match node.kind {
                    NodeKind::Collective(row) if members.contains(&(rank, row)) => Role::Transfer,
                    NodeKind::Collective(_) => Role::Alone,
                    kind if kind.is_cpu() => Role::Cpu,
                    _ => Role::Gpu,
                };
                let node = Node { role, rank: rank as u32, of, time: end, start };
                let own = if matches!(role, Role::Gpu | Role::Alone) { end - start } else { 0 };
                let arrival =
                    (role == Role::Transfer).then(|| draft.push(Node { role: Role::Arrival, time: start, ..node }, 0));
                let end = draft.push(node, own);
                own_arrivals.push(arrival.unwrap_or(end));
                own_ends.push(end);
            }
            arrivals.push(own_arrivals);
            ends.push(own_ends);
        }
        for (rank, graph) in ranks.iter().enumerate() {
            add_edges(&mut draft, graph, &arrivals[rank], &ends[rank]);
        }
        let node_of: Vec<HashMap<u32, usize, FixedState>> = ranks.iter().map(|graph| rows(graph)).collect();
        join_collectives(&mut draft, matches, |rank, row| {
            let at = *node_of[rank].get(&row)?;
            Some((arrivals[rank][at], ends[rank][at]))
        });
        join_cpus(&mut draft, ranks, &ends, clocks);
        let clock = |(rank, clock): (usize, &RankClock)| clock.component.unwrap_or(ranks.len() + rank);
        let clocks = clocks.ranks.iter().enumerate().map(clock).collect();
        JobGraph { clocks, ..in_order(draft, ends, arrivals) }
    }
}

/// By node: those that wait for it.
struct After {
    first: Vec<u32>,
    nodes: Vec<u32>,
}

impl After {
    fn new(edges: &[Edges]) -> Self {
        let mut first = vec![0; edges.len() + 1];
        edges.iter().flatten().for_each(|edge| first[edge.from as usize + 1] += 1);
        (1..first.len()).for_each(|at| first[at] += first[at - 1]);
        let (mut next, mut nodes) = (first.clone(), vec![0; first[edges.len()] as usize]);
        for (edges, to) in edges.iter().zip(0..) {
            for edge in edges {
                let at = &mut next[edge.from as usize];
                nodes[*at as usize] = to;
                *at += 1;
            }
        }
        After { first, nodes }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.nodes[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}

/// Puts nodes into an order in which nothing comes before what it waits for; of those that can come next, the one that happened first.
fn in_order(draft: Draft, ends: Vec<Vec<u32>>, arrivals: Vec<Vec<u32>>) -> JobGraph {
    let count = draft.nodes.len();
    let mut waiting: Vec<u32> = draft.edges.iter().map(|edges| edges.len() as u32).collect();
    let after = After::new(&draft.edges);
    let key = |at: u32| (draft.nodes[at as usize].time, at);
    let free = (0..count as u32).filter(|at| waiting[*at as usize] == 0);
    let mut ready: BinaryHeap<Reverse<(i64, u32)>> = free.map(|at| Reverse(key(at))).collect();
    // If all that are left wait for each other, the one that happened first goes first.
    let mut rest: Option<std::vec::IntoIter<u32>> = None;
    let mut place = vec![NO_NODE; count];
    let mut order: Vec<u32> = Vec::with_capacity(count);
    while order.len() < count {
        let next = ready.pop().map(|Reverse((_, at))| at).or_else(|| {
            let rest = rest.get_or_insert_with(|| {
                let mut left: Vec<u32> = (0..count as u32).filter(|at| place[*at as usize] == NO_NODE).collect();
                left.sort_unstable_by_key(|at| key(*at));
                left.into_iter()
            });
            rest.find(|at| place[*at as usize] == NO_NODE)
        });
        let Some(at) = next else { break };
        if place[at as usize] != NO_NODE {
            continue;
        }
        place[at as usize] = order.len() as u32;
        order.push(at);
        for to in after.of(at) {
            let left = &mut waiting[*to as usize];
            *left = left.saturating_sub(1);
            if *left == 0 {
                ready.push(Reverse(key(*to)));
            }
        }
    }
    let mut graph = JobGraph { first_edge: vec![0], ..JobGraph::default() };
    for (at, old) in order.iter().map(|old| *old as usize).enumerate() {
        graph.nodes.push(draft.nodes[old]);
        graph.times.push(draft.times[old]);
        for edge in &draft.edges[old] {
            let from = place[edge.from as usize];
            match (from as usize) < at {
                true => graph.edges.push(Edge { from, ..*edge }),
                false => graph.circular += 1,
            }
        }
        graph.first_edge.push(graph.edges.len() as u32);
    }
    let placed = |nodes: Vec<u32>| nodes.into_iter().map(|at| place[at as usize]).collect();
    (graph.ends, graph.arrivals) = (ends.into_iter().map(placed).collect(), arrivals.into_iter().map(placed).collect());
    graph
}
