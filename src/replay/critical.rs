//! The critical path of a job: from its last end back to its first start, always to what was binding.
//!
//! At a collective it goes on with the member that came last, at a launch with the thread that launched, through a call that waits back to what it waited
//! for. So waiting for other ranks is never on it, and its pieces follow each other without gaps: together they are as long as the job.

pub use super::job::PathKind;
use super::job::{JobGraph, Role};
use super::rank::EdgeKind;

/// A piece of the critical path. Times are in ns on the job's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPiece {
    pub kind: PathKind,
    /// Its node in the job's graph: what a thread or stream does until that happens; of a latency, the launch; of idle time, what starts after it.
    pub node: u32,
    /// The edge that was binding; `None` before anything that is known.
    pub edge: Option<EdgeKind>,
    pub start: i64,
    pub end: i64,
}

impl JobGraph {
    /// The critical path of the job as it was recorded, in the order of time.
    pub fn critical_path(&self) -> Vec<PathPiece> {
        let last = (0..self.nodes.len()).max_by_key(|at| (self.node(*at).time, std::cmp::Reverse(*at)));
        let Some(mut at) = last else { return Vec::new() };
        let mut walk = Walk { pieces: Vec::new(), until: self.node(at).time };
        loop {
            let node = &self.node(at);
            let work = match node.role {
                Role::Gpu => Some(PathKind::Compute),
                Role::Alone => Some(PathKind::Transfer),
                _ => None,
            };
            work.into_iter().for_each(|kind| walk.to(node.start, kind, at, None));
            let Some((from, edge)) = self.binding(at) else {
                match node.role {
                    Role::Cpu => walk.to(node.start, PathKind::Cpu, at, None),
                    Role::Outside(kind) => walk.to(node.start, kind, at, None),
                    _ => {}
                }
                break;
            };
            let (kind, of) = match (edge, node.role) {
                (EdgeKind::Rendezvous | EdgeKind::Cpus, _) => (PathKind::Transfer, at),
                (EdgeKind::Launch, _) => (PathKind::LaunchLatency, from),
                (EdgeKind::Blocked, _) => (PathKind::Idle, at),
                (_, Role::Cpu) => (PathKind::Cpu, at),
                (_, Role::Outside(kind)) => (kind, at),
                _ => (PathKind::Idle, at),
            };
            walk.to(self.node(from).time, kind, of, Some(edge));
            at = from;
        }
        let start = self.nodes.iter().map(|node| node.start).min().unwrap_or_default();
        walk.to(start, PathKind::Idle, at, None);
        walk.pieces.reverse();
        walk.pieces
    }

    /// What a node happened after, and why; `None` if nothing that is known comes before it.
    pub(crate) fn binding(&self, at: usize) -> Option<(usize, EdgeKind)> {
        let (node, wait) = (&self.node(at), self.recorded_wait(at));
        let time = |from: u32| self.node(from as usize).time;
        let (mut thread, mut waited) = (None, None);
        for edge in self.edges_into(at) {
            if edge.kind == EdgeKind::Thread {
                thread = Some((edge.from as usize, edge.kind));
            } else if wait.is_asked {
                let least = edge.least + if edge.kind == node.binding { wait.extra } else { 0 };
                waited = waited.max(Some((time(edge.from) + least, edge.from, edge.kind)));
            }
        }
        let busy = thread.map_or(wait.begin, |(from, _)| self.node(from).time) + self.times.own[at];
        match waited.filter(|(until, ..)| !matches!(node.role, Role::Cpu | Role::Outside(_)) || *until > busy) {
            Some((_, from, kind)) => Some((from as usize, kind)),
            None => thread,
        }
    }
}

/// Goes back in time.
struct Walk {
    pieces: Vec<PathPiece>,
    /// What is later is on the path already.
    until: i64,
}

impl Walk {
    /// Puts what is between a time and the pieces so far onto the path. A slice may start before its launch returns; then nothing is.
    fn to(&mut self, start: i64, kind: PathKind, node: usize, edge: Option<EdgeKind>) {
        if start < self.until {
            self.pieces.push(PathPiece { kind, node: node as u32, edge, start, end: self.until });
            self.until = start;
        }
    }
}
