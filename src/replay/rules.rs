//! What can be different in a rerun: the times of a job in which one thing is.

use super::job::{Role, Times};
use super::peers::Part;
use super::question::{Question, RankInterval};
use super::rank::{EdgeKind, Interval, NodeKind, RankGraph};

impl Question<'_> {
    /// All work of a part takes this many times as long.
    pub(crate) fn scale(&self, times: &mut [Times], part: Part, factor: f64) {
        for (node, times) in self.job.nodes.iter().zip(times).filter(|(node, _)| node.role == part.role()) {
            debug_assert!(node.role.is_work());
            times.own = scaled(times.own, factor);
        }
    }

    /// Kernels of these names do.
    pub(crate) fn scale_kernels(&self, times: &mut [Times], factor: f64, fits: &dyn Fn(&str) -> bool) {
        let is_meant: Vec<Vec<bool>> =
            self.ranks.iter().map(|graph| graph.texts.iter().map(|text| fits(text)).collect()).collect();
        for (node, times) in self.job.nodes.iter().zip(times).filter(|(node, _)| node.role == Role::Gpu) {
            let name = self.ranks[node.rank as usize].nodes[node.of as usize].name;
            if is_meant[node.rank as usize][name as usize] {
                times.own = scaled(times.own, factor);
            }
        }
    }

    /// Functions of these names do, in their own time. It is taken from the work of the interval, from each piece in proportion to its length.
    pub(crate) fn scale_functions(&self, times: &mut [Times], factor: f64, fits: &dyn Fn(&str) -> bool) {
        // By rank and interval: by how much it is shorter, and how much work it has.
        let less = |graph: &&RankGraph| {
            let is_meant: Vec<bool> = graph.texts.iter().map(|text| fits(text)).collect();
            let of_interval = |interval: &Interval| {
                let meant = interval.functions.iter().filter(|(name, _)| is_meant[*name as usize]);
                (meant.map(|(_, time)| time.0 - scaled(time.0, factor)).sum(), 0)
            };
            graph.intervals.iter().map(of_interval).collect()
        };
        let mut intervals: Vec<Vec<(i64, i64)>> = self.ranks.iter().map(less).collect();
        let cpus = self.ranks.iter().enumerate().flat_map(|(rank, _)| self.work(rank, Part::Cpu));
        let meant: Vec<(usize, RankInterval)> = cpus
            .filter_map(|node| Some((node, self.interval(node)?)))
            .filter(|(_, (rank, interval))| intervals[*rank][*interval as usize].0 != 0)
            .collect();
        for (node, (rank, interval)) in &meant {
            intervals[*rank][*interval as usize].1 += times[*node].own.max(0);
        }
        for (node, (rank, interval)) in meant {
            let (less, all) = intervals[rank][interval as usize];
            let share = less.min(all) as f64 / all.max(1) as f64;
            times[node].own -= (times[node].own.max(0) as f64 * share) as i64;
        }
    }

    /// Collectives take no time once all members have arrived: those of these rows.
    pub(crate) fn free(&self, times: &mut [Times], is_free: &dyn Fn(usize, u32) -> bool) {
        for (node, times) in self.job.nodes.iter().zip(times).filter(|(node, _)| node.role == Role::Transfer) {
            let of = self.ranks[node.rank as usize].nodes[node.of as usize].kind;
            if matches!(of, NodeKind::Collective(row) if is_free(node.rank as usize, row)) {
                times.own = 0;
            }
        }
    }

    /// All ranks begin when the first one does.
    pub(crate) fn together(&self, times: &mut [Times]) {
        let is_first = |node: usize| {
            let of_thread = self.job.edges_into(node).iter().any(|edge| edge.kind == EdgeKind::Thread);
            self.job.nodes[node].role == Role::Cpu && !of_thread
        };
        let firsts: Vec<(usize, usize)> = (0..self.job.nodes.len())
            .filter(|node| is_first(*node))
            .map(|node| (self.job.nodes[node].rank as usize, node))
            .collect();
        let begin = |of: &(usize, usize)| times[of.1].begin;
        let Some(earliest) = firsts.iter().map(begin).min() else { return };
        let late: Vec<i64> = (0..self.ranks.len())
            .map(|rank| firsts.iter().filter(|of| of.0 == rank).map(begin).min().map_or(0, |first| first - earliest))
            .collect();
        firsts.iter().for_each(|(rank, node)| times[*node].begin -= late[*rank]);
    }
}

fn scaled(time: i64, factor: f64) -> i64 {
    (time as f64 * factor).round() as i64
}
