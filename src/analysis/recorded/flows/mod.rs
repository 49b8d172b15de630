//! What the flow extractor planned: whether its files are whole and agree with each other, what its labels should say, and who sends how
//! much to whom.
//!
//! The checks are counts, so that a reader can compare them with other tools. What they mean is a [`Finding`].

mod checks;
mod matrix;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::records::Records;
use crate::records::flow::runs::{FlowRun, Plan, runs};
use crate::records::flow::stages::{Ops, Parent, by_op, parent};

/// What is known of all runs of the flow extractor.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowReport {
    /// By folder.
    pub runs: Vec<FlowRunReport>,
}

/// One folder of flow files.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowRunReport {
    /// The folder.
    pub folder: String,
    /// The ranks of the communicator that have files.
    pub ranks: Vec<u32>,
    /// How many ranks the communicator has; `None` if its rings are incomplete or contradict each other.
    pub size: Option<u32>,
    /// How many lines `proxy_flow_rank<R>.jsonl` has, all ranks together: operations on channels.
    pub ops: u64,
    /// How many lines `flow_steps_rank<R>.jsonl` has.
    pub steps: u64,
    /// How many lines it should have by the operations; `None` if nothing can be foreseen.
    pub expected_steps: Option<u64>,
    /// How many operations have no number of steps that could be foreseen: of other patterns, or of pipelines and trees whose ranks are not
    /// all here.
    pub unforeseen_ops: u64,
    /// How many channels.
    pub channels: u32,
    /// Operations of one pattern and protocol.
    pub patterns: Vec<PatternRow>,
    /// Operations on a channel, of one direction and peer, whose steps are not 0 to the last, each once.
    pub broken_sequences: u64,
    /// Sends that have a receive, and receives that have a send, in pairs.
    pub paired_steps: u64,
    /// Sends without a receive and receives without a send on the same channel, step and pattern between the same two ranks.
    pub unpaired_steps: u64,
    /// The same if `opCount` has to agree, too. Ranks count sends and receives by themselves, so these are no fault.
    pub unpaired_by_op_count: u64,
    /// Steps of rings and pipelines whose peer is not the neighbour on the ring that the operation has.
    pub wrong_ring_peers: u64,
    /// Lines of steps that are there before.
    pub repeated_steps: u64,
    /// Lines of operations that are there before. Equal sends have equal lines.
    pub repeated_ops: u64,
    /// Operations of the steps (by `opCount`, channel and pattern of a rank) that the operations do not have: `opCount` restarts there in
    /// every plan.
    pub unjoined_ops: u64,
    /// How many aggregates are beside the other files.
    pub aggregates: u64,
    /// How many of these are not the first operation and all steps of their rank.
    pub differing_aggregates: u64,
    /// The trees, by channel.
    pub trees: Vec<Tree>,
    /// Who sends to whom, only pairs that do. The files have no hosts, so what goes from host to host cannot be separated.
    pub matrix: Vec<Link>,
    /// Steps that are not in the matrix, because no operation says how large they are.
    pub unsized_steps: u64,
    /// What is off, and what a reader could take for an error.
    pub findings: Vec<Finding>,
}

/// Operations of one pattern and protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PatternRow {
    /// The pattern: `RING_TWICE`.
    pub pattern: String,
    /// The protocol.
    pub protocol: String,
    /// How many operations.
    pub ops: u64,
    /// How many steps.
    pub steps: u64,
    /// How many of these have a recorded stage that is wrong.
    pub wrong_stages: u64,
    /// Of how many the stage cannot be worked out.
    pub unknown_stages: u64,
}

/// A tree of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tree {
    /// The channel.
    pub channel: u32,
    /// How many operations have it.
    pub ops: u64,
    /// By rank: its parent, which the root has not.
    pub parents: BTreeMap<u32, Option<u32>>,
    /// Ranks whose parent is unknown.
    pub unknown: Vec<u32>,
}

/// What one rank sends to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Link {
    /// Who sends.
    pub from: u32,
    /// Who receives.
    pub to: u32,
    /// How many steps, of all channels.
    pub steps: u64,
    /// How many bytes of data these hold at most: the last steps of a loop may hold less. Flags of LL and LL128 are not counted.
    pub bytes: u64,
}

/// Something that is off in a run, or looks so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finding {
    /// Steps are there twice: two runs in one folder, or two communicators of equal size. The files cannot distinguish these.
    Repeated {
        /// How many lines of steps.
        steps: u64,
        /// How many lines of operations.
        ops: u64,
    },
    /// There are operations and no steps at all.
    NoSteps {
        /// How many were expected.
        expected: Option<u64>,
    },
    /// Operations were planned whose steps were not written, as when a run hangs and is killed.
    Unfinished {
        /// How many operations were planned.
        planned: u64,
        /// How many of them have steps.
        written: u64,
    },
    /// Ranks send to themselves, which takes no steps.
    SelfSends {
        /// How many operations, sends and receives.
        ops: u64,
    },
    /// There are more steps than the operations ask for.
    TooManySteps {
        /// How many more.
        steps: u64,
    },
    /// Ranks of the communicator have no files.
    MissingRanks {
        /// Which.
        ranks: Vec<u32>,
    },
    /// Steps are lacking or out of order within operations.
    BrokenSequences {
        /// In how many.
        sequences: u64,
    },
    /// What one rank sends, the other does not receive.
    Unpaired {
        /// How many steps.
        steps: u64,
    },
    /// Peers are not the neighbours on the ring.
    WrongRingPeers {
        /// How many steps.
        steps: u64,
    },
    /// The recorded stages are wrong; the report has the right ones.
    WrongStages {
        /// The pattern.
        pattern: String,
        /// How many steps are labelled wrongly.
        wrong: u64,
        /// Of how many.
        of: u64,
    },
    /// Aggregates are not equal to the files that they were made from.
    DifferingAggregates {
        /// How many.
        aggregates: u64,
        /// Of how many.
        of: u64,
    },
    /// Ranks have only their aggregate, which has no more than the first operation.
    AggregateOnly {
        /// Which.
        ranks: Vec<u32>,
    },
    /// `opCount` of the steps goes on where that of the operations restarts, so the two cannot be joined by it.
    RestartedCounts {
        /// How many operations.
        ops: u64,
    },
}

/// What the flow files say; `None` if there are none.
pub fn report(records: &Records) -> Option<FlowReport> {
    let reports: Vec<FlowRunReport> = runs(records).iter().map(|run| of_run(records, run)).collect();
    (!reports.is_empty()).then_some(FlowReport { runs: reports })
}

fn of_run(records: &Records, run: &FlowRun) -> FlowRunReport {
    let plan = Plan::new(records, run);
    let of_ops = by_op(records, run);
    let ranks = run.ranks(records);
    let planned = run.ops.iter().map(|at| records.flow_ops[*at].channel);
    let channels: BTreeSet<u32> = planned.chain(run.steps.iter().map(|at| records.flow_steps[*at].channel)).collect();
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
    for op in run.ops.iter().map(|at| &records.flow_ops[*at]) {
        let key = (op.pattern.as_deref().unwrap_or_default(), op.protocol.as_deref().unwrap_or_default());
        rows.entry(key).or_default().ops += 1;
    }
    for step in run.steps.iter().map(|at| &records.flow_steps[*at]) {
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

/// The trees, equal ones of a channel once.
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
