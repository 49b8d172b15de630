//! The collectives of a window that the question leaves out. Without them, a share of the stacks could be mistaken for a share of all communication.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::gpu_spans::GpuSpans;
use crate::attribution::exposure::GpuActivity;
use crate::attribution::launches::Launched;
use crate::attribution::selection::{family_in, family_of};
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::Ns;

/// The label of kernels that are collectives by name but of no known family.
const OTHER: &str = "other";

/// Some kernels and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelTime {
    /// The number of kernels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
    /// How long they ran, in ns.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_time_ns: Ns,
}

impl AddAssign for KernelTime {
    fn add_assign(&mut self, other: KernelTime) {
        self.kernels += other.kernels;
        self.gpu_time_ns += other.gpu_time_ns;
    }
}

/// The collectives of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FamilyTime {
    /// The family, or `other`.
    pub family: String,
    #[serde(flatten)]
    pub of: KernelTime,
}

/// Kernels of one name that may be communication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PossibleTime {
    /// Their name.
    pub name: String,
    /// The operator, annotation or C function that launches them; `None` if the kernel name alone indicates communication.
    pub caller: Option<String>,
    #[serde(flatten)]
    pub of: KernelTime,
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
        self.families.iter().map(|family| family.of.gpu_time_ns).sum()
    }

    pub(super) fn add(&mut self, other: NotAsked) {
        self.collectives_ns += other.collectives_ns;
        self.fused_ns += other.fused_ns;
        for of_other in other.families {
            match self.families.iter_mut().find(|family| family.family == of_other.family) {
                Some(family) => family.of += of_other.of,
                None => self.families.push(of_other),
            }
        }
        for of_other in other.possibly_communication {
            match self.possibly_communication.iter_mut().find(|known| known.name == of_other.name) {
                Some(known) => known.of += of_other.of,
                None => self.possibly_communication.push(of_other),
            }
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.families.sort_by_key(|family| Reverse(family.of.gpu_time_ns));
        self.possibly_communication.sort_by_key(|known| Reverse(known.of.gpu_time_ns));
    }

    /// The collectives that count in these spans. `chosen` are the chosen kernels of the whole trace.
    pub(crate) fn new(store: &Store, activity: &GpuActivity, chosen: &[Launched], spans: &GpuSpans<'_>) -> Self {
        let (slices, is_collective) = (&store.slices, &activity.is_collective);
        let mut is_chosen = vec![false; is_collective.len()];
        chosen.iter().for_each(|launched| is_chosen[slices.name(launched.kernel).0 as usize] = true);
        let mut found = NotAsked::default();
        let mut families: BTreeMap<&str, KernelTime> = BTreeMap::new();
        let mut family_of_name: BTreeMap<StringId, &str> = BTreeMap::new();
        let mut possible: BTreeMap<StringId, KernelTime> = BTreeMap::new();
        let mut is_fused = vec![false; is_collective.len()];
        for name in &store.names {
            is_fused[name.id.0 as usize] = family_in(store, name).is_some_and(|family| !family.only_communicates());
        }
        let text = |name: StringId| store.strings.get(name).unwrap_or_default();
        for kernel in store.kernels.iter().copied().filter(|kernel| spans.count(store, *kernel)) {
            let (name, time) = (slices.name(kernel), slices.dur(kernel).max(Ns::ZERO));
            let own = KernelTime { kernels: 1, gpu_time_ns: time };
            if is_collective[name.0 as usize] {
                found.collectives_ns += time;
                if !is_chosen[name.0 as usize] {
                    let family = || family_of(text(name)).map_or(OTHER, |family| family.name);
                    *families.entry(*family_of_name.entry(name).or_insert_with(family)).or_default() += own;
                }
            } else if activity.may_communicate(name).is_some() {
                *possible.entry(name).or_default() += own;
            } else if is_fused[name.0 as usize] {
                found.fused_ns += time;
            }
        }
        let family = |(family, of): (&str, KernelTime)| FamilyTime { family: family.to_owned(), of };
        let of_name = |(name, of): (StringId, KernelTime)| {
            let caller = activity.may_communicate(name).and_then(|of| of.caller).map(|caller| text(caller).to_owned());
            PossibleTime { name: text(name).to_owned(), caller, of }
        };
        found.families = families.into_iter().map(family).collect();
        found.possibly_communication = possible.into_iter().map(of_name).collect();
        found.sort();
        found
    }
}
