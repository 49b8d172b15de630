//! Reruns of a job: when everything happens with other times.

use super::job::{JobGraph, Role, Times};
use super::rank::EdgeKind;

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
                } else {
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
}
