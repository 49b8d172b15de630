//! Which ranks of a job do the same: those that have nearly all places in common.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::places::{in_step, step_shifts};
use super::rank::{NO_NODE, RankGraph};
use super::stages::stages;
use crate::operations::matching::Matches;

/// Ranks are alike if this share of the places of the one with fewer is also the other's: its trace may have ended earlier.
const ALIKE: f64 = 0.9;

/// But then it has at least this share of the other's places.
const LEAST: f64 = 0.25;

/// Like ranks, and the places of their nodes and intervals.
#[derive(Debug)]
pub struct Alike {
    /// By rank: the lowest rank that is like it.
    pub class: Vec<u32>,
    /// By rank and node of its graph: a number, equal for nodes of like ranks that do the same in the same step.
    pub place_of: Vec<Vec<u32>>,
    /// The same by rank and interval.
    pub interval_of: Vec<Vec<u32>>,
    /// By class: how many places its ranks have.
    pub(super) places_in: Vec<usize>,
    /// By rank: how many more steps than the first rank it has before the same step.
    pub(super) step_shifts: Vec<i64>,
    /// By rank: of how many ranks it is the lowest that is like them.
    pub(super) sizes: Vec<usize>,
}

impl Alike {
    pub(crate) fn find(ranks: &[&RankGraph], matches: &Matches) -> Self {
        let shifts = step_shifts(ranks, matches);
        let places = |(graph, shift): (&&RankGraph, &i64)| {
            graph.nodes.iter().map(|node| in_step(node.place, node.step.get(), *shift)).collect::<Vec<u64>>()
        };
        let intervals = |(graph, shift): (&&RankGraph, &i64)| {
            graph.intervals.iter().map(|of| in_step(of.place, of.step, *shift)).collect::<Vec<u64>>()
        };
        let (place_of, count) = numbered(ranks.iter().zip(&shifts).map(places));
        let class = classes(&place_of, count, &stages(ranks, matches).unwrap_or_default(), &sets(ranks.len(), matches));
        let (place_of, places_in) = numbered_in(&class, place_of, count);
        let interval_of = numbered(ranks.iter().zip(&shifts).map(intervals)).0;
        let mut sizes = vec![0; ranks.len()];
        class.iter().for_each(|class| sizes[*class as usize] += 1);
        Alike { class, place_of, interval_of, places_in, step_shifts: shifts, sizes }
    }
}

/// By rank: the lowest rank that collectives tie it to, directly or through others.
fn sets(ranks: usize, matches: &Matches) -> Vec<usize> {
    // By rank: another one of its set that is lower, or itself.
    let mut lower: Vec<usize> = (0..ranks).collect();
    let lowest = |lower: &mut [usize], mut rank: usize| {
        while lower[rank] != rank {
            lower[rank] = lower[lower[rank]];
            rank = lower[rank];
        }
        rank
    };
    for group in matches.groups.iter().filter(|group| group.collectives.iter().any(|of| of.present() > 1)) {
        for pair in group.members.windows(2) {
            let [one, other] = [pair[0], pair[1]].map(|rank| lowest(&mut lower, rank));
            lower[one.max(other)] = one.min(other);
        }
    }
    (0..ranks).map(|rank| lowest(&mut lower, rank)).collect()
}

/// Places by numbers, equal ones by the same, and how many there are.
fn numbered(places: impl Iterator<Item = Vec<u64>>) -> (Vec<Vec<u32>>, usize) {
    let mut numbers: HashMap<u64, u32, FixedState> = HashMap::default();
    let mut found: Vec<Vec<u32>> = Vec::new();
    // Those of the rank before: most ranks do the same things in the same order.
    let mut before: Vec<u64> = Vec::new();
    for places in places {
        let number = |(at, place): (usize, &u64)| match found.last() {
            Some(known) if before.get(at) == Some(place) => known[at],
            _ => {
                let next = numbers.len() as u32;
                *numbers.entry(*place).or_insert(next)
            }
        };
        let own = places.iter().enumerate().map(number).collect();
        found.push(own);
        before = places;
    }
    (found, numbers.len())
}

/// The places of each class by numbers of its own, and by class how many there are.
fn numbered_in(class: &[u32], mut places: Vec<Vec<u32>>, count: usize) -> (Vec<Vec<u32>>, Vec<usize>) {
    // By place: its number in the class that had it last.
    let mut known = vec![(NO_NODE, 0); count];
    let mut places_in = vec![0; class.len()];
    let mut ranks: Vec<usize> = (0..class.len()).collect();
    ranks.sort_by_key(|rank| class[*rank]);
    for rank in ranks {
        let count = &mut places_in[class[rank] as usize];
        for place in &mut places[rank] {
            let (of, number) = &mut known[*place as usize];
            if *of != class[rank] {
                (*of, *number) = (class[rank], *count as u32);
                *count += 1;
            }
            *place = *number;
        }
    }
    (places, places_in)
}

/// By rank: the lowest rank that is like it. `count` is the number of places. Stages of a pipeline have other parts of the model.
fn classes(places: &[Vec<u32>], count: usize, stage_of: &BTreeMap<usize, usize>, set_of: &[usize]) -> Vec<u32> {
    let mut first: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut class: Vec<u32> = Vec::new();
    // By place: the rank that had it last.
    let mut had_by = vec![NO_NODE; count];
    for (rank, places) in (0..).zip(places) {
        let is_new = |place: &&u32| std::mem::replace(&mut had_by[**place as usize], rank) != rank;
        let own: Vec<u32> = places.iter().filter(is_new).copied().collect();
        let stage = |rank: u32| stage_of.get(&(rank as usize));
        let is_alike = |(of, others): &&(u32, Vec<u32>)| {
            let both = others.iter().filter(|place| had_by[**place as usize] == rank).count();
            let (fewer, more) = (own.len().min(others.len()), own.len().max(others.len()));
            // Ranks that no collective ties may do the same in part, and be of another job.
            let is_tied = set_of[*of as usize] == set_of[rank as usize];
            let least = if is_tied { LEAST } else { ALIKE };
            stage(*of) == stage(rank) && both as f64 >= ALIKE * fewer as f64 && fewer as f64 >= least * more as f64
        };
        let found = first.iter().find(is_alike).map(|(of, _)| *of);
        if found.is_none() {
            first.push((rank, own));
        }
        class.push(found.unwrap_or(rank));
    }
    class
}
