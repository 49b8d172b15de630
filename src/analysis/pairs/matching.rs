//! Which forward operator made each node of the backward pass: by sequence number, and by the profiler's flow.
//!
//! PyTorch gives a forward operator the number that its thread's next node will get. So an operator that makes no node has the number of the next one
//! that does; enclosing operators have the number of the first node made inside them; and the operator that made the node is the last one with its
//! number. For example, `aten::linear` and `aten::t` both have the number of `TBackward0`, which belongs to `aten::t`. The forward thread id is
//! PyTorch's own, so its thread is learned from nodes whose number occurs on a single thread.
//!
//! Kineto derives its `fwdbwd` flows from the same numbers in the same way. Agreement shows that the numbers were read and matched as intended, not
//! that an operator made the node. The names show that ([`is_node_of`]); PyTorch derives a node's name from the operator's.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::nodes::{Node, Nodes, Process, process};
use super::{Example, Operator, Pairing, Problem};
use crate::id::{SliceId, ThreadId};
use crate::names::frames::{FORWARD_BACKWARD, is_node_of, node as node_name};
use crate::store::Store;
use crate::time::Ns;

/// How many operators with a node's number are considered, latest before it first. If there are more, the numbers do not count what they should.
const MAX_OPERATORS: usize = 1_000;

/// How many examples of each problem are kept.
pub(super) const EXAMPLES: usize = 3;

/// What the numbers alone show about a node.
enum ByNumber {
    /// The operator, and a problem if other operators on its thread share the number.
    Operator(SliceId, Option<Problem>),
    /// No operator has the number.
    Orphan(Problem, Option<SliceId>),
    /// Operators of several threads have the number; this is the last of them.
    Undecided(SliceId),
}

/// Finds pairs.
pub(super) struct Matcher<'a> {
    store: &'a Store,
    nodes: &'a Nodes,
    /// By process and forward thread id: the thread.
    threads: HashMap<(Process, i64), ThreadId, FixedState>,
    /// By operator: the slices from which `fwdbwd` flows come.
    flows_in: HashMap<SliceId, Vec<SliceId>, FixedState>,
    pub(super) pairing: Pairing,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(store: &'a Store, nodes: &'a Nodes) -> Self {
        let label = store.strings.find(FORWARD_BACKWARD);
        let flows = &store.flows;
        let mut flows_in: HashMap<SliceId, Vec<SliceId>, FixedState> = HashMap::default();
        for flow in (0..flows.len()).filter(|flow| label.is_some() && Some(flows.label[*flow].1) == label) {
            flows_in.entry(flows.slice_in[flow]).or_default().push(flows.slice_out[flow]);
        }
        let mut matcher = Matcher { store, nodes, threads: HashMap::default(), flows_in, pairing: Pairing::default() };
        matcher.threads = matcher.learn_threads();
        matcher
    }

    /// The operators with a node's number that began before it, latest first.
    fn candidates(&self, node: &Node) -> impl Iterator<Item = SliceId> + use<'a> {
        let all = self.nodes.operators.get(&(node.process, node.sequence)).map_or(&[][..], Vec::as_slice);
        let before = &all[..all.partition_point(|operator| *operator < node.outermost)];
        before.iter().rev().take(MAX_OPERATORS).copied()
    }

    /// The thread that each forward thread id means: the thread with more than half of the nodes whose number occurs on a single thread.
    fn learn_threads(&self) -> HashMap<(Process, i64), ThreadId, FixedState> {
        let mut votes: HashMap<(Process, i64), BTreeMap<ThreadId, u64>, FixedState> = HashMap::default();
        for node in &self.nodes.numbered {
            let mut threads = self.candidates(node).map(|operator| self.store.thread_of(operator));
            if let Some(Some(thread)) = threads.next()
                && threads.all(|other| other == Some(thread))
            {
                *votes.entry((node.process, node.forward_thread)).or_default().entry(thread).or_default() += 1;
            }
        }
        let most = |votes: BTreeMap<ThreadId, u64>| {
            let all: u64 = votes.values().sum();
            votes.into_iter().find(|(_, of_thread)| *of_thread * 2 > all).map(|(thread, _)| thread)
        };
        votes.into_iter().filter_map(|(key, votes)| Some((key, most(votes)?))).collect()
    }

    fn by_number(&self, node: &Node) -> ByNumber {
        let thread_of = |operator: SliceId| self.store.thread_of(operator);
        let meant = self.threads.get(&(node.process, node.forward_thread)).copied();
        let mut candidates = self.candidates(node).peekable();
        let Some(latest) = candidates.peek().copied() else { return ByNumber::Orphan(Problem::Orphan, None) };
        let all: Vec<SliceId> = candidates.collect();
        let several = all.iter().any(|other| thread_of(*other) != thread_of(latest));
        let Some(thread) = meant.or_else(|| thread_of(latest).filter(|_| !several)) else {
            return ByNumber::Undecided(latest);
        };
        let mut on_thread = all.iter().copied().filter(|operator| thread_of(*operator) == Some(thread));
        let Some(last) = on_thread.next() else { return ByNumber::Orphan(Problem::OtherThread, Some(latest)) };
        let end = |slice: SliceId| self.store.slices.ts(slice) + self.store.slices.dur(slice).max(Ns::ZERO);
        let (mut others, mut around) = (0, 0);
        for other in on_thread {
            others += 1;
            around += u64::from(end(other) >= end(last));
        }
        let duplicate = match (several, others) {
            (true, _) => Some(Problem::SeveralThreads),
            (false, 0) => None,
            (false, others) if others == around => Some(Problem::Nested),
            (false, _) => Some(Problem::Successive),
        };
        ByNumber::Operator(last, duplicate)
    }

    /// The flows that arrive at a node's operators.
    fn flows(&self, operators: &[SliceId]) -> Vec<SliceId> {
        operators.iter().filter_map(|slice| self.flows_in.get(slice)).flatten().copied().collect()
    }

    /// The operator that a node's flow comes from, if it has the node's number.
    fn by_flow(&self, node: &Node, flows: &[SliceId]) -> Option<SliceId> {
        let store = self.store;
        let is_its = |from: &SliceId| {
            let number = store.autograd(*from);
            number.is_some_and(|number| number.sequence == node.sequence && number.forward_thread == 0)
                && process(store, *from) == node.process
        };
        flows.iter().copied().find(is_its)
    }

    /// The operator that made a node, given the node's operators.
    pub(super) fn operator(&self, at: usize, operators: &[SliceId]) -> Option<SliceId> {
        let node = &self.nodes.numbered[at];
        match self.by_number(node) {
            ByNumber::Operator(operator, _) => Some(operator),
            ByNumber::Orphan(..) | ByNumber::Undecided(_) => self.by_flow(node, &self.flows(operators)),
        }
    }

    /// Finds the operator that made a node, and counts the result.
    pub(super) fn pair(&mut self, at: usize, operators: &[SliceId]) -> Option<SliceId> {
        let node = self.nodes.numbered[at];
        let flows = self.flows(operators);
        self.pairing.nodes += 1;
        self.pairing.flows += flows.len() as u64;
        self.pairing.nodes_with_flow += u64::from(!flows.is_empty());
        let operator = match self.by_number(&node) {
            ByNumber::Operator(operator, duplicate) => {
                self.pairing.by_number += 1;
                if let Some(problem) = duplicate {
                    self.find(problem, &node, Some(operator), None);
                }
                self.check(&node, operator, &flows);
                Some(operator)
            }
            ByNumber::Orphan(problem, other) => {
                self.by_flow(&node, &flows).or_else(|| self.unpaired(problem, &node, other))
            }
            ByNumber::Undecided(latest) => {
                self.by_flow(&node, &flows).or_else(|| self.unpaired(Problem::Undecided, &node, Some(latest)))
            }
        }?;
        self.pairing.paired += 1;
        if is_node_of(node_name(self.store.slice_name(node.outermost)), self.store.slice_name(operator)) {
            self.pairing.named_alike += 1;
        } else {
            self.find(Problem::NamedOtherwise, &node, Some(operator), None);
        }
        Some(operator)
    }

    /// Counts a node without an operator.
    fn unpaired(&mut self, problem: Problem, node: &Node, other: Option<SliceId>) -> Option<SliceId> {
        self.pairing.orphans += 1;
        self.find(problem, node, None, other);
        None
    }

    /// Compares the numbers with the flows that arrive at a node. Operators on one thread with the node's number are nested or make no node, so a
    /// flow from any of them means this node.
    fn check(&mut self, node: &Node, operator: SliceId, flows: &[SliceId]) {
        let store = self.store;
        if flows.is_empty() {
            return;
        }
        self.pairing.checked += 1;
        let number = |slice: SliceId| store.autograd(slice).map(|number| number.sequence);
        let problem = |from: SliceId| {
            if from == operator {
                None
            } else if process(store, from) != node.process {
                Some(Problem::FlowFromOtherProcess)
            } else if number(from) != Some(node.sequence) {
                Some(Problem::FlowFromOtherNumber)
            } else if store.thread_of(from) != store.thread_of(operator) {
                Some(Problem::FlowFromOtherThread)
            } else {
                Some(Problem::FlowFromSameNumber)
            }
        };
        let disagrees =
            |problem: Option<Problem>| problem.is_some_and(|problem| problem != Problem::FlowFromSameNumber);
        let (mut agreed, mut same, mut other) = (true, true, None);
        for from in flows.iter().copied() {
            same &= problem(from).is_none();
            if disagrees(problem(from)) {
                agreed = false;
            }
            if let (Some(problem), None) = (problem(from), other) {
                other = Some((problem, from));
            }
        }
        self.pairing.agreed += u64::from(agreed);
        self.pairing.agreed_exactly += u64::from(same);
        if let Some((problem, from)) = other {
            self.find(problem, node, Some(operator), Some(from));
        }
    }

    /// Counts the flows that arrive at no node.
    pub(super) fn count_other_flows(&mut self, is_asked: impl Fn(SliceId) -> bool) {
        let mut others: Vec<(SliceId, SliceId)> = Vec::new();
        for (into, from) in &self.flows_in {
            if !self.nodes.of.contains_key(into) && is_asked(*into) {
                others.extend(from.iter().map(|from| (*into, *from)));
            }
        }
        others.sort_unstable();
        for (into, from) in others {
            self.pairing.flows += 1;
            let store = self.store;
            self.note(Problem::FlowToNoNode, || Example {
                trace: None,
                node: Operator::read(store, into),
                number: None,
                operator: None,
                other: Some(Operator::read(store, from)),
            });
        }
    }

    /// Counts a node that ran before.
    pub(super) fn ran_again(&mut self, at: usize, operator: SliceId) {
        let node = self.nodes.numbered[at];
        self.find(Problem::RanAgain, &node, Some(operator), None);
    }

    fn find(&mut self, problem: Problem, node: &Node, operator: Option<SliceId>, other: Option<SliceId>) {
        let store = self.store;
        let of = |slice: SliceId| Operator::read(store, slice);
        self.note(problem, || Example {
            trace: None,
            node: of(node.outermost),
            number: Some(node.sequence),
            operator: operator.map(of),
            other: other.map(of),
        });
    }

    fn note(&mut self, problem: Problem, example: impl FnOnce() -> Example) {
        let finding = self.pairing.findings.entry(problem).or_default();
        finding.count += 1;
        if finding.examples.len() < EXAMPLES {
            finding.examples.push(example());
        }
    }
}
