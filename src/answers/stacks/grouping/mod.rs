//! Groups kernels by any recorded key: the code that launched them, its module, operator, shapes or step, or the kernel's own stream, collective or
//! size.
//!
//! The stack is one of these keys. Each key gives a kernel one value, and kernels with equal values of all keys form a group. "Not recorded" is a
//! value, too, so that the groups add up to all chosen kernels.

mod by_call;
mod by_kernel;
mod keys;
pub mod tree;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

pub use value::{GroupValue, NOT_RECORDED};

pub(crate) use keys::{GroupKey, Keys};

use super::collective_info::CollectiveInfo;
use super::recorded_info::RecordedInfo;
use super::step_costs::StepCost;
use crate::answers::cost::{Cost, Order, Totals};
use crate::attribution::KernelLaunch;
use crate::attribution::selection::Pattern;
use crate::error::Error;
use crate::event::{ArgsWanted, EventsOf, KeySet};
use crate::names::args;
use crate::names::frames::UserCode;

#[derive(Debug, Clone)]
pub enum GroupBy {
    /// The call stack, with the call paths of the capture and of the forward pass.
    Stack,
    /// The frame that best shows where a stack comes from.
    Frame,
    /// The nearest caller whose frame or function matches.
    Function(Pattern),
    /// The modules around the launch: frames of `nn.Module`, or `Module Hierarchy` of its operator.
    Module,
    /// The innermost operator around the launch, ignoring PyTorch's record of a collective.
    Op,
    /// The types and sizes of that operator's inputs.
    Shape,
    /// For backward kernels: the forward operator, with its stack.
    Forward,
    /// The innermost user annotation.
    Annotation,
    /// The step of training or serving that launched the kernel.
    Step,
    Stream,
    /// The process group of a collective.
    Group,
    Collective,
    /// The size class of a collective: a range between powers of two.
    Size,
    /// The rank, or the best label known for it.
    Rank,
    Kernel,
    /// The family of the kernel: nccl, custom-allreduce …, or computation.
    Category,
    /// An argument of the kernel, or of the nearest caller that has it.
    Arg(String),
}

/// The keys without a parameter, by name.
const PLAIN: &[(&str, GroupBy)] = &[
    ("stack", GroupBy::Stack),
    ("frame", GroupBy::Frame),
    ("module", GroupBy::Module),
    ("op", GroupBy::Op),
    ("shape", GroupBy::Shape),
    ("forward", GroupBy::Forward),
    ("annotation", GroupBy::Annotation),
    ("step", GroupBy::Step),
    ("stream", GroupBy::Stream),
    ("group", GroupBy::Group),
    ("collective", GroupBy::Collective),
    ("size", GroupBy::Size),
    ("rank", GroupBy::Rank),
    ("kernel", GroupBy::Kernel),
    ("category", GroupBy::Category),
];

impl GroupBy {
    /// The names of the keys as users type them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|(name, _)| *name).chain(["function:PATTERN", "arg:NAME"])
    }

    /// Parses a key: its name, and a pattern or an argument name after a colon where it takes one.
    /// Errors: if the name is unknown, the pattern invalid, or the argument has no name.
    pub fn parse(text: &str) -> Result<GroupBy, Error> {
        let unknown =
            || Error::BadGroupKey { key: text.to_owned(), known: GroupBy::names().collect::<Vec<_>>().join(", ") };
        match text.split_once(':') {
            Some(("function", pattern)) => Pattern::parse(pattern).map(GroupBy::Function),
            Some(("arg", name)) if !name.is_empty() => Ok(GroupBy::Arg(name.to_owned())),
            Some(_) => Err(unknown()),
            None => PLAIN.iter().find(|(name, _)| *name == text).map(|(_, key)| key.clone()).ok_or_else(unknown),
        }
    }

    /// The name as typed.
    pub fn name(&self) -> String {
        match self {
            GroupBy::Function(pattern) => format!("function:{}", pattern.text()),
            GroupBy::Arg(name) => format!("arg:{name}"),
            plain => {
                let is_it = |(_, key): &&(&str, GroupBy)| std::mem::discriminant(key) == std::mem::discriminant(plain);
                PLAIN.iter().find(is_it).map_or_else(String::new, |(name, _)| (*name).to_owned())
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Grouping {
    /// The keys, outermost first. Without keys, kernels are not grouped.
    pub by: Vec<GroupBy>,
    /// How many levels of modules distinguish groups; `None` for all.
    pub depth: Option<usize>,
}

impl Grouping {
    /// Groups by these keys. A repeated key is dropped.
    pub fn new(mut by: Vec<GroupBy>, depth: Option<usize>) -> Self {
        let mut names: BTreeSet<String> = BTreeSet::new();
        by.retain(|key| names.insert(key.name()));
        Grouping { by, depth }
    }

    /// Whether a key needs the forward pass of backward kernels.
    pub fn needs_forward(&self) -> bool {
        self.by.iter().any(|key| matches!(key, GroupBy::Forward | GroupBy::Module))
    }

    pub fn has_steps(&self) -> bool {
        self.by.iter().any(|key| matches!(key, GroupBy::Step))
    }

    /// Whether kernels are grouped by keys other than their stacks.
    pub fn is_asked(&self) -> bool {
        !self.by.is_empty()
    }

    /// The arguments that a load must keep for the keys, besides those it keeps anyway. The list is leaked, because a program asks its question once.
    pub fn args(&self, wanted: ArgsWanted) -> ArgsWanted {
        let ArgsWanted::Keys(base) = wanted else { return wanted };
        let mut more: Vec<&'static str> = Vec::new();
        let mut of = base.of;
        for key in &self.by {
            match key {
                GroupBy::Module => more.push(args::MODULE_HIERARCHY),
                GroupBy::Shape => more.extend(args::INPUT_DIMS.iter().chain(args::INPUT_TYPES)),
                GroupBy::Arg(name) => {
                    // The key of a nested member is prefixed with the keys above it.
                    let key: &'static str = String::leak(name.clone());
                    more.extend([key, key.split('.').next().unwrap_or(key)]);
                    of = EventsOf::Any;
                }
                _ => {}
            }
        }
        if more.is_empty() {
            return wanted;
        }
        if of == EventsOf::Collectives {
            of = EventsOf::Operators;
        }
        more.extend(base.keys);
        ArgsWanted::Keys(KeySet { keys: more.leak(), of })
    }
}

/// Kernels with equal values of all keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupedKernels {
    /// The value of each key as text. Modules are joined by dots, callers by semicolons, outermost first. A value that is not recorded is `(not
    /// recorded)`.
    #[serde(serialize_with = "as_map")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub key: Vec<(String, GroupValue)>,
    /// The number of kernels; 0 for a step in which none of the chosen kernels was launched.
    pub count: u64,
    /// The number of kernels attributed to a launch, or to the capture of a graph.
    pub attributed: u64,
    /// The totals of each kernel name.
    pub kernels_by_name: BTreeMap<String, Totals>,
    /// What the kernels cost.
    pub cost: Cost,
    /// Their share of the GPU time of all groups, including those left out.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub share_of_groups: f64,
    /// What their collectives move.
    pub messages: CollectiveInfo,
    /// What NCCL's own records say about them; `None` if none of them has a record.
    pub recorded: Option<RecordedInfo>,
    /// What their step cost; `None` unless a key is the step, and for kernels launched outside steps.
    pub step: Option<StepCost>,
}

impl GroupedKernels {
    /// Its path in a tree that nests in the order of the keys: the frames of each value, outermost first.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        self.key.iter().flat_map(|(_, value)| value.path())
    }

    /// The values of its keys, in one line.
    pub fn label(&self) -> String {
        self.key.iter().map(|(_, value)| value.label()).collect::<Vec<_>>().join(" / ")
    }

    /// Sorts steps by time: kernels outside steps come last.
    pub(super) fn place(&self) -> (bool, u64) {
        self.step.as_ref().map_or((true, 0), |step| (false, step.number))
    }

    pub fn totals(&self) -> Totals {
        self.cost.totals(self.count)
    }
}

/// The chosen kernels in groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Grouped {
    /// The keys of `--group-by`, outermost first; empty for stacks.
    pub grouped_by: Vec<String>,
    /// The groups, largest first or in the order that was asked for; steps in order of time. Together they have all kernels of the window,
    /// unattributed ones too, unless some are left out.
    pub groups: Vec<GroupedKernels>,
    /// The groups left out, in no order.
    #[serde(skip)]
    pub hidden: Vec<GroupedKernels>,
    /// The groups that are only added up.
    #[serde(skip)]
    pub others: Others,
    /// The number of groups, including those that `--limit` or `--min-share` left out.
    pub groups_found: u64,
    /// The order of the groups.
    #[serde(skip)]
    pub order: Order,
}

/// How many groups are distinguished if only the largest are asked for. Each takes some KB.
pub const MOST_GROUPS: usize = 10_000;

/// Groups that are only added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    pub groups: u64,
    pub totals: Totals,
}

impl Others {
    pub(super) fn add(&mut self, totals: Totals) {
        self.groups += 1;
        self.totals += totals;
    }
}

impl Grouped {
    /// The groups left out, including those that are only added up.
    pub fn left_out(&self) -> Others {
        let mut all = self.others;
        self.hidden.iter().for_each(|group| all.add(group.totals()));
        all
    }

    /// The totals of all groups, including those left out.
    pub fn totals(&self) -> Totals {
        self.groups.iter().map(GroupedKernels::totals).chain([self.left_out().totals]).sum()
    }

    /// Whether the groups are steps and nothing else.
    pub fn are_steps(&self) -> bool {
        self.grouped_by == ["step"]
    }

    /// Sorts the groups: steps by time, others largest first, ties by key. Leaves out groups with less than `min_share` of the total GPU time, and
    /// those after the first `limit`. Returns the number of kernels left out.
    pub(super) fn arrange(&mut self, order: Order, min_share: f64, limit: Option<usize>) -> u64 {
        self.order = order;
        self.groups.append(&mut self.hidden);
        self.groups
            .sort_by(|a, b| b.totals().by(order).total_cmp(&a.totals().by(order)).then_with(|| a.key.cmp(&b.key)));
        if self.grouped_by.first().is_some_and(|key| key == "step") {
            self.groups.sort_by_key(GroupedKernels::place);
        }
        self.hidden = self.groups.extract_if(.., |group| group.share_of_groups < min_share).collect();
        let limit = limit.unwrap_or(usize::MAX).min(self.groups.len());
        self.hidden.extend(self.groups.drain(limit..));
        self.left_out().totals.count
    }
}

fn as_map<S: Serializer>(key: &[(String, GroupValue)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(key.len()))?;
    for (by, value) in key {
        map.serialize_entry(by, &value.text())?;
    }
    map.end()
}

/// How names and stacks are shown, and how ranks are labelled.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    /// Keep names as they are.
    pub(crate) exact_names: bool,
    pub(crate) user_code: &'a UserCode,
    /// The label of a kernel's rank.
    pub(crate) rank: &'a dyn Fn(&KernelLaunch) -> String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names() {
        for name in ["stack", "module", "arg:Input Dims", "function:forward", "function:/run.*/", "category"] {
            assert_eq!(GroupBy::parse(name).unwrap().name(), name);
        }
        for wrong in ["", "modules", "arg", "arg:", "function:", "module:x", "function:/(/"] {
            assert!(GroupBy::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(GroupBy::names().count(), 17);
    }

    #[test]
    fn only_what_a_key_needs_is_kept() {
        let keys = |by: &[&str]| {
            let by = by.iter().map(|name| GroupBy::parse(name).unwrap()).collect();
            match Grouping::new(by, None).args(ArgsWanted::COLLECTIVES) {
                ArgsWanted::Keys(KeySet { keys, of }) => (keys.len() - args::OF_COLLECTIVES.len(), of),
                _ => panic!("other arguments are kept"),
            }
        };
        assert_eq!(keys(&["stack", "collective", "step"]), (0, EventsOf::Collectives));
        assert_eq!(keys(&["module"]), (1, EventsOf::Operators));
        assert_eq!(keys(&["shape", "module"]), (6, EventsOf::Operators));
        assert_eq!(keys(&["arg:grid", "module"]), (3, EventsOf::Any));
        assert_eq!(Grouping::new(vec![GroupBy::Op, GroupBy::Shape, GroupBy::Op], None).by.len(), 2);
    }
}
