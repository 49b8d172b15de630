//! Forward and backward: the nodes of the backward pass with the operators of the forward pass that made them, by module, and the
//! collectives among them.
//!
//! `nodes` finds the nodes of a trace, `matching` the operator that made each, `places` where each kernel was launched, and `sums` adds up what they
//! cost. Each kernel is counted once, at the innermost operator of a pair or node that it was launched in. That is not the
//! outermost operator with the number: `aten::linear` has the number of its `aten::t`, and launches the kernels of its `aten::addmm`, which
//! belong to another node.

mod matching;
mod nodes;
mod places;
mod sums;

use std::collections::BTreeMap;

use serde::Serialize;

use super::cost::Order;
pub use super::grouping::NOT_RECORDED;
use super::losses::Losses;
use crate::id::SliceId;
use crate::names::frames::{UserCode, is_node_of};
use crate::store::Store;
use crate::time::Ns;

pub use sums::pairs;

/// What is asked of pairs.
#[derive(Debug, Clone, Default)]
pub struct PairOptions {
    /// Keep names of modules as they are. Otherwise digits at their ends are folded ([`crate::names::frames::fold`]).
    pub exact_names: bool,
    /// Which code is the user's own: what is called a headline.
    pub user_code: UserCode,
}

/// The pairs of one trace or several.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PairReport {
    /// The traces.
    pub traces: Vec<String>,
    /// How the pairs were found, and how far that can be trusted.
    pub pairing: Pairing,
    /// Where the kernels of the window were launched. The parts add up to the whole.
    pub kernels: Launchers,
    /// What the forward operators of all pairs cost.
    pub forward: Side,
    /// What all nodes with a number cost.
    pub backward: Side,
    /// What all nodes without one cost.
    pub unnumbered: Side,
    /// How long the kernels ran that the nodes of pairs launched, without collectives.
    #[serde(skip)]
    pub paired_time: Ns,
    /// What the backward pass of each module costs.
    pub modules: Vec<Module>,
    /// The nodes of the backward pass by module, forward operator and name. They add up to the modules.
    pub groups: Vec<PairedNodes>,
    /// What is wrong with the traces.
    pub damage: Losses,
}

/// How pairs were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pairing {
    /// The nodes with a number that began in the window, or launched a kernel that is in it.
    pub nodes: u64,
    /// Those whose forward operator is known.
    pub paired: u64,
    /// Those for which the numbers alone say which operator it is.
    pub by_number: u64,
    /// Those without one.
    pub orphans: u64,
    /// The pairs in which PyTorch derives the node's name from the operator's.
    pub named_alike: u64,
    /// How long the kernels of the nodes of the other pairs ran.
    #[serde(rename = "named_otherwise_ns")]
    pub named_otherwise: Ns,
    /// The profiler's flows from the forward pass to these nodes, and those that arrive at no node.
    pub flows: u64,
    /// The nodes at which a flow arrives.
    pub nodes_with_flow: u64,
    /// Those of them for which the numbers alone say which operator it is: what can be compared.
    pub checked: u64,
    /// Those at which both say the same node: the flow comes from an operator of the same thread with the same number.
    pub agreed: u64,
    /// Those at which both say the same operator.
    pub agreed_exactly: u64,
    /// The nodes without a number: those that add up gradients and run hooks.
    pub unnumbered: u64,
    /// Numbers of operators of the forward pass of which no node ran: what needs no gradient, and what runs after the trace.
    pub unused_numbers: u64,
    /// What is not as it should be, or needed a decision.
    pub findings: BTreeMap<Problem, Finding>,
}

/// What is not as it should be with a node, or what needed a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Problem {
    /// No operator has the node's number: the forward pass began before the trace, or ran where nothing is recorded.
    Orphan,
    /// Operators have the number, but on another thread than those of the other nodes from the same forward thread. Each thread
    /// counts for itself, so these made another node.
    OtherThread,
    /// Operators of several threads have the number, and nothing decides between them.
    Undecided,
    /// The flow comes from an operator of another process: ranks in one file number their flows alike.
    FlowFromOtherProcess,
    /// The flow comes from a slice without the node's number.
    FlowFromOtherNumber,
    /// The flow comes from an operator with the number, but of another thread.
    FlowFromOtherThread,
    /// A flow arrives at a slice that is no node.
    FlowToNoNode,
    /// The flow comes from another operator with the number on the same thread: one around the one that made the node, or before it.
    /// That is the same node.
    FlowFromSameNumber,
    /// The node's name is not derived from the operator's: another operator made it, which is not in the trace under a name of its own, or one that
    /// runs many, such as a TorchScript graph.
    NamedOtherwise,
    /// Operators of several threads have the number; decided by the thread on which the other nodes from this forward thread were made.
    SeveralThreads,
    /// Several operators in one another have the number; the innermost made the node.
    Nested,
    /// Several operators that follow each other have the number; the last made the node.
    Successive,
    /// Another node with the number ran before, from the same operator: a graph that was kept, or part of it.
    RanAgain,
}

/// How often a problem was found, and the first few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How many nodes, or flows.
    pub count: u64,
    /// The first few.
    pub examples: Vec<Example>,
}

/// A node with a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Example {
    /// The trace, if there are several.
    pub trace: Option<String>,
    /// The node, or the slice at which the flow arrives.
    pub node: Operator,
    /// Its number.
    pub number: Option<i64>,
    /// The forward operator that was taken.
    pub operator: Option<Operator>,
    /// The other that may be meant: that of the flow, or of the other thread.
    pub other: Option<Operator>,
}

/// An operator of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Its start on the trace's own clock.
    #[serde(rename = "ts_ns")]
    pub ts: Ns,
}

/// What some operators cost, and the kernels launched in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// How many operators: of the forward pass those that made a node, of the backward pass the nodes.
    pub operators: u64,
    /// How long they ran on the CPU, each with all that it called: one in another counts twice.
    #[serde(rename = "cpu_time_ns")]
    pub cpu_time: Ns,
    /// What they launched.
    #[serde(flatten)]
    pub load: Load,
}

/// What some kernels cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Load {
    /// How many kernels other than collectives.
    pub kernels: u64,
    /// How long these ran.
    #[serde(rename = "gpu_time_ns")]
    pub gpu_time: Ns,
    /// Those of these kernels that an operator of a forward pass launched within the backward pass: recomputed activations, or gradients that
    /// are differentiated again.
    pub recomputed: u64,
    /// How long these ran.
    #[serde(rename = "recomputed_ns")]
    pub recomputed_time: Ns,
    /// How many kernels of collectives.
    pub collectives: u64,
    /// How long these ran.
    #[serde(rename = "collective_time_ns")]
    pub collective_time: Ns,
    /// How long of that no other kernel ran beside them on their GPU.
    #[serde(rename = "collective_exposed_ns")]
    pub exposed: Ns,
}

/// The kernels of the window by where they were launched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Launchers {
    /// All.
    pub all: Load,
    /// In a forward operator of a pair.
    pub forward: Load,
    /// In a node with a number.
    pub numbered: Load,
    /// In a node without one.
    pub unnumbered: Load,
    /// Elsewhere, or nobody knows where.
    pub elsewhere: Load,
}

/// What ties nodes to their module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tie {
    /// The forward operator, found by number or flow.
    Pair,
    /// The nodes have no number. They ran after a node of this module on the same thread: the last before them. Hooks of data parallelism run in these,
    /// when the last gradient of their bucket is there.
    LastNodeBefore,
    /// Nothing: the forward operator is not in the trace.
    Orphan,
    /// Nothing: the nodes have no number, and none with one ran before them.
    None,
}

impl Tie {
    /// Whether the nodes have a number.
    pub fn is_numbered(self) -> bool {
        matches!(self, Tie::Pair | Tie::Orphan)
    }
}

/// Nodes of one name whose operators have one name, one headline and one module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PairedNodes {
    /// The module of the forward operator: the path of its `nn.Module` frames, else its `Module Hierarchy`, else [`NOT_RECORDED`].
    pub module: String,
    /// The operator of the forward pass.
    pub operator: Option<String>,
    /// Whether the node is named after the operator; `None` without one.
    pub named_alike: Option<bool>,
    /// The innermost function of the user's own code that called it.
    pub headline: Option<String>,
    /// The node of the backward pass.
    pub node: String,
    /// What ties the node to the module.
    pub tie: Tie,
    /// What the forward operators cost.
    pub forward: Side,
    /// What the nodes cost.
    pub backward: Side,
}

/// What the backward pass of a module costs, without those of the modules in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Module {
    /// Its path.
    pub module: String,
    /// What the forward operators of its pairs cost.
    pub forward: Side,
    /// What the nodes with a number cost.
    pub backward: Side,
    /// What the nodes without a number cost that ran after these: [`Tie::LastNodeBefore`].
    pub unnumbered: Side,
    /// The GPU time of the nodes of its pairs for each of their forward operators', both without collectives; `None` if the latter is 0.
    pub ratio: Option<f64>,
}

impl Operator {
    fn read(store: &Store, slice: SliceId) -> Self {
        Operator { name: store.slice_name(slice).to_owned(), ts: store.slices.ts(slice) }
    }
}

impl Load {
    /// Adds others.
    pub fn add(&mut self, other: Load) {
        self.kernels += other.kernels;
        self.gpu_time += other.gpu_time;
        self.recomputed += other.recomputed;
        self.recomputed_time += other.recomputed_time;
        self.collectives += other.collectives;
        self.collective_time += other.collective_time;
        self.exposed += other.exposed;
    }

    /// How long all kernels ran.
    pub fn whole_time(&self) -> Ns {
        self.gpu_time + self.collective_time
    }
}

impl Side {
    fn add(&mut self, other: Side) {
        self.operators += other.operators;
        self.cpu_time += other.cpu_time;
        self.load.add(other.load);
    }
}

impl Module {
    /// The collectives of its backward pass, in nodes with a number and after them.
    pub fn collectives(&self) -> Load {
        let mut load = self.backward.load;
        load.add(self.unnumbered.load);
        load
    }
}

impl Pairing {
    /// The share of the nodes whose operator is known; `None` without nodes.
    pub fn share_paired(&self) -> Option<f64> {
        (self.nodes > 0).then(|| self.paired as f64 / self.nodes as f64)
    }

    /// The share of the compared nodes at which numbers and flows agree; `None` if there is nothing to compare.
    pub fn agreement(&self) -> Option<f64> {
        (self.checked > 0).then(|| self.agreed as f64 / self.checked as f64)
    }

    /// How often a problem was found.
    pub fn count(&self, problem: Problem) -> u64 {
        self.findings.get(&problem).map_or(0, |finding| finding.count)
    }

    fn add(&mut self, other: Pairing) {
        self.nodes += other.nodes;
        self.paired += other.paired;
        self.by_number += other.by_number;
        self.orphans += other.orphans;
        self.named_alike += other.named_alike;
        self.flows += other.flows;
        self.nodes_with_flow += other.nodes_with_flow;
        self.checked += other.checked;
        self.agreed += other.agreed;
        self.agreed_exactly += other.agreed_exactly;
        self.unnumbered += other.unnumbered;
        self.unused_numbers += other.unused_numbers;
        for (problem, finding) in other.findings {
            let of = self.findings.entry(problem).or_default();
            of.count += finding.count;
            of.examples.extend(finding.examples);
            of.examples.truncate(matching::EXAMPLES);
        }
    }
}

impl PairReport {
    /// The answer of several traces: sums over all of them.
    pub fn merge(parts: Vec<PairReport>) -> Self {
        let (mut report, mut groups) = (PairReport::default(), Vec::new());
        let several = parts.len() > 1;
        for mut part in parts {
            if several {
                let name = part.traces.first().cloned();
                let findings = part.pairing.findings.values_mut();
                findings.flat_map(|finding| &mut finding.examples).for_each(|of| of.trace.clone_from(&name));
            }
            report.traces.extend(part.traces);
            report.pairing.add(part.pairing);
            report.damage.add(part.damage);
            let (all, of) = (&mut report.kernels, part.kernels);
            all.all.add(of.all);
            all.forward.add(of.forward);
            all.numbered.add(of.numbered);
            all.unnumbered.add(of.unnumbered);
            all.elsewhere.add(of.elsewhere);
            groups.extend(part.groups);
        }
        report.set_groups(groups);
        report
    }

    /// Adds up equal groups, and the groups of each module.
    fn set_groups(&mut self, groups: Vec<PairedNodes>) {
        type Key = (String, Option<String>, Option<String>, String, Tie);
        let mut sums: BTreeMap<Key, (Side, Side)> = BTreeMap::new();
        for group in groups {
            let key = (group.module, group.operator, group.headline, group.node, group.tie);
            let (forward, backward) = sums.entry(key).or_default();
            forward.add(group.forward);
            backward.add(group.backward);
        }
        let group = |((module, operator, headline, node, tie), (forward, backward)): (Key, (Side, Side))| PairedNodes {
            module,
            named_alike: operator.as_ref().map(|operator| is_node_of(&node, operator)),
            operator,
            headline,
            node,
            tie,
            forward,
            backward,
        };
        self.groups = sums.into_iter().map(group).collect();
        let mut modules: BTreeMap<&str, Module> = BTreeMap::new();
        let mut paired: BTreeMap<&str, Ns> = BTreeMap::new();
        for group in &self.groups {
            if group.tie == Tie::Pair {
                *paired.entry(&group.module).or_default() += group.backward.load.gpu_time;
            }
            let module = modules.entry(&group.module).or_default();
            module.forward.add(group.forward);
            self.forward.add(group.forward);
            let (side, whole) = match group.tie.is_numbered() {
                true => (&mut module.backward, &mut self.backward),
                false => (&mut module.unnumbered, &mut self.unnumbered),
            };
            side.add(group.backward);
            whole.add(group.backward);
            if group.named_alike == Some(false) {
                self.pairing.named_otherwise += group.backward.load.whole_time();
            }
        }
        let module = |(name, of): (&str, Module)| Module {
            module: name.to_owned(),
            ratio: paired.get(name).and_then(|time| time.share_of(of.forward.load.gpu_time)),
            ..of
        };
        let modules: Vec<Module> = modules.into_iter().map(module).collect();
        self.paired_time = paired.into_values().sum();
        self.modules = modules;
        self.arrange(Order::GpuTime);
    }

    /// Orders modules and groups by the number of their nodes, the GPU time of these with all collectives, the exposed time of the collectives or
    /// the mean GPU time of a node.
    pub fn arrange(&mut self, order: Order) {
        let by = |nodes: u64, load: Load| match order {
            Order::Count => nodes as f64,
            Order::GpuTime => load.whole_time().as_f64(),
            Order::Exposed => load.exposed.as_f64(),
            Order::Mean => load.whole_time().as_f64() / nodes.max(1) as f64,
        };
        let of_module = |module: &Module| by(module.backward.operators, module.collectives());
        self.modules.sort_by(|a, b| of_module(b).total_cmp(&of_module(a)));
        let of_group = |group: &PairedNodes| by(group.backward.operators, group.backward.load);
        self.groups.sort_by(|a, b| of_group(b).total_cmp(&of_group(a)));
    }
}
