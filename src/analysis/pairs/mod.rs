//! Pairs the nodes of the backward pass with the forward operators that made them, by module, including the collectives among them.
//!
//! `nodes` finds the nodes of a trace, `matching` the operator that made each, `places` where each kernel was launched, and `sums` adds up their
//! cost. Each kernel is counted once, at the innermost operator of a pair or node that launched it. That is not the outermost operator with the
//! number: `aten::linear` has the number of its `aten::t`, but launches the kernels of its `aten::addmm`, which belong to another node.

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

#[derive(Debug, Clone, Default)]
pub struct PairOptions {
    /// Keep module names as they are. By default, trailing digits are folded ([`crate::names::frames::fold`]).
    pub exact_names: bool,
    /// Which code is the user's own; headlines come from it.
    pub user_code: UserCode,
}

/// The pairs of one or more traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairReport {
    /// The names of the traces that are added up.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub traces: Vec<String>,
    /// How the pairs were found, and how reliable they are.
    pub pairing: Pairing,
    /// Where the kernels of the window were launched. The parts add up to the total.
    pub kernels: Launchers,
    /// What the forward operators of all pairs cost. All of their kernels count, also those outside the window.
    pub forward: Side,
    /// What all numbered nodes cost.
    pub backward: Side,
    /// What all unnumbered nodes cost.
    pub unnumbered: Side,
    /// The GPU time of the nodes of pairs, without collectives.
    #[serde(skip)]
    pub paired_time: Ns,
    /// What the backward pass of each module costs, in the order that was asked for.
    pub modules: Vec<Module>,
    /// The nodes of the backward pass by module, forward operator and name, in the order that was asked for. They add up to the modules.
    pub groups: Vec<PairedNodes>,
    /// What is wrong with the traces.
    pub damage: Losses,
}

/// How pairs were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pairing {
    /// The number of numbered nodes that began in the window or launched a kernel in it.
    pub nodes: u64,
    /// The number of nodes whose forward operator is known.
    pub paired: u64,
    /// The number of nodes whose operator is determined by the numbers alone.
    pub by_number: u64,
    /// The number of nodes without a known operator: `nodes` less `paired`.
    pub orphans: u64,
    /// The number of pairs in which the node's name derives from the operator's.
    pub named_alike: u64,
    /// The GPU time of the nodes in the other pairs, including collectives.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub named_otherwise_ns: Ns,
    /// The number of the profiler's flows (`fwdbwd`) from the forward pass to these nodes, plus those in the window that arrive at no node.
    pub flows: u64,
    /// The number of nodes at which a flow arrives.
    pub nodes_with_flow: u64,
    /// The number of nodes with a flow whose operator is determined by the numbers alone, so that both can be compared.
    pub checked: u64,
    /// The number of nodes for which both agree on the node: the flow comes from an operator on the same thread with the same number.
    pub agreed: u64,
    /// The number of nodes for which both agree on the operator.
    pub agreed_exactly: u64,
    /// The number of unnumbered nodes: they accumulate gradients and run hooks.
    pub unnumbered: u64,
    /// How many numbers of forward operators have no node in the trace: the operators need no gradient, or the node ran after the trace.
    pub unused_numbers: u64,
    /// Irregularities, and choices that had to be made.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Words<Problem, Finding>"))]
    pub findings: BTreeMap<Problem, Finding>,
}

/// An irregularity of a node, or a choice that had to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// No operator has the node's number: the forward pass began before the trace, or ran where nothing is recorded.
    Orphan,
    /// Operators have the number, but on another thread than the operators of the other nodes from the same forward thread. Threads count separately,
    /// so these made another node.
    OtherThread,
    /// Operators of several threads have the number, and nothing decides between them.
    Undecided,
    /// The flow comes from an operator of another process: ranks in one file reuse flow ids.
    FlowFromOtherProcess,
    /// The flow comes from a slice with another number.
    FlowFromOtherNumber,
    /// The flow comes from an operator with the number, but on another thread.
    FlowFromOtherThread,
    /// A flow arrives at a slice that is not a node.
    FlowToNoNode,
    /// The flow comes from another operator with the number on the same thread: one that encloses the operator that made the node, or ran before it.
    /// It means the same node.
    FlowFromSameNumber,
    /// The node's name does not derive from the operator's: another operator made it, which has no entry of its own in the trace, or runs many
    /// operators, such as a TorchScript graph.
    NamedOtherwise,
    /// Operators of several threads have the number; the thread that made the other nodes of this forward thread decided.
    SeveralThreads,
    /// Several nested operators have the number; the innermost made the node.
    Nested,
    /// Several successive operators have the number; the last made the node.
    Successive,
    /// Another node with the number ran before, from the same operator: a retained graph, or part of one.
    RanAgain,
}

/// The number of occurrences of a problem, and the first few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The number of nodes or flows.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The first few.
    #[cfg_attr(test, schemars(length(max = 3)))]
    pub examples: Vec<Example>,
}

/// A node with a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Example {
    /// The trace; `None` if there is only one.
    pub trace: Option<String>,
    /// The node, or the slice at which the flow arrives.
    pub node: Operator,
    /// Its sequence number; `None` for a slice that is not a node.
    pub number: Option<i64>,
    /// The forward operator that was chosen; `None` without one.
    pub operator: Option<Operator>,
    /// The alternative: the operator of the flow, or of the other thread; `None` without one.
    pub other: Option<Operator>,
}

/// An operator of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Its start on the trace's own clock, in ns.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub ts_ns: Ns,
}

/// What operators cost, with the kernels launched in them. A kernel counts once, at the innermost operator of a pair or node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// The number of operators: in the forward pass those that made a node, each once; in the backward pass the nodes, as often as they ran.
    pub operators: u64,
    /// How long they ran on the CPU, including everything they called: nested operators count twice.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub cpu_time_ns: Ns,
    /// What they launched.
    #[serde(flatten)]
    pub load: Load,
}

/// What kernels cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Load {
    /// The number of kernels that are not collectives.
    pub kernels: u64,
    /// How long these ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_time_ns: Ns,
    /// The number of those kernels launched by forward operators within the backward pass: recomputed activations, or gradients that are
    /// differentiated again.
    pub recomputed: u64,
    /// How long these ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub recomputed_ns: Ns,
    /// The number of collective kernels.
    pub collectives: u64,
    /// How long these ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub collective_time_ns: Ns,
    /// How much of that time no other kernel but collectives ran on their GPU.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub collective_exposed_ns: Ns,
}

/// The kernels of the window by the place of their launch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Launchers {
    /// All kernels.
    pub all: Load,
    /// In a forward operator of a pair.
    pub forward: Load,
    /// In a numbered node.
    pub numbered: Load,
    /// In an unnumbered node.
    pub unnumbered: Load,
    /// Elsewhere, or unknown.
    pub elsewhere: Load,
}

/// What ties nodes to their module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tie {
    /// The forward operator, found by number or flow.
    Pair,
    /// The nodes are unnumbered and ran on the same thread after a node of this module, the last one before them. Data parallelism runs its hooks in
    /// such nodes, when the last gradient of their bucket is ready.
    LastNodeBefore,
    /// Nothing: the forward operator is not in the trace.
    Orphan,
    /// Nothing: the nodes are unnumbered, and no numbered node ran before them.
    None,
}

impl Tie {
    /// Whether the nodes are numbered.
    pub fn is_numbered(self) -> bool {
        matches!(self, Tie::Pair | Tie::Orphan)
    }
}

/// Nodes of one name whose operators share their name, headline and module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairedNodes {
    /// The module of the forward operator: the path of its `nn.Module` frames, joined by dots; otherwise its `Module Hierarchy`; otherwise `(not
    /// recorded)`.
    pub module: String,
    /// The operator of the forward pass; `None` without one.
    pub operator: Option<String>,
    /// Whether the node is named after the operator; `None` without an operator.
    pub named_alike: Option<bool>,
    /// The innermost function of the user's own code that called the operator; `None` if none is recorded.
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

/// What the backward pass of a module costs, excluding nested modules.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Module {
    /// Its path, as in `groups`.
    pub module: String,
    /// What the forward operators of its pairs cost.
    pub forward: Side,
    /// What the numbered nodes cost.
    pub backward: Side,
    /// What the unnumbered nodes that ran after them on the same thread cost.
    pub unnumbered: Side,
    /// The GPU time of the nodes of its pairs divided by that of their forward operators, both without collectives; `None` if the latter is 0.
    pub ratio: Option<f64>,
}

impl Operator {
    fn read(store: &Store, slice: SliceId) -> Self {
        Operator { name: store.slice_name(slice).to_owned(), ts_ns: store.slices.ts(slice) }
    }
}

impl Load {
    /// Adds another load.
    pub fn add(&mut self, other: Load) {
        self.kernels += other.kernels;
        self.gpu_time_ns += other.gpu_time_ns;
        self.recomputed += other.recomputed;
        self.recomputed_ns += other.recomputed_ns;
        self.collectives += other.collectives;
        self.collective_time_ns += other.collective_time_ns;
        self.collective_exposed_ns += other.collective_exposed_ns;
    }

    /// The GPU time of all kernels.
    pub fn whole_time(&self) -> Ns {
        self.gpu_time_ns + self.collective_time_ns
    }
}

impl Side {
    fn add(&mut self, other: Side) {
        self.operators += other.operators;
        self.cpu_time_ns += other.cpu_time_ns;
        self.load.add(other.load);
    }
}

impl Module {
    /// The collectives of its backward pass, in numbered nodes and after them.
    pub fn collectives(&self) -> Load {
        let mut load = self.backward.load;
        load.add(self.unnumbered.load);
        load
    }
}

impl Pairing {
    /// The share of nodes whose operator is known; `None` without nodes.
    pub fn share_paired(&self) -> Option<f64> {
        (self.nodes > 0).then(|| self.paired as f64 / self.nodes as f64)
    }

    /// The share of compared nodes for which numbers and flows agree; `None` if there are none.
    pub fn agreement(&self) -> Option<f64> {
        (self.checked > 0).then(|| self.agreed as f64 / self.checked as f64)
    }

    /// The number of occurrences of a problem.
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
    /// Merges the answers of several traces by adding them up.
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

    /// Merges equal groups, and adds up the groups of each module.
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
                *paired.entry(&group.module).or_default() += group.backward.load.gpu_time_ns;
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
                self.pairing.named_otherwise_ns += group.backward.load.whole_time();
            }
        }
        let module = |(name, of): (&str, Module)| Module {
            module: name.to_owned(),
            ratio: paired.get(name).and_then(|time| time.share_of(of.forward.load.gpu_time_ns)),
            ..of
        };
        let modules: Vec<Module> = modules.into_iter().map(module).collect();
        self.paired_time = paired.into_values().sum();
        self.modules = modules;
        self.arrange(Order::GpuTime);
    }

    /// Sorts modules and groups by the number of their nodes, the nodes' GPU time including all collectives, the exposed time of the collectives or
    /// the mean GPU time of a node.
    pub fn arrange(&mut self, order: Order) {
        let by = |nodes: u64, load: Load| match order {
            Order::Count => nodes as f64,
            Order::GpuTime => load.whole_time().as_f64(),
            // A critical path is not asked of pairs.
            Order::Exposed | Order::Critical => load.collective_exposed_ns.as_f64(),
            Order::Mean => load.whole_time().as_f64() / nodes.max(1) as f64,
        };
        let of_module = |module: &Module| by(module.backward.operators, module.collectives());
        self.modules.sort_by(|a, b| of_module(b).total_cmp(&of_module(a)));
        let of_group = |group: &PairedNodes| by(group.backward.operators, group.backward.load);
        self.groups.sort_by(|a, b| of_group(b).total_cmp(&of_group(a)));
    }
}
