//! Joins the graphs of ranks to that of their job.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::edges::add_edges;
use super::job::{Draft, Edge, Edges, JobGraph, Node, Role, Times, Wait, rows};
use super::joins::{join_collectives, join_cpus, members, shifts};
use super::lists::Lists;
use super::question::{both, each};
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph};
use crate::operations::clocks::{Clocks, RankClock};
use crate::operations::matching::Matches;
use crate::time::Ns;

impl JobGraph {
    /// Joins the graphs of ranks.
    pub fn join(ranks: &[&RankGraph], matches: &Matches, clocks: &Clocks) -> Self {
        let (shifts, members) = (shifts(ranks, matches, clocks), members(matches));
        let of_rank = |rank: usize| {
            let time = |time: Ns| clocks.ranks[rank].aligned(time).0 - shifts[rank];
            draft_of(rank, ranks[rank], time, |row| members.contains(&(rank, row)))
        };
        let of_ranks = each(ranks.len(), of_rank);
        let mut draft = Draft::with_room(of_ranks.iter().map(|(of_rank, ..)| of_rank.nodes.len()).sum());
        let (mut arrivals, mut ends) = (Vec::new(), Vec::new());
        for (of_rank, mut own_arrivals, mut own_ends) in of_ranks {
            let before = draft.nodes.len() as u32;
            draft.nodes.extend(of_rank.nodes);
            draft.own.extend(of_rank.own);
            draft.extra.extend(of_rank.extra);
            draft.edges.extend(of_rank.edges);
            draft.edges[before as usize..].iter_mut().flatten().for_each(|edge| edge.from += before);
            own_arrivals.iter_mut().chain(&mut own_ends).for_each(|node| *node += before);
            arrivals.push(own_arrivals);
            ends.push(own_ends);
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

/// The nodes of a rank, with the edges within it; and by node of its graph where it arrives and where it ends.
fn draft_of(
    rank: usize,
    graph: &RankGraph,
    time: impl Fn(Ns) -> i64,
    is_member: impl Fn(u32) -> bool,
) -> (Draft, Vec<u32>, Vec<u32>) {
    let mut draft = Draft::with_room(graph.nodes.len());
    let (mut arrivals, mut ends) = (Vec::new(), Vec::new());
    for (node, of) in graph.nodes.iter().zip(0..) {
        let (start, end) = (time(node.start), time(node.end));
        let role = match node.kind {
            NodeKind::Collective(row) if is_member(row) => Role::Transfer,
            NodeKind::Collective(_) => Role::Alone,
            kind if kind.is_cpu() => Role::Cpu,
            _ => Role::Gpu,
        };
        let node = Node { role, rank: rank as u32, of, time: end, start, binding: EdgeKind::Thread, step: node.step };
        let own = if matches!(role, Role::Gpu | Role::Alone) { end - start } else { 0 };
        let arrival =
            (role == Role::Transfer).then(|| draft.push(Node { role: Role::Arrival, time: start, ..node }, 0));
        let end = draft.push(node, own);
        arrivals.push(arrival.unwrap_or(end));
        ends.push(end);
    }
    add_edges(&mut draft, graph, &arrivals, &ends);
    (draft, arrivals, ends)
}

/// Puts nodes into an order in which nothing comes before what it waits for; of those that can come next, the one that happened first.
fn in_order(draft: Draft, ends: Vec<Vec<u32>>, arrivals: Vec<Vec<u32>>) -> JobGraph {
    let count = draft.nodes.len();
    let of_node = |(edges, to): (&Edges, u32)| edges.iter().map(|edge| (edge.from, to)).collect::<SmallVec<[_; 2]>>();
    let key = |at: u32| (draft.nodes[at as usize].time, at);
    let (by_time, after) = both(
        || {
            let mut by_time: Vec<(i64, u32)> = (0..count as u32).map(key).collect();
            by_time.sort();
            by_time
        },
        || Lists::<u32>::new(count, draft.edges.iter().zip(0..).flat_map(of_node)),
    );
    let mut waiting: Vec<u32> = draft.edges.iter().map(|edges| edges.len() as u32).collect();
    let mut place = vec![NO_NODE; count];
    let mut order: Vec<u32> = Vec::with_capacity(count);
    // Those whose turn it was before something that they wait for.
    let mut late: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
    // If all that are left wait for each other, the one that happened first goes first.
    for is_forced in [false, true] {
        for first in &by_time {
            if place[first.1 as usize] == NO_NODE && (is_forced || waiting[first.1 as usize] == 0) {
                late.push(Reverse(*first));
            }
            while let Some(Reverse((_, at))) = late.pop() {
                if place[at as usize] != NO_NODE {
                    continue;
                }
                place[at as usize] = order.len() as u32;
                order.push(at);
                for to in after.of(at) {
                    let left = &mut waiting[*to as usize];
                    *left = left.saturating_sub(1);
                    if *left == 0 && (is_forced || key(*to) < *first) {
                        late.push(Reverse(key(*to)));
                    }
                }
            }
        }
    }
    let old = || order.iter().map(|old| *old as usize);
    let (mut graph, times) = both(
        || {
            let nodes = old().map(|old| draft.nodes[old]).collect();
            let mut graph = JobGraph { nodes, first_edge: vec![0], ..JobGraph::default() };
            for (old, at) in old().zip(0..) {
                let edges = draft.edges[old].iter().map(|edge| Edge { from: place[edge.from as usize], ..*edge });
                graph.edges.extend(edges.filter(|edge| edge.from < at));
                graph.first_edge.push(graph.edges.len() as u32);
            }
            graph
        },
        || {
            let wait = |old: usize| Wait { begin: draft.nodes[old].start, extra: draft.extra[old], is_asked: true };
            Times::new(old().map(|old| draft.own[old]).collect(), old().map(wait).collect())
        },
    );
    let edges: usize = draft.edges.iter().map(SmallVec::len).sum();
    (graph.times, graph.circular) = (times, (edges - graph.edges.len()) as u64);
    let placed = |nodes: Vec<u32>| nodes.into_iter().map(|at| place[at as usize]).collect();
    (graph.ends, graph.arrivals) = (ends.into_iter().map(placed).collect(), arrivals.into_iter().map(placed).collect());
    graph
}
