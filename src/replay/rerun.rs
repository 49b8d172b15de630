//! Reruns of a job: when everything happens with other times.

use super::job::{JobGraph, Role, Times, Wait};
use super::rank::{EdgeKind, NodeKind, RankGraph};
use crate::time::{Ns, Window};

impl JobGraph {
    /// When each node happens with these times, in ns on the job's clock.
    pub fn rerun(&self, times: &Times) -> Vec<i64> {
        self.reruns([times]).into_iter().map(|[time]| time).collect()
    }

    /// The same of several runs at once, which takes little longer than one: most of it is finding the nodes.
    pub(super) fn reruns<const RUNS: usize>(&self, runs: [&Times; RUNS]) -> Vec<[i64; RUNS]> {
        let mut found: Vec<[i64; RUNS]> = Vec::with_capacity(self.nodes.len());
        let (own, recorded) = (runs.map(|times| &times.own[..]), runs.map(|times| &times.waits[..]));
        let mut changed = runs.map(|times| times.changed.iter().peekable());
        for (at, node) in self.nodes.iter().enumerate() {
            let waits: [Wait; RUNS] = std::array::from_fn(|run| {
                let changed = changed[run].next_if(|(node, _)| **node as usize == at);
                changed.map_or(recorded[run][at], |(_, wait)| *wait)
            });
            let (mut latest, mut thread) = ([i64::MIN; RUNS], waits.map(|wait| wait.begin));
            for edge in self.edges_into(at) {
                let from = found[edge.from as usize];
                if edge.kind == EdgeKind::Thread {
                    thread = from;
                    continue;
                }
                let is_binding = edge.kind == node.binding;
                for run in (0..RUNS).filter(|run| waits[*run].is_asked) {
                    let delay = edge.least + if is_binding { waits[run].extra } else { 0 };
                    latest[run] = latest[run].max(from[run] + delay);
                }
            }
            found.push(std::array::from_fn(|run| {
                let own = own[run][at];
                match node.role {
                    Role::Cpu => latest[run].max(thread[run] + own),
                    _ if latest[run] == i64::MIN => waits[run].begin + own,
                    _ => latest[run] + own,
                }
            }));
        }
        found
    }

    /// By rank and node of its graph: from when to when it is with these times, on the job's clock. A call that launches is as long as it was, as far as
    /// its thread has the time; one that waits begins as long after what is before it on its thread as it did.
    pub fn windows(&self, ranks: &[&RankGraph], times: &Times) -> Vec<Vec<Window>> {
        let found = self.rerun(times);
        let window = |kind: NodeKind, at: usize, arrival: u32| {
            let (node, end) = (self.nodes[at], found[at]);
            let before =
                self.edges_into(at).iter().find(|edge| edge.kind == EdgeKind::Thread).map(|edge| edge.from as usize);
            let start = match node.role {
                Role::Gpu | Role::Alone => end - times.own[at],
                Role::Transfer => found[arrival as usize],
                _ if matches!(kind, NodeKind::Launch | NodeKind::CpuArrival(_)) => {
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
