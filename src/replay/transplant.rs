//! How far reruns can be trusted: by giving each rank the work of a like one.
//!
//! A job does not take longer or shorter if its ranks are renamed. So each rank is given the work and the starts of the next one that is like it, of the
//! one after that, and so on; what a rerun then differs from the recorded time is the error of the graph. A graph that lacks a cause of waiting has the
//! waiting of one rank in the work of another, and errs, as far as they wait differently. What like ranks all wait for alike moves with the work; that a
//! graph takes it for work does not show here.

use std::collections::HashMap;

use serde::Serialize;

use super::job::{Edge, JobGraph, Node, Role, Times, Wait};
use super::peers::Peers;
use super::question::{Question, as_many, each, rerun_each};
use super::rank::{EdgeKind, NO_NODE, NodeKind, NodeStep, RankGraph, RankNode};

/// So many rotations: they take time, and more of them say the same.
const MOST: usize = 8;
const LEAST: usize = 2;

/// The error of reruns, as shares of the recorded time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// The larger one of a step's mean and of the whole.
    pub fn worst(&self) -> f64 {
        self.whole.max(self.mean)
    }

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
    /// By rank and place of its class: its node there; [`NO_NODE`] without one.
    by_place: Vec<Vec<u32>>,
    /// By rank: what its threads and streams do, in the order of the job's graph.
    in_order: Vec<Vec<Piece>>,
    /// By rank and lane: when the first of its nodes begins.
    begins: Vec<Vec<Option<i64>>>,
    /// By node of the job's graph: whether it matters when it begins, or how long it takes to be woken; of a member of a collective, or when it arrives.
    has_wait: Vec<bool>,
    /// Nodes that end no earlier than they did, and how long they waited.
    fixed: &'a HashMap<usize, i64>,
}

/// A node of a rank, with what is needed of it.
struct Piece {
    /// Of work; otherwise [`NO_LANE`].
    lane: u32,
    place: u32,
    own: i64,
}

const NO_LANE: u32 = u32::MAX;

/// A number for a thread or stream.
fn lane(node: &RankNode) -> usize {
    2 * node.lane as usize + usize::from(node.kind.is_cpu())
}

fn lanes(graph: &RankGraph) -> usize {
    graph.nodes.iter().map(lane).max().map_or(0, |last| last + 1)
}

/// Measures the error; `None` if no two ranks are alike.
pub(crate) fn measure(question: &Question<'_>) -> Option<RerunError> {
    let fixed = question.bound.iter().flat_map(|bound| bound.partial.iter().copied()).collect();
    of_graph(question.job, question.ranks, question.peers, &fixed)
}

/// The same of a graph. Some nodes end no earlier than they did, after what they waited, in ns: collectives that waited for ranks that are not here, which like ranks did differently.
pub fn of_graph(
    job: &JobGraph,
    ranks: &[&RankGraph],
    peers: &Peers,
    fixed: &HashMap<usize, i64>,
) -> Option<RerunError> {
    let largest = peers.with_peers().into_iter().map(|rank| peers.alike(rank)).max()?;
    let transplant = Transplant::new(job, ranks, peers, fixed);
    let ends = Ends::find(job, ranks, peers);
    let start = job.nodes.iter().map(|node| node.start).min()?;
    // A call that one rank alone makes cannot be given to another one. So it waits for nothing in any of these runs, nor in the one that they are compared with.
    let calls: Vec<usize> = peers.alone().filter(|at| waits(job, ranks, *at)).collect();
    let mut recorded = job.times.clone();
    calls.iter().for_each(|at| job.change_wait(&mut recorded, *at, |wait| wait.is_asked = false));
    let times = |times: &[i64]| ends.lengths(times.iter().copied(), start);
    let (steps, whole) = match calls.is_empty() {
        true => ends.lengths(job.nodes.iter().map(|node| node.time), start),
        false => times(&job.rerun(recorded).times),
    };
    let mut error = RerunError::default();
    let mut count = 0.0;
    let rotations = (largest - 1).min(as_many(job, MOST, LEAST));
    let rotated = rerun_each(job, rotations, |by| transplant.rotated(by + 1), |rerun| times(&rerun.times));
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

/// Whether a node is a call that waits for a GPU.
fn waits(job: &JobGraph, ranks: &[&RankGraph], at: usize) -> bool {
    let node = job.node(at);
    ranks[node.rank as usize].nodes.get(node.of as usize).is_some_and(|of| of.kind == NodeKind::Blocked)
}

/// The nodes at which a step may end: those that all like ranks have.
struct Ends {
    /// By node: its step, if it counts.
    step_of: Vec<NodeStep>,
    steps: usize,
}

impl Ends {
    fn find(job: &JobGraph, ranks: &[&RankGraph], peers: &Peers) -> Self {
        let has_steps = ranks.iter().any(|graph| graph.steps > 0);
        let mut count: Vec<Vec<usize>> = peers.alike.places_in.iter().map(|places| vec![0; *places]).collect();
        for (class, places) in peers.alike.class.iter().zip(&peers.alike.place_of) {
            places.iter().for_each(|place| count[*class as usize][*place as usize] += 1);
        }
        let step_of = |node: Node| {
            let rank = node.rank as usize;
            let of = ranks[rank].nodes.get(node.of as usize)?;
            let step = if has_steps { peers.step(rank, of.step.get()?)? } else { 0 };
            let place = peers.alike.place_of[rank][node.of as usize] as usize;
            (count[peers.alike.class[rank] as usize][place] == peers.alike(rank)).then_some(step)
        };
        let step_of: Vec<NodeStep> = job.nodes.iter().map(|node| step_of(node).into()).collect();
        Ends { steps: step_of.iter().filter_map(|of| of.get()).max().map_or(0, |last| last as usize + 1), step_of }
    }

    /// From the end of each step to the end of the next, and of the whole.
    fn lengths(&self, times: impl Iterator<Item = i64>, start: i64) -> (Vec<i64>, i64) {
        let mut ends = vec![start; self.steps];
        for (step, time) in self.step_of.iter().zip(times) {
            if let Some(step) = step.get() {
                ends[step as usize] = ends[step as usize].max(time);
            }
        }
        let before = std::iter::once(start).chain(ends.iter().copied());
        let steps = ends.iter().zip(before).map(|(end, before)| if *end > start { end - before } else { 0 }).collect();
        (steps, ends.iter().max().map_or(0, |end| end - start))
    }
}

impl<'a> Transplant<'a> {
    fn new(job: &'a JobGraph, ranks: &'a [&'a RankGraph], peers: &'a Peers, fixed: &'a HashMap<usize, i64>) -> Self {
        let by_place = |rank: usize| {
            let mut found = vec![NO_NODE; peers.alike.places_in[peers.alike.class[rank] as usize]];
            peers.alike.place_of[rank].iter().zip(0..).for_each(|(place, node)| found[*place as usize] = node);
            found
        };
        let mut in_order: Vec<Vec<Piece>> = ranks.iter().map(|graph| Vec::with_capacity(graph.nodes.len())).collect();
        for (node, own) in job.nodes.iter().zip(&job.times.own) {
            let (rank, at) = (node.rank as usize, node.of as usize);
            let Some(of) = ranks[rank].nodes.get(at).filter(|_| node.role != Role::Arrival) else { continue };
            let lane = if node.role.is_work() { lane(of) as u32 } else { NO_LANE };
            in_order[rank].push(Piece { lane, place: peers.alike.place_of[rank][at], own: *own });
        }
        let begins = |(graph, ends): (&&RankGraph, &Vec<u32>)| {
            let mut begins: Vec<Option<i64>> = vec![None; lanes(graph)];
            for (node, end) in graph.nodes.iter().zip(ends) {
                let (begin, first) = (job.node(*end as usize).start, &mut begins[lane(node)]);
                *first = Some(first.map_or(begin, |first| first.min(begin)));
            }
            begins
        };
        let by_place = each(ranks.len(), by_place);
        let begins = ranks.iter().zip(&job.ends).map(begins).collect();
        let begins_by_itself = |at: usize| {
            let comes_first = |edge: Edge| job.node(at).role != Role::Cpu || edge.kind == EdgeKind::Thread;
            !job.edges_into(at).any(comes_first)
        };
        let has_wait = |(at, node): (usize, Node)| begins_by_itself(at) || node.binding == EdgeKind::Wake;
        let mut has_wait: Vec<bool> = job.nodes.iter().enumerate().map(has_wait).collect();
        for (arrival, end) in job.arrivals.iter().flatten().zip(job.ends.iter().flatten()) {
            has_wait[*end as usize] |= has_wait[*arrival as usize];
        }
        Transplant { job, peers, ranks, by_place, in_order, begins, has_wait, fixed }
    }

    /// The times in which each rank has those of the one that comes so many places after it among like ones.
    fn rotated(&self, by: usize) -> Times {
        let mut times = self.job.times.clone();
        let mut classes: Vec<Vec<usize>> = vec![Vec::new(); self.ranks.len()];
        self.peers.alike.class.iter().zip(0..).for_each(|(class, rank)| classes[*class as usize].push(rank));
        for like in &classes {
            for (at, rank) in like.iter().enumerate() {
                self.give(&mut times, *rank, like[(at + by) % like.len()]);
            }
        }
        times
    }

    fn give(&self, times: &mut Times, rank: usize, from: usize) {
        let work = self.work(rank, from);
        for (at, (end, place)) in self.job.ends[rank].iter().zip(&self.peers.alike.place_of[rank]).enumerate() {
            let (end, of) = (*end as usize, self.by_place[from][*place as usize]);
            let theirs = |nodes: &[Vec<u32>]| nodes[from][of as usize] as usize;
            if let Some(waited) = self.fixed.get(&end) {
                times.own[end] -= waited;
                self.job.change_wait(times, end, |wait| wait.earliest = self.job.node(end).time);
                continue;
            }
            times.own[end] = if of == NO_NODE { 0 } else { work[*place as usize] };
            if of == NO_NODE {
                let node = &self.ranks[rank].nodes[at];
                let begin = self.begins[from].get(lane(node)).copied().flatten();
                self.job.change_wait(times, end, |wait| {
                    let begin = begin.unwrap_or(wait.begin);
                    *wait = Wait { begin, extra: 0, is_asked: !node.kind.is_cpu(), ..*wait };
                });
            } else if self.has_wait[end] {
                let (their_end, their_arrival) = (theirs(&self.job.ends), theirs(&self.job.arrivals));
                let waited = self.job.recorded_wait(their_end);
                let is_woken = |node: usize| self.job.node(node).binding == EdgeKind::Wake;
                let are_woken = is_woken(end) && is_woken(their_end);
                self.job.change_wait(times, end, |wait| {
                    wait.begin = waited.begin;
                    wait.extra = if are_woken { waited.extra } else { wait.extra };
                });
                // Only members of a collective arrive before their end.
                let arrival = self.job.arrivals[rank][at] as usize;
                if arrival != end && their_arrival != their_end {
                    let begin = self.job.node(their_arrival).start;
                    self.job.change_wait(times, arrival, |wait| wait.begin = begin);
                }
            }
        }
    }

    /// By place: a rank's time there, with the work of nodes before it on its thread or stream which another rank lacks.
    fn work(&self, rank: usize, from: usize) -> Vec<i64> {
        let mut pending = vec![0; self.begins[from].len()];
        let mut work = vec![0; self.by_place[from].len()];
        for piece in &self.in_order[from] {
            let work = &mut work[piece.place as usize];
            if piece.lane == NO_LANE {
                *work = piece.own;
                continue;
            }
            let pending = &mut pending[piece.lane as usize];
            *pending += piece.own;
            if self.by_place[rank][piece.place as usize] != NO_NODE {
                *work = std::mem::take(pending);
            }
        }
        work
    }
}
