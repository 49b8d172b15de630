//! How far reruns can be trusted: by giving each rank the work of a like one.
//!
//! A job does not take longer or shorter if its ranks are renamed. So each rank is given the work and the starts of the next one that is like it, of the
//! one after that, and so on; what a rerun then differs from the recorded time is the error of the graph. A graph that lacks a cause of waiting has the
//! waiting of one rank in the work of another, and errs.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::job::{JobGraph, Node, Role, Times};
use super::peers::Peers;
use super::rank::{EdgeKind, NO_NODE, RankGraph};

/// So many rotations at most: they take time, and more of them say the same.
const MOST: usize = 8;

/// The error of reruns, as shares of the recorded time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RerunError {
    /// Of a step: the mean.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub mean: f64,
    /// Of a step: the largest.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub max: f64,
    /// Of the whole time: the largest.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub whole: f64,
    /// By how many rotations it was measured.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub rotations: u64,
}

impl RerunError {
    /// The error of what a rerun saves, as a share of the whole length: as much as the length itself is wrong by, and no less than one of the steps is.
    pub fn of_saving(&self, steps: u32) -> f64 {
        self.whole.max(self.mean / f64::from(steps.max(1)))
    }
}

/// A rank's nodes by place.
type ByPlace = HashMap<u64, u32, FixedState>;

/// Gives ranks the work of like ones.
struct Transplant<'a> {
    job: &'a JobGraph,
    peers: &'a Peers,
    ranks: &'a [&'a RankGraph],
    by_place: Vec<ByPlace>,
    /// By rank and node: the node of a rendezvous at which it arrives.
    arrivals: HashMap<(u32, u32), u32, FixedState>,
}

/// Measures the error; `None` if no two ranks are alike.
pub fn measure(job: &JobGraph, ranks: &[&RankGraph], peers: &Peers) -> Option<RerunError> {
    let largest = peers.with_peers().into_iter().map(|rank| peers.alike(rank)).max()?;
    let by_place = |places: &Vec<u64>| places.iter().copied().zip(0..).collect();
    let arrival =
        |(at, node): (usize, &Node)| (node.role == Role::Arrival).then_some(((node.rank, node.of), at as u32));
    let transplant = Transplant {
        job,
        peers,
        ranks,
        by_place: peers.place_of.iter().map(by_place).collect(),
        arrivals: job.nodes.iter().enumerate().filter_map(arrival).collect(),
    };
    let ends = Ends::find(job, ranks, peers);
    let recorded: Vec<i64> = job.nodes.iter().map(|node| node.time).collect();
    let start = job.nodes.iter().map(|node| node.start).min()?;
    let (steps, whole) = ends.lengths(&recorded, start);
    let mut error = RerunError::default();
    let mut count = 0.0;
    for by in 1..largest.min(MOST + 1) {
        let (rotated, rotated_whole) = ends.lengths(&job.rerun(&transplant.rotated(by)), start);
        for (step, rotated) in steps.iter().zip(rotated).filter(|(step, _)| **step > 0) {
            let off = (rotated - step).abs() as f64 / *step as f64;
            (error.mean, error.max, count) = (error.mean + off, error.max.max(off), count + 1.0);
        }
        error.whole = error.whole.max((rotated_whole - whole).abs() as f64 / whole.max(1) as f64);
        error.rotations += 1;
    }
    error.mean /= f64::max(count, 1.0);
    Some(error)
}

/// The nodes at which a step may end: those that all like ranks have.
struct Ends {
    /// By node: its step, if it counts.
    step_of: Vec<Option<u32>>,
    steps: usize,
}

impl Ends {
    fn find(job: &JobGraph, ranks: &[&RankGraph], peers: &Peers) -> Self {
        let has_steps = ranks.iter().any(|graph| graph.steps > 0);
        let mut count: HashMap<(u32, u64), usize, FixedState> = HashMap::default();
        for (class, places) in peers.class.iter().zip(&peers.place_of) {
            places.iter().for_each(|place| *count.entry((*class, *place)).or_default() += 1);
        }
        let step_of = |node: &Node| {
            let rank = node.rank as usize;
            let of = (node.of != NO_NODE).then(|| &ranks[rank].nodes[node.of as usize])?;
            let step = if has_steps { peers.step(rank, of.step?)? } else { 0 };
            let place = (peers.class[rank], peers.place_of[rank][node.of as usize]);
            (count[&place] == peers.alike(rank)).then_some(step)
        };
        let step_of: Vec<Option<u32>> = job.nodes.iter().map(step_of).collect();
        Ends { steps: step_of.iter().flatten().max().map_or(0, |last| *last as usize + 1), step_of }
    }

    /// From the end of each step to the end of the next, and of the whole.
    fn lengths(&self, times: &[i64], start: i64) -> (Vec<i64>, i64) {
        let mut ends = vec![start; self.steps];
        for (step, time) in self.step_of.iter().zip(times) {
            if let Some(step) = step {
                ends[*step as usize] = ends[*step as usize].max(*time);
            }
        }
        let before = std::iter::once(start).chain(ends.iter().copied());
        let steps = ends.iter().zip(before).map(|(end, before)| if *end > start { end - before } else { 0 }).collect();
        (steps, ends.iter().max().map_or(0, |end| end - start))
    }
}

impl Transplant<'_> {
    /// The times in which each rank has those of the one that comes so many places after it among like ones.
    fn rotated(&self, by: usize) -> Vec<Times> {
        let mut times = self.job.times.clone();
        for rank in 0..self.ranks.len() {
            let like: Vec<usize> =
                (0..self.ranks.len()).filter(|other| self.peers.class[*other] == self.peers.class[rank]).collect();
            let at = like.iter().position(|other| *other == rank).unwrap_or_default();
            self.give(&mut times, rank, like[(at + by) % like.len()]);
        }
        times
    }

    fn give(&self, times: &mut [Times], rank: usize, from: usize) {
        let work = self.work(rank, from);
        let mut begins: HashMap<(bool, u32), i64, FixedState> = HashMap::default();
        for (node, end) in self.ranks[from].nodes.iter().zip(&self.job.ends[from]) {
            let begin = self.job.times[*end as usize].begin;
            begins
                .entry((node.kind.is_cpu(), node.lane))
                .and_modify(|first| *first = begin.min(*first))
                .or_insert(begin);
        }
        for (at, node) in self.ranks[rank].nodes.iter().enumerate() {
            let own = &mut times[self.job.ends[rank][at] as usize];
            let Some(of) = self.by_place[from].get(&self.peers.place_of[rank][at]) else {
                let begin = begins.get(&(node.kind.is_cpu(), node.lane)).copied().unwrap_or(own.begin);
                *own = Times { own: 0, begin, extra: 0, waits: !node.kind.is_cpu(), ..*own };
                continue;
            };
            let theirs = self.job.times[self.job.ends[from][*of as usize] as usize];
            (own.own, own.begin) = (if node.kind.is_cpu() { work[*of as usize] } else { theirs.own }, theirs.begin);
            if own.binding == EdgeKind::Wake && theirs.binding == EdgeKind::Wake {
                own.extra = theirs.extra;
            }
            let arrival = |rank: usize, of: u32| self.arrivals.get(&(rank as u32, of)).map(|at| *at as usize);
            if let (Some(own), Some(theirs)) = (arrival(rank, at as u32), arrival(from, *of)) {
                times[own].begin = self.job.times[theirs].begin;
            }
        }
    }

    /// By node of a rank: its work, with that of nodes before it on its thread which another rank lacks.
    fn work(&self, rank: usize, from: usize) -> Vec<i64> {
        let graph = self.ranks[from];
        let mut order: Vec<usize> = (0..graph.nodes.len()).filter(|node| graph.nodes[*node].kind.is_cpu()).collect();
        order.sort_by_key(|node| (graph.nodes[*node].end, *node));
        let mut pending: HashMap<u32, i64, FixedState> = HashMap::default();
        let mut work = vec![0; graph.nodes.len()];
        for node in order {
            let pending = pending.entry(graph.nodes[node].lane).or_default();
            *pending += self.job.times[self.job.ends[from][node] as usize].own;
            if self.by_place[rank].contains_key(&self.peers.place_of[from][node]) {
                work[node] = std::mem::take(pending);
            }
        }
        work
    }
}
