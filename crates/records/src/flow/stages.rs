//! What each step is for. The extractor's own labels are wrong where an operation has several loops or is a tree, because it takes the
//! first half of the steps for the first stage.

use std::collections::HashMap;

use super::super::tables::{FlowStep, Records};
use super::runs::{FlowRun, Plan, runs};

/// The rank above another in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parent {
    /// The order of the steps does not say: they are not in the extractor's order, or of several trees.
    Unknown,
    None,
    Rank(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpKey<'a> {
    pub rank: u32,
    /// `opCount`.
    pub op_count: u64,
    pub channel: u32,
    pub pattern: Option<&'a str>,
    /// Of a send or receive, the other side: those of a group share one `opCount`.
    pub peer: Option<u32>,
}

impl OpKey<'_> {
    pub fn is_peer_to_peer(&self) -> bool {
        is_peer_to_peer(self.pattern)
    }
}

pub fn is_peer_to_peer(pattern: Option<&str>) -> bool {
    matches!(pattern, Some("SEND" | "RECV"))
}

pub type Ops<'a> = HashMap<OpKey<'a>, Vec<usize>>;

/// The steps of a run by operation, each in the order of the file.
pub fn by_op<'a>(records: &'a Records, run: &FlowRun) -> Ops<'a> {
    let mut ops = Ops::new();
    for at in &run.steps {
        let step = &records.flow_steps[*at];
        let &FlowStep { rank, op_count, channel, peer, .. } = step;
        let pattern = step.pattern.as_deref();
        let peer = is_peer_to_peer(pattern).then_some(peer);
        ops.entry(OpKey { rank, op_count, channel, pattern, peer }).or_default().push(*at);
    }
    ops
}

/// The parent of a rank in a tree, by the order of its steps of one operation: it receives from its children, sends to its parent, sends
/// to its children and receives from its parent. So the parent is the peer of the receives at the end, and a root has none there.
pub fn parent<'a>(steps: impl DoubleEndedIterator<Item = &'a FlowStep>) -> Parent {
    let mut last = steps.rev().peekable();
    let Some(first) = last.peek() else { return Parent::Unknown };
    if first.is_send {
        return Parent::None;
    }
    let peer = first.peer;
    for step in last {
        if step.is_send {
            return Parent::Rank(peer);
        }
        if step.peer != peer {
            return Parent::Unknown;
        }
    }
    // Receives alone are of no tree that goes up and down.
    Parent::Unknown
}

/// Fills [`FlowStep::stage`] of all steps.
pub(crate) fn fill(records: &mut Records) {
    let mut found = Vec::new();
    for run in runs(records) {
        let plan = Plan::new(records, &run);
        for steps in by_op(records, &run).into_values() {
            of_op(records, &plan, &steps, &mut found);
        }
        // Aggregates repeat what is in the other files, in the same order.
        for aggregate in &run.aggregates {
            let copy = FlowRun { steps: aggregate.steps.clone(), ..FlowRun::default() };
            for steps in by_op(records, &copy).into_values() {
                of_op(records, &plan, &steps, &mut found);
            }
        }
    }
    for (at, stage) in found {
        records.flow_steps[at].stage = stage;
    }
}

fn of_op(records: &Records, plan: &Plan<'_>, steps: &[usize], found: &mut Vec<(usize, Option<&'static str>)>) {
    let rows = || steps.iter().map(|at| &records.flow_steps[*at]);
    let Some(first) = rows().next() else { return };
    let count = rows().map(|step| step.step.saturating_add(1)).max().unwrap_or_default();
    let mut always = |stage| found.extend(steps.iter().map(|at| (*at, Some(stage))));
    match first.pattern.as_deref().unwrap_or_default() {
        "RING" => always("ring"),
        "PIPELINE_FROM" => always("pipeline-from"),
        "PIPELINE_TO" => always("pipeline-to"),
        "TREE_UP" => always("tree-up"),
        "TREE_DOWN" => always("tree-down"),
        "COLLNET_CHAIN" => always("collnet-chain"),
        "COLLNET_DIRECT" => always("collnet-direct"),
        "NVLS" => always("nvls"),
        "NVLS_TREE" => always("nvls-tree"),
        "SEND" | "RECV" => always("generic"),
        "RING_TWICE" => {
            let chunk_steps = plan.op(first, count).map(|op| op.chunk_steps);
            let size = plan.size.zip(chunk_steps).filter(|(size, chunk_steps)| {
                let in_loop = half_loop(*size, *chunk_steps).saturating_mul(2);
                in_loop > 0 && u64::from(count) % in_loop == 0
            });
            found.extend(steps.iter().zip(rows()).map(|(at, step)| (*at, size.map(|of| ring_stage(step.step, of)))));
        }
        "TREE_UP_DOWN" => {
            let parent = parent(rows());
            found.extend(steps.iter().zip(rows()).map(|(at, step)| (*at, tree_stage(step, parent))));
        }
        _ => {}
    }
}

/// Each loop over the data is a reduce-scatter and then an all-gather.
fn ring_stage(step: u32, (size, chunk_steps): (u32, u32)) -> &'static str {
    let half = half_loop(size, chunk_steps);
    if u64::from(step) % half.saturating_mul(2) < half { "reduce-scatter" } else { "allgather" }
}

/// How many steps a rank sends of each stage of a loop.
fn half_loop(size: u32, chunk_steps: u32) -> u64 {
    u64::from(size.saturating_sub(1)) * u64::from(chunk_steps)
}

fn tree_stage(step: &FlowStep, parent: Parent) -> Option<&'static str> {
    let is_parent = match parent {
        Parent::Unknown => return None,
        Parent::None => false,
        Parent::Rank(parent) => parent == step.peer,
    };
    Some(if is_parent == step.is_send { "tree-up" } else { "tree-down" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(is_send: bool, peer: u32) -> FlowStep {
        FlowStep { is_send, peer, ..FlowStep::default() }
    }

    #[test]
    fn the_parent_is_who_is_received_from_last() {
        let of = |steps: &[(bool, u32)]| {
            let steps: Vec<FlowStep> = steps.iter().map(|(is_send, peer)| step(*is_send, *peer)).collect();
            parent(steps.iter())
        };
        // A rank with two children, a leaf, a root.
        let inner = [(false, 1), (false, 2), (true, 0), (true, 1), (true, 2), (false, 0)];
        assert_eq!(of(&inner), Parent::Rank(0));
        assert_eq!(of(&[(true, 3), (false, 3)]), Parent::Rank(3));
        assert_eq!(of(&[(false, 1), (true, 1)]), Parent::None);
        // In another order there are two peers at the end, or nothing is sent at all.
        assert_eq!(of(&[(true, 1), (false, 1), (false, 2)]), Parent::Unknown);
        assert_eq!(of(&[(false, 1)]), Parent::Unknown);
    }

    #[test]
    fn a_ring_alternates_in_every_loop() {
        // Three ranks, one step a chunk: two steps of each stage a loop.
        let stages: Vec<&str> = (0..8).map(|at| ring_stage(at, (3, 1))).collect();
        let one = ["reduce-scatter", "reduce-scatter", "allgather", "allgather"];
        assert_eq!(stages, [one, one].concat());
    }
}
