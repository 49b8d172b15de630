//! The collectives of a window that the question leaves out. Without them, a share of the stacks could be mistaken for a share of all communication.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gpu_spans::GpuSpans;
use crate::attribution::exposure::GpuActivity;
use crate::attribution::launches::Launched;
use crate::attribution::selection::{family_in, family_of};
use crate::store::Store;
use crate::time::Ns;

/// The label of kernels that are collectives by name but of no known family.
const OTHER: &str = "other";

/// The collectives of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FamilyTime {
    /// The family, or `other`.
    pub family: String,
    /// The number of kernels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
    /// How long they ran, in ns.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_time_ns: Ns,
}

/// Kernels of one name that may be communication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PossibleTime {
    /// Their name.
    pub name: String,
    /// The operator, annotation or C function that launches them; `None` if the kernel name alone indicates communication.
    pub caller: Option<String>,
    /// The number of kernels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
    /// How long they ran, in ns.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_time_ns: Ns,
}

/// The collectives that count in a window, chosen or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotAsked {
    /// How long all collectives ran, in ns.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub collectives_ns: Ns,
    /// The collectives that the question leaves out, by family, longest first. Empty if it leaves none out.
    pub families: Vec<FamilyTime>,
    /// How long kernels ran that compute and communicate at once, in ns. They count as computation.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub fused_ns: Ns,
    /// Kernels of no known family that may be communication, by name, longest first. They count neither as collectives nor as computation.
    pub possibly_communication: Vec<PossibleTime>,
}

impl NotAsked {
    /// How long the collectives that the question leaves out ran, in ns.
    pub fn gpu_time(&self) -> Ns {
        self.families.iter().map(|family| family.gpu_time_ns).sum()
    }

    pub(super) fn add(&mut self, other: NotAsked) {
        self.collectives_ns += other.collectives_ns;
        self.fused_ns += other.fused_ns;
        for of_other in other.families {
            match self.families.iter_mut().find(|family| family.family == of_other.family) {
                Some(family) => {
                    family.kernels += of_other.kernels;
                    family.gpu_time_ns += of_other.gpu_time_ns;
                }
                None => self.families.push(of_other),
            }
        }
        self.families.sort_by_key(|family| std::cmp::Reverse(family.gpu_time_ns));
        for of_other in other.possibly_communication {
            match self.possibly_communication.iter_mut().find(|known| known.name == of_other.name) {
                Some(known) => {
                    known.kernels += of_other.kernels;
                    known.gpu_time_ns += of_other.gpu_time_ns;
                }
                None => self.possibly_communication.push(of_other),
            }
        }
        self.possibly_communication.sort_by_key(|of| std::cmp::Reverse(of.gpu_time_ns));
    }

    /// The collectives that count in these spans. `chosen` are the chosen kernels of the whole trace.
    pub(crate) fn new(store: &Store, activity: &GpuActivity, chosen: &[Launched], spans: &GpuSpans<'_>) -> Self {
        let (slices, is_collective) = (&store.slices, &activity.is_collective);
        let mut is_chosen = vec![false; is_collective.len()];
        chosen.iter().for_each(|launched| is_chosen[slices.name(launched.kernel).0 as usize] = true);
        let mut found = NotAsked::default();
        let mut families: BTreeMap<&str, FamilyTime> = BTreeMap::new();
        let mut family_of_name: BTreeMap<u32, &str> = BTreeMap::new();
        let mut possible: BTreeMap<u32, PossibleTime> = BTreeMap::new();
        let mut is_fused = vec![false; is_collective.len()];
        for name in &store.names {
            is_fused[name.id.0 as usize] = family_in(store, name).is_some_and(|family| !family.only_communicates());
        }
        for kernel in store.kernels.iter().copied().filter(|kernel| spans.count(store, *kernel)) {
            let (name, time) = (slices.name(kernel), slices.dur(kernel).max(Ns::ZERO));
            if !is_collective[name.0 as usize] {
                let text = || store.strings.get(name).unwrap_or_default();
                if let Some(of) = activity.may_communicate(name) {
                    let of_name = possible.entry(name.0).or_insert_with(|| PossibleTime {
                        name: text().to_owned(),
                        caller: of.caller.and_then(|caller| store.strings.get(caller)).map(str::to_owned),
                        kernels: 0,
                        gpu_time_ns: Ns::ZERO,
                    });
                    of_name.kernels += 1;
                    of_name.gpu_time_ns += time;
                    continue;
                }
                found.fused_ns += if is_fused[name.0 as usize] { time } else { Ns::ZERO };
                continue;
            }
            found.collectives_ns += time;
            if is_chosen[name.0 as usize] {
                continue;
            }
            let family = || family_of(store.strings.get(name).unwrap_or_default()).map_or(OTHER, |family| family.name);
            let family = *family_of_name.entry(name.0).or_insert_with(family);
            let of_family = families.entry(family).or_insert_with(|| FamilyTime {
                family: family.to_owned(),
                kernels: 0,
                gpu_time_ns: Ns::ZERO,
            });
            of_family.kernels += 1;
            of_family.gpu_time_ns += time;
        }
        found.possibly_communication = possible.into_values().collect();
        found.possibly_communication.sort_by_key(|of| std::cmp::Reverse(of.gpu_time_ns));
        found.families = families.into_values().collect();
        found.families.sort_by_key(|family| std::cmp::Reverse(family.gpu_time_ns));
        found
    }
}
