//! Reruns of a job: when everything happens with other times.

use super::job::{JobGraph, Role, Times};
use super::rank::{EdgeKind, NodeKind, RankGraph};
use crate::time::{Ns, Window};

impl JobGraph {
    /// When each node happens with these times, in ns on the job's clock.
    pub fn rerun(&self, times: &[Times]) -> Vec<i64> {
        let mut found: Vec<i64> = Vec::with_capacity(self.nodes.len());
        for (at, (node, of)) in self.nodes.iter().zip(times).enumerate() {
            let is_cpu = node.role == Role::Cpu;
            let (mut latest, mut thread) = (i64::MIN, of.begin);
            for edge in self.edges_into(at) {
                let from = found[edge.from as usize];
                if edge.kind == EdgeKind::Thread {
                    thread = from;
                } else if of.waits {
                    latest = latest.max(from + edge.least + if edge.kind == of.binding { of.extra } else { 0 });
                }
            }
            found.push(match (is_cpu, latest) {
                (true, _) => latest.max(thread + of.own),
                (false, i64::MIN) => of.begin + of.own,
                (false, _) => latest + of.own,
            });
        }
        found
    }

    /// By rank and node of its graph: from when to when it is with these times, on the job's clock. A call that launches is as long as it was, as far as
    /// its thread has the time; one that waits begins as long after what is before it on its thread as it did.
    pub fn windows(&self, ranks: &[&RankGraph], times: &[Times]) -> Vec<Vec<Window>> {
        let found = self.rerun(times);
        let window = |kind: NodeKind, at: usize, arrival: u32| {
            let (node, end) = (self.nodes[at], found[at]);
            let before =
                self.edges_into(at).iter().find(|edge| edge.kind == EdgeKind::Thread).map(|edge| edge.from as usize);
            let start = match node.role {
                Role::Gpu | Role::Alone => end - times[at].own,
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
