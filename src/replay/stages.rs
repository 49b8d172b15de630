//! The stages of a pipeline: which ranks send to which first in a step. Nothing is known by names, and no clock is compared with another.

use std::collections::{BTreeMap, BTreeSet};

use super::job::Rows;
use super::rank::RankGraph;
use crate::operations::matching::Matches;
use crate::time::Ns;

type Link = [usize; 2];

/// By rank: its stage, for ranks that have one; `None` if there is no pipeline.
pub(crate) fn stages(ranks: &[&RankGraph], matches: &Matches) -> Option<BTreeMap<usize, usize>> {
    if matches.groups.iter().all(|group| group.name.pair.is_none()) {
        return None;
    }
    // By pair of ranks, in a step: who sent first, on the clock of the lower one. And by rank, in a step: whether its first message is one that it sends.
    let mut first: BTreeMap<(Option<u32>, Link), (Ns, Link)> = BTreeMap::new();
    let mut begins: BTreeMap<(Option<u32>, usize), (Ns, bool)> = BTreeMap::new();
    let node_of: Vec<Rows> = ranks.iter().map(|graph| Rows::of(graph)).collect();
    for group in &matches.groups {
        let (Some(pair), [_, _]) = (group.name.pair, &group.members[..]) else { continue };
        // Members are in the order of their numbers.
        let [low, high] = [group.members[0], group.members[1]];
        let link = if pair.0 < pair.1 { [low, high] } else { [high, low] };
        for collective in &group.collectives {
            let node = |member: usize| {
                let rank = group.members[member];
                Some(ranks[rank].nodes[node_of[rank].node(collective.rows[member]?)?])
            };
            let (Some(of_low), Some(of_high)) = (node(0), node(1)) else { continue };
            let earlier = |known: &mut (Ns, Link)| *known = (*known).min((of_low.start, link));
            first.entry((of_low.step.get(), [low, high])).and_modify(earlier).or_insert((of_low.start, link));
            for (rank, node) in [(low, of_low), (high, of_high)] {
                let own = (node.start, rank == link[0]);
                begins.entry((node.step.get(), rank)).and_modify(|known| *known = (*known).min(own)).or_insert(own);
            }
        }
    }
    let mut votes: BTreeMap<Link, usize> = BTreeMap::new();
    first.values().for_each(|(_, link)| *votes.entry(*link).or_default() += 1);
    let before = |[from, to]: &Link| votes[&[*from, *to]] > votes.get(&[*to, *from]).copied().unwrap_or_default();
    let links: Vec<Link> = votes.keys().filter(|link| before(link)).copied().collect();
    let all: BTreeSet<usize> = links.iter().flatten().copied().collect();
    let mut sends_first: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    begins.iter().for_each(|((_, rank), (_, sends))| sends_first.entry(*rank).or_default()[usize::from(*sends)] += 1);
    let sources: BTreeSet<usize> =
        all.iter().filter(|rank| sends_first[rank][1] > sends_first[rank][0]).copied().collect();
    let mut stage_of: BTreeMap<usize, usize> = sources.iter().map(|rank| (*rank, 0)).collect();
    for stage in 0..all.len() {
        let goes_on = |[from, to]: &&Link| stage_of.get(from) == Some(&stage) && !sources.contains(to);
        for [_, to] in links.iter().filter(goes_on).collect::<Vec<_>>() {
            if stage_of.insert(*to, stage + 1).is_some_and(|known| known != stage + 1) {
                return None;
            }
        }
    }
    let last = stage_of.values().max().copied()?;
    let fits = |[from, to]: &Link| match (stage_of.get(from), stage_of.get(to)) {
        (Some(from), Some(to)) => is_next(*from, *to, last),
        _ => false,
    };
    (last > 0 && stage_of.len() == all.len() && links.iter().all(fits)).then_some(stage_of)
}

/// Whether microbatches go forward from a stage to another one: from the last one they go on to the first one's next part of the model.
pub(crate) fn is_next(from: usize, to: usize, last: usize) -> bool {
    to == from + 1 || (from == last && to == 0 && last > 1)
}
