//! Kernels by any key that is recorded of them: the code that launched them, its module, operator, shapes, step, or the kernel's own
//! stream, collective, size.
//!
//! A stack is one key among these. Each key gives a kernel one value, and kernels with equal values of all keys are a group. A value that is not
//! recorded is a value, too, so that the groups add up to all kernels that are asked for.

mod by_call;
mod by_kernel;
mod keys;
mod nearest;
pub mod tree;
mod value;

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

pub use value::{GroupValue, NOT_RECORDED};

pub(crate) use keys::{GroupKey, Keys};

use super::collective_info::CollectiveInfo;
use super::cost::{Cost, Order, Totals};
use super::recorded_info::RecordedInfo;
use super::step_costs::StepCost;
use crate::attribution::KernelLaunch;
use crate::attribution::selection::Pattern;
use crate::error::Error;
use crate::event::{ArgsWanted, EventsOf, KeySet};
use crate::names::args;
use crate::names::frames::UserCode;

/// What kernels are grouped by.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum GroupBy {
    /// The call stack, with those of the capture and of the forward pass.
    Stack,
    /// The frame that shows best where a stack comes from.
    Frame,
    /// The nearest caller whose frame or function fits.
    Function(Pattern),
    /// The modules around the launch: frames of `nn.Module`, or `Module Hierarchy` of its operator.
    Module,
    /// The innermost operator around the launch, without PyTorch's record of a collective.
    Op,
    /// The types and sizes of that operator's inputs.
    Shape,
    /// For kernels of the backward pass: the operator of the forward pass, with its stack.
    Forward,
    /// The innermost annotation of the user.
    Annotation,
    /// The step of training or serving in which the kernel was launched.
    Step,
    /// The GPU and stream.
    Stream,
    /// The process group of a collective.
    Group,
    /// The collective.
    Collective,
    /// The size of a collective, as a class of powers of two.
    Size,
    /// The rank, or what is known of it.
    Rank,
    /// The kernel's name.
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
    /// The names of the keys, as they are typed.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|(name, _)| *name).chain(["function:PATTERN", "arg:NAME"])
    }

    /// Parses a key: its name, with a pattern or an argument's name after a colon where it has one.
    ///
    /// # Errors
    /// An unknown name, an invalid pattern, an argument without a name.
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

    /// Its name, as it was typed.
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

/// The keys of a question.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Grouping {
    /// The keys, the outermost first. Kernels are not grouped if there is none.
    pub by: Vec<GroupBy>,
    /// How many levels of modules tell groups apart; `None`: all.
    pub depth: Option<usize>,
}

impl Grouping {
    /// Groups by some keys. One that is named again says nothing more.
    pub fn new(mut by: Vec<GroupBy>, depth: Option<usize>) -> Self {
        let mut names: Vec<String> = Vec::new();
        by.retain(|key| {
            let name = key.name();
            let is_new = !names.contains(&name);
            names.push(name);
            is_new
        });
        Grouping { by, depth }
    }

    /// Whether a key is about the forward pass of kernels of the backward pass.
    pub fn needs_forward(&self) -> bool {
        self.by.iter().any(|key| matches!(key, GroupBy::Forward | GroupBy::Module))
    }

    /// Whether a key is the step.
    pub fn has_steps(&self) -> bool {
        self.by.iter().any(|key| matches!(key, GroupBy::Step))
    }

    /// Whether kernels are grouped by other keys than their stacks.
    pub fn is_asked(&self) -> bool {
        !self.by.is_empty()
    }

    /// The arguments that a load has to keep for the keys, beside those that are wanted anyway. The list of them lives as long as the
    /// program, because a question is asked once.
    pub fn args(&self, wanted: ArgsWanted) -> ArgsWanted {
        let ArgsWanted::Keys(base) = wanted else { return wanted };
        let mut more: Vec<&'static str> = Vec::new();
        let mut of = base.of;
        for key in &self.by {
            match key {
                GroupBy::Module => more.push(args::MODULE_HIERARCHY),
                GroupBy::Shape => more.extend(args::INPUT_DIMS.iter().chain(args::INPUT_TYPES)),
                GroupBy::Arg(name) => {
                    // A member of an object has the keys above it before its own.
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
#[non_exhaustive]
pub struct GroupedKernels {
    /// The value of each key.
    #[serde(serialize_with = "as_map")]
    pub key: Vec<(String, GroupValue)>,
    /// How many kernels.
    pub count: u64,
    /// How many of them are attributed to a launch, or to the capture of a graph.
    pub attributed: u64,
    /// The totals of each kernel name.
    #[serde(rename = "kernels_by_name")]
    pub kernels: BTreeMap<String, Totals>,
    /// Their cost.
    pub cost: Cost,
    /// Their share of the GPU time of all groups.
    #[serde(rename = "share_of_groups")]
    pub share: f64,
    /// Their collectives.
    #[serde(rename = "messages")]
    pub collective: CollectiveInfo,
    /// What NCCL's own records say of them; `None` if none of them has a record.
    pub recorded: Option<RecordedInfo>,
    /// What the step cost whose kernels they are; `None` unless a key is the step, and for kernels that were launched in none.
    pub step: Option<StepCost>,
}

impl GroupedKernels {
    /// Its place in a tree that nests in the order of the keys: the frames of each value, the outermost first.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        self.key.iter().flat_map(|(_, value)| value.path())
    }

    /// The values of its keys in one line.
    pub fn label(&self) -> String {
        self.key.iter().map(|(_, value)| value.label()).collect::<Vec<_>>().join(" / ")
    }

    /// The place of its step in the order of time: kernels of none come last.
    pub(super) fn place(&self) -> (bool, u64) {
        self.step.as_ref().map_or((true, 0), |step| (false, step.number))
    }

    /// The totals of its kernels.
    pub fn totals(&self) -> Totals {
        Totals { count: self.count, gpu_time: self.cost.gpu_time.total, exposed: self.cost.exposed }
    }
}

/// The kernels that are asked for in groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Grouped {
    /// The names of the keys, the outermost first.
    #[serde(rename = "grouped_by")]
    pub by: Vec<String>,
    /// The largest first; steps in the order of time.
    pub groups: Vec<GroupedKernels>,
    /// The groups that were left out, in no order.
    #[serde(skip)]
    pub hidden: Vec<GroupedKernels>,
    /// The groups that are only added up.
    #[serde(skip)]
    pub others: Others,
    /// How many groups there are, with those that were left out.
    pub groups_found: u64,
    /// By what they are in order.
    #[serde(skip)]
    pub order: Order,
}

/// How many groups are distinguished where only the largest are asked for. Each takes some KB.
pub const MOST_GROUPS: usize = 10_000;

/// Groups that are added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Others {
    /// How many.
    pub groups: u64,
    /// The totals of their kernels.
    pub totals: Totals,
}

impl Others {
    /// Adds a group's totals.
    pub(super) fn add(&mut self, totals: Totals) {
        self.groups += 1;
        self.totals.add(totals);
    }
}

impl Grouped {
    /// The groups that were left out, with those that are only added up.
    pub fn left_out(&self) -> Others {
        let mut all = self.others;
        self.hidden.iter().for_each(|group| all.add(group.totals()));
        all
    }

    /// The totals of all groups, with those that were left out.
    pub fn totals(&self) -> Totals {
        let mut all = self.others.totals;
        self.groups.iter().chain(&self.hidden).for_each(|group| all.add(group.totals()));
        all
    }

    /// Whether they are the steps alone.
    pub fn are_steps(&self) -> bool {
        self.by == ["step"]
    }

    /// Sorts the groups, steps in the order of time, else the largest first, equal ones by their keys, and leaves out those with less than `min_share` of the GPU time of all, and
    /// those after the first `limit`. Returns how many kernels were left out.
    pub(super) fn arrange(&mut self, order: Order, min_share: f64, limit: Option<usize>) -> u64 {
        self.order = order;
        self.groups.append(&mut self.hidden);
        self.groups
            .sort_by(|a, b| b.totals().by(order).total_cmp(&a.totals().by(order)).then_with(|| a.key.cmp(&b.key)));
        if self.by.first().is_some_and(|key| key == "step") {
            self.groups.sort_by_key(GroupedKernels::place);
        }
        self.hidden = self.groups.extract_if(.., |group| group.share < min_share).collect();
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

/// How names and stacks are shown, and what is known of ranks.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    /// Keep names as they are.
    pub(crate) exact_names: bool,
    /// Which frames are the user's own code.
    pub(crate) user_code: &'a UserCode,
    /// The rank of a kernel, in words.
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
