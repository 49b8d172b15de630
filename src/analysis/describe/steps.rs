//! The steps of a trace: slices that users would choose as windows, recognised by the names in [`crate::names::steps`].

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::analysis::steps;
use crate::attribution::launches::Launched;
use crate::names::category::CategoryKind;
use crate::names::frames::fold;
use crate::names::steps::{ANNOTATION, is_mark, label, priority};
use crate::store::Store;
use crate::store::strings::StringId;

/// Steps of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepCount {
    /// Their name, without their numbers.
    pub name: String,
    /// The number of steps.
    pub count: u64,
}

/// The last priority that certainly marks a step; after it come arbitrary user annotations.
const STEP: u8 = 1;

/// The steps of a trace, and the number of annotations they were found among.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps {
    /// By name, most frequent first. Only the best priority counts: functions that run a step enclose the steps that the profiler marks.
    pub(super) of: Vec<StepCount>,
    /// The steps of each process, as used by `--group-by step`.
    each: steps::Steps,
    /// The number of annotations, without those of libraries.
    pub(super) annotations: u64,
}

impl Steps {
    pub(super) fn find(store: &Store) -> Self {
        let annotation = store.strings.find(ANNOTATION);
        let mut known: HashMap<(StringId, bool), Option<u8>> = HashMap::new();
        let (mut annotations, mut found, mut best) = (0, Vec::new(), STEP);
        for slice in store.slices.ids() {
            if !matches!(store.category_kind(slice), CategoryKind::Cpu | CategoryKind::Frame) {
                continue;
            }
            let is_annotation = Some(store.slices.category(slice)) == annotation;
            let name = (store.slices.name(slice), is_annotation);
            let of = *known.entry(name).or_insert_with(|| priority(store.slice_name(slice), is_annotation));
            let Some(of) = of else { continue };
            annotations += u64::from(is_annotation);
            if of < best {
                best = of;
                found.clear();
            }
            if of == best {
                found.push(slice);
            }
        }
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        for slice in found {
            let name = store.slice_name(slice);
            let name = if is_mark(name, true) { label(name) } else { fold(name) };
            *names.entry(name.into_owned()).or_default() += 1;
        }
        let mut of: Vec<StepCount> = names.into_iter().map(|(name, count)| StepCount { name, count }).collect();
        of.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        Steps { of, each: steps::Steps::find(store), annotations }
    }

    /// Whether a kernel was launched in a step of the process that launched it: steps of other ranks do not count.
    pub(super) fn contain(&self, store: &Store, launched: &Launched) -> bool {
        launched.call.is_some_and(|call| self.each.of_call(store, call).is_some())
    }
}
