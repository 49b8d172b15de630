//! From the backward pass to the forward pass: the operator that made a node of autograd's.
//!
//! PyTorch gives a forward operator the number that its thread's next node will get. So an operator that makes no node has the number of the next one
//! that does; enclosing operators have the number of the first node made inside them; and the operator that made the node is the last one with its
//! number. For example, `aten::linear` and `aten::t` both have the number of `TBackward0`, which belongs to `aten::t`. Each thread counts for itself.
//! A node's operators name the thread that made it in PyTorch's own numbering: the nodes whose number occurs on a single thread show which one that is.
//!
//! Kineto derives its flows (`fwdbwd`) from the same numbers. They decide where numbers do not: a flow is bound to whatever slice is on top at its
//! time, and ranks in one file may number their flows alike. Nodes without an operator, such as AccumulateGrad, have no number.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;

use super::call_tree::{CallTree, Climber, Place};
use super::callers::Callers;
use crate::id::{PathId, ProcessId, SliceId, ThreadId, TraceId};
use crate::names::category::CategoryKind;
use crate::names::frames::FORWARD_BACKWARD;
use crate::store::Store;

/// How many operators with a node's number are considered, from the latest one before it back. A node has a handful; with more, the numbers are
/// not what they should be.
const MAX_OPERATORS: usize = 1_000;

/// A process of a trace. Each counts its threads and nodes for itself, and a merged file has several.
type Process = (TraceId, Option<ProcessId>);

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forward {
    /// The operator of the forward pass, by the node's number.
    ByNumber(SliceId),
    /// The same by the flow alone.
    ByFlow(SliceId),
    /// The operator of the forward pass is not in the trace.
    NotRecorded,
    /// Several threads have an operator with this number, and nothing decides between them.
    Ambiguous,
}

impl Forward {
    /// The operator of the forward pass, if it is known.
    pub(crate) fn operator(self) -> Option<SliceId> {
        match self {
            Forward::ByNumber(operator) | Forward::ByFlow(operator) => Some(operator),
            Forward::NotRecorded | Forward::Ambiguous => None,
        }
    }
}

/// Finds operators of the forward pass. The index is built on first use; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Forwards<'a> {
    store: &'a Store,
    index: Arc<OnceLock<Index>>,
    /// By operator of the backward pass.
    known: HashMap<SliceId, Forward, FixedState>,
}

#[derive(Debug, Default)]
struct Index {
    /// By operator of the backward pass: the source of its flow.
    flows_in: HashMap<SliceId, SliceId, FixedState>,
    /// By process and number: the operators of the forward pass, in order.
    operators: HashMap<(Process, i64), Vec<SliceId>, FixedState>,
    /// By process and PyTorch's number of a thread: the thread.
    threads: HashMap<(Process, i64), Known, FixedState>,
}

/// A thread, with a node and its operator that show which it is.
type Known = (ThreadId, [SliceId; 2]);

/// By thread: how many nodes show that it is meant, and the first of them with its operator.
type Votes = HashMap<ThreadId, (usize, [SliceId; 2])>;

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

    /// Nodes and operators that show which threads made the nodes that were searched for.
    pub(crate) fn witnesses(&self) -> impl Iterator<Item = SliceId> {
        self.index.get().into_iter().flat_map(|index| index.threads.values()).flat_map(|(_, witnesses)| *witnesses)
    }

    /// The call path of that operator, for the place of a slice. `climber` must climb in the same trace.
    pub(crate) fn path(&mut self, found: Place, climber: &mut Climber<'_>, tree: &mut CallTree) -> Option<PathId> {
        let operator = self.forward(found.backward?, &mut climber.callers).operator()?;
        climber.caller(tree, operator).path
    }

    fn find(&self, backward: SliceId, callers: &mut Callers<'_>) -> Forward {
        let store = self.store;
        let Some(number) = store.autograd(backward) else { return Forward::NotRecorded };
        // A node's operators are nested: `MulBackward0` inside `evaluate_function: MulBackward0`.
        let (mut node, mut outermost) = (vec![backward], backward);
        while let Some(caller) = callers.caller(outermost)
            && store.autograd(caller) == Some(number)
        {
            node.push(caller);
            outermost = caller;
        }
        let index = self.index.get_or_init(|| Index::new(store));
        let by_number = index.by_number(store, outermost);
        let is_its = |from: &SliceId| {
            store.autograd(*from).is_some_and(|of| of.sequence == number.sequence && of.forward_thread == 0)
                && process(store, *from) == process(store, outermost)
        };
        let mut flows_in = node.iter().filter_map(|slice| index.flows_in.get(slice)).copied();
        match by_number.operator() {
            Some(_) => by_number,
            None => flows_in.find(is_its).map_or(by_number, Forward::ByFlow),
        }
    }
}

/// The process of a slice, with its trace.
pub(crate) fn process(store: &Store, slice: SliceId) -> Process {
    (store.trace_of(slice), store.process_of(slice))
}

/// The flows of the profiler from the forward to the backward pass: source and target.
pub(crate) fn flows(store: &Store) -> impl Iterator<Item = (SliceId, SliceId)> {
    let label = store.strings.find(FORWARD_BACKWARD);
    let flows = &store.flows;
    let is_one = move |flow: &usize| label.is_some() && Some(flows.label[*flow].1) == label;
    (0..flows.len()).filter(is_one).map(|flow| (flows.slice_out[flow], flows.slice_in[flow]))
}

impl Index {
    fn new(store: &Store) -> Self {
        let mut index = Index { flows_in: flows(store).map(|(from, into)| (into, from)).collect(), ..Index::default() };
        let mut backward = Vec::new();
        for slice in store.slices.ids().filter(|slice| store.category_kind(*slice) == CategoryKind::Cpu) {
            match store.autograd(slice) {
                Some(number) if number.forward_thread == 0 => {
                    index.operators.entry((process(store, slice), number.sequence)).or_default().push(slice);
                }
                Some(_) => backward.push(slice),
                None => {}
            }
        }
        index.threads = index.learn_threads(store, &backward);
        index
    }

    /// The thread that each number of a thread means: the one with more than half of the nodes whose number occurs on a single thread.
    fn learn_threads(&self, store: &Store, backward: &[SliceId]) -> HashMap<(Process, i64), Known, FixedState> {
        let mut votes: HashMap<(Process, i64), Votes, FixedState> = HashMap::default();
        for node in backward.iter().copied() {
            let mut candidates = self.candidates(store, node);
            if let Some(number) = store.autograd(node)
                && let Some(operator) = candidates.next()
                && let Some(thread) = store.thread_of(operator)
                && candidates.all(|other| store.thread_of(other) == Some(thread))
            {
                let of_number = votes.entry((process(store, node), number.forward_thread)).or_default();
                of_number.entry(thread).or_insert((0, [node, operator])).0 += 1;
            }
        }
        let most = |votes: Votes| {
            let all: usize = votes.values().map(|(votes, _)| votes).sum();
            let (thread, (_, witnesses)) = votes.into_iter().find(|(_, (votes, _))| votes * 2 > all)?;
            Some((thread, witnesses))
        };
        votes.into_iter().filter_map(|(number, votes)| Some((number, most(votes)?))).collect()
    }

    /// The operators with a node's number that began before it, latest first.
    fn candidates(&self, store: &Store, node: SliceId) -> impl Iterator<Item = SliceId> {
        let number = store.autograd(node).map(|number| (process(store, node), number.sequence));
        let all = number.and_then(|number| self.operators.get(&number)).map_or(&[][..], Vec::as_slice);
        let before = &all[..all.partition_point(|operator| *operator < node)];
        before.iter().rev().take(MAX_OPERATORS).copied()
    }

    /// The operator that the numbers alone show.
    fn by_number(&self, store: &Store, node: SliceId) -> Forward {
        let thread = |slice: SliceId| store.thread_of(slice);
        let known = store.autograd(node).and_then(|of| self.threads.get(&(process(store, node), of.forward_thread)));
        let may_be = |operator: &SliceId| known.is_none_or(|(known, _)| thread(*operator) == Some(*known));
        let mut candidates = self.candidates(store, node).filter(may_be);
        // Nested operators may have the same number. The innermost made the node, and starts last.
        let Some(last) = candidates.next() else { return Forward::NotRecorded };
        if candidates.all(|other| thread(other) == thread(last)) { Forward::ByNumber(last) } else { Forward::Ambiguous }
    }
}
