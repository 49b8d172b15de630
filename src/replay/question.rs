//! A job of which reruns are asked, and what they have in common.

use std::num::NonZero;
use std::ops::Deref;

use super::job::{JobGraph, Node, Role, Times, spare};
use super::lists::Lists;
use super::peers::{Part, Peers};
use super::rank::{EdgeKind, RankGraph};
use super::rerun::Rerun;
pub(crate) use crate::parallel::both;
use crate::parallel::in_order;

pub(crate) type RankInterval = (usize, u32);

/// By how much less time threads take in which intervals, in ns.
pub(crate) type LessWork = Vec<(RankInterval, i64)>;

/// How many nodes are computed again, in all, to measure what is due to chance or to the graph, or what rules save together: about a tenth of a second for each processor.
const BUDGET: usize = 2_000_000;

/// How many reruns of a job that are: fewer of a large one, where each says more.
pub(crate) fn as_many(job: &JobGraph, most: usize, least: usize) -> usize {
    (BUDGET / job.nodes.len().max(1)).clamp(least, most)
}

/// What each of so many things gives, on all processors.
pub(crate) fn each<T: Send>(count: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    in_order(count, threads().get(), of)
}

pub(super) fn threads() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// At most so many runs are computed at once; of a larger job than this fewer, since each needs memory of its own.
const AT_ONCE: usize = 4;
const AT_ONCE_NODES: usize = 8_000_000;

/// What is asked of so many runs, which are computed on all processors.
pub(super) fn rerun_each<T: Send>(
    job: &JobGraph,
    count: usize,
    run: impl Fn(usize) -> Times + Sync,
    of: impl Fn(&Rerun) -> T + Sync,
) -> Vec<T> {
    let most = (AT_ONCE_NODES / job.nodes.len().max(1)).clamp(1, AT_ONCE);
    let at_once = most.min(count.div_ceil(threads().get())).max(1);
    let chunk = |chunk: usize| {
        let first = chunk * at_once;
        let found: Vec<Rerun> = match at_once.min(count - first) {
            4 => job.reruns([0, 1, 2, 3].map(|at| run(first + at))).into(),
            3 => job.reruns([0, 1, 2].map(|at| run(first + at))).into(),
            2 => job.reruns([0, 1].map(|at| run(first + at))).into(),
            _ => vec![job.rerun(run(first))],
        };
        let asked = |run: Rerun| {
            let answer = of(&run);
            spare(run.times);
            answer
        };
        found.into_iter().map(asked).collect::<Vec<T>>()
    };
    each(count.div_ceil(at_once), chunk).into_iter().flatten().collect()
}

/// Peers that may be found when they are first asked for.
pub(crate) type LazyPeers<'a> = dyn Deref<Target = Peers> + Sync + 'a;

/// What ranks that are not here may do: no rerun shows whether they would come as early as those that are.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// The nodes at which collectives end that waited for them.
    pub(crate) waited: Vec<usize>,
    /// The nodes at which collectives end of which they are members, with how long these waited for them, in ns.
    pub(crate) partial: Vec<(usize, i64)>,
    /// The ranks here of which less than the larger half of a group is here.
    pub(crate) minorities: Vec<usize>,
}

/// A job that is asked about.
pub(crate) struct Question<'a> {
    pub(crate) job: &'a JobGraph,
    pub(crate) ranks: &'a [&'a RankGraph],
    pub(crate) peers: &'a LazyPeers<'a>,
    /// By part and rank: the nodes that are work.
    work: [Vec<Vec<u32>>; 2],
    /// By rank and interval: the nodes that are work of threads.
    in_intervals: Vec<Lists<u32>>,
    /// What is known of ranks that are not here.
    pub(crate) bound: Option<Bound>,
    pub(crate) steps: u32,
    /// When it started and ended, in ns.
    pub(crate) start: i64,
    pub(super) end: i64,
}

impl<'a> Question<'a> {
    pub(crate) fn new(job: &'a JobGraph, ranks: &'a [&'a RankGraph], peers: &'a LazyPeers<'a>) -> Self {
        let (mut start, mut end) = (i64::MAX, i64::MIN);
        let mut work = [vec![Vec::new(); ranks.len()], vec![Vec::new(); ranks.len()]];
        for (node, at) in job.nodes.iter().zip(0..) {
            (start, end) = (start.min(node.start), end.max(node.time));
            if node.role.is_work() {
                work[usize::from(node.role == Role::Gpu)][node.rank as usize].push(at);
            }
        }
        let (mut start, end) = if job.nodes.is_empty() { (0, 0) } else { (start, end) };
        // What a profiler recorded before another one began is no part of what all did.
        if let Some(profiled) = job.profiled_from.iter().copied().collect::<Option<Vec<i64>>>() {
            start = profiled.into_iter().max().map_or(start, |latest| start.max(latest).min(end));
        }
        let in_intervals = each(ranks.len(), |rank| {
            let interval = |node: u32| ranks[rank].nodes[job.node(node as usize).of as usize].interval;
            Lists::new(ranks[rank].intervals.len(), work[0][rank].iter().map(|node| (interval(*node), *node)))
        });
        let steps = ranks.iter().map(|graph| graph.steps - graph.left_out_steps).max().unwrap_or_default();
        Question { job, ranks, peers, work, in_intervals, bound: None, steps, start, end }
    }

    /// Two things at once. Of a large job one after the other, so that the runs of both do not need their memory at the same time: each is on all processors.
    pub(crate) fn both<A: Send, B>(&self, one: impl Fn() -> A + Sync, other: impl FnOnce() -> B) -> (A, B) {
        if self.job.nodes.len() * AT_ONCE > AT_ONCE_NODES { (one(), other()) } else { both(one, other) }
    }

    /// From the first start to the last end, in ns.
    pub(crate) fn length(&self) -> i64 {
        self.end - self.start
    }

    /// How much earlier the job ends with these times, in ns.
    pub(crate) fn saves(&self, times: Times) -> i64 {
        self.end - self.end_of(times)
    }

    /// The same of each of so many runs.
    pub(crate) fn saved(&self, count: usize, run: impl Fn(usize) -> Times + Sync) -> Vec<i64> {
        self.ends(count, run).into_iter().map(|end| self.end - end).collect()
    }

    /// When the job ends in each of so many runs.
    pub(super) fn ends(&self, count: usize, run: impl Fn(usize) -> Times + Sync) -> Vec<i64> {
        rerun_each(self.job, count, run, |rerun| rerun.end)
    }

    pub(super) fn end_of(&self, times: Times) -> i64 {
        let run = self.job.rerun(times);
        spare(run.times);
        run.end
    }

    pub(super) fn like_peers(&self, base: Times, set: &[usize], part: Part) -> Times {
        self.peers.like_peers(self.job, base, &self.flags(set), part)
    }

    /// The same at some places of its peers alone.
    pub(super) fn at_places(&self, base: &Times, set: &[usize], places: &[usize]) -> Times {
        self.peers.like_peers_at(self.job, base, &self.flags(set), places)
    }

    /// The times in which these ranks do a part of their work as the median of them all.
    pub(super) fn like_each_other(&self, base: &Times, set: &[usize], part: Part) -> Times {
        self.peers.like_each_other(self.job, base, &self.flags(set), part)
    }

    /// The times in which a part of the work takes no time, nor one thread to wake another.
    pub(super) fn without_work(&self, base: &Times, part: Part) -> Times {
        let mut times = base.clone();
        for rank in 0..self.ranks.len() {
            for node in self.work(rank, part) {
                times.own[node] = times.own[node].min(0);
                if part == Part::Cpu && self.job.node(node).binding == EdgeKind::Wake {
                    self.job.change_wait(&mut times, node, |wait| wait.extra = 0);
                }
            }
        }
        times
    }

    /// When the job ends if ranks that are not here come no earlier than they did.
    pub(super) fn bounded_end(&self, mut times: Times, bound: &Bound) -> i64 {
        for node in bound.waited.iter().copied() {
            self.job.change_wait(&mut times, node, |wait| wait.earliest = self.job.node(node).time);
        }
        self.end_of(times)
    }

    pub(super) fn flags(&self, set: &[usize]) -> Vec<bool> {
        let mut flags = vec![false; self.ranks.len()];
        set.iter().for_each(|rank| flags[*rank] = true);
        flags
    }

    /// The times in which these ranks do both parts of their work as their peers.
    pub(super) fn all_like_peers(&self, base: Times, set: &[usize]) -> Times {
        self.like_peers(self.like_peers(base, set, Part::Cpu), set, Part::Gpu)
    }

    /// The nodes of a rank that are work of a part.
    pub(super) fn work(&self, rank: usize, part: Part) -> impl Iterator<Item = usize> {
        self.work[usize::from(part == Part::Gpu)][rank].iter().map(|node| *node as usize)
    }

    /// The nodes of an interval that are work of threads.
    pub(crate) fn in_interval(&self, (rank, interval): RankInterval) -> impl Iterator<Item = usize> + Clone {
        self.in_intervals[rank].of(interval).iter().map(|node| *node as usize)
    }

    /// The rank and interval of a node; `None` for a rendezvous.
    pub(crate) fn interval(&self, node: usize) -> Option<RankInterval> {
        let Node { rank, of, .. } = self.job.node(node);
        let of = self.ranks[rank as usize].nodes.get(of as usize)?;
        Some((rank as usize, of.interval))
    }
}
