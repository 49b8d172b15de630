//! Joins the graphs of ranks to that of their job.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use foldhash::fast::FixedState;

use super::edges::add_edges;
use super::job::{Draft, Edge, JobGraph, Node, Role, Rows, Times, Unordered, Wait};
use super::joins::{join_collectives, join_cpus, members, shifts};
use super::lists::Lists;
use super::question::{both, each};
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph, RankNode};
use crate::operations::clocks::{Clocks, RankClock};
use crate::operations::matching::Matches;
use crate::time::Ns;

impl JobGraph {
    /// Joins the graphs of ranks.
    pub fn join(ranks: &[&RankGraph], matches: &Matches, clocks: &Clocks) -> Self {
        Unsorted::join(ranks, matches, clocks).sorted()
    }
}

impl Unsorted {
    /// Joins the graphs of ranks, on all processors. To sort them takes one.
    pub(crate) fn join(ranks: &[&RankGraph], matches: &Matches, clocks: &Clocks) -> Self {
        let (rows, members) = (each(ranks.len(), |rank| Rows::of(ranks[rank])), members(ranks.len(), matches));
        let shifts = shifts(ranks, &rows, matches, clocks);
        let of_rank = |rank: usize| {
            let time = |time: Ns| clocks.ranks[rank].aligned(time).0 - shifts[rank];
            let is_member = |row: u32| members[rank].get(row as usize) == Some(&true);
            let (draft, arrivals, ends) = draft_of(rank, ranks[rank], time, is_member);
            (by_time(rank, &draft), draft, arrivals, ends)
        };
        let (mut sorted, mut drafts, mut arrivals, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (own_sorted, draft, own_arrivals, own_ends) in each(ranks.len(), of_rank) {
            sorted.push(own_sorted);
            drafts.push(draft);
            arrivals.push(own_arrivals);
            ends.push(own_ends);
        }
        drafts.push(Draft::default());
        let mut between = join_collectives(&mut drafts, matches, |rank, row| {
            let at = rows[rank].node(row)?;
            Some((arrivals[rank][at], ends[rank][at]))
        });
        between.extend(join_cpus(&mut drafts, ranks, &ends, clocks));
        sorted.push(by_time(ranks.len(), &drafts[ranks.len()]));
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
        Unsorted { drafts, first, by_time: sorted, between, arrivals, ends, clocks }
    }
}

/// The nodes of a draft by their times.
fn by_time(rank: usize, draft: &Draft) -> Vec<(i64, Unordered)> {
    let nodes = draft.nodes.iter().zip(0..);
    let mut by_time: Vec<(i64, Unordered)> = nodes.map(|(node, at)| (node.time, (rank as u32, at))).collect();
    by_time.sort();
    by_time
}

/// The nodes of a rank, with the edges within it; and by node of its graph where it arrives and where it ends.
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
            kind if kind.is_cpu() => Role::Cpu,
            _ => Role::Gpu,
        };
        let node = Node { role, rank: rank as u32, of, time: end, start, binding: EdgeKind::Thread, step: node.step };
        // Of a transfer at most: the others may arrive later.
        let own = if role == Role::Cpu { 0 } else { end - start };
        let arrival =
            (role == Role::Transfer).then(|| draft.push(Node { role: Role::Arrival, time: start, ..node }, 0));
        let end = draft.push(node, own);
        arrivals.push(arrival.unwrap_or(end));
        ends.push(end);
    }
    add_edges(&mut draft, graph, &arrivals, &ends);
    (draft, arrivals, ends)
}

/// All nodes of a job, by rank; rendezvous are last.
pub(crate) struct Unsorted {
    drafts: Vec<Draft>,
    /// By rank: how many nodes come before its own.
    first: Vec<usize>,
    /// By rank: its nodes by their times.
    by_time: Vec<Vec<(i64, Unordered)>>,
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

    fn node(&self, (rank, node): Unordered) -> &Node {
        &self.drafts[rank as usize].nodes[node as usize]
    }

    /// What comes first, of the same rank and then of others.
    fn edges_into(&self, to: Unordered) -> impl Iterator<Item = (Unordered, i64, EdgeKind)> {
        let within = self.drafts[to.0 as usize].edges_into(to.1).iter();
        let within = within.map(move |edge| ((to.0, edge.from), edge.least, edge.kind));
        within.chain(self.between.of(self.number(to) as u32).iter().copied())
    }

    /// What a node waits for and has no place yet.
    fn missing(&self, to: Unordered, place: &[u32]) -> Option<Unordered> {
        self.edges_into(to).map(|(from, ..)| from).find(|from| place[self.number(*from)] == NO_NODE)
    }

    /// All nodes in an order in which nothing comes before what it waits for; of those that can come next, the one that happened first. Also where
    /// each is in that order.
    fn order(&self) -> (Vec<Unordered>, Vec<u32>) {
        let mut by_time = self.by_time.concat();
        // It finds what is in order already.
        by_time.sort();
        let mut place = vec![NO_NODE; by_time.len()];
        let mut order: Vec<Unordered> = Vec::with_capacity(by_time.len());
        // By node: those whose turn it was before that.
        let mut waiting: HashMap<Unordered, Vec<Unordered>, FixedState> = HashMap::default();
        let mut late: BinaryHeap<Reverse<(i64, Unordered)>> = BinaryHeap::new();
        // If all that are left wait for each other, the one that happened first goes first.
        for is_forced in [false, true] {
            for (_, first) in &by_time {
                let mut turn = Some(*first).filter(|first| place[self.number(*first)] == NO_NODE);
                if let (Some(first), false) = (turn, is_forced)
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

    /// The graph of the job, with its own numbers for the nodes of ranks' graphs.
    pub(crate) fn sorted(&self) -> JobGraph {
        let (order, place) = self.order();
        let (mut graph, (times, ends, arrivals)) = both(
            || {
                let nodes = order.iter().map(|at| *self.node(*at)).collect();
                let mut graph =
                    JobGraph { nodes, first_edge: vec![0], clocks: self.clocks.clone(), ..JobGraph::default() };
                for (old, at) in order.iter().zip(0..) {
                    for (from, least, kind) in self.edges_into(*old) {
                        let from = place[self.number(from)];
                        match from < at {
                            true => graph.edges.push(Edge { from, least, kind }),
                            false => graph.circular += 1,
                        }
                    }
                    graph.first_edge.push(graph.edges.len() as u32);
                }
                graph
            },
            || {
                let of = |(rank, at): &Unordered| (&self.drafts[*rank as usize], *at as usize);
                let wait = |(draft, at): (&Draft, usize)| Wait {
                    begin: draft.nodes[at].start,
                    extra: draft.extra[at],
                    is_asked: true,
                };
                let own = order.iter().map(of).map(|(draft, at)| draft.own[at]).collect();
                let times = Times::new(own, order.iter().map(of).map(wait).collect());
                let placed = |(first, nodes): (&usize, &Vec<u32>)| {
                    nodes.iter().map(|at| place[first + *at as usize]).collect::<Vec<u32>>()
                };
                let all = |nodes: &[Vec<u32>]| self.first.iter().zip(nodes).map(placed).collect::<Vec<_>>();
                (times, all(&self.ends), all(&self.arrivals))
            },
        );
        (graph.times, graph.ends, graph.arrivals) = (times, ends, arrivals);
        graph
    }
}
