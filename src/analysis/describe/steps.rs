//! The steps of a trace: slices that users would choose as windows, by the names that [`crate::names::steps`] knows.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::analysis::steps;
use crate::attribution::launches::Launched;
use crate::names::category::CategoryKind;
use crate::names::frames::fold;
use crate::names::steps::{ANNOTATION, priority};
use crate::store::Store;
use crate::store::strings::StringId;

/// Steps of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepCount {
    /// Their name, without numbers at its end.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// The lowest priority of a slice that certainly is a step; what is lower is any annotation of a user.
const STEP: u8 = 1;

/// The steps, and the annotations among which they are looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps {
    /// By name, the most frequent first. Only those of the highest priority: functions that run a step are around the steps that the profiler marks.
    pub(super) of: Vec<StepCount>,
    /// Those of each process, as `--group-by step` has them.
    each: steps::Steps,
    /// How many annotations there are that are not libraries' own.
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
            *names.entry(fold(store.slice_name(slice)).into_owned()).or_default() += 1;
        }
        let mut of: Vec<StepCount> = names.into_iter().map(|(name, count)| StepCount { name, count }).collect();
        of.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        Steps { of, each: steps::Steps::find(store), annotations }
    }

    /// Whether a kernel was launched in a step of the process that launched it: another rank's steps are not its own.
    pub(super) fn contain(&self, store: &Store, launched: &Launched) -> bool {
        launched.call.is_some_and(|call| self.each.of_call(store, call).is_some())
    }
}
