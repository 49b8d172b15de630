//! Which nodes of like ranks do the same: those with the same name at the same place between the same collectives of the same step.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;

use super::job::Rows;
use super::rank::{EdgeKind, Interval, NodeKind, RankGraph};
use crate::operations::matching::Matches;
use crate::time::Ns;

/// The intervals that are known so far.
#[derive(Default)]
struct Intervals {
    found: Vec<Interval>,
    at: HashMap<u64, u32, FixedState>,
}

impl Intervals {
    fn at(&mut self, step: Option<u32>, within: impl Hash) -> u32 {
        let place = hash(within);
        let next = self.found.len() as u32;
        let at = *self.at.entry(hash((step, place))).or_insert(next);
        if at == next {
            self.found.push(Interval { place, step, functions: Vec::new() });
        }
        at
    }
}

/// Numbers what is at the same place.
struct Counts(HashMap<u64, u32, FixedState>);

impl Counts {
    /// The place of the next node there in a step.
    fn next(&mut self, step: Option<u32>, within: u64) -> u64 {
        let count = self.0.entry(hash((step, within))).or_default();
        *count += 1;
        hash((within, *count))
    }
}

/// Finds the places and intervals of a graph's nodes.
pub(super) fn find(graph: &mut RankGraph) {
    let mut counts = Counts(HashMap::with_capacity_and_hasher(graph.nodes.len(), FixedState::default()));
    let mut intervals = Intervals::default();
    // What a call launches first says more than its name.
    let mut first = vec![None; graph.nodes.len()];
    let mut launches_collective = vec![false; graph.nodes.len()];
    for (node, edges) in graph.nodes.iter().zip(&graph.edges) {
        for edge in edges.iter().filter(|edge| edge.kind == EdgeKind::Launch) {
            first[edge.from as usize].get_or_insert(node.name);
            launches_collective[edge.from as usize] |= matches!(node.kind, NodeKind::Collective(_));
        }
    }
    let families: Vec<u64> = graph.texts.iter().map(|text| hash(family(text))).collect();
    let cpu = graph.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_cpu());
    let mut order: Vec<(Ns, usize)> = cpu.map(|(at, node)| (node.end, at)).collect();
    order.sort();
    let mut passed: HashMap<(bool, u32, Option<u32>), u32, FixedState> = HashMap::default();
    for (_, at) in order {
        let node = graph.nodes[at];
        let interval = passed.entry((true, node.lane, node.step)).or_default();
        let kind = match node.kind {
            NodeKind::Launch => 0,
            NodeKind::Blocked => 1,
            NodeKind::CpuArrival(_) => 2,
            NodeKind::CpuLeft(_) => 3,
            _ => 4,
        };
        let name = families[first[at].unwrap_or(node.name) as usize];
        let place = counts.next(node.step, hash((node.lane, *interval, kind, name)));
        set(graph, at, place, intervals.at(node.step, (true, node.lane, *interval)));
        *interval += u32::from(launches_collective[at]);
    }
    for at in 0..graph.nodes.len() {
        let node = graph.nodes[at];
        if node.kind.is_cpu() {
            continue;
        }
        let interval = passed.entry((false, node.lane, node.step)).or_default();
        let name = families[node.name as usize];
        let launch = graph.edges[at].iter().find(|edge| edge.kind == EdgeKind::Launch);
        let within = match launch {
            Some(launch) => hash((graph.nodes[launch.from as usize].place, name)),
            None => hash((node.lane, *interval, name)),
        };
        let place = counts.next(node.step, within);
        set(graph, at, place, intervals.at(node.step, (false, node.lane, *interval)));
        *interval += u32::from(matches!(node.kind, NodeKind::Collective(_)));
    }
    graph.intervals = intervals.found;
}

fn set(graph: &mut RankGraph, at: usize, place: u64, interval: u32) {
    (graph.nodes[at].place, graph.nodes[at].interval) = (place, interval);
}

/// By rank: how many more steps than the first rank's it has before the same step. A trace may begin later.
pub(crate) fn step_shifts(ranks: &[&RankGraph], matches: &Matches) -> Vec<i64> {
    let rows: Vec<Rows> = ranks.iter().map(|graph| Rows::of(graph)).collect();
    let step = |rank: usize, row: Option<u32>| {
        ranks[rank].nodes[rows[rank].node(row?)?].step.map(|step| (rank, i64::from(step)))
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
