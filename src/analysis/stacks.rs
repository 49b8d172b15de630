//! The call stacks above the launches: grouped, counted, and what their kernels cost.
//!
//! A stack has up to three parts: the code that launched the kernel; for a graph's replay, the code that captured it; for the backward
//! pass, the code of the forward pass that made it necessary.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::collective_info::CollectiveInfo;
use super::cost::{Cost, Order, Totals};
use super::grouping::{Grouped, Grouping};
use super::launching_steps::LaunchingSteps;
use super::losses::Losses;
use super::not_asked::NotAsked;
use super::over_ranks::OverRanks;
use super::recorded_info::{JoinReport, RecordedInfo};
use super::stack_key::StackKey;
use super::summary::Summary;
use crate::attribution::capture::CaptureTally;
use crate::attribution::launches::{Evidence, Reason, WindowOn};
use crate::attribution::{Attribution, KernelLaunch};
use crate::id::RankId;
use crate::names::frames::UserCode;
use crate::records::Records;
use crate::store::Store;
use crate::time::{Ns, Window};

/// Which kernels count, and what tells their stacks apart.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// Keep names as they are, so that layers and objects stay apart.
    pub exact_names: bool,
    /// What decides whether a kernel is in the window.
    pub window_on: WindowOn,
    /// Whether to show the code of the forward pass for kernels of the backward pass.
    pub forward: bool,
    /// Whether to tell the stacks of different ranks apart.
    pub per_rank: bool,
    /// Which frames are the user's own code.
    pub user_code: UserCode,
    /// NCCL's own records of the same job, which are joined to the kernels.
    pub records: Option<Arc<Records>>,
    /// Other keys to group by. Then there are groups instead of stacks.
    pub grouping: Grouping,
    /// Whether to count the steps that launched kernels, see [`StackReport::steps`].
    pub counts_steps: bool,
    /// For a trace that is the only one: only its largest groups by this order are distinguished, [`MOST_GROUPS`](super::grouping::MOST_GROUPS) of
    /// them, and the others are added up. `None`: all are.
    pub largest_groups: Option<Order>,
}

impl Default for StackOptions {
    fn default() -> Self {
        let user_code = UserCode::default();
        StackOptions {
            exact_names: false,
            window_on: WindowOn::Launch,
            forward: true,
            per_rank: false,
            user_code,
            records: None,
            grouping: Grouping::default(),
            counts_steps: false,
            largest_groups: None,
        }
    }
}

/// One stack, and the kernels that were launched from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stack {
    /// The rank, or the trace if its rank is unknown; `None` unless the ranks are distinguished.
    pub rank: Option<String>,
    /// What tells it apart.
    #[serde(flatten)]
    pub key: StackKey,
    /// The frame that shows best where it comes from: the innermost of the user's own code, if it has any.
    pub headline: Option<String>,
    /// That frame and those that tell next, see [`StackKey::telling_frames`].
    #[serde(skip)]
    pub telling: Vec<String>,
    /// How many kernels.
    pub count: u64,
    /// How many of them by each evidence.
    #[serde(rename = "attributed_by")]
    pub by: BTreeMap<Evidence, u64>,
    /// The totals of each kernel name.
    #[serde(rename = "kernels_by_name")]
    pub kernels: BTreeMap<String, Totals>,
    /// Their cost.
    pub cost: Cost,
    /// Their collectives.
    #[serde(rename = "messages")]
    pub collective: CollectiveInfo,
    /// What NCCL's own records say of them; `None` if none of them has a record.
    pub recorded: Option<RecordedInfo>,
    /// How the ranks differ; `None` for one rank, or if the ranks are distinguished.
    pub over_ranks: Option<OverRanks>,
}

impl Stack {
    /// The totals of its kernels.
    pub fn totals(&self) -> Totals {
        Totals { count: self.count, gpu_time: self.cost.gpu_time.total, exposed: self.cost.exposed }
    }
}

/// How far the kernels of a window are attributed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Coverage {
    /// How many kernels are in the window.
    pub kernels: u64,
    /// How many of them are attributed, by evidence.
    #[serde(rename = "attributed_by")]
    pub by: BTreeMap<Evidence, u64>,
    /// How many of these have the same evidence for several calls, so that time alone decided.
    pub uncertain: u64,
    /// How many of these have a flow from another call.
    pub flow_disagrees: u64,
    /// The unattributed kernels, by reason.
    #[serde(rename = "without_launch")]
    pub unattributed: BTreeMap<Reason, Unattributed>,
    /// What the captures gave for the graph kernels of the whole trace; `None` without captures.
    pub captures: Option<CaptureTally>,
    /// How many belong to the backward pass, but no or several operators of the forward pass have their number.
    pub forward_unknown: u64,
}

/// Unattributed kernels with one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unattributed {
    /// All of them.
    #[serde(flatten)]
    pub all: Totals,
    /// The totals of each kernel name.
    #[serde(rename = "kernels_by_name")]
    pub kernels: BTreeMap<String, Totals>,
    /// The first few, by start.
    pub first: Vec<UnattributedKernel>,
}

/// An unattributed kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnattributedKernel {
    /// Its name.
    pub name: String,
    /// When it started.
    #[serde(rename = "ts_ns")]
    pub ts: Ns,
    /// Its trace, if there are several.
    pub trace: Option<String>,
}

/// How many unattributed kernels are named for each reason.
const NAMED: usize = 3;

impl Coverage {
    /// How many kernels were attributed.
    pub fn attributed(&self) -> u64 {
        self.by.values().sum()
    }

    /// How many kernels are unattributed.
    pub fn unattributed(&self) -> u64 {
        self.unattributed.values().map(|kernels| kernels.all.count).sum()
    }

    /// That of the rows of an attribution.
    pub(super) fn count(store: &Store, attribution: &Attribution) -> Self {
        let captures = (attribution.captures.graphs > 0).then_some(attribution.captures);
        let mut coverage = Coverage { captures, ..Coverage::default() };
        attribution.kernels.iter().for_each(|kernel| coverage.add(store, kernel));
        coverage
    }

    /// Adds those of another trace.
    pub(super) fn merge(&mut self, other: Coverage) {
        self.kernels += other.kernels;
        self.uncertain += other.uncertain;
        self.flow_disagrees += other.flow_disagrees;
        self.forward_unknown += other.forward_unknown;
        other.by.into_iter().for_each(|(evidence, kernels)| *self.by.entry(evidence).or_default() += kernels);
        for (reason, others) in other.unattributed {
            let known = self.unattributed.entry(reason).or_default();
            known.all.add(others.all);
            others.kernels.into_iter().for_each(|(name, totals)| known.kernels.entry(name).or_default().add(totals));
            known.first.extend(others.first);
            known.first.truncate(NAMED);
        }
        if let Some(captures) = other.captures {
            self.captures.get_or_insert_default().add(captures);
        }
    }

    /// Adds a kernel.
    fn add(&mut self, store: &Store, kernel: &KernelLaunch) {
        let launched = &kernel.launched;
        self.kernels += 1;
        self.uncertain += u64::from(launched.uncertain);
        self.flow_disagrees += u64::from(launched.flow_disagrees);
        self.forward_unknown += u64::from(kernel.forward_unknown);
        match launched.evidence {
            Evidence::None(reason) => {
                let without = self.unattributed.entry(reason).or_default();
                let (name, totals) = (store.slice_name(launched.kernel), Totals::from_kernel(kernel));
                without.all.add(totals);
                match without.kernels.get_mut(name) {
                    Some(known) => known.add(totals),
                    None => drop(without.kernels.insert(name.to_owned(), totals)),
                }
                if without.first.len() < NAMED {
                    without.first.push(UnattributedKernel {
                        name: name.to_owned(),
                        ts: store.slices.ts(launched.kernel),
                        trace: None,
                    });
                }
            }
            evidence => *self.by.entry(evidence).or_default() += 1,
        }
    }
}

/// A trace that an answer is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TraceOfReport {
    /// Its name; empty where the caller gave none.
    pub name: String,
    /// Its rank, or one of those in it, if it is known.
    pub rank: Option<RankId>,
    /// The window on its own clock.
    pub window: Window,
}

/// The stacks of a window of one trace, or of one window in each of several.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct StackReport {
    /// The traces.
    pub traces: Vec<TraceOfReport>,
    /// By count, the largest first; equal counts by text. [`StackReport::arrange`] sorts them otherwise.
    pub stacks: Vec<Stack>,
    /// The stacks that were left out, in no order.
    #[serde(skip)]
    pub hidden: Vec<Stack>,
    /// How many stacks there are, with those that were left out.
    pub stacks_found: u64,
    /// The kernels without a launch: a row for each reason, and for each rank if the ranks are distinguished. [`Coverage::unattributed`] has their totals.
    #[serde(skip)]
    pub without_launch: Vec<Stack>,
    /// By other keys than stacks, if these are asked for; there are no stacks then. See [`StackReport::groups`].
    #[serde(flatten)]
    pub grouped: Grouped,
    /// How many kernels the left out stacks or groups have.
    #[serde(rename = "kernels_left_out")]
    pub left_out: u64,
    /// How many chosen kernels the whole trace has.
    pub kernels_in_trace: u64,
    /// How far the kernels in the window are attributed. The counts of all stacks add up to the attributed ones.
    pub coverage: Coverage,
    /// How many chosen kernels started in the window and were launched outside it, or the other way round: by [`StackOptions::window_on`] they are
    /// outside.
    #[serde(rename = "kernels_elsewhere")]
    pub elsewhere: u64,
    /// The collectives of the window, and which of them are not asked for.
    pub not_asked: NotAsked,
    /// The summary of the window.
    pub summary: Summary,
    /// What is wrong with the trace.
    pub damage: Losses,
    /// How NCCL's own records are joined to the kernels; `None` without records.
    pub records: Option<JoinReport>,
    /// The steps of the window that launched kernels, if [`StackOptions::counts_steps`] asks for them.
    #[serde(skip)]
    pub steps: LaunchingSteps,
}

impl StackReport {
    /// Whether there are stacks, or groups.
    pub fn has_answer(&self) -> bool {
        self.stacks_found > 0 || self.grouped.groups_found > 0
    }

    /// The groups, if these were asked for instead of stacks.
    pub fn groups(&self) -> Option<&Grouped> {
        (!self.grouped.by.is_empty()).then_some(&self.grouped)
    }

    /// Sorts the stacks, the largest first, and leaves out those with less than `min_share` of the GPU time of all, and those after the first
    /// `limit`.
    pub fn arrange(&mut self, order: Order, min_share: f64, limit: Option<usize>) {
        if self.groups().is_some() {
            self.left_out = self.grouped.arrange(order, min_share, limit);
            return;
        }
        self.stacks.append(&mut self.hidden);
        let by = |cost: fn(&Stack) -> f64| move |a: &Stack, b: &Stack| cost(b).total_cmp(&cost(a));
        match order {
            Order::Count => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.count)),
            Order::GpuTime => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.gpu_time.total)),
            Order::Exposed => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.exposed)),
            Order::Mean => self.stacks.sort_by(by(|stack| stack.cost.gpu_time.mean)),
        }
        let all = self.gpu_time().as_f64();
        // The ranks of a stack stay together.
        let mut of_key: BTreeMap<StackKey, Ns> = BTreeMap::new();
        if min_share > 0.0 {
            for stack in &self.stacks {
                *of_key.entry(stack.key.clone()).or_default() += stack.cost.gpu_time.total;
            }
        }
        let is_small = |stack: &mut Stack| of_key.get(&stack.key).is_some_and(|time| time.as_f64() < min_share * all);
        self.hidden = self.stacks.extract_if(.., is_small).collect();
        if let Some(limit) = limit {
            // All ranks of a stack count as one.
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
        self.left_out = self.coverage.attributed() - self.stacks.iter().map(|stack| stack.count).sum::<u64>();
    }

    /// The same answer with the first few stacks, or groups, alone.
    #[must_use]
    pub fn first(&self, stacks: usize) -> Self {
        let shown: Vec<Stack> = self.stacks.iter().take(stacks).cloned().collect();
        let mut grouped = self.grouped.clone();
        grouped.groups.truncate(stacks);
        let cut: u64 = self.stacks.iter().skip(stacks).map(|stack| stack.count).sum::<u64>()
            + self.grouped.groups.iter().skip(stacks).map(|group| group.count).sum::<u64>();
        StackReport {
            traces: self.traces.clone(),
            stacks: shown,
            hidden: Vec::new(),
            stacks_found: self.stacks_found,
            without_launch: self.without_launch.clone(),
            grouped,
            left_out: self.left_out + cut,
            kernels_in_trace: self.kernels_in_trace,
            coverage: self.coverage.clone(),
            elsewhere: self.elsewhere,
            not_asked: self.not_asked.clone(),
            summary: self.summary.clone(),
            damage: self.damage.clone(),
            records: self.records.clone(),
            steps: self.steps.clone(),
        }
    }

    /// How long the kernels of all stacks ran.
    fn gpu_time(&self) -> Ns {
        self.stacks.iter().map(|stack| stack.cost.gpu_time.total).sum()
    }
}

/// How many stacks these are, of which those of several ranks count once.
pub(super) fn distinct(stacks: &[Stack]) -> u64 {
    stacks.iter().map(|stack| &stack.key).collect::<BTreeSet<_>>().len() as u64
}
