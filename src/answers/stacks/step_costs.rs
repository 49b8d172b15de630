//! What each step cost: how long the CPU was in it, what the GPUs did for it, and which of its stacks cost most.
//!
//! Under a scheduler that runs ahead, the GPU does the work of a step after the CPU has left it. So times are measured over the GPU span of that work
//! (`super::gpu_spans`): the times of a step are the summary of a window on this step.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::gpu_spans::GpuSpans;
use super::steps::{Step, Steps};
use super::summary::{Summary, times};
use crate::answers::add_up;
use crate::answers::cost::Totals;
use crate::attribution::exposure::GpuActivity;
use crate::attribution::launches::WindowOn;
use crate::attribution::stack_key::{StackKey, by_stack};
use crate::attribution::{Attribution, KernelLaunch, launches};
use crate::id::SliceId;
use crate::names::frames::UserCode;
use crate::store::Store;
use crate::time::{Ns, Window};

/// What a step cost: the figures of the answer for this step alone. Over several ranks, times are sums, except for the length.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepCost {
    /// The number that `--step` takes: the profiler's number (`ProfilerStep#12`) if every step of the process has its own, otherwise counted from 0
    /// by start.
    pub number: u64,
    /// When it began, in ns on the clock of the first trace that has it.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub ts_ns: Ns,
    /// How long the CPU was in it; the longest over several ranks.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub dur_ns: Ns,
    /// The number of GPUs that ran work of it.
    pub gpus: u64,
    /// From the first start to the last end of the work launched in it, summed over GPUs: the following times are shares of this.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_span_ns: Ns,
    /// When any kernel ran in that span, including kernels of other steps.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub busy_ns: Ns,
    /// When its compute kernels ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub compute_ns: Ns,
    /// When its collectives ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub collectives_ns: Ns,
    /// When its collectives ran while no compute kernel did.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub exposed_ns: Ns,
    /// The stack with the most exposed time among the chosen kernels; `None` if none of them has a stack.
    pub largest_stack: Option<LargestStack>,
}

/// The costliest stack of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LargestStack {
    /// The frame that best shows where the stack comes from.
    pub headline: String,
    /// Its kernels in the step.
    #[serde(flatten)]
    pub totals: Totals,
}

impl StepCost {
    /// A time as a share of the GPU span; `None` if no kernel ran.
    pub fn share(&self, time: Ns) -> Option<f64> {
        time.share_of(self.gpu_span_ns)
    }
}

/// A step of a trace, or the same step of several traces.
#[derive(Debug)]
pub(super) struct StepSums {
    number: u64,
    start: Ns,
    dur: Ns,
    summary: Summary,
    stacks: BTreeMap<StackKey, Totals>,
}

/// The kernels that each step launched in a window.
fn kernels_of_steps(
    store: &Store,
    steps: &Steps,
    window: Window,
    on: WindowOn,
) -> HashMap<SliceId, Vec<SliceId>, FixedState> {
    let mut own: HashMap<SliceId, Vec<SliceId>, FixedState> = HashMap::default();
    for launched in launches::for_work(store, store.kernels.clone()).kernels {
        let step = launched.call.and_then(|call| steps.of_call(store, call));
        let inside = |_: &&Step| window.contains(launched.at(store, on));
        if let Some(step) = step.filter(inside) {
            own.entry(step.slice).or_default().push(launched.kernel);
        }
    }
    own
}

/// The times of each step alone, added up.
pub(super) fn times_of_steps(store: &Store, activity: &GpuActivity, window: Window, on: WindowOn) -> Summary {
    let mut sum = Summary::default();
    for own in kernels_of_steps(store, &Steps::find(store), window, on).into_values() {
        sum.add(&times(window, &GpuSpans::of_kernels(store, activity, own)));
    }
    sum
}

impl StepSums {
    /// The steps that overlap a window, by label. Steps of ranks in one file share their labels and count as one.
    pub(super) fn of_trace(
        store: &Store,
        attribution: &Attribution,
        window: Window,
        on: WindowOn,
        exact_names: bool,
    ) -> BTreeMap<String, StepSums> {
        let steps = Steps::find(store);
        let mut own = kernels_of_steps(store, &steps, window, on);
        let mut found: BTreeMap<String, StepSums> = BTreeMap::new();
        let mut label_of: HashMap<SliceId, &str, FixedState> = HashMap::default();
        for step in steps.processes().flat_map(|(_, steps)| steps).filter(|step| step.window.overlaps(window)) {
            let own = own.remove(&step.slice).unwrap_or_default();
            let spans = GpuSpans::of_kernels(store, &attribution.activity, own);
            label_of.insert(step.slice, &step.label);
            let part = StepSums {
                number: step.number,
                start: step.window.start,
                dur: step.window.duration(),
                summary: times(step.window, &spans),
                stacks: BTreeMap::new(),
            };
            StepSums::add_to(&mut found, step.label.clone(), part);
        }
        let step_of = |row: &KernelLaunch| Some(steps.of_call(store, row.launched.call?)?.slice);
        for ((step, key), rows) in by_stack(store, attribution, exact_names, step_of) {
            let Some(part) = step.and_then(|step| found.get_mut(*label_of.get(&step)?)) else { continue };
            let totals = part.stacks.entry(key).or_default();
            rows.into_iter().for_each(|row| *totals += Totals::from_kernel(row));
        }
        found
    }

    /// Adds a step under its label, merging it with the same step of another rank.
    pub(super) fn add_to(steps: &mut BTreeMap<String, StepSums>, label: String, step: StepSums) {
        match steps.entry(label) {
            Entry::Vacant(vacant) => drop(vacant.insert(step)),
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.number = known.number.min(step.number);
                known.dur = known.dur.max(step.dur);
                known.summary.add(&step.summary);
                add_up(&mut known.stacks, step.stacks);
            }
        }
    }

    pub(super) fn cost(&self, user_code: &UserCode) -> StepCost {
        let Summary { gpus, wall_ns: gpu_span_ns, busy_ns, compute_ns, collectives_ns, exposed_ns, .. } = self.summary;
        let largest = self.stacks.iter().rev().max_by_key(|(_, of)| (of.exposed_ns, of.gpu_time_ns));
        let headline = |key: &StackKey| key.telling_frames(user_code).into_iter().next();
        let largest_stack = largest.and_then(|(key, of)| Some(LargestStack { headline: headline(key)?, totals: *of }));
        StepCost {
            number: self.number,
            ts_ns: self.start,
            dur_ns: self.dur,
            gpus,
            gpu_span_ns,
            busy_ns,
            compute_ns,
            collectives_ns,
            exposed_ns,
            largest_stack,
        }
    }
}
