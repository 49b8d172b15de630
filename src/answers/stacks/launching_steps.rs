//! The steps of a trace that launched kernels; two traces are compared by their number.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::steps::Steps;
use super::summary::Summary;
use crate::answers::add_up;
use crate::attribution::launches;
use crate::attribution::launches::WindowOn;
use crate::id::{ProcessId, SliceId};
use crate::names::steps::label;
use crate::store::Store;
use crate::time::Window;

/// The steps of a window that launched kernels.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LaunchingSteps {
    /// The number of steps. If several ranks are in one answer, the steps of each count; if ranks are compared, those of the job.
    pub count: u64,
    /// The number of steps by marker, without numbers: `ProfilerStep#`, `step[DECODE bs=1]`, `execute_model`.
    pub names: BTreeMap<String, u64>,
    /// The number of traces, or processes of a trace, that have kernels but mark no step.
    pub unmarked: u64,
    /// From the first call that launched a kernel in a step to the end of the last such step; `None` without one.
    #[serde(skip)]
    pub span: Option<Window>,
    /// The times of each step alone, added up, without what lies between the steps. Its `gpus` counts each GPU of each step. Empty if the steps were
    /// only counted.
    #[serde(skip)]
    pub alone: Summary,
}

impl LaunchingSteps {
    /// The steps of a trace. Partial steps at its edges that launched nothing do not count.
    pub fn find(store: &Store, window: Window, on: WindowOn) -> Self {
        let all = Steps::find(store);
        let (mut found, mut span): (BTreeSet<SliceId>, Option<Window>) = (BTreeSet::new(), None);
        let (mut with, mut launching): (BTreeSet<ProcessId>, BTreeSet<ProcessId>) = Default::default();
        let has_steps = all.processes().next().is_some();
        let launches = launches::for_work(store, if has_steps { store.kernels.clone() } else { Vec::new() });
        let inside = launches.kernels.iter().filter(|launched| window.contains(launched.at(store, on)));
        for call in inside.filter_map(|launched| launched.call) {
            let Some(process) = store.process_of(call) else { continue };
            launching.insert(process);
            let launched = store.slices.ts(call);
            let Some(step) = all.at(process, launched) else { continue };
            with.insert(process);
            found.insert(step.slice);
            let own = Window { start: launched, end: step.window.end };
            span = Some(span.map_or(own, |span| span.around(own)));
        }
        let unmarked = match found.is_empty() {
            true => u64::from(!store.kernels.is_empty()),
            false => (launching.len() - with.len()) as u64,
        };
        LaunchingSteps { unmarked, span, ..Self::of_names(found.iter().map(|step| store.slice_name(*step))) }
    }

    /// Counts steps with these names.
    pub(crate) fn of_names<'s>(names: impl Iterator<Item = &'s str>) -> Self {
        let mut found = LaunchingSteps::default();
        for name in names {
            found.count += 1;
            *found.names.entry(label(name).into_owned()).or_default() += 1;
        }
        found
    }

    pub(super) fn add(&mut self, other: LaunchingSteps) {
        self.count += other.count;
        self.unmarked += other.unmarked;
        self.alone.add(&other.alone);
        add_up(&mut self.names, other.names);
    }
}
