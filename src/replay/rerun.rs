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
        for (at, node) in self.nodes.iter().enumerate() {
            let mut waits = [self.recorded_wait(at); RUNS];
            if at >= next_changed {
                next_changed = usize::MAX;
                for (changed, wait) in changed.iter_mut().zip(&mut waits) {
                    if let Some((_, of)) = changed.next_if(|(node, _)| **node as usize == at) {
                        *wait = *of;
                    }
                    next_changed = changed.peek().map_or(usize::MAX, |(node, _)| **node as usize).min(next_changed);
                }
            }
            let (mut latest, mut thread) = ([i64::MIN; RUNS], [0; RUNS]);
            thread.iter_mut().zip(&waits).for_each(|(thread, wait)| *thread = wait.begin);
            for edge in self.edges_into(at) {
                if edge.kind == EdgeKind::Thread {
                    thread.iter_mut().zip(&found).for_each(|(thread, found)| *thread = found[edge.from as usize]);
                    continue;
                }
                let is_binding = edge.kind == node.binding;
                for run in 0..RUNS {
                    if waits[run].is_asked {
                        let delay = edge.least + if is_binding { waits[run].extra } else { 0 };
                        latest[run] = latest[run].max(found[run][edge.from as usize] + delay);
                    }
                }
            }
            let is_on_thread = matches!(node.role, Role::Cpu | Role::Outside(_));
            for (run, found) in found.iter_mut().enumerate() {
                let own = found[at];
                let happens = if is_on_thread {
                    latest[run].max(thread[run] + own)
                } else if latest[run] == i64::MIN {
                    waits[run].begin + own
                } else {
                    latest[run] + own
                };
                found[at] = happens.max(waits[run].earliest);
                ends[run] = ends[run].max(found[at]);
            }
        }
        let mut ends = ends.into_iter();
        found.map(|times| Rerun { end: ends.next().filter(|_| !times.is_empty()).unwrap_or_default(), times })
    }

    /// By rank and node of its graph: from when to when it is with these times, on the job's clock. A call that launches is as long as it was, as far as
    /// its thread has the time; one that waits begins as long after what is before it on its thread as it did.
    pub fn windows(&self, ranks: &[&RankGraph], times: &Times) -> Vec<Vec<Window>> {
        let found = self.rerun(times.clone()).times;
        let window = |kind: NodeKind, at: usize, arrival: u32| {
            let (node, end) = (self.nodes[at], found[at]);
            let before =
                self.edges_into(at).iter().find(|edge| edge.kind == EdgeKind::Thread).map(|edge| edge.from as usize);
            let start = match node.role {
                Role::Gpu | Role::Alone | Role::Outside(_) => end - times.own[at],
                Role::Transfer => found[arrival as usize],
                _ if matches!(kind, NodeKind::Launch | NodeKind::Returned | NodeKind::CpuArrival(_)) => {
                    before.map_or(i64::MIN, |before| found[before]).max(end - (node.time - node.start))
                }
                _ => before.map_or(node.start, |before| node.start + found[before] - self.nodes[before].time),
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
