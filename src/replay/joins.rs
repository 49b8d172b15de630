//! Where ranks wait for each other: collectives on GPUs, and collectives of CPUs.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;

use super::job::{Draft, Edge, Node, Role, rows};
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph};
use crate::operations::clocks::Clocks;
use crate::operations::matching::{MatchedCollective, Matches};
use crate::operations::rows::Tie;
use crate::statistics::median_time;
use crate::time::Ns;

/// With fewer collectives of CPUs it may be chance that a member never left before another one arrived.
const FEWEST_CPU_COLLECTIVES: usize = 3;

/// Whether members of a collective wait for each other. A root may end before others start, and it is unknown what is in the rest.
fn ties(collective: &MatchedCollective) -> bool {
    let waits = collective.tie.synchronises() || collective.tie == Tie::PointToPoint;
    waits && collective.fault.is_none() && collective.present() > 1
}

/// The ranks, with their rows, that wait for others.
pub(super) fn members(matches: &Matches) -> HashSet<(usize, u32), FixedState> {
    let of_groups = matches.groups.iter().flat_map(|group| {
        let tied = group.collectives.iter().filter(|collective| ties(collective));
        tied.flat_map(|collective| group.members.iter().zip(&collective.rows))
    });
    of_groups.filter_map(|(rank, row)| Some((*rank, (*row)?))).collect()
}

/// By rank: by how much its aligned clock is ahead of the first one's where nothing but sends and receives shows it. These end on both sides at
/// about the same time.
pub(super) fn shifts(ranks: &[&RankGraph], matches: &Matches, clocks: &Clocks) -> Vec<i64> {
    let rows: Vec<HashMap<u32, usize, FixedState>> = ranks.iter().map(|graph| rows(graph)).collect();
    let end = |rank: usize, row: u32| {
        let at = *rows[rank].get(&row)?;
        Some((rank, clocks.ranks[rank].aligned(ranks[rank].nodes[at].end)))
    };
    let set = |rank: usize| clocks.ranks[rank].component.unwrap_or(rank);
    let mut apart: BTreeMap<(usize, usize), Vec<Ns>> = BTreeMap::new();
    for group in &matches.groups {
        for collective in group.collectives.iter().filter(|collective| ties(collective)) {
            let members = group.members.iter().zip(&collective.rows);
            let ends: Vec<(usize, Ns)> = members.filter_map(|(rank, row)| end(*rank, (*row)?)).collect();
            for ((first, one), (second, other)) in ends.iter().zip(ends.iter().skip(1)) {
                if set(*first) != set(*second) {
                    apart.entry((set(*first), set(*second))).or_default().push(*other - *one);
                    apart.entry((set(*second), set(*first))).or_default().push(*one - *other);
                }
            }
        }
    }
    let mut shift: BTreeMap<usize, i64> = BTreeMap::new();
    for first in (0..ranks.len()).map(set) {
        if shift.contains_key(&first) {
            continue;
        }
        shift.insert(first, 0);
        let mut next = vec![first];
        while let Some(from) = next.pop() {
            for ((_, to), differences) in apart.range_mut((from, 0)..(from + 1, 0)) {
                if !shift.contains_key(to) {
                    shift.insert(*to, shift[&from] + median_time(differences).0);
                    next.push(*to);
                }
            }
        }
    }
    (0..ranks.len()).map(|rank| shift[&set(rank)]).collect()
}

/// Adds a node where all members of each collective have arrived. `node` gives a rank's row its arrival and its end.
pub(super) fn join_collectives(draft: &mut Draft, matches: &Matches, node: impl Fn(usize, u32) -> Option<(u32, u32)>) {
    for group in &matches.groups {
        for collective in group.collectives.iter().filter(|collective| ties(collective)) {
            let members = group.members.iter().zip(&collective.rows);
            let members: Vec<(u32, u32)> = members.filter_map(|(rank, row)| node(*rank, (*row)?)).collect();
            let time = |draft: &Draft, at: u32| draft.nodes[at as usize].time;
            let Some(latest) = members.iter().map(|(arrival, _)| time(draft, *arrival)).max() else { continue };
            let first = draft.nodes[members[0].0 as usize];
            let all = Node { role: Role::Rendezvous, of: NO_NODE, time: latest, start: latest, ..first };
            let all = draft.push(all, 0);
            for (arrival, end) in members {
                let edge = |from: u32| Edge { from, least: 0, kind: EdgeKind::Rendezvous };
                draft.edges[all as usize].push(edge(arrival));
                // What was sent may be under way when the receiver arrives.
                let is_sure = collective.tie.synchronises() && collective.tie != Tie::Uneven;
                let has_waited = is_sure || time(draft, end) >= latest;
                let from = if has_waited { all } else { arrival };
                draft.edges[end as usize].push(edge(from));
                // A kernel of several messages ends after the last of them.
                let froms = draft.edges[end as usize].iter().filter(|edge| edge.kind == EdgeKind::Rendezvous);
                let latest = froms.map(|edge| time(draft, edge.from)).max().unwrap_or(latest);
                draft.own[end as usize] = time(draft, end) - latest;
            }
        }
    }
}

/// Where a thread comes to a collective of CPUs, and where it has left it.
type Visit = (Option<u32>, Option<u32>);

/// Ties collectives of CPUs. Which members wait for which depends on the algorithm: a member waits for another one if it never left before that one
/// had arrived.
pub(super) fn join_cpus(draft: &mut Draft, ranks: &[&RankGraph], ends: &[Vec<u32>], clocks: &Clocks) {
    let visits: Vec<BTreeMap<u32, Visit>> = ranks.iter().zip(ends).map(|(graph, ends)| visits(graph, ends)).collect();
    let time = |draft: &Draft, at: u32| draft.nodes[at as usize].time;
    let mut tied: Vec<(u32, u32)> = Vec::new();
    for (rank, own) in visits.iter().enumerate() {
        for (other, theirs) in visits.iter().enumerate() {
            if other == rank || theirs.len() != own.len() || !clocks.are_comparable(rank, other) {
                continue;
            }
            let pair = |(number, (_, left)): (&u32, &Visit)| Some(((*left)?, theirs.get(number)?.0?));
            let pairs: Vec<(u32, u32)> = own.iter().filter_map(pair).collect();
            let together = clocks.uncertainty(rank, other).0;
            let waits = |(left, arrived): &(u32, u32)| time(draft, *arrived) <= time(draft, *left) + together;
            if pairs.len() >= FEWEST_CPU_COLLECTIVES && pairs.iter().all(waits) {
                tied.extend(pairs);
            }
        }
    }
    // Two of which one is always much earlier may not be tied at all: what a message takes at least is the least of all.
    let least = tied.iter().map(|(left, arrived)| time(draft, *left) - time(draft, *arrived)).min().unwrap_or_default();
    for (left, from) in tied {
        draft.edges[left as usize].push(Edge { from, least, kind: EdgeKind::Cpus });
    }
    for left in visits.iter().flat_map(BTreeMap::values).filter_map(|(_, left)| *left) {
        let (at, node) = (left as usize, draft.nodes[left as usize]);
        match draft.bound(at) {
            Some((latest, binding)) if latest > node.start => {
                (draft.extra[at], draft.nodes[at].binding) = (node.time - latest, binding);
            }
            _ => draft.own[at] = node.time - draft.before(at),
        }
    }
}

fn visits(graph: &RankGraph, ends: &[u32]) -> BTreeMap<u32, Visit> {
    let mut found: BTreeMap<u32, Visit> = BTreeMap::new();
    for (node, end) in graph.nodes.iter().zip(ends) {
        match node.kind {
            NodeKind::CpuArrival(number) => found.entry(number).or_default().0 = Some(*end),
            NodeKind::CpuLeft(number) => found.entry(number).or_default().1 = Some(*end),
            _ => {}
        }
    }
    found
}
