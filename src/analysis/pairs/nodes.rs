//! The nodes of the backward pass in a trace, and the forward operators that may have made them.
//!
//! Autograd's engine runs a node by nested operators: `autograd::engine::evaluate_function: MulBackward0` around `MulBackward0`, both with the node's
//! number. They count as one node, represented by the outermost. `AccumulateGrad` has no number, because no operator makes it.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use crate::attribution::callers::Callers;
use crate::id::{ProcessId, SliceId, ThreadId, TraceId};
use crate::names::category::CategoryKind;
use crate::names::frames::is_node;
use crate::store::Store;
use crate::store::strings::StringId;

/// How many callers of an operator are searched for the rest of its node: they directly enclose it.
const MAX_CALLERS: usize = 32;

/// Each thread of a process counts its own numbers, and a merged file has several processes.
pub(super) type Process = (TraceId, Option<ProcessId>);

/// A numbered node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The outermost of its operators.
    pub(super) outermost: SliceId,
    pub(super) process: Process,
    /// Its number.
    pub(super) sequence: i64,
    /// The thread that made it, in PyTorch's own numbering.
    pub(super) forward_thread: i64,
}

/// The backward pass of a trace.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The numbered nodes, by start.
    pub(super) numbered: Vec<Node>,
    /// By operator: the index of its node.
    pub(super) of: HashMap<SliceId, usize, FixedState>,
    /// By thread: the indexes of its nodes, in order.
    pub(super) by_thread: HashMap<ThreadId, Vec<usize>, FixedState>,
    /// The outermost operators of unnumbered nodes.
    pub(super) unnumbered: Vec<SliceId>,
    /// By process and number: the forward operators, in order.
    pub(super) operators: HashMap<(Process, i64), Vec<SliceId>, FixedState>,
    /// By string id: whether the engine runs nodes by operators of this name.
    is_node: Vec<bool>,
}

/// The process of a slice, with its trace.
pub(super) fn process(store: &Store, slice: SliceId) -> Process {
    (store.trace_of(slice), store.process_of(slice))
}

impl Nodes {
    pub(super) fn find(store: &Store, callers: &mut Callers<'_>) -> Self {
        let mut nodes = Nodes { is_node: vec![false; store.strings.len()], ..Nodes::default() };
        for name in store.names.iter().filter(|name| name.of_cpu && name.id != StringId::NULL) {
            nodes.is_node[name.id.0 as usize] = store.strings.get(name.id).is_some_and(is_node);
        }
        for slice in store.slices.ids() {
            if store.category_kind(slice) != CategoryKind::Cpu {
                continue;
            }
            match store.autograd(slice) {
                Some(number) if number.forward_thread == 0 => {
                    let key = (process(store, slice), number.sequence);
                    nodes.operators.entry(key).or_default().push(slice);
                }
                Some(_) => nodes.add(store, callers, slice),
                None if nodes.runs_node(store, slice) => nodes.add_unnumbered(store, callers, slice),
                None => {}
            }
        }
        nodes
    }

    /// Whether the engine runs a node by this operator, and the node is unnumbered.
    pub(super) fn runs_node(&self, store: &Store, slice: SliceId) -> bool {
        let name = store.slices.name(slice);
        name != StringId::NULL && self.is_node[name.0 as usize] && store.autograd(slice).is_none()
    }

    fn add(&mut self, store: &Store, callers: &mut Callers<'_>, slice: SliceId) {
        let Some(number) = store.autograd(slice) else { return };
        let mut caller = callers.caller(slice);
        for _ in 0..MAX_CALLERS {
            let Some(around) = caller else { break };
            if let Some(node) = self.of.get(&around) {
                if store.autograd(around) == Some(number) {
                    self.of.insert(slice, *node);
                    return;
                }
                break;
            }
            caller = callers.caller(around);
        }
        let node = self.numbered.len();
        self.of.insert(slice, node);
        if let Some(thread) = store.thread_of(slice) {
            self.by_thread.entry(thread).or_default().push(node);
        }
        self.numbered.push(Node {
            outermost: slice,
            process: process(store, slice),
            sequence: number.sequence,
            forward_thread: number.forward_thread,
        });
    }

    fn add_unnumbered(&mut self, store: &Store, callers: &mut Callers<'_>, slice: SliceId) {
        let is_inner = callers.caller(slice).is_some_and(|caller| self.runs_node(store, caller));
        if !is_inner {
            self.unnumbered.push(slice);
        }
    }

    /// The last numbered node that began before an operator on its thread.
    pub(super) fn last_before(&self, store: &Store, slice: SliceId) -> Option<usize> {
        let nodes = self.by_thread.get(&store.thread_of(slice)?)?;
        let before = nodes.partition_point(|node| self.numbered[*node].outermost < slice);
        nodes[..before].last().copied()
    }

    /// The operators of each node.
    pub(super) fn operators_of(&self) -> Vec<Vec<SliceId>> {
        let mut operators = vec![Vec::new(); self.numbered.len()];
        self.of.iter().for_each(|(slice, node)| operators[*node].push(*slice));
        operators.iter_mut().for_each(|of| of.sort_unstable());
        operators
    }

    /// The number of forward numbers without a node. `is_asked` is applied to the last of their operators.
    pub(super) fn unused_numbers(&self, is_asked: impl Fn(SliceId) -> bool) -> u64 {
        let used: HashSet<(Process, i64), FixedState> =
            self.numbered.iter().map(|node| (node.process, node.sequence)).collect();
        let is_unused = |(key, operators): &(&(Process, i64), &Vec<SliceId>)| {
            !used.contains(key) && operators.last().is_some_and(|last| is_asked(*last))
        };
        self.operators.iter().filter(is_unused).count() as u64
    }
}
