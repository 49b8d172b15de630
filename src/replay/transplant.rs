//! How far reruns can be trusted: by giving each rank the work of a like one.
//!
//! A job does not take longer or shorter if its ranks are renamed. So each rank is given the work and the starts of the next one that is like it, of the
//! one after that, and so on; what a rerun then differs from the recorded time is the error of the graph. A graph that lacks a cause of waiting has the
//! waiting of one rank in the work of another, and errs.

use serde::Serialize;

use super::job::{JobGraph, Node, Role, Times};
use super::peers::Peers;
use super::question::{as_many, each};
use super::rank::{EdgeKind, NO_NODE, RankGraph, RankNode};

/// So many rotations: they take time, and more of them say the same.
const MOST: usize = 8;
const LEAST: usize = 3;

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

/// Gives ranks the work of like ones.
struct Transplant<'a> {
    job: &'a JobGraph,
    peers: &'a Peers,
    ranks: &'a [&'a RankGraph],
    /// By rank and place of its class: its node there.
    by_place: Vec<Vec<u32>>,
    /// By rank: its nodes on threads and streams, in the order of their ends.
    in_order: Vec<Vec<u32>>,
    /// By rank and lane: when the first of its nodes begins.
    begins: Vec<Vec<Option<i64>>>,
}

/// A number for a thread or stream.
fn lane(node: &RankNode) -> usize {
    2 * node.lane as usize + usize::from(node.kind.is_cpu())
}

fn lanes(graph: &RankGraph) -> usize {
    graph.nodes.iter().map(lane).max().map_or(0, |last| last + 1)
}

/// Measures the error; `None` if no two ranks are alike.
pub fn measure(job: &JobGraph, ranks: &[&RankGraph], peers: &Peers) -> Option<RerunError> {
    let largest = peers.with_peers().into_iter().map(|rank| peers.alike(rank)).max()?;
    let transplant = Transplant::new(job, ranks, peers);
    let ends = Ends::find(job, ranks, peers);
    let recorded: Vec<i64> = job.nodes.iter().map(|node| node.time).collect();
    let start = job.nodes.iter().map(|node| node.start).min()?;
    let (steps, whole) = ends.lengths(&recorded, start);
    let mut error = RerunError::default();
    let mut count = 0.0;
    let rotations = (largest - 1).min(as_many(job, MOST, LEAST));
    let rotated = each(rotations, |by| ends.lengths(&job.rerun(&transplant.rotated(by + 1)), start));
    for (rotated, rotated_whole) in rotated {
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
        let mut count: Vec<Vec<usize>> = peers.places_in.iter().map(|places| vec![0; *places]).collect();
        for (class, places) in peers.class.iter().zip(&peers.place_of) {
            places.iter().for_each(|place| count[*class as usize][*place as usize] += 1);
        }
        let step_of = |node: &Node| {
            let rank = node.rank as usize;
            let of = (node.of != NO_NODE).then(|| &ranks[rank].nodes[node.of as usize])?;
            let step = if has_steps { peers.step(rank, of.step?)? } else { 0 };
            let place = peers.place_of[rank][node.of as usize] as usize;
            (count[peers.class[rank] as usize][place] == peers.alike(rank)).then_some(step)
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

impl<'a> Transplant<'a> {
    fn new(job: &'a JobGraph, ranks: &'a [&'a RankGraph], peers: &'a Peers) -> Self {
        let mut by_place: Vec<Vec<u32>> =
            peers.class.iter().map(|class| vec![NO_NODE; peers.places_in[*class as usize]]).collect();
        for (of_rank, places) in by_place.iter_mut().zip(&peers.place_of) {
            (0..).zip(places).for_each(|(node, place)| of_rank[*place as usize] = node);
        }
        let in_order = |graph: &&RankGraph| {
            let mut order: Vec<u32> = (0..graph.nodes.len() as u32).collect();
            order.sort_by_key(|node| (graph.nodes[*node as usize].end, *node));
            order
        };
        let begins = |(graph, ends): (&&RankGraph, &Vec<u32>)| {
            let mut begins: Vec<Option<i64>> = vec![None; lanes(graph)];
            for (node, end) in graph.nodes.iter().zip(ends) {
                let (begin, first) = (job.times[*end as usize].begin, &mut begins[lane(node)]);
                *first = Some(first.map_or(begin, |first| first.min(begin)));
            }
            begins
        };
        let (in_order, begins) =
            (ranks.iter().map(in_order).collect(), ranks.iter().zip(&job.ends).map(begins).collect());
        Transplant { job, peers, ranks, by_place, in_order, begins }
    }

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
        for (at, node) in self.ranks[rank].nodes.iter().enumerate() {
            let own = &mut times[self.job.ends[rank][at] as usize];
            let of = self.by_place[from][self.peers.place_of[rank][at] as usize];
            if of == NO_NODE {
                let begin = self.begins[from].get(lane(node)).copied().flatten().unwrap_or(own.begin);
                *own = Times { own: 0, begin, extra: 0, waits: !node.kind.is_cpu(), ..*own };
                continue;
            }
            let theirs = self.job.times[self.job.ends[from][of as usize] as usize];
            (own.own, own.begin) = (work[of as usize], theirs.begin);
            if own.binding == EdgeKind::Wake && theirs.binding == EdgeKind::Wake {
                own.extra = theirs.extra;
            }
            let (own, theirs) = (self.job.arrivals[rank][at], self.job.arrivals[from][of as usize]);
            if [own, theirs].map(|node| self.job.nodes[node as usize].role) == [Role::Arrival; 2] {
                times[own as usize].begin = self.job.times[theirs as usize].begin;
            }
        }
    }

    /// By node of a rank: its time, with the work of nodes before it on its thread or stream which another rank lacks.
    fn work(&self, rank: usize, from: usize) -> Vec<i64> {
        let graph = self.ranks[from];
        let mut pending = vec![0; lanes(graph)];
        let mut work = vec![0; graph.nodes.len()];
        for at in self.in_order[from].iter().map(|at| *at as usize) {
            let (node, end) = (graph.nodes[at], self.job.ends[from][at] as usize);
            let own = self.job.times[end].own;
            if !self.job.nodes[end].role.is_work() {
                work[at] = own;
                continue;
            }
            let pending = &mut pending[lane(&node)];
            *pending += own;
            if self.by_place[rank][self.peers.place_of[from][at] as usize] != NO_NODE {
                work[at] = std::mem::take(pending);
            }
        }
        work
    }
}
