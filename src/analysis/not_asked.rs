//! The collectives of a window that the question leaves out: without them, a share of the stacks could be taken for a share of all
//! communication.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::gpu_spans::GpuSpans;
use crate::attribution::launches::Launched;
use crate::attribution::selection::family_of;
use crate::store::Store;
use crate::time::Ns;

/// What this calls kernels that are collectives by their names, and of no known family.
const OTHER: &str = "other";

/// The collectives of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FamilyTime {
    /// The family.
    pub family: String,
    /// How many kernels.
    pub kernels: u64,
    /// How long they ran, in ns.
    #[serde(rename = "gpu_time_ns")]
    pub gpu_time: Ns,
}

/// The collectives that start in a window, chosen or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NotAsked {
    /// How long all collectives ran, in ns.
    #[serde(rename = "collectives_ns")]
    pub collectives: Ns,
    /// Those that are not asked for by family, the longest first. Empty if the question leaves none out.
    pub families: Vec<FamilyTime>,
    /// How long kernels ran that compute and communicate at once, in ns. They count as computation.
    #[serde(rename = "fused_ns")]
    pub fused: Ns,
}

impl NotAsked {
    /// How long the collectives ran that are not asked for, in ns.
    pub fn gpu_time(&self) -> Ns {
        self.families.iter().map(|family| family.gpu_time).sum()
    }

    /// Adds those of another trace.
    pub(super) fn add(&mut self, other: NotAsked) {
        self.collectives += other.collectives;
        self.fused += other.fused;
        for of_other in other.families {
            match self.families.iter_mut().find(|family| family.family == of_other.family) {
                Some(family) => {
                    family.kernels += of_other.kernels;
                    family.gpu_time += of_other.gpu_time;
                }
                None => self.families.push(of_other),
            }
        }
        self.families.sort_by_key(|family| std::cmp::Reverse(family.gpu_time));
    }

    /// Those that count in these spans. `is_collective` says it by name; `chosen` are the kernels that are asked for, anywhere in the trace.
    pub(crate) fn of(store: &Store, is_collective: &[bool], chosen: &[Launched], spans: &GpuSpans<'_>) -> Self {
        let slices = &store.slices;
        let mut is_chosen = vec![false; is_collective.len()];
        chosen.iter().for_each(|launched| is_chosen[slices.name(launched.kernel).0 as usize] = true);
        let mut found = NotAsked::default();
        let mut families: BTreeMap<&str, FamilyTime> = BTreeMap::new();
        let mut family_of_name: BTreeMap<u32, &str> = BTreeMap::new();
        let mut is_fused: HashMap<u32, bool, FixedState> = HashMap::default();
        for kernel in store.kernels.iter().copied().filter(|kernel| spans.count(store, *kernel)) {
            let (name, time) = (slices.name(kernel), slices.dur(kernel).max(Ns::ZERO));
            if !is_collective[name.0 as usize] {
                let text = || store.strings.get(name).unwrap_or_default();
                let is_fused = *is_fused
                    .entry(name.0)
                    .or_insert_with(|| family_of(text()).is_some_and(|of| !of.only_communicates()));
                found.fused += if is_fused { time } else { Ns::ZERO };
                continue;
            }
            found.collectives += time;
            if is_chosen[name.0 as usize] {
                continue;
            }
            let family = || family_of(store.strings.get(name).unwrap_or_default()).map_or(OTHER, |family| family.name);
            let family = *family_of_name.entry(name.0).or_insert_with(family);
            let of_family = families.entry(family).or_insert_with(|| FamilyTime {
                family: family.to_owned(),
                kernels: 0,
                gpu_time: Ns::ZERO,
            });
            of_family.kernels += 1;
            of_family.gpu_time += time;
        }
        found.families = families.into_values().collect();
        found.families.sort_by_key(|family| std::cmp::Reverse(family.gpu_time));
        found
    }
}
