//! The checks of a run: first counts, then what they mean.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Finding, FlowRunReport};
use crate::document::format::{count, ranks, visible};
use crate::records::flow::runs::{Aggregate, FlowRun, Plan};
use crate::records::flow::stages::{Ops, is_peer_to_peer};
use crate::records::{FlowOp, FlowStep, Records};

/// The expected number of steps of all operations. A rank of a ring sends and receives each step; in a chain of n ranks, n - 1 send and n - 1
/// receive; a tree has n - 1 edges with two directions, up and down. Operations do not record which ranks these are, so all ranks are needed.
pub(super) fn foresee(records: &Records, run: &FlowRun, report: &mut FlowRunReport) {
    let size = report.size.map(u64::from).filter(|size| *size == report.ranks.len() as u64);
    let (mut whole, mut shared, mut is_any) = (0, 0, false);
    for op in run.ops(records) {
        let steps = u64::from(op.steps);
        match (op.pattern.as_deref(), size) {
            (Some("RING" | "RING_TWICE"), _) => whole += 2 * steps,
            (Some("SEND" | "RECV"), _) => whole += steps,
            (Some("PIPELINE_FROM" | "PIPELINE_TO" | "TREE_UP" | "TREE_DOWN"), Some(size)) => {
                shared += steps * 2 * (size - 1);
            }
            (Some("TREE_UP_DOWN"), Some(size)) => shared += steps * 4 * (size - 1),
            _ => {
                report.unforeseen_ops += 1;
                continue;
            }
        }
        is_any = true;
    }
    report.expected_steps = is_any.then(|| whole + size.map_or(0, |size| shared / size));
}

pub(super) fn sequences(records: &Records, of_ops: &Ops<'_>, report: &mut FlowRunReport) {
    let mut sorted = Vec::new();
    for of_op in of_ops.values() {
        sorted.clear();
        sorted.extend(of_op.iter().map(|at| {
            let step = &records.flow_steps[*at];
            (step.is_send, step.peer, step.step)
        }));
        sorted.sort_unstable();
        let sequences = sorted.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1));
        let is_broken = |steps: &&[(bool, u32, u32)]| !steps.iter().map(|(_, _, step)| *step).eq(0..steps.len() as u32);
        report.broken_sequences += sequences.filter(is_broken).count() as u64;
    }
}

/// Pairs sends with receives. Their `opCount` differs if each rank counts separately.
pub(super) fn pairs(records: &Records, run: &FlowRun, report: &mut FlowRunReport) {
    let balance = |with_op_count: bool| {
        let key = |step: &FlowStep| {
            let (from, to) = if step.is_send { (step.rank, step.peer) } else { (step.peer, step.rank) };
            let op_count = with_op_count.then_some(step.op_count);
            ([from, to, step.channel, step.step], op_count)
        };
        let pattern = |step: &'_ FlowStep| step.pattern.clone().filter(|name| !is_peer_to_peer(Some(name)));
        let mut sorted: Vec<_> = run.steps(records).map(|step| (key(step), pattern(step), step.is_send)).collect();
        sorted.sort_unstable();
        let same = sorted.chunk_by(|one, next| (one.0, &one.1) == (next.0, &next.1));
        let unpaired = |steps: &[(_, _, bool)]| {
            let sends = steps.iter().filter(|(_, _, is_send)| *is_send).count() as u64;
            sends.abs_diff(steps.len() as u64 - sends)
        };
        same.map(unpaired).sum::<u64>()
    };
    report.unpaired_steps = balance(false);
    report.unpaired_by_op_count = balance(true);
    report.paired_steps = report.steps.saturating_sub(report.unpaired_steps) / 2;
}

/// The contents of a line, without its file and what is worked out of it.
fn op_line(op: &FlowOp) -> FlowOp {
    FlowOp { file: 0, is_aggregate: false, ..op.clone() }
}

fn step_line(step: &FlowStep) -> FlowStep {
    FlowStep { file: 0, is_aggregate: false, stage: None, ..step.clone() }
}

pub(super) fn repeats(records: &Records, run: &FlowRun, report: &mut FlowRunReport) {
    let mut seen = HashSet::new();
    report.repeated_ops = run.ops(records).filter(|op| !seen.insert(op_line(op))).count() as u64;
    let mut seen = HashSet::new();
    report.repeated_steps = run.steps(records).filter(|step| !seen.insert(step_line(step))).count() as u64;
}

pub(super) fn peers(records: &Records, run: &FlowRun, plan: &Plan<'_>, report: &mut FlowRunReport) {
    let of_ring = |step: &&FlowStep| {
        matches!(step.pattern.as_deref(), Some("RING" | "RING_TWICE" | "PIPELINE_FROM" | "PIPELINE_TO"))
    };
    let is_wrong = |step: &&FlowStep| {
        let neighbours = plan.neighbours(step.rank, step.channel);
        neighbours.is_some_and(|(before, after)| step.peer != if step.is_send { after } else { before })
    };
    report.wrong_ring_peers = run.steps(records).filter(of_ring).filter(is_wrong).count() as u64;
}

pub(super) fn joins(records: &Records, run: &FlowRun, report: &mut FlowRunReport) {
    let planned: HashSet<_> =
        run.ops(records).map(|op| (op.rank, op.op_count, op.channel, op.pattern.as_deref())).collect();
    let written: HashSet<_> =
        run.steps(records).map(|step| (step.rank, step.op_count, step.channel, step.pattern.as_deref())).collect();
    report.unjoined_ops = written.difference(&planned).count() as u64;
}

pub(super) fn aggregates(records: &Records, run: &FlowRun, report: &mut FlowRunReport) {
    report.aggregates = run.aggregates.len() as u64;
    report.differing_aggregates =
        run.aggregates.iter().filter(|aggregate| !is_equal(records, run, aggregate)).count() as u64;
}

fn is_equal(records: &Records, run: &FlowRun, aggregate: &Aggregate) -> bool {
    let first = run.ops(records).find(|op| op.rank == aggregate.rank).map(op_line);
    let meta = aggregate.op.map(|at| op_line(&records.flow_ops[at]));
    let of_rank = run.steps(records).filter(|step| step.rank == aggregate.rank).map(step_line);
    let repeated = aggregate.steps.iter().map(|at| step_line(&records.flow_steps[*at]));
    first == meta && of_rank.eq(repeated)
}

/// What the counts mean. Two runs in one folder come first, because they distort other counts.
pub(super) fn findings(records: &Records, run: &FlowRun, of_ops: &Ops<'_>, report: &FlowRunReport) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |is_so: bool, kind: &'static str, what: String| {
        if is_so {
            found.push(Finding { kind, what });
        }
    };
    let &FlowRunReport { repeated_steps, broken_sequences, unpaired_steps, wrong_ring_peers, .. } = report;
    let &FlowRunReport { aggregates, differing_aggregates, unjoined_ops, .. } = report;
    let what = format!(
        "{} lines of steps and {} of operations occur twice: two runs appended to the same files, or two communicators of equal size. \
         The files cannot distinguish these.",
        count(repeated_steps),
        count(report.repeated_ops)
    );
    add(repeated_steps > 0, "repeated", what);
    let missing: Vec<u32> =
        (0..report.size.unwrap_or_default()).filter(|rank| report.ranks.binary_search(rank).is_err()).collect();
    add(!missing.is_empty(), "missing_ranks", format!("There are no files of {}.", ranks(&missing)));
    let alone = ranks(&run.aggregate_only);
    let what = format!("For {alone} there is only the aggregate, which has only the first operation.");
    add(!run.aggregate_only.is_empty(), "aggregate_only", what);
    if run.aggregate_only.is_empty() {
        add_shortfall(records, run, of_ops, report, &mut add);
    }
    // Repeated lines repeat each sequence; that is reported already.
    let what = format!("Steps are missing or repeated in {} sequences.", count(broken_sequences));
    add(broken_sequences > 0 && repeated_steps == 0, "broken_sequences", what);
    let steps = count(unpaired_steps);
    let what = format!("{steps} steps are only on one side: sent and not received, or received and not sent.");
    add(unpaired_steps > 0, "unpaired", what);
    let steps = count(wrong_ring_peers);
    let what = format!("{steps} steps go to or come from ranks that are not the neighbours on the ring.");
    add(wrong_ring_peers > 0, "wrong_ring_peers", what);
    let mut labels: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in &report.patterns {
        let of = labels.entry(&row.pattern).or_default();
        (of.0, of.1) = (of.0 + row.wrong_stages, of.1 + row.steps);
    }
    for (pattern, (wrong, of)) in labels {
        let (steps, of, pattern) = (count(wrong), count(of), visible(pattern));
        let stages = "a wrong stage in the files, which take half of the steps for each; it is worked out anew";
        add(wrong > 0, "wrong_stages", format!("{steps} of {of} steps of {pattern} have {stages}."));
    }
    let what = format!(
        "{differing_aggregates} of {aggregates} aggregates do not match the first operation and all steps of their rank: they were made \
         earlier, or from other files."
    );
    add(differing_aggregates > 0, "differing_aggregates", what);
    let what = format!(
        "opCount restarts in every plan of the operations and not in the steps: {} operations of the steps are joined by shape alone.",
        count(unjoined_ops)
    );
    add(unjoined_ops > 0 && report.ops > 0, "restarted_counts", what);
    found
}

/// Compares the planned operations with the written ones.
fn add_shortfall(
    records: &Records,
    run: &FlowRun,
    of_ops: &Ops<'_>,
    report: &FlowRunReport,
    add: &mut impl FnMut(bool, &'static str, String),
) {
    if report.steps == 0 {
        let expected = report.expected_steps.map_or(String::new(), |steps| format!("; {} were expected", count(steps)));
        let what = format!("Operations were planned, and no steps were written{expected}.");
        add(report.ops > 0, "no_steps", what);
        return;
    }
    let (self_sends, has_others) = self_sends(records, run, of_ops);
    let ops_to_self = count(self_sends);
    let what = format!("{ops_to_self} sends and receives have no steps: as many as ranks send to themselves.");
    add(self_sends > 0, "self_sends", what);
    let planned_ops = run.ops(records).filter(|op| !is_peer_to_peer(op.pattern.as_deref())).count() as u64;
    let written_ops = written(records, of_ops);
    let to_itself = if has_others { 0 } else { self_sends };
    let peer_to_peer = report.ops - planned_ops;
    let written_pairs =
        run.steps(records).filter(|step| step.step == 0 && is_peer_to_peer(step.pattern.as_deref())).count() as u64;
    let (planned, done) = (planned_ops + peer_to_peer - to_itself.min(peer_to_peer), written_ops + written_pairs);
    if let Some(expected) = report.expected_steps.filter(|_| report.unforeseen_ops == 0) {
        let steps = report.steps.saturating_sub(expected);
        let what = format!("There are {} more steps than the operations ask for.", count(steps));
        add(steps > 0, "too_many_steps", what);
        let what = format!(
            "{} operations on channels were planned, and only {} have steps: steps are written when a plan is launched, so the run ended \
             before that, as one does that hangs and is killed.",
            count(planned),
            count(done)
        );
        add(report.steps < expected && done < planned, "unfinished", what);
    }
}

/// The number of operations with steps, on channels of ranks and without sends and receives. Repeated operations count repeatedly.
fn written(records: &Records, of_ops: &Ops<'_>) -> u64 {
    let count = |steps: &Vec<usize>| {
        let mut first: HashMap<(bool, u32), u64> = HashMap::new();
        for step in steps.iter().map(|at| &records.flow_steps[*at]).filter(|step| step.step == 0) {
            *first.entry((step.is_send, step.peer)).or_default() += 1;
        }
        first.into_values().max().unwrap_or_default()
    };
    of_ops.iter().filter(|(op, _)| !op.is_peer_to_peer()).map(|(_, steps)| count(steps)).sum()
}

/// The number of sends and receives that have no steps because a rank sends to itself: on each rank, as many sends as receives of the same shape lack
/// steps. Also whether any others lack steps, so that this is not the only reason.
fn self_sends(records: &Records, run: &FlowRun, of_ops: &Ops<'_>) -> (u64, bool) {
    let mut lacking: BTreeMap<(u32, u32, u32, i64), [i64; 2]> = BTreeMap::new();
    for op in run.ops(records).filter(|op| is_peer_to_peer(op.pattern.as_deref())) {
        let side = usize::from(op.pattern.as_deref() == Some("SEND"));
        lacking.entry((op.rank, op.channel, op.steps, op.slice_bytes)).or_default()[side] += 1;
    }
    for (op, of_op) in of_ops.iter().filter(|(op, _)| op.is_peer_to_peer()) {
        let rows = || of_op.iter().map(|at| &records.flow_steps[*at]);
        let count = rows().map(|step| step.step.saturating_add(1)).max().unwrap_or_default();
        let bytes = rows().next().map_or(0, |step| step.bytes);
        let written = rows().filter(|step| step.step == 0).count() as i64;
        let side = usize::from(op.pattern == Some("SEND"));
        lacking.entry((op.rank, op.channel, count, bytes)).or_default()[side] -= written;
    }
    let is_both = |[receives, sends]: &&[i64; 2]| sends == receives && *sends > 0;
    let ops = lacking.values().filter(is_both).map(|[receives, sends]| (receives + sends) as u64).sum();
    let has_others = lacking.values().any(|[receives, sends]| receives != sends);
    (ops, has_others)
}
