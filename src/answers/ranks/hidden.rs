//! Why collectives are not hidden: why the next compute kernel did not run beside them.
//!
//! A collective is exposed in stretches, each until the next compute kernel starts. What that kernel waited for is the reason for its stretch: the collective itself, its own
//! launch, or a thread that waited for the collective before it launched. A kernel of the collective's own stream hides nothing of it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reduction::RankReduction;
use crate::names::calls::Work;
use crate::replay::question::Question;
use crate::replay::rank::{EdgeKind, NO_NODE, NodeKind, RankGraph};
use crate::time::{Ns, Window};

/// For how many stacks a rerun says what the job would take without their transfers.
const RERUN: usize = 5;

/// How far back it is looked for the collective.
const LOOK_BACK: usize = 64;

/// Why no compute kernel ran beside a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WhyExposed {
    /// The next kernel is on another stream, which waits for the collective.
    WaitedFor,
    /// The next kernel is on the collective's own stream.
    SameStream,
    /// The next kernel was launched too late to run beside it.
    LaunchedLate,
    /// A thread waited for the collective before it launched the next kernel.
    CpuWaits,
    /// No other kernel follows in its step.
    NothingLeft,
    /// Nothing that is known.
    Unknown,
}

/// A reason with the time for which it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExposedFor {
    /// The reason.
    pub why: WhyExposed,
    /// The next kernel, or the call that waits; `None` if there is none.
    pub by: Option<String>,
    /// For how long collectives are exposed for it, over all ranks.
    #[cfg_attr(test, schemars(with = "u64", range(min = 1)))]
    pub exposed_ns: Ns,
}

/// A stretch in which a collective of a rank is exposed: its row, for how long, why, and the node of what follows.
struct Exposed {
    row: u32,
    time: Ns,
    why: WhyExposed,
    by: Option<u32>,
}

fn exposed(question: &Question<'_>, rank: usize, reduction: &RankReduction) -> Vec<Exposed> {
    let graph = question.ranks[rank];
    let is_kernel: Vec<bool> = graph.texts.iter().map(|name| Work::of_slice(name, false).is_none()).collect();
    let is_compute = |at: &u32| {
        let node = graph.nodes[*at as usize];
        node.kind == NodeKind::Slice && is_kernel[node.name as usize]
    };
    let mut compute: Vec<u32> = (0..graph.nodes.len() as u32).filter(is_compute).collect();
    compute.sort_by_key(|at| (graph.nodes[*at as usize].start, *at));
    // By compute kernel in that order: the last end of all up to it.
    let ends = compute.iter().scan(Ns::MIN, |end, at| {
        *end = graph.nodes[*at as usize].end.max(*end);
        Some(*end)
    });
    let ends: Vec<Ns> = ends.collect();
    let follow = Follow { question, rank, graph };
    let mut found = Vec::new();
    for (at, node) in (0..).zip(&graph.nodes) {
        let NodeKind::Collective(row) = node.kind else { continue };
        let Some(exposed) = reduction.rows.get(row as usize).map(|row| row.exposed).filter(|of| *of > Ns::ZERO) else {
            continue;
        };
        // From the first kernel that may still run when it starts.
        let first = ends.partition_point(|end| *end <= node.start);
        let stretches = stretches(graph, &compute[first..], node.lane, Window { start: node.start, end: node.end });
        let all: Ns = stretches.iter().map(|(time, _)| *time).sum();
        // What the row has is the same but for how kernels overlap that this graph has one after the other.
        let whole = all.as_f64().max(1.0);
        let mut left = exposed;
        for (number, (time, next)) in stretches.iter().enumerate() {
            let is_last = number + 1 == stretches.len();
            let time = if is_last { left } else { Ns((exposed.as_f64() * time.as_f64() / whole) as i64).min(left) };
            left = left - time;
            let next = next.filter(|next| graph.nodes[*next as usize].step == node.step);
            let (why, by) = next.map_or((WhyExposed::NothingLeft, None), |next| follow.why(at, next));
            found.push(Exposed { row, time, why, by });
        }
    }
    found
}

/// The stretches of a collective's window in which no compute kernel of another stream runs, each with its length and the compute kernel that starts next. If there are
/// none, all of it is one. `compute` are kernels in the order of their starts.
fn stretches(graph: &RankGraph, compute: &[u32], lane: u32, window: Window) -> Vec<(Ns, Option<u32>)> {
    let mut found: Vec<(Ns, Option<u32>)> = Vec::new();
    let mut from = window.start;
    let mut next_own = None;
    for at in compute {
        let node = &graph.nodes[*at as usize];
        if node.lane == lane {
            // It waits for the collective, and starts when that ends.
            if node.start >= window.start {
                next_own = next_own.or(Some(*at));
            }
            if node.start >= window.end {
                break;
            }
            continue;
        }
        if node.start > from && from < window.end {
            found.push((node.start.min(window.end) - from, Some(*at)));
        }
        from = from.max(node.end);
        if from >= window.end || node.start >= window.end {
            from = window.end;
            break;
        }
    }
    if from < window.end {
        found.push((window.end - from, next_own));
    }
    // The kernel that starts first after it, on whatever stream, is the next one of its last stretch.
    let starts = |at: &u32| graph.nodes[*at as usize].start;
    if let (Some((_, Some(next))), Some(own)) = (found.last_mut(), next_own)
        && starts(next) >= window.end
        && starts(&own) < starts(next)
    {
        *next = own;
    }
    if found.is_empty() {
        let next = compute.iter().copied().find(|at| starts(at) >= window.start);
        found.push((window.duration(), next));
    }
    found
}

/// How long the collectives of a stack are exposed.
#[derive(Debug, Clone, Default)]
pub(super) struct StackExposure {
    pub(super) exposed: Ns,
    /// Why, the reason with most of it first.
    pub(super) reasons: Vec<ExposedFor>,
    /// How much earlier the job ends without their transfers; of those that are exposed longest.
    pub(super) saves: Option<i64>,
}

/// How long the collectives of each of so many stacks are exposed, and why. `stack_of` is the stack of a rank's row.
pub(super) fn of_stacks(
    question: &Question<'_>,
    reductions: &[RankReduction],
    stacks: usize,
    stack_of: &(dyn Fn(usize, u32) -> Option<usize> + Sync),
) -> Vec<StackExposure> {
    let mut sums: BTreeMap<(usize, WhyExposed, Option<&str>), Ns> = BTreeMap::new();
    for (rank, reduction) in reductions.iter().enumerate() {
        for Exposed { row, time, why, by } in exposed(question, rank, reduction) {
            let by = by.map(|node| question.ranks[rank].name(node));
            let Some(stack) = stack_of(rank, row) else { continue };
            *sums.entry((stack, why, by)).or_default() += time;
        }
    }
    let mut found = vec![StackExposure::default(); stacks];
    for ((stack, why, by), exposed) in sums.into_iter().filter(|(_, exposed)| *exposed > Ns::ZERO) {
        found[stack].exposed += exposed;
        found[stack].reasons.push(ExposedFor { why, by: by.map(str::to_owned), exposed_ns: exposed });
    }
    let mut most: Vec<usize> = (0..stacks).filter(|stack| found[*stack].exposed > Ns::ZERO).collect();
    most.sort_by_key(|stack| (std::cmp::Reverse(found[*stack].exposed), *stack));
    most.truncate(RERUN);
    let saves = question.saved(most.len(), |at| {
        let mut times = question.job.times.clone();
        question.free(&mut times, &|rank, row| stack_of(rank, row) == Some(most[at]));
        times
    });
    most.into_iter().zip(saves).for_each(|(stack, saves)| found[stack].saves = Some(saves));
    for of in &mut found {
        of.reasons.sort_by(|a, b| b.exposed_ns.cmp(&a.exposed_ns).then_with(|| (a.why, &a.by).cmp(&(b.why, &b.by))));
    }
    found
}

/// Follows what a kernel waited for.
struct Follow<'a> {
    question: &'a Question<'a>,
    rank: usize,
    graph: &'a RankGraph,
}

impl Follow<'_> {
    /// What a node of the rank's graph happened after.
    fn before(&self, of: u32) -> Option<(u32, EdgeKind)> {
        let job = self.question.job;
        let (from, kind) = job.binding(job.arrivals[self.rank][of as usize] as usize)?;
        let from = job.node(from);
        (from.of != NO_NODE && from.rank as usize == self.rank).then_some((from.of, kind))
    }

    /// Why a kernel started only after a collective had begun, and what shows it.
    fn why(&self, collective: u32, next: u32) -> (WhyExposed, Option<u32>) {
        let begun = self.graph.nodes[collective as usize].start;
        let mut at = next;
        for _ in 0..LOOK_BACK {
            let Some((from, kind)) = self.before(at) else { break };
            if from == collective {
                let is_own = self.graph.nodes[next as usize].lane == self.graph.nodes[collective as usize].lane;
                return (if is_own { WhyExposed::SameStream } else { WhyExposed::WaitedFor }, Some(next));
            }
            if kind == EdgeKind::Launch {
                return match self.waiting_call(from, begun) {
                    Some(call) => (WhyExposed::CpuWaits, Some(call)),
                    None => (WhyExposed::LaunchedLate, Some(next)),
                };
            }
            if self.graph.nodes[from as usize].end < begun {
                break;
            }
            at = from;
        }
        (WhyExposed::Unknown, Some(next))
    }

    /// The call in which the thread of a launch waited for the GPU since the collective had begun.
    fn waiting_call(&self, launch: u32, begun: Ns) -> Option<u32> {
        let mut at = launch;
        for _ in 0..LOOK_BACK {
            let node = self.graph.nodes[at as usize];
            if node.end <= begun {
                return None;
            }
            if node.kind == NodeKind::Blocked && self.before(at).is_some_and(|(_, kind)| kind == EdgeKind::Blocked) {
                return Some(at);
            }
            at = self.graph.edges[at as usize].iter().find(|edge| edge.kind == EdgeKind::Thread)?.from;
        }
        None
    }
}
