//! What the flow extractor planned: whether its files are complete and agree with each other, what its labels should be, and how much each rank sends
//! to each other rank.
//!
//! The checks are counts, so that readers can compare them with other tools. A [`Finding`] says what they mean.

mod checks;
mod matrix;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::records::Records;
use crate::records::flow::runs::{FlowRun, Plan, runs};
use crate::records::flow::stages::{Ops, Parent, by_op, parent};

/// What the flow extractor planned, and whether its files agree.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowReport {
    /// By folder.
    pub runs: Vec<FlowRunReport>,
}

/// One folder of flow files.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowRunReport {
    /// The folder.
    pub folder: String,
    /// The ranks of the communicator with files.
    pub ranks: Vec<u32>,
    /// The number of the communicator's ranks; `None` if its rings are incomplete or contradictory.
    pub size: Option<u32>,
    /// The number of lines in `proxy_flow_rank<R>.jsonl`, over all ranks: operations on channels.
    pub ops: u64,
    /// The number of lines in `flow_steps_rank<R>.jsonl`.
    pub steps: u64,
    /// The number of step lines expected from the operations; `None` if it cannot be computed.
    pub expected_steps: Option<u64>,
    /// The number of operations without an expected number of steps: those of other patterns, and those of pipelines and trees if ranks are missing.
    pub unforeseen_ops: u64,
    /// The number of channels.
    pub channels: u32,
    /// Operations by pattern and protocol.
    pub patterns: Vec<PatternRow>,
    /// Operations on a channel, for one direction and peer, whose step numbers do not run from 0 to the last, each once.
    pub broken_sequences: u64,
    /// Pairs of a send and its receive.
    pub paired_steps: u64,
    /// Sends without a receive and receives without a send, on the same channel, step and pattern between the same two ranks.
    pub unpaired_steps: u64,
    /// The same if `opCount` must match too. Ranks count sends and receives separately, so these are not errors.
    pub unpaired_by_op_count: u64,
    /// Steps of rings and pipelines whose peer is not the neighbour on the operation's ring.
    pub wrong_ring_peers: u64,
    /// Repeated lines of steps.
    pub repeated_steps: u64,
    /// Repeated lines of operations. Equal sends have equal lines.
    pub repeated_ops: u64,
    /// Operations of the steps (by `opCount`, channel and pattern of a rank) that are missing from the operations, where `opCount` restarts in every
    /// plan.
    pub unjoined_ops: u64,
    /// The number of aggregates beside the other files.
    pub aggregates: u64,
    /// The number of aggregates that differ from the first operation and all steps of their rank.
    pub differing_aggregates: u64,
    /// The trees, by channel.
    pub trees: Vec<Tree>,
    /// How much each rank sends to each other, without empty pairs. The files have no hosts, so traffic between hosts cannot be separated.
    pub matrix: Vec<Link>,
    /// Steps missing from the matrix, because no operation gives their size.
    pub unsized_steps: u64,
    /// What is wrong, and what could be mistaken for an error.
    pub findings: Vec<Finding>,
}

/// Operations of one pattern and protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PatternRow {
    /// The pattern: `RING_TWICE`.
    pub pattern: String,
    /// The protocol.
    pub protocol: String,
    /// The number of operations.
    pub ops: u64,
    /// The number of steps.
    pub steps: u64,
    /// The number of steps whose recorded stage is wrong.
    pub wrong_stages: u64,
    /// The number of steps whose stage cannot be determined.
    pub unknown_stages: u64,
}

/// A tree of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tree {
    /// The channel.
    pub channel: u32,
    /// The number of operations that use it.
    pub ops: u64,
    /// The parent of each rank; null for the root.
    pub parents: BTreeMap<u32, Option<u32>>,
    /// Ranks whose parent is unknown.
    pub unknown: Vec<u32>,
}

/// What one rank sends to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Link {
    /// The sending rank.
    pub from: u32,
    /// The receiving rank.
    pub to: u32,
    /// The number of steps, over all channels.
    pub steps: u64,
    /// The most data bytes that these can hold: the last steps of a loop may hold less. Flags of LL and LL128 do not count.
    pub bytes: u64,
}

/// Something that is wrong in a run, or looks wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What it is.
    #[cfg_attr(test, schemars(extend("enum" = ["repeated", "missing_ranks", "aggregate_only", "no_steps", "self_sends", "too_many_steps", "unfinished", "broken_sequences", "unpaired", "wrong_ring_peers", "wrong_stages", "differing_aggregates", "restarted_counts"])))]
    pub kind: &'static str,
    /// The same in a sentence.
    pub what: String,
}

/// The report on the flow files; `None` if there are none.
pub fn report(records: &Records) -> Option<FlowReport> {
    let reports: Vec<FlowRunReport> = runs(records).iter().map(|run| of_run(records, run)).collect();
    (!reports.is_empty()).then_some(FlowReport { runs: reports })
}

fn of_run(records: &Records, run: &FlowRun) -> FlowRunReport {
    let plan = Plan::new(records, run);
    let of_ops = by_op(records, run);
    let ranks = run.ranks(records);
    let planned = run.ops(records).map(|op| op.channel);
    let channels: BTreeSet<u32> = planned.chain(run.steps(records).map(|step| step.channel)).collect();
    let mut report = FlowRunReport {
        folder: run.folder.clone(),
        size: plan.size,
        ops: run.ops.len() as u64,
        steps: run.steps.len() as u64,
        channels: channels.len() as u32,
        patterns: patterns(records, run),
        ranks: ranks.into_iter().collect(),
        trees: trees(records, &of_ops),
        ..FlowRunReport::default()
    };
    checks::foresee(records, run, &mut report);
    checks::sequences(records, &of_ops, &mut report);
    checks::pairs(records, run, &mut report);
    checks::repeats(records, run, &mut report);
    checks::peers(records, run, &plan, &mut report);
    checks::joins(records, run, &mut report);
    checks::aggregates(records, run, &mut report);
    matrix::links(records, &of_ops, &plan, &mut report);
    report.findings = checks::findings(records, run, &of_ops, &report);
    report
}

fn patterns(records: &Records, run: &FlowRun) -> Vec<PatternRow> {
    let mut rows: BTreeMap<(&str, &str), PatternRow> = BTreeMap::new();
    for op in run.ops(records) {
        let key = (op.pattern.as_deref().unwrap_or_default(), op.protocol.as_deref().unwrap_or_default());
        rows.entry(key).or_default().ops += 1;
    }
    for step in run.steps(records) {
        let key = (step.pattern.as_deref().unwrap_or_default(), step.protocol.as_deref().unwrap_or_default());
        let row = rows.entry(key).or_default();
        row.steps += 1;
        match step.stage {
            None => row.unknown_stages += 1,
            Some(stage) => row.wrong_stages += u64::from(step.recorded_stage.as_deref() != Some(stage)),
        }
    }
    let named = |((pattern, protocol), row)| PatternRow {
        pattern: str::to_owned(pattern),
        protocol: str::to_owned(protocol),
        ..row
    };
    rows.into_iter().map(named).collect()
}

/// The trees; equal trees of a channel are listed once.
fn trees(records: &Records, of_ops: &Ops<'_>) -> Vec<Tree> {
    let mut by_rank: BTreeMap<(u32, u64), BTreeMap<u32, Parent>> = BTreeMap::new();
    for (op, steps) in of_ops {
        if op.pattern == Some("TREE_UP_DOWN") {
            let parent = parent(steps.iter().map(|at| &records.flow_steps[*at]));
            by_rank.entry((op.channel, op.op_count)).or_default().insert(op.rank, parent);
        }
    }
    let mut counts: BTreeMap<(u32, BTreeMap<u32, Parent>), u64> = BTreeMap::new();
    for ((channel, _), parents) in by_rank {
        *counts.entry((channel, parents)).or_default() += 1;
    }
    let tree = |((channel, parents), ops): ((u32, BTreeMap<u32, Parent>), u64)| {
        let unknown = parents.iter().filter(|(_, parent)| **parent == Parent::Unknown).map(|(rank, _)| *rank);
        let known = parents.iter().filter_map(|(rank, parent)| match parent {
            Parent::Rank(parent) => Some((*rank, Some(*parent))),
            Parent::None => Some((*rank, None)),
            _ => None,
        });
        Tree { channel, ops, unknown: unknown.collect(), parents: known.collect() }
    };
    counts.into_iter().map(tree).collect()
}
