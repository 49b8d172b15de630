//! What can be different in a rerun: the times of a job in which one thing is.

use std::collections::BTreeMap;

use super::job::Times;
use super::peers::Part;
use super::question::{LessWork, Question, each};
use super::rank::{EdgeKind, NodeKind};
use crate::statistics::median_time;
use crate::time::Ns;

impl Question<'_> {
    /// All work of a part takes so many times as long on each rank.
    pub(crate) fn scale(&self, times: &mut Times, part: Part, factor: impl Fn(usize) -> f64) {
        let of_ranks: Vec<f64> = (0..self.ranks.len()).map(factor).collect();
        for (node, own) in self.job.nodes.iter().zip(&mut times.own).filter(|(node, _)| node.role == part.role()) {
            *own = scaled(*own, of_ranks[node.rank as usize]);
        }
    }

    /// Kernels of these names do.
    pub(crate) fn scale_kernels(&self, times: &mut Times, factor: f64, fits: &dyn Fn(&str) -> bool) {
        // Rank by rank, because what is known of a rank's nodes is in their order.
        for (graph, ends) in self.ranks.iter().zip(&self.job.ends) {
            let is_meant: Vec<bool> = graph.texts.iter().map(|text| fits(text)).collect();
            for (node, end) in graph.nodes.iter().zip(ends) {
                if node.kind == NodeKind::Slice && is_meant[node.name as usize] {
                    times.own[*end as usize] = scaled(times.own[*end as usize], factor);
                }
            }
        }
    }

    /// How much less time functions take if they take so many times as long, for each of `count` runs. `run` is the one in which a function of this name does.
    pub(crate) fn less_of_functions(
        &self,
        count: usize,
        factor: f64,
        run: impl Fn(&str) -> Option<usize> + Sync,
    ) -> Vec<LessWork> {
        let of_rank = |rank: usize| {
            let graph = self.ranks[rank];
            let runs: Vec<Option<usize>> = graph.texts.iter().map(|text| run(text)).collect();
            let mut found = vec![LessWork::new(); count];
            for (interval, at) in graph.intervals.iter().zip(0..) {
                for (name, time) in &interval.functions {
                    let Some(found) = runs[*name as usize].map(|run| &mut found[run]) else { continue };
                    let less = time.0 - scaled(time.0, factor);
                    match found.last_mut() {
                        Some((last, sum)) if *last == (rank, at) => *sum += less,
                        _ => found.push(((rank, at), less)),
                    }
                }
            }
            found
        };
        let mut all = vec![LessWork::new(); count];
        for found in each(self.ranks.len(), of_rank) {
            all.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
        }
        all
    }

    /// Threads take less time in intervals: each piece of their work in proportion to its length.
    pub(crate) fn shorten(&self, times: &mut Times, less: &LessWork) {
        for (interval, less) in less.iter().filter(|(_, less)| *less != 0) {
            let nodes = self.in_interval(*interval);
            let all: i64 = nodes.clone().map(|node| times.own[node].max(0)).sum();
            let share = (*less).min(all) as f64 / all.max(1) as f64;
            nodes.for_each(|node| times.own[node] -= (times.own[node].max(0) as f64 * share) as i64);
        }
    }

    /// Collectives take no time once all members have arrived: those of these rows. Of one that was matched with none of another rank it is unknown when that
    /// is, and it takes no time at all.
    pub(crate) fn free(&self, times: &mut Times, is_free: &dyn Fn(usize, u32) -> bool) {
        for (rank, (graph, ends)) in self.ranks.iter().zip(&self.job.ends).enumerate() {
            for (node, end) in graph.nodes.iter().zip(ends) {
                if matches!(node.kind, NodeKind::Collective(row) if is_free(rank, row)) {
                    times.own[*end as usize] = 0;
                }
            }
        }
    }

    /// All ranks begin when the first one does.
    pub(crate) fn together(&self, times: &mut Times) {
        let begins = self.begins(times);
        let Some(earliest) = begins.iter().flatten().min().copied() else { return };
        self.shift(times, |rank| begins[rank].map_or(0, |begin| begin - earliest));
    }

    /// The same of ranks that were recorded earlier than they began: of others it is unknown when they did.
    pub(super) fn recorded_together(&self, times: &mut Times) {
        let begins = self.begins(times);
        let Some(earliest) = begins.iter().flatten().min().copied() else { return };
        let recorded = |rank: usize| self.job.profiled_from[rank].map_or(earliest, |from| from.max(earliest));
        self.shift(times, |rank| begins[rank].map_or(0, |begin| (begin - recorded(rank)).max(0)));
    }

    /// These ranks begin when the median of their peers does that are not among them, or of all if all are; none later than it did.
    pub(super) fn begin_as_peers(&self, base: &Times, set: &[usize]) -> Times {
        let (mut times, begins) = (base.clone(), self.begins(base));
        let late: Vec<i64> = set.iter().map(|rank| self.late(&begins, *rank, set)).collect();
        self.shift(&mut times, |rank| set.iter().position(|of| *of == rank).map_or(0, |at| late[at]));
        times
    }

    /// How much later a rank of a set begins than its peers.
    pub(super) fn late(&self, begins: &[Option<i64>], rank: usize, set: &[usize]) -> i64 {
        let like = |rank: usize| (self.peers.alike.class[rank], self.job.clocks[rank]);
        let peers = (0..begins.len()).filter(|other| like(*other) == like(rank));
        let (among, others): (Vec<usize>, Vec<usize>) = peers.partition(|other| set.contains(other));
        let examples = if others.is_empty() { among } else { others };
        let mut examples: Vec<Ns> = examples.into_iter().filter_map(|other| begins[other].map(Ns)).collect();
        let begin = begins[rank].filter(|_| !examples.is_empty());
        begin.map_or(0, |begin| (begin - median_time(&mut examples).0).max(0))
    }

    /// By rank: how much later it begins than its peers, as [`late`](Self::late) says of it alone.
    pub(super) fn each_late(&self, begins: &[Option<i64>]) -> Vec<i64> {
        let mut of_peers: BTreeMap<_, Vec<(i64, usize)>> = BTreeMap::new();
        for (rank, begin) in begins.iter().enumerate() {
            let of_peers = of_peers.entry((self.peers.alike.class[rank], self.job.clocks[rank])).or_default();
            of_peers.extend(begin.map(|begin| (begin, rank)));
        }
        let mut late = vec![0; begins.len()];
        for mut of_peers in of_peers.into_values().filter(|of_peers| of_peers.len() > 1) {
            of_peers.sort_unstable();
            for (at, (begin, rank)) in of_peers.iter().enumerate() {
                // The median of the others.
                let other = |place: usize| of_peers[place + usize::from(place >= at)].0;
                let others = of_peers.len() - 1;
                let usual = other((others - 1) / 2).midpoint(other(others / 2));
                late[*rank] = (begin - usual).max(0);
            }
        }
        late
    }

    /// By rank: when the first of its threads begins.
    pub(super) fn begins(&self, times: &Times) -> Vec<Option<i64>> {
        let first = |rank: usize| self.firsts(rank).map(|node| self.job.wait(times, node).begin).min();
        (0..self.ranks.len()).map(first).collect()
    }

    /// The nodes with which the threads of a rank begin.
    fn firsts(&self, rank: usize) -> impl Iterator<Item = usize> {
        let is_first = |node: &usize| !self.job.edges_into(*node).any(|edge| edge.kind == EdgeKind::Thread);
        self.work(rank, Part::Cpu).filter(is_first)
    }

    /// The threads of ranks begin earlier.
    fn shift(&self, times: &mut Times, earlier: impl Fn(usize) -> i64) {
        for rank in 0..self.ranks.len() {
            self.firsts(rank).for_each(|node| self.job.change_wait(times, node, |wait| wait.begin -= earlier(rank)));
        }
    }
}

/// Rounded as by `round`, which is a call of the C library.
fn scaled(time: i64, factor: f64) -> i64 {
    let exact = time as f64 * factor;
    (exact + 0.5_f64.copysign(exact)) as i64
}
