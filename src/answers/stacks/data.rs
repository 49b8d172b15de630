//! The call stacks of launches: kernels grouped by stack, counted, with their cost.
//!
//! A stack has up to three call paths: the code that launched the kernel; for a graph replay, the code that captured the kernel; for the backward
//! pass, the forward code that it is the gradient of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::collective_info::CollectiveInfo;
use super::grouping::{Grouped, Grouping};
use super::launching_steps::LaunchingSteps;
use super::not_asked::NotAsked;
use super::origin::Frames;
use super::over_ranks::OverRanks;
use super::recorded_info::{JoinReport, RecordedInfo};
use super::summary::Summary;
use crate::answers::add_up;
use crate::answers::cost::{Cost, Order, Totals};
use crate::answers::damage::Losses;
use crate::attribution::capture::CaptureTally;
use crate::attribution::launches::{Evidence, Reason, WindowOn};
use crate::attribution::stack_key::StackKey;
use crate::attribution::{Attribution, KernelLaunch};
use crate::id::RankId;
use crate::names::frames::UserCode;
use crate::records::Records;
use crate::store::Store;
use crate::time::{Ns, Window};

/// Which kernels count, and what distinguishes their stacks.
#[derive(Debug, Clone, Default)]
pub struct StackOptions {
    /// Keep names as they are, so that layers and objects stay distinct.
    pub exact_names: bool,
    /// Whether the launch or the kernel's start decides if a kernel is in the window.
    pub window_on: WindowOn,
    /// Whether kernels of the backward pass are shown without their forward code.
    pub without_forward: bool,
    /// Whether to keep the stacks of different ranks apart.
    pub per_rank: bool,
    pub user_code: UserCode,
    /// NCCL's own records of the same job, to join to the kernels.
    pub records: Option<Arc<Records>>,
    /// Other keys to group by. If there are any, the answer has groups instead of stacks.
    pub grouping: Grouping,
    /// Whether to count the steps that launched kernels, see [`StackReport::steps`].
    pub counts_steps: bool,
    /// For a single trace: distinguish only its [`MOST_GROUPS`](super::grouping::MOST_GROUPS) largest groups by this order, and add up the others.
    /// `None` distinguishes all groups.
    pub largest_groups: Option<Order>,
}

/// A stack and the kernels launched from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stack {
    /// With `--per-rank` the rank, such as `rank 3`, or the trace if its rank is unknown; `None` unless ranks are distinguished.
    pub rank: Option<String>,
    /// What distinguishes the stack.
    #[serde(flatten)]
    pub key: StackKey,
    /// The frame that best shows where the stack comes from: the innermost frame of the user's own code, if it has any. `None` for a stack without
    /// frames.
    pub headline: Option<String>,
    /// The headline and the next most telling frames, see [`StackKey::telling_frames`].
    #[serde(skip)]
    pub telling: Vec<String>,
    /// The number of kernels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The number of kernels by evidence of their attribution.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Words<Evidence, u64>"))]
    pub attributed_by: BTreeMap<Evidence, u64>,
    /// The totals of each kernel name.
    pub kernels_by_name: BTreeMap<String, Totals>,
    /// What its kernels cost.
    pub cost: Cost,
    /// What its collectives move.
    pub messages: CollectiveInfo,
    /// What NCCL's own records say about the kernels; `None` if none of them has a record.
    pub recorded: Option<RecordedInfo>,
    /// How ranks differ; `None` for one rank, or if ranks are distinguished.
    pub over_ranks: Option<OverRanks>,
}

impl Stack {
    pub fn naming(&self) -> Frames<'_> {
        (&self.telling, &self.key.frames)
    }

    pub fn totals(&self) -> Totals {
        self.cost.totals(self.count)
    }

    /// The number of kernels missing from `known`, the counts by known value.
    pub fn unknown(&self, known: impl Iterator<Item = u64>) -> u64 {
        self.count.saturating_sub(known.sum())
    }
}

/// How many kernels of a window are attributed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Coverage {
    /// The number of chosen kernels in the window.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
    /// The number of attributed kernels, by evidence. Their sum is that of the counts of all stacks.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Words<Evidence, u64>"))]
    pub attributed_by: BTreeMap<Evidence, u64>,
    /// How many of these have equal evidence for several calls, so that only time decided.
    pub uncertain: u64,
    /// How many of these have a flow from a call other than the one with their correlation id, which was taken.
    pub flow_disagrees: u64,
    /// The unattributed kernels, by reason.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Words<Reason, Unattributed>"))]
    pub without_launch: BTreeMap<Reason, Unattributed>,
    /// What captures gave the graph kernels of the whole trace; `None` without captures.
    pub captures: Option<CaptureTally>,
    /// The number of backward kernels whose forward operator is unknown: no operator of the trace has their sequence number, or several have it.
    pub forward_unknown: u64,
}

/// The unattributed kernels that share one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unattributed {
    /// Their totals.
    #[serde(flatten)]
    pub all: Totals,
    /// The totals of each kernel name.
    pub kernels_by_name: BTreeMap<String, Totals>,
    /// The first few, by start.
    #[cfg_attr(test, schemars(length(min = 1, max = 3)))]
    pub first: Vec<UnattributedKernel>,
}

/// An unattributed kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnattributedKernel {
    /// Its name.
    pub name: String,
    /// When it started, in ns.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub ts_ns: Ns,
    /// Its trace, if there are several.
    pub trace: Option<String>,
}

/// How many unattributed kernels are listed for each reason.
const NAMED: usize = 3;

impl Coverage {
    pub fn attributed(&self) -> u64 {
        self.attributed_by.values().sum()
    }

    pub fn unattributed(&self) -> u64 {
        self.without_launch().count
    }

    /// The totals of the unattributed kernels.
    pub fn without_launch(&self) -> Totals {
        self.without_launch.values().map(|kernels| kernels.all).sum()
    }

    pub(super) fn count(store: &Store, attribution: &Attribution) -> Self {
        let captures = (attribution.captures.graphs > 0).then_some(attribution.captures);
        let mut coverage = Coverage { captures, ..Coverage::default() };
        attribution.kernels.iter().for_each(|kernel| coverage.add(store, kernel));
        coverage
    }

    pub(super) fn merge(&mut self, other: Coverage) {
        self.kernels += other.kernels;
        self.uncertain += other.uncertain;
        self.flow_disagrees += other.flow_disagrees;
        self.forward_unknown += other.forward_unknown;
        add_up(&mut self.attributed_by, other.attributed_by);
        for (reason, others) in other.without_launch {
            let known = self.without_launch.entry(reason).or_default();
            known.all += others.all;
            add_up(&mut known.kernels_by_name, others.kernels_by_name);
            known.first.extend(others.first);
            known.first.truncate(NAMED);
        }
        if let Some(captures) = other.captures {
            self.captures.get_or_insert_default().add(captures);
        }
    }

    fn add(&mut self, store: &Store, kernel: &KernelLaunch) {
        let launched = &kernel.launched;
        self.kernels += 1;
        self.uncertain += u64::from(launched.uncertain);
        self.flow_disagrees += u64::from(launched.flow_disagrees);
        self.forward_unknown += u64::from(kernel.forward_unknown);
        match launched.evidence {
            Evidence::None(reason) => {
                let without = self.without_launch.entry(reason).or_default();
                let (name, totals) = (store.slice_name(launched.kernel), Totals::from_kernel(kernel));
                without.all += totals;
                match without.kernels_by_name.get_mut(name) {
                    Some(known) => *known += totals,
                    None => drop(without.kernels_by_name.insert(name.to_owned(), totals)),
                }
                if without.first.len() < NAMED {
                    without.first.push(UnattributedKernel {
                        name: name.to_owned(),
                        ts_ns: store.slices.ts(launched.kernel),
                        trace: None,
                    });
                }
            }
            evidence => *self.attributed_by.entry(evidence).or_default() += 1,
        }
    }
}

/// A trace that a report covers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TraceOfReport {
    /// Its name: the file, or the archive and the file in it; empty if the caller gave none.
    pub name: String,
    /// Its rank in the job, or one of its ranks, if known.
    #[cfg_attr(test, schemars(with = "Option<u32>"))]
    pub rank: Option<RankId>,
    /// The window on its own clock.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Window"))]
    pub window: Window,
}

/// The stacks in a window of one trace, or in one window of each of several traces.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackReport {
    /// The traces.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub traces: Vec<TraceOfReport>,
    /// The stacks, largest first: by count, then by text, or in the order that was asked for. Empty if no kernel has a launch.
    pub stacks: Vec<Stack>,
    /// The stacks left out, in no order.
    #[serde(skip)]
    pub hidden: Vec<Stack>,
    /// The number of stacks, including those that `--limit` or `--min-share` left out.
    pub stacks_found: u64,
    /// Unattributed kernels: a row for each reason, and for each rank if ranks are distinguished. [`Coverage::unattributed`] has their totals.
    #[serde(skip)]
    pub without_launch: Vec<Stack>,
    /// The groups, if keys other than stacks were asked for; then there are no stacks. See [`StackReport::groups`].
    #[serde(flatten)]
    pub grouped: Grouped,
    /// The number of kernels in the stacks or groups left out.
    pub kernels_left_out: u64,
    /// The number of chosen kernels in the whole trace.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels_in_trace: u64,
    /// How many kernels in the window are attributed. The counts of all stacks add up to the attributed kernels.
    pub coverage: Coverage,
    /// The number of chosen kernels that ran in the window but were launched outside it; if windows choose kernels by their own start, the other way
    /// round. They are in no stack and not in the coverage.
    pub kernels_elsewhere: u64,
    /// The collectives of the window, and which of them are not asked for.
    pub not_asked: NotAsked,
    /// The window as a whole.
    pub summary: Summary,
    /// How long the critical paths of its ranks are, each alone, in ns by kind; `None` unless that was asked for.
    #[cfg_attr(test, schemars(with = "Option<BTreeMap<String, u64>>"))]
    pub critical_path_ns: Option<BTreeMap<&'static str, Ns>>,
    /// What is wrong with the trace.
    pub damage: Losses,
    /// How NCCL's own records are joined to the kernels; `None` without records.
    pub records: Option<JoinReport>,
    /// The steps of the window that launched kernels, if [`StackOptions::counts_steps`] asks for them.
    #[serde(skip)]
    pub steps: LaunchingSteps,
}

impl StackReport {
    /// Whether the answer has any stacks or groups.
    pub fn has_answer(&self) -> bool {
        self.stacks_found > 0 || self.grouped.groups_found > 0
    }

    /// The groups, if the question asked for them instead of stacks.
    pub fn groups(&self) -> Option<&Grouped> {
        (!self.grouped.grouped_by.is_empty()).then_some(&self.grouped)
    }

    /// Sorts the stacks, largest first. Leaves out stacks with less than `min_share` of the total GPU time, and those after the first `limit`.
    pub fn arrange(&mut self, order: Order, min_share: f64, limit: Option<usize>) {
        if self.groups().is_some() {
            self.kernels_left_out = self.grouped.arrange(order, min_share, limit);
            return;
        }
        self.stacks.append(&mut self.hidden);
        if order == Order::Critical {
            // Most may not be on the path at all.
            self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.exposed_ns));
        }
        self.stacks.sort_by(|a, b| b.totals().by(order).total_cmp(&a.totals().by(order)));
        let all = self.gpu_time().as_f64();
        // The ranks of a stack stay together.
        let mut of_key: BTreeMap<StackKey, Ns> = BTreeMap::new();
        if min_share > 0.0 {
            for stack in &self.stacks {
                *of_key.entry(stack.key.clone()).or_default() += stack.cost.gpu_time.total_ns;
            }
        }
        let is_small = |stack: &mut Stack| of_key.get(&stack.key).is_some_and(|time| time.as_f64() < min_share * all);
        self.hidden = self.stacks.extract_if(.., is_small).collect();
        if let Some(limit) = limit {
            // All ranks of a stack count as one stack.
            let mut shown: BTreeSet<StackKey> = BTreeSet::new();
            let is_beyond = |stack: &mut Stack| {
                let is_new = !shown.contains(&stack.key);
                if is_new && shown.len() < limit {
                    shown.insert(stack.key.clone());
                }
                is_new && !shown.contains(&stack.key)
            };
            self.hidden.extend(self.stacks.extract_if(.., is_beyond));
        }
        self.kernels_left_out = self.coverage.attributed() - self.stacks.iter().map(|stack| stack.count).sum::<u64>();
    }

    /// The same answer with only the first few stacks or groups.
    #[must_use]
    pub fn first(&self, stacks: usize) -> Self {
        let mut first = self.clone();
        first.stacks.truncate(stacks);
        first.grouped.groups.truncate(stacks);
        let of_stacks = self.stacks.iter().skip(stacks).map(|stack| stack.count);
        let of_groups = self.grouped.groups.iter().skip(stacks).map(|group| group.count);
        first.kernels_left_out += of_stacks.chain(of_groups).sum::<u64>();
        first
    }

    /// The number of stacks that [`StackReport::arrange`] left out.
    pub fn stacks_left_out(&self) -> u64 {
        self.stacks_found.saturating_sub(distinct(&self.stacks))
    }

    fn gpu_time(&self) -> Ns {
        self.stacks.iter().map(|stack| stack.cost.gpu_time.total_ns).sum()
    }
}

/// The number of stacks, where a stack on several ranks counts once.
pub(super) fn distinct(stacks: &[Stack]) -> u64 {
    stacks.iter().map(|stack| &stack.key).collect::<BTreeSet<_>>().len() as u64
}
