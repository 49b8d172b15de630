//! Where ranks wait for each other: collectives on GPUs, and collectives of CPUs.

use std::collections::BTreeMap;

use super::job::{Between, Draft, Node, Role, Rows, Unordered};
use super::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph};
use crate::operations::clocks::Clocks;
use crate::operations::matching::{MatchedCollective, Matches};
use crate::operations::rows::Tie;
use crate::statistics::median_time;
use crate::time::Ns;

/// With fewer collectives of CPUs it may be chance that a member never left before another one arrived.
const FEWEST_CPU_COLLECTIVES: usize = 3;

/// Whether it is known which members of a collective wait for which. It is not where no root is known, nor what is in the rest.
fn ties(collective: &MatchedCollective) -> bool {
    let waits = collective.tie.synchronises() || collective.tie == Tie::PointToPoint || collective.root.is_some();
    waits && collective.fault.is_none() && collective.present() > 1
}

/// By rank: whether a row, as far as that goes, waits for others.
pub(super) fn members(ranks: usize, matches: &Matches) -> Vec<Vec<bool>> {
    let mut found = vec![Vec::new(); ranks];
    for group in &matches.groups {
        let tied = group.collectives.iter().filter(|collective| ties(collective));
        for (rank, row) in tied.flat_map(|collective| group.members.iter().zip(&collective.rows)) {
            let (of_rank, Some(row)) = (&mut found[*rank], row.map(|row| row as usize)) else { continue };
            of_rank.resize(of_rank.len().max(row + 1), false);
            of_rank[row] = true;
        }
    }
    found
}

/// By rank: by how much its aligned clock is ahead of the first one's where nothing but sends and receives shows it. These end on both sides at
/// about the same time.
pub(super) fn shifts(ranks: &[&RankGraph], rows: &[Rows], matches: &Matches, clocks: &Clocks) -> Vec<i64> {
    let end = |rank: usize, row: u32| {
        let at = rows[rank].node(row)?;
        Some((rank, clocks.ranks[rank].aligned(ranks[rank].nodes[at].end)))
    };
    let set = |rank: usize| clocks.ranks[rank].component.unwrap_or(rank);
    if (0..ranks.len()).all(|rank| set(rank) == set(0)) {
        return vec![0; ranks.len()];
    }
    let mut apart: BTreeMap<(usize, usize), Vec<Ns>> = BTreeMap::new();
    for group in &matches.groups {
        for collective in group.collectives.iter().filter(|collective| ties(collective) && collective.root.is_none()) {
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

/// Where a row's kernel arrives at its collective, and where it ends.
pub(super) type ArrivalAndEnd = (u32, u32);

/// Adds a node where all members of each collective have arrived, in the last draft, with the edges from it. `node` gives them for a rank's row.
pub(super) fn join_collectives(
    drafts: &mut [Draft],
    matches: &Matches,
    node: impl Fn(usize, u32) -> Option<ArrivalAndEnd>,
) -> Vec<Between> {
    let (last, mut found) = (drafts.len() - 1, Vec::new());
    let (drafts, rendezvous) = drafts.split_at_mut(last);
    for group in &matches.groups {
        for collective in group.collectives.iter().filter(|collective| ties(collective)) {
            let members = group.members.iter().zip(&collective.rows).enumerate();
            let members: Vec<(usize, usize, ArrivalAndEnd)> =
                members.filter_map(|(member, (rank, row))| Some((member, *rank, node(*rank, (*row)?)?))).collect();
            // If none ended before all had started, they may have waited for each other, whoever is the root.
            let all = members.iter().map(|(_, rank, (arrival, _))| drafts[*rank].time(*arrival)).max();
            let has_early = members.iter().any(|(_, rank, (_, end))| Some(drafts[*rank].time(*end)) < all);
            let is_awaited = |member: usize| !has_early || collective.is_awaited(member);
            let waits = |member: usize| !has_early || collective.waits(member);
            let mut awaited = members.iter().filter(|(member, ..)| is_awaited(*member));
            let latest = awaited.clone().map(|(_, rank, (arrival, _))| drafts[*rank].time(*arrival)).max();
            let (Some(latest), Some((_, first, (arrival, _)))) = (latest, awaited.next()) else { continue };
            let first = drafts[*first].node(*arrival);
            let all = Node { role: Role::Rendezvous, of: NO_NODE, time: latest, start: latest, ..first };
            let all = (last as u32, rendezvous[0].push(all, 0));
            for (member, rank, (arrival, end)) in members {
                let (draft, place) = (&mut drafts[rank], |node: u32| (rank as u32, node));
                let edge = |from, to| Between { from, to, least: 0, kind: EdgeKind::Rendezvous };
                let is_awaited = is_awaited(member);
                found.extend(is_awaited.then(|| edge(place(arrival), all)));
                // What was sent may be under way when the receiver arrives.
                let is_sure = collective.tie.synchronises() && collective.tie != Tie::Uneven;
                let has_waited = is_sure || waits(member) && draft.time(end) >= latest;
                let (from, since) = if has_waited { (all, latest) } else { (place(arrival), draft.time(arrival)) };
                found.push(edge(from, place(end)));
                // Who receives from a root is there, too.
                let is_there = has_waited && !is_awaited;
                found.extend(is_there.then(|| edge(place(arrival), place(end))));
                let since = if is_there { since.max(draft.time(arrival)) } else { since };
                // A kernel of several messages ends after the last of them.
                let (time, own) = (draft.time(end), &mut draft.own[end as usize]);
                *own = (*own).min(time - since);
            }
        }
    }
    found
}

/// Where a thread comes to a collective of CPUs, and where it has left it.
type Visit = (Option<u32>, Option<u32>);

/// Ties collectives of CPUs. Which members wait for which depends on the algorithm: a member waits for another one if it never left before that one
/// had arrived.
pub(super) fn join_cpus(
    drafts: &mut [Draft],
    ranks: &[&RankGraph],
    ends: &[Vec<u32>],
    clocks: &Clocks,
) -> Vec<Between> {
    let visits: Vec<BTreeMap<u32, Visit>> = ranks.iter().zip(ends).map(|(graph, ends)| visits(graph, ends)).collect();
    let time = |(rank, at): Unordered| drafts[rank as usize].time(at);
    let mut tied: Vec<(Unordered, Unordered)> = Vec::new();
    for (rank, own) in visits.iter().enumerate().filter(|(_, own)| own.len() >= FEWEST_CPU_COLLECTIVES) {
        for (other, theirs) in visits.iter().enumerate() {
            if other == rank || theirs.len() != own.len() || !clocks.are_comparable(rank, other) {
                continue;
            }
            let pair = |(number, (_, left)): (&u32, &Visit)| {
                Some(((rank as u32, (*left)?), (other as u32, theirs.get(number)?.0?)))
            };
            let pairs: Vec<(Unordered, Unordered)> = own.iter().filter_map(pair).collect();
            let together = clocks.uncertainty(rank, other).0;
            let waits = |(left, arrived): &(Unordered, Unordered)| time(*arrived) <= time(*left) + together;
            if pairs.len() >= FEWEST_CPU_COLLECTIVES && pairs.iter().all(waits) {
                tied.extend(pairs);
            }
        }
    }
    // Two of which one is always much earlier may not be tied at all: what a message takes at least is the least of all.
    let least = tied.iter().map(|(left, arrived)| time(*left) - time(*arrived)).min().unwrap_or_default();
    // By node: when the last of the others let it happen at the earliest.
    let mut latest: BTreeMap<Unordered, i64> = BTreeMap::new();
    for (left, arrived) in &tied {
        let (until, known) = (time(*arrived) + least, latest.entry(*left).or_insert(i64::MIN));
        *known = (*known).max(until);
    }
    let left = |(rank, visits): (usize, &BTreeMap<u32, Visit>)| {
        visits.values().filter_map(|(_, left)| Some((rank as u32, (*left)?))).collect::<Vec<Unordered>>()
    };
    for (rank, at) in visits.iter().enumerate().flat_map(left) {
        let draft = &mut drafts[rank as usize];
        let node = draft.node(at);
        let of_others = latest.get(&(rank, at)).map(|latest| (*latest, EdgeKind::Cpus));
        match draft.bound(at).max(of_others) {
            Some((latest, binding)) if latest > node.start => {
                draft.nodes.bind(at as usize, node.time - latest, binding);
            }
            _ => draft.own[at as usize] = node.time - draft.before(at),
        }
    }
    tied.into_iter().map(|(to, from)| Between { from, to, least, kind: EdgeKind::Cpus }).collect()
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
