//! Which files of flows belong together: those of a folder. The extractor writes all ranks of a run beside each other, and says nothing
//! by which runs or communicators in one folder could be separated.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::tables::{FlowOp, FlowStep, Records};
use nccl_stacks_trace::numbers::Numbers;

/// What is in a folder. Numbers are positions in [`Records::flow_ops`] and [`Records::flow_steps`], in the order of the files.
#[derive(Debug, Clone, Default)]
pub struct FlowRun {
    pub folder: String,
    /// Of ranks that have only an aggregate, its one operation.
    pub ops: Vec<usize>,
    /// Of ranks that have only an aggregate, its steps.
    pub steps: Vec<usize>,
    /// The aggregates of ranks that have their other files, too.
    pub aggregates: Vec<Aggregate>,
    /// The ranks that have only an aggregate.
    pub aggregate_only: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub struct Aggregate {
    pub file: u32,
    pub rank: u32,
    pub op: Option<usize>,
    pub steps: Vec<usize>,
}

/// The runs, in the order of their folders' first files.
pub fn runs(records: &Records) -> Vec<FlowRun> {
    let mut folders = Numbers::default();
    let of_file: Vec<usize> = records.files.iter().map(|file| folders.number(file.folder()) as usize).collect();
    let new = |folder: &&str| FlowRun { folder: (*folder).to_owned(), ..FlowRun::default() };
    let mut runs: Vec<FlowRun> = folders.list.iter().map(new).collect();
    // By file.
    let mut aggregates: BTreeMap<u32, Aggregate> = BTreeMap::new();
    let new = |file, rank| Aggregate { file, rank, ..Aggregate::default() };
    for (at, op) in records.flow_ops.iter().enumerate() {
        match op.is_aggregate {
            true => drop(aggregates.entry(op.file).or_insert_with(|| new(op.file, op.rank)).op.get_or_insert(at)),
            false => runs[of_file[op.file as usize]].ops.push(at),
        }
    }
    for (at, step) in records.flow_steps.iter().enumerate() {
        match step.is_aggregate {
            true => aggregates.entry(step.file).or_insert_with(|| new(step.file, step.rank)).steps.push(at),
            false => runs[of_file[step.file as usize]].steps.push(at),
        }
    }
    aggregates.into_values().for_each(|of| runs[of_file[of.file as usize]].aggregates.push(of));
    runs.iter_mut().for_each(|run| run.use_lone_aggregates(records));
    runs.retain(|run| !run.ops.is_empty() || !run.steps.is_empty());
    runs
}

impl FlowRun {
    pub fn ops<'r>(&self, records: &'r Records) -> impl Iterator<Item = &'r FlowOp> {
        self.ops.iter().map(|at| &records.flow_ops[*at])
    }

    pub fn steps<'r>(&self, records: &'r Records) -> impl Iterator<Item = &'r FlowStep> {
        self.steps.iter().map(|at| &records.flow_steps[*at])
    }

    pub fn ranks(&self, records: &Records) -> BTreeSet<u32> {
        self.ops(records).map(|op| op.rank).chain(self.steps(records).map(|step| step.rank)).collect()
    }

    fn use_lone_aggregates(&mut self, records: &Records) {
        let ranks = self.ranks(records);
        let (beside, alone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.aggregates).into_iter().partition(|aggregate| ranks.contains(&aggregate.rank));
        self.aggregates = beside;
        for aggregate in alone {
            // A second one of the same rank would count twice.
            if !self.aggregate_only.contains(&aggregate.rank) {
                self.aggregate_only.push(aggregate.rank);
                self.ops.extend(aggregate.op);
                self.steps.extend(aggregate.steps);
            }
        }
        self.aggregate_only.sort_unstable();
    }
}

/// What the operations of a run say of its steps, which do not name their operation: `opCount` restarts in every plan, and only the
/// shape is common to both.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// How many ranks the communicator has, if the rings of all channels are complete and agree.
    pub size: Option<u32>,
    /// By rank and channel: the ranks before and after it on the ring. `None` where operations contradict each other.
    neighbours: HashMap<(u32, u32), Option<(u32, u32)>>,
    /// By shape: an operation that has it. `None` where several differ in what the steps do not say.
    shapes: HashMap<Shape<'a>, Option<&'a FlowOp>>,
}

/// Rank, channel, pattern, protocol, number of steps, bytes of a slice.
type Shape<'a> = (u32, u32, Option<&'a str>, Option<&'a str>, u32, i64);

impl<'a> Plan<'a> {
    pub fn new(records: &'a Records, run: &FlowRun) -> Self {
        let mut plan = Plan::default();
        for op in run.ops(records) {
            let known = plan.neighbours.entry((op.rank, op.channel)).or_insert(op.ring);
            if *known != op.ring {
                *known = None;
            }
            let shape = (op.rank, op.channel, op.pattern.as_deref(), op.protocol.as_deref(), op.steps, op.slice_bytes);
            let sizes = |op: &FlowOp| (op.chunk_bytes, op.slice_steps, op.chunk_steps);
            let known = plan.shapes.entry(shape).or_insert(Some(op));
            if known.is_some_and(|known| sizes(known) != sizes(op)) {
                *known = None;
            }
        }
        plan.size = plan.ring_length();
        plan
    }

    /// The neighbours of a rank on the ring of a channel: from which it receives, and to which it sends.
    pub fn neighbours(&self, rank: u32, channel: u32) -> Option<(u32, u32)> {
        self.neighbours.get(&(rank, channel)).copied().flatten()
    }

    /// An operation that has the shape of a step, which is one of so many.
    pub fn op(&self, step: &'a FlowStep, steps: u32) -> Option<&'a FlowOp> {
        let (pattern, protocol) = (step.pattern.as_deref(), step.protocol.as_deref());
        self.shapes.get(&(step.rank, step.channel, pattern, protocol, steps, step.bytes)).copied().flatten()
    }

    /// The length of the rings, if one is complete and all that are have the same.
    fn ring_length(&self) -> Option<u32> {
        let mut starts: Vec<(u32, u32)> = self.neighbours.keys().copied().collect();
        starts.sort_unstable();
        let mut seen = HashSet::new();
        let lengths: BTreeSet<u32> = starts.into_iter().filter_map(|start| self.ring_from(start, &mut seen)).collect();
        lengths.first().copied().filter(|_| lengths.len() == 1)
    }

    /// How many ranks are on the ring from a rank on; `None` if it does not come back, or if that is known.
    fn ring_from(&self, (start, channel): (u32, u32), seen: &mut HashSet<(u32, u32)>) -> Option<u32> {
        let (mut at, mut length) = (start, 0);
        while seen.insert((at, channel)) {
            at = self.neighbours(at, channel)?.1;
            length += 1;
        }
        (length > 0 && at == start).then_some(length)
    }
}
