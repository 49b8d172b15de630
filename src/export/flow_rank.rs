//! The flow extractor's aggregates, `flow_rank<R>.json`, made from its other files as it makes them itself: a rank's first operation and all of
//! its steps, in the same order and line layout.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::records::flow::runs::{FlowRun, runs};
use crate::records::{FlowOp, FlowStep, Records};

/// An aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowRank {
    /// The folder of its flow files.
    pub folder: String,
    /// The rank within the communicator.
    pub rank: u32,
    /// `flow_rank0.json`.
    pub name: String,
    /// Its text.
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
pub(super) fn text(rank: u32, op: &str, steps: impl Iterator<Item = String>) -> String {
    let steps: Vec<String> = steps.map(|step| format!("    {step}")).collect();
    format!("{{\n  \"rank\": {rank},\n  \"meta\": {op}\n  ,\n  \"steps\": [\n{}\n  ]\n}}\n", steps.join(",\n"))
}

/// A line of `proxy_flow_rank<R>.jsonl`.
pub(super) fn op_line(op: &FlowOp) -> String {
    let mut line = format!(
        "{{\"opCount\":{},\"rank\":{},\"channel\":{},\"nsteps\":{},\"nbytes\":{},\"chunkSize\":{},\"sliceSteps\":{},\
         \"chunkSteps\":{},\"dtype\":{},\"redOp\":{},\"pattern\":{},\"protocol\":{}",
        op.op_count,
        op.rank,
        op.channel,
        op.steps,
        op.slice_bytes,
        op.chunk_bytes,
        op.slice_steps,
        op.chunk_steps,
        op.dtype,
        op.reduction,
        quoted(op.pattern.as_deref()),
        quoted(op.protocol.as_deref()),
    );
    if let Some((before, after)) = op.ring {
        // Writing to a String cannot fail.
        let _ = write!(line, ",\"ringPrev\":{before},\"ringNext\":{after}");
    }
    line.push('}');
    line
}

/// A line of `flow_steps_rank<R>.jsonl`.
pub(super) fn step_line(step: &FlowStep) -> String {
    let mut line = format!(
        "{{\"opCount\":{},\"rank\":{},\"channel\":{},\"step\":{},\"op\":\"{}\",\"peer\":{},\"bytes\":{},\"pattern\":{},\
         \"protocol\":{}",
        step.op_count,
        step.rank,
        step.channel,
        step.step,
        if step.is_send { "SEND" } else { "RECV" },
        step.peer,
        step.bytes,
        quoted(step.pattern.as_deref()),
        quoted(step.protocol.as_deref()),
    );
    if let Some(stage) = &step.recorded_stage {
        let _ = write!(line, ",\"stage\":{}", quoted(Some(stage)));
    }
    line.push('}');
    line
}

/// A text as a JSON string.
fn quoted(text: Option<&str>) -> String {
    serde_json::Value::from(text.unwrap_or_default()).to_string()
}
