//! Which nodes of like ranks do the same: those with the same name at the same place between the same collectives of the same step.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::job::Rows;
use super::rank::{EdgeKind, Interval, NodeKind, RankGraph, RankNode};
use crate::operations::matching::Matches;
use crate::time::Ns;

/// The intervals that are known so far.
#[derive(Default)]
struct Intervals {
    found: Vec<Interval>,
    now: HashMap<(Lane, Option<u32>), Now, FixedState>,
}

/// Whether it is a thread, and its number.
type Lane = (bool, u32);

/// A thread or stream in a step.
#[derive(Default)]
struct Now {
    ended: u32,
    /// The position of the one after them, once it has begun.
    at: Option<u32>,
}

impl Intervals {
    /// The interval of a node: its number on its thread or stream in its step, and its position. After its last node the next one follows.
    fn of(&mut self, node: &RankNode, is_last: bool) -> (u32, u32) {
        let (lane, step) = ((node.kind.is_cpu(), node.lane), node.step.get());
        let now = self.now.entry((lane, step)).or_default();
        let number = now.ended;
        let at = *now.at.get_or_insert_with(|| {
            self.found.push(Interval { place: hash((lane, number)), step, functions: Vec::new() });
            self.found.len() as u32 - 1
        });
        if is_last {
            *now = Now { ended: number + 1, at: None };
        }
        (number, at)
    }
}

/// How many nodes of each step are at what would be the same place, the steps in order. There are far fewer places than nodes.
#[derive(Default)]
struct Counts(HashMap<u64, StepCounts, FixedState>);

type StepCounts = SmallVec<[(Option<u32>, u32); 1]>;

impl Counts {
    /// The place of the next node there in a step.
    fn next(&mut self, step: Option<u32>, within: u64) -> u64 {
        let counts = self.0.entry(within).or_default();
        // Nearly always it is the last step so far.
        let at = match counts.last() {
            Some((last, _)) if *last == step => counts.len() - 1,
            _ => counts.binary_search_by_key(&step, |(step, _)| *step).unwrap_or_else(|at| {
                counts.insert(at, (step, 0));
                at
            }),
        };
        counts[at].1 += 1;
        hash((within, counts[at].1))
    }
}

/// Finds the places and intervals of a graph's nodes.
pub(super) fn find(graph: &mut RankGraph) {
    let (mut counts, mut intervals) = (Counts::default(), Intervals::default());
    // What a call launches first says more than its name.
    let mut first = vec![None; graph.nodes.len()];
    let mut launches_collective = vec![false; graph.nodes.len()];
    for (node, edges) in graph.nodes.iter().zip(graph.edges.iter()) {
        for edge in edges.iter().filter(|edge| edge.kind == EdgeKind::Launch) {
            first[edge.from as usize].get_or_insert(node.name);
            launches_collective[edge.from as usize] |= matches!(node.kind, NodeKind::Collective(_));
        }
    }
    // A call with two nodes launches its work at either, and is the same.
    for at in 0..graph.nodes.len() {
        let thread = graph.edges[at].iter().find(|edge| edge.kind == EdgeKind::Thread);
        let begin = thread.map(|edge| edge.from as usize).filter(|_| graph.nodes[at].kind == NodeKind::Returned);
        if let Some(begin) = begin.filter(|begin| graph.nodes[*begin].name == graph.nodes[at].name) {
            let of_both = first[begin].or(first[at]);
            (first[begin], first[at]) = (of_both, of_both);
            launches_collective[at] |= std::mem::take(&mut launches_collective[begin]);
        }
    }
    let families: Vec<u64> = graph.texts.iter().map(|text| hash(family(text))).collect();
    let cpu = graph.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_cpu());
    let mut order: Vec<(Ns, usize)> = cpu.map(|(at, node)| (node.end, at)).collect();
    order.sort();
    for (_, at) in order {
        let node = graph.nodes[at];
        let (number, interval) = intervals.of(&node, launches_collective[at]);
        let kind = match node.kind {
            NodeKind::Launch => 0,
            NodeKind::Blocked => 1,
            NodeKind::CpuArrival(_) => 2,
            NodeKind::CpuLeft(_) => 3,
            NodeKind::Returned => 5,
            NodeKind::Unknown => 6,
            NodeKind::Profiler => 7,
            NodeKind::End => 8,
            _ => 4,
        };
        let name = families[first[at].unwrap_or(node.name) as usize];
        let place = counts.next(node.step.get(), hash((node.lane, number, kind, name)));
        (graph.nodes[at].place, graph.nodes[at].interval) = (place, interval);
    }
    for at in 0..graph.nodes.len() {
        let node = graph.nodes[at];
        if node.kind.is_cpu() {
            continue;
        }
        let (number, interval) = intervals.of(&node, matches!(node.kind, NodeKind::Collective(_)));
        let name = families[node.name as usize];
        let launch = graph.edges[at].iter().find(|edge| edge.kind == EdgeKind::Launch);
        let within = match launch {
            Some(launch) => hash((graph.nodes[launch.from as usize].place, name)),
            None => hash((node.lane, number, name)),
        };
        let place = counts.next(node.step.get(), within);
        (graph.nodes[at].place, graph.nodes[at].interval) = (place, interval);
    }
    graph.intervals = intervals.found;
    graph.intervals.shrink_to_fit();
}

/// By rank: how many more steps than the first rank's it has before the same step. A trace may begin later.
pub(crate) fn step_shifts(ranks: &[&RankGraph], matches: &Matches) -> Vec<i64> {
    let rows: Vec<Rows> = ranks.iter().map(|graph| Rows::of(graph)).collect();
    let step = |rank: usize, row: Option<u32>| {
        ranks[rank].nodes[rows[rank].node(row?)?].step.get().map(|step| (rank, i64::from(step)))
    };
    let mut counts: HashMap<(usize, usize, i64), u64, FixedState> = HashMap::default();
    for group in &matches.groups {
        for collective in &group.collectives {
            let members = group.members.iter().zip(&collective.rows);
            let mut steps = members.filter_map(|(rank, row)| step(*rank, *row));
            let Some(mut before) = steps.next() else { continue };
            for (rank, of) in steps {
                let (other, earlier) = std::mem::replace(&mut before, (rank, of));
                *counts.entry((other, rank, of - earlier)).or_default() += 1;
            }
        }
    }
    let mut votes: BTreeMap<(usize, usize), BTreeMap<i64, u64>> = BTreeMap::new();
    for ((first, second, apart), count) in counts {
        *votes.entry((first, second)).or_default().entry(apart).or_default() += count;
        *votes.entry((second, first)).or_default().entry(-apart).or_default() += count;
    }
    let mut shifts: Vec<Option<i64>> = vec![None; ranks.len()];
    for first in 0..ranks.len() {
        let mut next = vec![first];
        shifts[first].get_or_insert(0);
        while let Some(from) = next.pop() {
            for ((_, to), votes) in votes.range((from, 0)..(from + 1, 0)) {
                let most = votes.iter().max_by_key(|(shift, votes)| (**votes, -shift.abs()));
                if let (None, Some(known), Some((shift, _))) = (shifts[*to], shifts[from], most) {
                    shifts[*to] = Some(known + shift);
                    next.push(*to);
                }
            }
        }
    }
    shifts.into_iter().map(Option::unwrap_or_default).collect()
}

/// A place in a step, given by how many more steps the rank has than the first one before it.
pub(super) fn in_step(place: u64, step: Option<u32>, shift: i64) -> u64 {
    hash((place, step.map(|step| i64::from(step) - shift)))
}

/// What kernels that do the same have in common: each rank tunes which of several variants it runs.
fn family(name: &str) -> &str {
    name.find(|of: char| of.is_ascii_digit()).map_or(name, |end| &name[..end])
}

fn hash(value: impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}
