//! The backward pass: its nodes, the operators of the forward pass that made them, and the kernels launched in both.
//!
//! Autograd's engine runs a node by nested operators: `autograd::engine::evaluate_function: MulBackward0` around `MulBackward0`, both with the node's
//! number. They count as one node, represented by the outermost. `AccumulateGrad` has no number, because no operator makes it.
//!
//! Each kernel belongs to the innermost around its launch of the nodes and the operators that made nodes. That is not the outermost operator with the
//! number: `aten::linear` has the number of its `aten::t`, but launches the kernels of its `aten::addmm`, which belong to another node.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::callers::Callers;
use super::forward::{Forward, Forwards, flows, process};
use super::launches::Launches;
use super::nearest::Nearest;
use crate::id::{SliceId, ThreadId};
use crate::names::category::CategoryKind;
use crate::names::frames::is_node;
use crate::store::Store;

/// The backward pass of a trace.
#[derive(Debug, Default)]
pub(crate) struct Backward {
    /// The nodes, by start.
    pub(crate) nodes: Vec<Node>,
    /// By kernel of the launches: where it was launched.
    pub(crate) places: Vec<Place>,
    /// By operator that runs a node: the index of the node.
    by_operator: HashMap<SliceId, usize, FixedState>,
}

#[derive(Debug)]
pub(crate) struct Node {
    /// The outermost of its operators.
    pub(crate) slice: SliceId,
    /// What made it; `None` for a node without a number.
    pub(crate) forward: Option<Forward>,
    /// Whether the profiler's flow comes from another number, thread or process than the operator's; `None` unless there are both.
    pub(crate) flow_disagrees: Option<bool>,
    /// The last node with a number that began before it on its thread.
    pub(crate) last: Option<SliceId>,
}

/// Where a kernel was launched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) node: Option<SliceId>,
    /// The operator of the forward pass that made the node; without a node, the one that launched the kernel and made another.
    pub(crate) forward: Option<SliceId>,
    /// Whether an operator of the forward pass launched it within the node.
    pub(crate) is_recomputed: bool,
}

impl Backward {
    /// Finds the nodes, and the places of the kernels.
    pub(crate) fn find(store: &Store, launches: &Launches) -> Self {
        let (mut callers, mut forwards) = (Callers::new(store), Forwards::new(store));
        let mut backward = Backward::default();
        backward.find_nodes(store, &mut callers, &mut forwards);
        backward.check_flows(store);
        backward.places = backward.places(store, &mut callers, launches);
        backward
    }

    fn find_nodes(&mut self, store: &Store, callers: &mut Callers<'_>, forwards: &mut Forwards<'_>) {
        let mut last: HashMap<Option<ThreadId>, SliceId> = HashMap::new();
        for slice in store.slices.ids().filter(|slice| runs_node(store, *slice)) {
            let number = store.autograd(slice);
            let around = callers.caller(slice).and_then(|caller| self.by_operator.get(&caller).copied());
            if let Some(node) = around.filter(|node| store.autograd(self.nodes[*node].slice) == number) {
                self.by_operator.insert(slice, node);
                continue;
            }
            self.by_operator.insert(slice, self.nodes.len());
            let thread = store.thread_of(slice);
            self.nodes.push(Node {
                slice,
                forward: number.map(|_| forwards.forward(slice, callers)),
                flow_disagrees: None,
                last: last.get(&thread).copied(),
            });
            if number.is_some() {
                last.insert(thread, slice);
            }
        }
    }

    /// Compares the numbers with the flows that arrive at the operators of nodes. Operators on one thread with the node's number are nested or make
    /// no node, so a flow from any of them means this node.
    fn check_flows(&mut self, store: &Store) {
        for (from, into) in flows(store) {
            let Some(node) = self.by_operator.get(&into).map(|node| &mut self.nodes[*node]) else { continue };
            let Some(Forward::ByNumber(operator)) = node.forward else { continue };
            let key = |slice: SliceId| {
                let number = store.autograd(slice).map(|number| number.sequence);
                (number, store.thread_of(slice), process(store, slice))
            };
            node.flow_disagrees = Some(node.flow_disagrees == Some(true) || key(from) != key(operator));
        }
    }

    fn places(&self, store: &Store, callers: &mut Callers<'_>, launches: &Launches) -> Vec<Place> {
        let made_by = |node: &Node| node.forward.and_then(Forward::operator);
        let makers: HashSet<SliceId, FixedState> = self.nodes.iter().filter_map(made_by).collect();
        let (mut around, mut numbered) = (Nearest::default(), Nearest::default());
        let is_place = |slice: SliceId| self.by_operator.contains_key(&slice) || makers.contains(&slice);
        let mut place = |call: SliceId| {
            let slice = around.of_launch(callers, call, is_place)?;
            let Some(node) = self.by_operator.get(&slice).map(|node| &self.nodes[*node]) else {
                return Some(Place { forward: Some(slice), ..Place::default() });
            };
            let nearest = numbered.of_launch(callers, call, |slice| store.autograd(slice).is_some());
            let is_forward = nearest.and_then(|slice| store.autograd(slice)).is_some_and(|of| of.forward_thread == 0);
            let is_recomputed = is_forward && node.forward.is_some();
            Some(Place { node: Some(node.slice), forward: made_by(node), is_recomputed })
        };
        launches.kernels.iter().map(|launched| place(launched.call?)).map(Option::unwrap_or_default).collect()
    }
}

/// Whether autograd's engine runs a node by a slice.
fn runs_node(store: &Store, slice: SliceId) -> bool {
    store.category_kind(slice) == CategoryKind::Cpu
        && match store.autograd(slice) {
            Some(number) => number.forward_thread != 0,
            None => is_node(store.slice_name(slice)),
        }
}
