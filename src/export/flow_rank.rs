//! The flow extractor's aggregates, `flow_rank<R>.json`, made from its other files as it makes them itself: a rank's first operation and all of
//! its steps, in the same order and line layout.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use nccl_stacks_recorder_text::flow::lines::{Aggregate, Head, Line, Own, Step, What};

use crate::records::flow::runs::{FlowRun, runs};
use crate::records::{FlowOp, FlowStep, Records};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRank {
    /// The folder of its flow files.
    pub folder: String,
    /// The rank within the communicator.
    pub rank: u32,
    /// `flow_rank0.json`.
    pub name: String,
    pub text: String,
}

/// The aggregates of all ranks whose operations are known, by folder and rank. Drops keys that the extractor does not write.
pub fn aggregate(records: &Records) -> Vec<FlowRank> {
    runs(records).iter().flat_map(|run| of_run(records, run)).collect()
}

fn of_run(records: &Records, run: &FlowRun) -> Vec<FlowRank> {
    let mut ranks: BTreeMap<u32, (&FlowOp, Vec<&FlowStep>)> = BTreeMap::new();
    for op in run.ops.iter().map(|at| &records.flow_ops[*at]).filter(|op| !op.is_aggregate) {
        ranks.entry(op.rank).or_insert_with(|| (op, Vec::new()));
    }
    for step in run.steps.iter().map(|at| &records.flow_steps[*at]).filter(|step| !step.is_aggregate) {
        if let Some((_, steps)) = ranks.get_mut(&step.rank) {
            steps.push(step);
        }
    }
    let file = |(rank, (op, steps)): (u32, (&FlowOp, Vec<&FlowStep>))| FlowRank {
        folder: run.folder.clone(),
        rank,
        name: format!("flow_rank{rank}.json"),
        text: text(rank, &op_line(op), steps.iter().map(|step| step_line(step))),
    };
    ranks.into_iter().map(file).collect()
}

/// The text of an aggregate from these lines.
pub(super) fn text<'a>(rank: u32, op: &dyn Display, steps: impl Iterator<Item = Line<'a>>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Ok(mut lines) = Aggregate::begin(rank, op, &mut text) {
        steps.for_each(|step| _ = lines.step(&step));
        let _ = lines.end();
    }
    text
}

/// A line of `proxy_flow_rank<R>.jsonl`.
fn op_line(op: &FlowOp) -> Line<'_> {
    let what = What::Op {
        steps: op.steps,
        slice_bytes: op.slice_bytes,
        chunk_bytes: op.chunk_bytes,
        slice_steps: op.slice_steps,
        chunk_steps: op.chunk_steps,
        dtype: op.dtype,
        reduction: op.reduction,
        ring: op.ring.map(|(before, after)| (before.into(), after.into())),
    };
    line(op.op_count, op.rank, op.channel, &op.pattern, &op.protocol, what)
}

/// A line of `flow_steps_rank<R>.jsonl`.
fn step_line(step: &FlowStep) -> Line<'_> {
    let &FlowStep { step: number, is_send, peer, bytes, .. } = step;
    let what = What::Step(Step { number, is_send, peer, bytes, stage: step.recorded_stage.as_deref() });
    line(step.op_count, step.rank, step.channel, &step.pattern, &step.protocol, what)
}

fn line<'a>(
    op_count: u64,
    rank: u32,
    channel: u32,
    pattern: &'a Option<Arc<str>>,
    protocol: &'a Option<Arc<str>>,
    what: What<'a>,
) -> Line<'a> {
    let [pattern, protocol] = [pattern, protocol].map(|text| text.as_deref().unwrap_or_default());
    Line { head: Head { op_count, rank, channel, protocol, own: Own::default() }, pattern, what }
}
