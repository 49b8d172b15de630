//! Joins the graphs of ranks to that of their job.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::FixedState;

use super::edges::{Latencies, RankEdges};
use super::job::{Draft, Edge, JobGraph, Node, PathKind, Role, Rows, Unordered};
use super::joins::{join_collectives, join_cpus, members, shifts};
use super::lists::Lists;
use super::nodes::{Edges, Nodes};
use super::question::{both, each, threads};
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph, RankNode};
use crate::operations::clocks::{Clocks, RankClock};
use crate::operations::matching::Matches;
use crate::time::Ns;

/// Fewer nodes than this are put in order sooner than a thread is started.
const LEAST: usize = 10_000;

/// About so many nodes are looked at by a processor at once, so that what it needs for them does not grow with the job.
const PIECE: usize = 1 << 20;

impl JobGraph {
    pub fn join(ranks: &[&RankGraph], matches: &Matches, clocks: &Clocks) -> Self {
        Drafts::of(ranks, matches, clocks).join()
    }
}

/// The graphs of ranks on one clock, not joined yet.
pub(crate) struct Drafts<'a> {
    ranks: &'a [&'a RankGraph],
    matches: &'a Matches,
    clocks: &'a Clocks,
    rows: Vec<Rows>,
    /// As in [`JobGraph`].
    profiled_from: Vec<Option<i64>>,
    drafts: Vec<Draft>,
    /// As in [`Unsorted`].
    by_time: Vec<Vec<u32>>,
    arrivals: Vec<Vec<u32>>,
    ends: Vec<Vec<u32>>,
}

impl<'a> Drafts<'a> {
    pub(crate) fn of(ranks: &'a [&'a RankGraph], matches: &'a Matches, clocks: &'a Clocks) -> Self {
        let (rows, members) = (each(ranks.len(), |rank| Rows::of(ranks[rank])), members(ranks.len(), matches));
        let shifts = shifts(ranks, &rows, matches, clocks);
        let profiled = |rank: usize| Some(clocks.ranks[rank].aligned(ranks[rank].profiled_from?).0 - shifts[rank]);
        let profiled_from = (0..ranks.len()).map(profiled).collect();
        let of_rank = |rank: usize| {
            let time = |time: Ns| clocks.ranks[rank].aligned(time).0 - shifts[rank];
            let is_member = |row: u32| members[rank].get(row as usize) == Some(&true);
            let (draft, arrivals, ends) = draft_of(rank, ranks[rank], time, is_member);
            let latencies = RankEdges::new(ranks[rank], &arrivals, &ends).measure(&draft);
            (by_time(&draft), draft, arrivals, ends, latencies)
        };
        let (mut by_time, mut drafts, mut arrivals, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut latencies = Latencies::default();
        for (own_by_time, draft, own_arrivals, own_ends, own_latencies) in each(ranks.len(), of_rank) {
            by_time.push(own_by_time);
            drafts.push(Mutex::new(draft));
            arrivals.push(own_arrivals);
            ends.push(own_ends);
            latencies.add(own_latencies);
        }
        each(ranks.len(), |rank| {
            let edges = RankEdges::new(ranks[rank], &arrivals[rank], &ends[rank]);
            // Each is of one thread.
            let mut draft = drafts[rank].lock().unwrap_or_else(PoisonError::into_inner);
            edges.add(&mut draft, &latencies);
        });
        let drafts = drafts.into_iter().map(|of| of.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
        Drafts { ranks, matches, clocks, rows, profiled_from, drafts, by_time, arrivals, ends }
    }

    /// Joins them, mostly on one processor.
    pub(crate) fn join(self) -> JobGraph {
        let Drafts { ranks, matches, clocks, rows, profiled_from, mut drafts, by_time: mut sorted, arrivals, ends } =
            self;
        drafts.push(Draft::default());
        let mut between = join_collectives(&mut drafts, matches, |rank, row| {
            let at = rows[rank].node(row)?;
            Some((arrivals[rank][at], ends[rank][at]))
        });
        between.extend(join_cpus(&mut drafts, ranks, &ends, clocks));
        sorted.push(by_time(&drafts[ranks.len()]));
        let clock = |(rank, clock): (usize, &RankClock)| clock.component.unwrap_or(ranks.len() + rank);
        let clocks = clocks.ranks.iter().enumerate().map(clock).collect();
        let mut first = vec![0];
        first.extend(drafts.iter().scan(0, |sum, draft| {
            *sum += draft.nodes.len();
            Some(*sum)
        }));
        let number = |(rank, node): Unordered| (first[rank as usize] + node as usize) as u32;
        let edges = between.iter().map(|edge| (number(edge.to), (edge.from, edge.least, edge.kind)));
        let between = Lists::new(first[drafts.len()], edges);
        let sorted = Unsorted { drafts, first, by_time: sorted, between, arrivals, ends, clocks }.sorted();
        JobGraph { profiled_from, ..sorted }
    }
}

/// The nodes of a draft by their times.
fn by_time(draft: &Draft) -> Vec<u32> {
    let mut by_time: Vec<u32> = (0..draft.nodes.len() as u32).collect();
    by_time.sort_by_key(|at| draft.time(*at));
    by_time
}

/// The nodes of a rank, without edges; and by node of its graph where it arrives and where it ends.
fn draft_of(
    rank: usize,
    graph: &RankGraph,
    time: impl Fn(Ns) -> i64,
    is_member: impl Fn(u32) -> bool,
) -> (Draft, Vec<u32>, Vec<u32>) {
    let is_one = |node: &&RankNode| matches!(node.kind, NodeKind::Collective(row) if is_member(row));
    let mut draft = Draft::with_room(graph.nodes.len() + graph.nodes.iter().filter(is_one).count());
    let room = || Vec::with_capacity(graph.nodes.len());
    let (mut arrivals, mut ends) = (room(), room());
    for (node, of) in graph.nodes.iter().zip(0..) {
        let (start, end) = (time(node.start), time(node.end));
        let role = match node.kind {
            NodeKind::Collective(row) if is_member(row) => Role::Transfer,
            NodeKind::Collective(_) => Role::Alone,
            NodeKind::Unknown => Role::Outside(PathKind::BlockedUnknown),
            NodeKind::Profiler => Role::Outside(PathKind::Profiler),
            NodeKind::Earlier => Role::Outside(PathKind::Idle),
            kind if kind.is_cpu() => Role::Cpu,
            _ => Role::Gpu,
        };
        let node = Node { role, rank: rank as u32, of, time: end, start, binding: EdgeKind::Thread };
        // Of a transfer at most: the others may arrive later.
        let own = if role == Role::Cpu { 0 } else { end - start };
        let arrival =
            (role == Role::Transfer).then(|| draft.push(Node { role: Role::Arrival, time: start, ..node }, 0));
        let end = draft.push(node, own);
        arrivals.push(arrival.unwrap_or(end));
        ends.push(end);
    }
    (draft, arrivals, ends)
}

/// All nodes of a job, by rank; rendezvous are last.
struct Unsorted {
    drafts: Vec<Draft>,
    /// By rank: how many nodes come before its own.
    first: Vec<usize>,
    /// By rank: its nodes by their times.
    by_time: Vec<Vec<u32>>,
    between: Lists<(Unordered, i64, EdgeKind)>,
    /// By rank and node of its graph, by the numbers of its draft.
    arrivals: Vec<Vec<u32>>,
    ends: Vec<Vec<u32>>,
    /// As in [`JobGraph`].
    clocks: Vec<usize>,
}

impl Unsorted {
    fn number(&self, (rank, node): Unordered) -> usize {
        self.first[rank as usize] + node as usize
    }

    fn node(&self, (rank, node): Unordered) -> Node {
        self.drafts[rank as usize].node(node)
    }

    /// What comes first, of the same rank and then of others.
    fn edges_into(&self, to: Unordered) -> impl Iterator<Item = (Unordered, i64, EdgeKind)> {
        let within = self.drafts[to.0 as usize].edges_into(to.1);
        let within = within.map(move |edge| ((to.0, edge.from), edge.least, edge.kind));
        within.chain(self.between.of(self.number(to) as u32).iter().copied())
    }

    /// What a node waits for and has no place yet.
    fn missing(&self, to: Unordered, place: &[u32]) -> Option<Unordered> {
        self.edges_into(to).map(|(from, ..)| from).find(|from| place[self.number(*from)] == NO_NODE)
    }

    /// Pieces of the time, so that all nodes of a piece come before those of the next.
    fn pieces(&self) -> Vec<Range<i64>> {
        let time = |(rank, nodes): (usize, &Vec<u32>), at: usize| self.drafts[rank].time(nodes[at]);
        let Some(longest) = self.by_time.iter().enumerate().max_by_key(|(_, nodes)| nodes.len()) else {
            return Vec::new();
        };
        let (nodes, all) = (longest.1.len(), self.first.last().copied().unwrap_or_default());
        let count = (all / PIECE).max((nodes / LEAST).min(threads().get())).clamp(1, nodes.max(1));
        let bounds: Vec<i64> = (1..count).map(|at| time(longest, nodes * at / count)).collect();
        let starts = std::iter::once(i64::MIN).chain(bounds.iter().copied());
        starts.zip(bounds.iter().copied().chain([i64::MAX])).map(|(start, end)| start..end).collect()
    }

    /// The nodes of a piece by their times.
    fn by_time_in(&self, piece: &Range<i64>) -> Vec<(i64, Unordered)> {
        let within = |(rank, nodes): (usize, &Vec<u32>)| {
            let time = |at: u32| self.drafts[rank].time(at);
            let place = |until: i64| nodes.partition_point(|at| time(*at) < until);
            let end = if piece.end == i64::MAX { nodes.len() } else { place(piece.end) };
            nodes[place(piece.start)..end].iter().map(|at| (time(*at), (rank as u32, *at))).collect::<Vec<_>>()
        };
        let mut nodes = self.by_time.iter().enumerate().map(within).collect::<Vec<_>>().concat();
        // It finds what is in order already.
        nodes.sort();
        nodes
    }

    /// By rank and node: whether all that comes first also happened first.
    fn are_in_turn(&self) -> Vec<Vec<bool>> {
        let turn = |at: Unordered| (self.node(at).time, at);
        each(self.drafts.len(), |rank| {
            let nodes = (0..self.drafts[rank].nodes.len() as u32).map(|node| (rank as u32, node));
            nodes.map(|to| self.edges_into(to).all(|(from, ..)| turn(from) < turn(to))).collect()
        })
    }

    /// All nodes in an order in which nothing comes before what it waits for; of those that can come next, the one that happened first. Also where
    /// each is in that order.
    fn order(&self) -> (Vec<Unordered>, Vec<u32>) {
        let (pieces, are_in_turn) = (self.pieces(), self.are_in_turn());
        let all = self.first.last().copied().unwrap_or_default();
        let mut place = vec![NO_NODE; all];
        let mut order: Vec<Unordered> = Vec::with_capacity(all);
        // By node: those whose turn it was before that.
        let mut waiting: HashMap<Unordered, Vec<Unordered>, FixedState> = HashMap::default();
        let mut late: BinaryHeap<Reverse<(i64, Unordered)>> = BinaryHeap::new();
        let is_in_turn = |(rank, node): Unordered| are_in_turn[rank as usize][node as usize];
        // If all that are left wait for each other, the one that happened first goes first.
        for is_forced in [false, true] {
            if is_forced && order.len() == all {
                break;
            }
            let pieces = pieces.chunks(threads().get());
            let by_time = pieces.flat_map(|pieces| each(pieces.len(), |at| self.by_time_in(&pieces[at])));
            for (_, first) in by_time.flatten() {
                let mut turn = Some(first).filter(|first| place[self.number(*first)] == NO_NODE);
                // If nothing is late, all that happened before has its place.
                if let (Some(first), false) = (turn, is_forced)
                    && !(waiting.is_empty() && is_in_turn(first))
                    && let Some(from) = self.missing(first, &place)
                {
                    waiting.entry(from).or_default().push(first);
                    continue;
                }
                while let Some(at) = turn {
                    if place[self.number(at)] == NO_NODE {
                        place[self.number(at)] = order.len() as u32;
                        order.push(at);
                        for freed in waiting.remove(&at).into_iter().flatten() {
                            match self.missing(freed, &place) {
                                Some(from) => waiting.entry(from).or_default().push(freed),
                                None => late.push(Reverse((self.node(freed).time, freed))),
                            }
                        }
                    }
                    turn = late.pop().map(|Reverse((_, at))| at);
                }
            }
        }
        (order, place)
    }

    /// The graph of the job, with its own numbers for the nodes of ranks' graphs. What was taken from the drafts is dropped before more is.
    fn sorted(mut self) -> JobGraph {
        let (order, place) = self.order();
        self.by_time = Vec::new();
        let mut graph = JobGraph { clocks: std::mem::take(&mut self.clocks), ..JobGraph::default() };
        let edges = |nodes: Range<usize>| {
            let (mut edges, mut ends) = (Edges::default(), Vec::with_capacity(nodes.len()));
            let mut circular = 0;
            for at in nodes {
                for (from, least, kind) in self.edges_into(order[at]) {
                    let from = place[self.number(from)];
                    match (from as usize) < at {
                        true => edges.push(Edge { from, least, kind }),
                        false => circular += 1,
                    }
                }
                ends.push(edges.len() as u32);
            }
            (edges, ends, circular)
        };
        graph.edges = Edges::with_room(self.drafts.iter().map(Draft::edges).sum::<usize>() + self.between.len());
        graph.last_edge.reserve_exact(order.len());
        let pieces = order.len().div_ceil(PIECE.min(order.len().div_ceil(threads().get())).max(LEAST));
        let bound = |piece: usize| order.len() * piece / pieces;
        for first in (0..pieces).step_by(threads().get()) {
            let count = threads().get().min(pieces - first);
            for (edges, ends, circular) in each(count, |at| edges(bound(first + at)..bound(first + at + 1))) {
                let before = graph.edges.len() as u32;
                graph.last_edge.extend(ends.into_iter().map(|end| before + end));
                graph.edges.append(edges);
                graph.circular += circular;
            }
        }
        self.between = Lists::new(0, std::iter::empty());
        self.drafts.iter_mut().for_each(Draft::drop_edges);
        let Unsorted { drafts, first, ends, arrivals, .. } = self;
        let placed = |(first, mut nodes): (&usize, Vec<u32>)| {
            nodes.iter_mut().for_each(|at| *at = place[first + *at as usize]);
            nodes
        };
        let all = |nodes: Vec<Vec<u32>>| first.iter().zip(nodes).map(placed).collect::<Vec<_>>();
        let own = || order.iter().map(|(rank, at)| drafts[*rank as usize].own[*at as usize]).collect();
        (graph.nodes, (graph.times.own, graph.ends, graph.arrivals)) = both(
            || {
                let mut nodes = Nodes::with_room(order.len());
                for (rank, at) in &order {
                    let (draft, at) = (&drafts[*rank as usize], *at as usize);
                    nodes.push(draft.nodes.get(at), draft.nodes.extra(at));
                }
                nodes
            },
            || (own(), all(ends), all(arrivals)),
        );
        graph
    }
}
