//! The call stacks above the launches: grouped, counted, and what their kernels cost.
//!
//! A stack has up to three parts: the code that launched the kernel; for a graph's replay, the code that captured it; for the backward
//! pass, the code of the forward pass that made it necessary.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::collective_info::{CollectiveInfo, CollectiveSums};
use super::cost::{Cost, Order, Totals};
use super::losses::Losses;
use super::stack_key::StackKey;
use super::summary::{Summary, summarise};
use crate::attribution::capture::{CaptureTally, Captured};
use crate::attribution::launches::{self, Evidence, Launched, Launches, Reason, WindowOn};
use crate::attribution::selection::{Wanted, choose};
use crate::attribution::{Attribution, AttributionOptions, Attributor, KernelLaunch};
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// Which kernels count, and what tells their stacks apart.
#[derive(Debug, Clone, Copy)]
pub struct StackOptions {
    /// How many callers above the launch to keep; `None` for all.
    pub max_callers: Option<usize>,
    /// Keep names as they are, so that layers and objects stay apart.
    pub exact_names: bool,
    /// What decides whether a kernel is in the window.
    pub window_on: WindowOn,
    /// Whether to show the code of the forward pass for kernels of the backward pass.
    pub forward: bool,
}

impl Default for StackOptions {
    fn default() -> Self {
        StackOptions { max_callers: None, exact_names: false, window_on: WindowOn::Launch, forward: true }
    }
}

/// One stack, and the kernels that were launched from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stack {
    /// What tells it apart.
    #[serde(flatten)]
    pub key: StackKey,
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
}

impl Stack {
    /// The totals of its kernels.
    pub fn totals(&self) -> Totals {
        Totals { count: self.count, gpu_time: self.cost.gpu_time.total, exposed: self.cost.exposed }
    }
}

/// How far the kernels of a window are attributed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnattributedKernel {
    /// Its name.
    pub name: String,
    /// When it started.
    #[serde(rename = "ts_ns")]
    pub ts: Ns,
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

    fn add(&mut self, store: &Store, kernel: &KernelLaunch) {
        let launched = &kernel.launched;
        self.kernels += 1;
        self.uncertain += u64::from(launched.uncertain);
        self.flow_disagrees += u64::from(launched.flow_disagrees);
        self.forward_unknown += u64::from(kernel.forward_unknown);
        match launched.evidence {
            Evidence::None(reason) => {
                let without = self.unattributed.entry(reason).or_default();
                let (name, totals) = (store.slice_name(launched.kernel), Totals::of(kernel));
                without.all.add(totals);
                match without.kernels.get_mut(name) {
                    Some(known) => known.add(totals),
                    None => drop(without.kernels.insert(name.to_owned(), totals)),
                }
                if without.first.len() < NAMED {
                    without
                        .first
                        .push(UnattributedKernel { name: name.to_owned(), ts: store.slices.ts(launched.kernel) });
                }
            }
            evidence => *self.by.entry(evidence).or_default() += 1,
        }
    }
}

/// The stacks of a window.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct StackReport {
    /// By count, the largest first; equal counts by text. [`StackReport::arrange`] sorts them otherwise.
    pub stacks: Vec<Stack>,
    /// The stacks that were left out, in no order.
    #[serde(skip)]
    pub hidden: Vec<Stack>,
    /// How many stacks there are, with those that were left out.
    pub stacks_found: u64,
    /// How many kernels the left out stacks have.
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
    /// The summary of the window.
    pub summary: Summary,
    /// What is wrong with the trace.
    pub damage: Losses,
}

impl StackReport {
    /// Sorts the stacks, the largest first, and leaves out those with less than `min_share` of the GPU time of all, and those after the first
    /// `limit`.
    pub fn arrange(&mut self, order: Order, min_share: f64, limit: Option<usize>) {
        self.stacks.append(&mut self.hidden);
        let by = |cost: fn(&Stack) -> f64| move |a: &Stack, b: &Stack| cost(b).total_cmp(&cost(a));
        match order {
            Order::Count => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.count)),
            Order::GpuTime => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.gpu_time.total)),
            Order::Exposed => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.exposed)),
            Order::Mean => self.stacks.sort_by(by(|stack| stack.cost.gpu_time.mean)),
        }
        let all = self.gpu_time().as_f64();
        let is_small = |stack: &mut Stack| min_share > 0.0 && stack.cost.gpu_time.total.as_f64() < min_share * all;
        self.hidden = self.stacks.extract_if(.., is_small).collect();
        self.hidden.extend(self.stacks.drain(self.stacks.len().min(limit.unwrap_or(usize::MAX))..));
        self.left_out = self.coverage.attributed() - self.stacks.iter().map(|stack| stack.count).sum::<u64>();
    }

    /// How long the kernels of all stacks ran.
    fn gpu_time(&self) -> Ns {
        self.stacks.iter().map(|stack| stack.cost.gpu_time.total).sum()
    }
}

/// The stacks of some kernels in a window, without captures of CUDA graphs: a replayed kernel has the stack of its replay. The steps are
/// [`choose`], then [`launches::find`], then [`stack_report`].
pub fn stacks(store: &Store, wanted: &Wanted, window: Window, options: StackOptions) -> StackReport {
    let launches = launches::find(store, &choose(store, wanted));
    stack_report(Attributor::new(store, wanted, Captured::default()), &launches, window, options)
}

/// Attributes every kernel in the window, groups the rows by stack, and adds up what the kernels of each stack cost.
pub fn stack_report(
    attributor: Attributor<'_>,
    launches: &Launches,
    window: Window,
    options: StackOptions,
) -> StackReport {
    let StackOptions { exact_names, window_on, forward, .. } = options;
    let store = attributor.store();
    let inside = |launched: &&Launched| window.contains(launched.at(store, window_on));
    let attribution =
        attributor.attribute(launches.kernels.iter().filter(inside), AttributionOptions { exact_names, forward });
    let other = if window_on == WindowOn::Launch { WindowOn::Kernel } else { WindowOn::Launch };
    let elsewhere = launches.kernels.iter().filter(|l| !inside(l) && window.contains(l.at(store, other))).count();
    let mut report = StackReport {
        kernels_in_trace: launches.kernels.len() as u64,
        elsewhere: elsewhere as u64,
        damage: Losses::of(store),
        summary: summarise(store, &attribution.activity, window),
        ..StackReport::default()
    };
    report.coverage.captures = (attribution.captures.graphs > 0).then_some(attribution.captures);
    attribution.kernels.iter().for_each(|kernel| report.coverage.add(store, kernel));
    let mut sums = Sums {
        store,
        wall: report.summary.wall,
        collectives: CollectiveSums::new(store, &launches.kernels, &attribution.kernels),
    };
    let groups = by_stack(store, &attribution, options);
    report.stacks = groups.into_iter().map(|(key, kernels)| sums.stack(key, &kernels)).collect();
    report.stacks_found = report.stacks.len() as u64;
    report.arrange(Order::Count, 0.0, None);
    report
}

/// Groups rows by a key. Rows of one group keep their order.
pub fn group<'k, K: Ord>(
    rows: impl IntoIterator<Item = &'k KernelLaunch>,
    key: impl Fn(&KernelLaunch) -> K,
) -> BTreeMap<K, Vec<&'k KernelLaunch>> {
    let mut groups: BTreeMap<K, Vec<&KernelLaunch>> = BTreeMap::new();
    rows.into_iter().for_each(|row| groups.entry(key(row)).or_default().push(row));
    groups
}

/// The attributed kernels of each stack. Rows are grouped by the numbers of their call paths first, so that each path is written
/// out once; then stacks that differ only above the last shown caller become one.
fn by_stack<'k>(
    store: &Store,
    attribution: &'k Attribution,
    options: StackOptions,
) -> BTreeMap<StackKey, Vec<&'k KernelLaunch>> {
    let attributed = attribution.kernels.iter().filter(|kernel| kernel.path.is_some() || kernel.capture.is_some());
    let paths = group(attributed, |kernel| (kernel.path, kernel.helper_thread, kernel.capture, kernel.forward));
    let mut groups: BTreeMap<StackKey, Vec<&KernelLaunch>> = BTreeMap::new();
    for kernels in paths.into_values() {
        let Some(first) = kernels.first() else { continue };
        let key = StackKey::of(store, &attribution.paths, first, options.max_callers, options.exact_names);
        groups.entry(key).or_default().extend(kernels);
    }
    groups
}

/// Adds up what kernels cost.
struct Sums<'a> {
    store: &'a Store,
    wall: Ns,
    collectives: CollectiveSums<'a>,
}

impl Sums<'_> {
    fn stack(&mut self, key: StackKey, kernels: &[&KernelLaunch]) -> Stack {
        let store = self.store;
        let (mut by, mut names): (BTreeMap<_, u64>, HashMap<StringId, Totals, FixedState>) = Default::default();
        for kernel in kernels {
            *by.entry(kernel.launched.evidence).or_default() += 1;
            let of_name = names.entry(store.slices.name(kernel.launched.kernel)).or_default();
            of_name.add(Totals::of(kernel));
        }
        let called = key.collective();
        let named = |(id, kernels)| (store.strings.get(id).unwrap_or_default().to_owned(), kernels);
        Stack {
            key,
            count: kernels.len() as u64,
            by,
            kernels: names.into_iter().map(named).collect(),
            cost: Cost::of(kernels, self.wall),
            collective: self.collectives.of(called, kernels),
        }
    }
}
