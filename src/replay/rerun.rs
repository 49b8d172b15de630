//! Reruns of a job: when everything happens with other times.

use super::job::{JobGraph, Role, Times};
use super::rank::{EdgeKind, NodeKind, RankGraph};
use crate::time::{Ns, Window};

/// A job with other times, in ns on the job's clock.
#[derive(Debug, Default)]
pub struct Rerun {
    /// By node: when it happens.
    pub times: Vec<i64>,
    /// When the last one does; 0 of no nodes.
    pub end: i64,
}

/// When a node happens: `latest` of what comes first lets it, its thread is free, its own time begins if nothing comes first, and it takes so long.
#[inline]
fn happens(role: Role, latest: i64, thread: i64, begin: i64, own: i64) -> i64 {
    match role {
        Role::Cpu | Role::Outside(_) => latest.max(thread + own),
        _ if latest == i64::MIN => begin + own,
        _ => latest + own,
    }
}

impl JobGraph {
    /// When everything happens with these times.
    pub fn rerun(&self, times: Times) -> Rerun {
        let [found] = self.reruns([times]);
        found
    }

    /// The same of several runs at once, which takes little longer than one: most of it is finding the nodes.
    pub(super) fn reruns<const RUNS: usize>(&self, mut runs: [Times; RUNS]) -> [Rerun; RUNS] {
        // When a node happens takes the place of its own time, which nothing else needs.
        let mut found = runs.each_mut().map(|times| std::mem::take(&mut times.own));
        let mut changed = runs.each_ref().map(|times| times.waits.iter().peekable());
        let mut next_changed = 0;
        let mut ends = [i64::MIN; RUNS];
        for at in 0..self.nodes.len() {
            if at < next_changed {
                let happens = self.happens(at, &found);
                for (run, found) in found.iter_mut().enumerate() {
                    found[at] = happens[run];
                    ends[run] = ends[run].max(happens[run]);
                }
                continue;
            }
            let (node, mut waits) = (self.node(at), [self.recorded_wait(at); RUNS]);
            next_changed = usize::MAX;
            for (changed, wait) in changed.iter_mut().zip(&mut waits) {
                if let Some((_, of)) = changed.next_if(|(node, _)| **node as usize == at) {
                    *wait = *of;
                }
                next_changed = changed.peek().map_or(usize::MAX, |(node, _)| **node as usize).min(next_changed);
            }
            for (run, (found, wait)) in found.iter_mut().zip(waits).enumerate() {
                let (mut latest, mut thread) = (i64::MIN, wait.begin);
                for edge in self.edges_into(at) {
                    if edge.kind == EdgeKind::Thread {
                        thread = found[edge.from as usize];
                    } else if wait.is_asked {
                        let delay = edge.least + if edge.kind == node.binding { wait.extra } else { 0 };
                        latest = latest.max(found[edge.from as usize] + delay);
                    }
                }
                found[at] = happens(node.role, latest, thread, wait.begin, found[at]).max(wait.earliest);
                ends[run] = ends[run].max(found[at]);
            }
        }
        let mut ends = ends.into_iter();
        found.map(|times| Rerun { end: ends.next().filter(|_| !times.is_empty()).unwrap_or_default(), times })
    }

    /// When a node that waits as recorded happens in each run.
    #[inline]
    fn happens<const RUNS: usize>(&self, at: usize, found: &[Vec<i64>; RUNS]) -> [i64; RUNS] {
        let (node, extra) = (self.node(at), self.nodes.extra(at));
        let (mut latest, mut thread) = ([i64::MIN; RUNS], [node.start; RUNS]);
        for edge in self.edges_into(at) {
            let delay = edge.least + if edge.kind == node.binding { extra } else { 0 };
            for ((found, thread), latest) in found.iter().zip(&mut thread).zip(&mut latest) {
                let from = found[edge.from as usize];
                match edge.kind {
                    EdgeKind::Thread => *thread = from,
                    _ => *latest = (*latest).max(from + delay),
                }
            }
        }
        for ((found, thread), latest) in found.iter().zip(&mut thread).zip(latest) {
            *thread = happens(node.role, latest, *thread, node.start, found[at]);
        }
        thread
    }

    /// By rank and node of its graph: from when to when it is with these times, on the job's clock. A call that launches is as long as it was, as far as
    /// its thread has the time; one that waits begins as long after what is before it on its thread as it did.
    pub fn windows(&self, ranks: &[&RankGraph], times: &Times) -> Vec<Vec<Window>> {
        let found = self.rerun(times.clone()).times;
        let window = |kind: NodeKind, at: usize, arrival: u32| {
            let (node, end) = (self.node(at), found[at]);
            let before = self.edges_into(at).find(|edge| edge.kind == EdgeKind::Thread).map(|edge| edge.from as usize);
            let start = match node.role {
                Role::Gpu | Role::Alone | Role::Outside(_) => end - times.own[at],
                Role::Transfer => found[arrival as usize],
                _ if matches!(kind, NodeKind::Launch | NodeKind::Returned | NodeKind::CpuArrival(_)) => {
                    before.map_or(i64::MIN, |before| found[before]).max(end - (node.time - node.start))
                }
                _ => before.map_or(node.start, |before| node.start + found[before] - self.node(before).time),
            };
            Window { start: Ns(start.min(end)), end: Ns(end) }
        };
        let of_rank = |(graph, (ends, arrivals)): (&&RankGraph, (&Vec<u32>, &Vec<u32>))| {
            let nodes = graph.nodes.iter().zip(ends.iter().zip(arrivals));
            nodes.map(|(node, (end, arrival))| window(node.kind, *end as usize, *arrival)).collect()
        };
        ranks.iter().zip(self.ends.iter().zip(&self.arrivals)).map(of_rank).collect()
    }
}
