//! From the backward pass to the forward pass: the operator that made the autograd node that launched a kernel.
//!
//! Autograd numbers the nodes that a thread makes. The operator of the forward pass has this number, and so have the node's operators in the
//! backward pass, together with the thread that made the node in PyTorch's own numbering. Kineto writes a flow (`fwdbwd`) from the operator to the
//! first of the node's; without a flow, the number decides. Nodes without an operator, such as AccumulateGrad, have no number.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;

use super::call_tree::{CallTree, Climber, Place};
use super::callers::Callers;
use crate::id::{PathId, ProcessId, SliceId, TraceId};
use crate::names::category::CategoryKind;
use crate::names::frames::FORWARD_BACKWARD;
use crate::store::Store;

/// How many operators with a node's number are considered, from the latest one before it back. A node has a handful; with more, the numbers are
/// not what they should be.
const MAX_OPERATORS: usize = 1_000;

/// A node number within its trace and process, because each process counts from 0.
type NodeNumber = (TraceId, Option<ProcessId>, i64);

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forward {
    /// The operator of the forward pass.
    Operator(SliceId),
    /// The operator of the forward pass is not in the trace.
    NotRecorded,
    /// Several threads have an operator with this number, and nothing decides between them.
    Ambiguous,
}

/// Finds operators of the forward pass. The index is built on first use; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Forwards<'a> {
    store: &'a Store,
    index: Arc<OnceLock<Index>>,
    /// By operator of the backward pass.
    known: HashMap<SliceId, Forward, FixedState>,
}

#[derive(Debug)]
struct Index {
    /// By operator of the backward pass: the source of its flow.
    flows_in: HashMap<SliceId, SliceId, FixedState>,
    /// The operators of the forward pass, in order.
    operators: HashMap<NodeNumber, Vec<SliceId>, FixedState>,
}

impl<'a> Forwards<'a> {
    /// Searches the slices of a trace.
    pub(crate) fn new(store: &'a Store) -> Self {
        Forwards { store, index: Arc::default(), known: HashMap::default() }
    }

    /// The operator of the forward pass for an operator of the backward pass.
    pub(crate) fn forward(&mut self, backward: SliceId, callers: &mut Callers<'_>) -> Forward {
        if let Some(known) = self.known.get(&backward) {
            return *known;
        }
        let found = self.find(backward, callers);
        self.known.insert(backward, found);
        found
    }

    /// The call path of that operator, for the place of a slice. `climber` must climb in the same trace.
    pub(crate) fn path(&mut self, found: Place, climber: &mut Climber<'_>, tree: &mut CallTree) -> Option<PathId> {
        match self.forward(found.backward?, &mut climber.callers) {
            Forward::Operator(operator) => climber.caller(tree, operator).path,
            Forward::NotRecorded | Forward::Ambiguous => None,
        }
    }

    fn find(&mut self, backward: SliceId, callers: &mut Callers<'_>) -> Forward {
        let store = self.store;
        let number = |slice: SliceId| store.autograd(slice).map(|number| number.sequence);
        let Some(sequence) = number(backward) else { return Forward::NotRecorded };
        // A node's operators are nested: `MulBackward0` inside `evaluate_function: MulBackward0`.
        let mut node = vec![backward];
        while let Some(caller) = node.last().and_then(|slice| callers.caller(*slice))
            && number(caller) == Some(sequence)
        {
            node.push(caller);
        }
        let index = self.index.get_or_init(|| Index::new(store));
        let outermost = node.last().copied().unwrap_or(backward);
        let process = |slice: SliceId| store.process_of(slice);
        let of_process = process(outermost);
        // Ranks that share a file use the same flow numbers; a flow from another process belongs to another rank.
        let mut flows_in = node.iter().filter_map(|slice| index.flows_in.get(slice)).copied();
        let is_its = |from: &SliceId| number(*from) == Some(sequence) && process(*from) == of_process;
        if let Some(from) = flows_in.find(is_its) {
            return Forward::Operator(from);
        }
        let all =
            index.operators.get(&(store.trace_of(outermost), of_process, sequence)).map_or(&[][..], Vec::as_slice);
        let before = &all[..all.partition_point(|operator| *operator < outermost)];
        let mut before = before.iter().rev().take(MAX_OPERATORS).copied();
        // Nested operators may have the same number. The innermost made the node, and starts last.
        let Some(last) = before.next() else { return Forward::NotRecorded };
        let thread = |slice: SliceId| store.thread_of(slice);
        if before.all(|other| thread(other) == thread(last)) { Forward::Operator(last) } else { Forward::Ambiguous }
    }
}

impl Index {
    fn new(store: &Store) -> Self {
        let mut operators: HashMap<NodeNumber, Vec<SliceId>, FixedState> = HashMap::default();
        for slice in store.slices.ids() {
            if store.category_kind(slice) == CategoryKind::Cpu
                && let Some(number) = store.autograd(slice)
                && number.forward_thread == 0
            {
                operators
                    .entry((store.trace_of(slice), store.process_of(slice), number.sequence))
                    .or_default()
                    .push(slice);
            }
        }
        let label = store.strings.find(FORWARD_BACKWARD);
        let flows = &store.flows;
        let flows_in = (0..flows.len())
            .filter(|flow| label.is_some() && Some(flows.label[*flow].1) == label)
            .map(|flow| (flows.slice_in[flow], flows.slice_out[flow]));
        Index { flows_in: flows_in.collect(), operators }
    }
}
