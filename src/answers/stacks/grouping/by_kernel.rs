//! Keys from the kernel itself: its name, where it ran, and the collective that it carries out.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::value::{GroupValue, NOT_RECORDED, Values};
use super::{GroupBy, Naming};
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::family_of;
use crate::attribution::{Attribution, KernelLaunch};
use crate::id::SliceId;
use crate::operation::{Communicator, Operation};
use crate::store::Store;
use crate::store::strings::StringId;

/// The value of collective keys for kernels that are not collectives.
const NO_COLLECTIVE: &str = "(no collective)";

/// The category of kernels that move no data between GPUs.
const COMPUTATION: &str = "computation";

/// The category of kernels that no known family matches and that may be communication.
const POSSIBLE: &str = "possible communication";

/// The category of collectives of no known family.
const OTHER: &str = "other collectives";

pub(super) struct ByKernel<'a> {
    store: &'a Store,
    attribution: &'a Attribution,
    naming: Naming<'a>,
    /// By kernel, if a key is about collectives: the parts of its operation that keys need.
    operations: HashMap<SliceId, OfOperation, FixedState>,
    communicators: Vec<Communicator>,
    /// By index of the key and the text that determines its value.
    by_name: HashMap<(usize, StringId), u32, FixedState>,
}

struct OfOperation {
    communicator: Option<usize>,
    collective: Option<std::sync::Arc<str>>,
    bytes: Option<u64>,
}

impl<'a> ByKernel<'a> {
    pub(super) fn new(store: &'a Store, attribution: &'a Attribution, by: &[GroupBy], naming: Naming<'a>) -> Self {
        let needs = |key: &GroupBy| matches!(key, GroupBy::Group | GroupBy::Collective | GroupBy::Size);
        let (mut operations, mut communicators) = (HashMap::default(), Vec::new());
        if by.iter().any(needs) {
            let ranks = Ranks::find(store, &attribution.kernels);
            communicators = Operations::each(store, attribution, &ranks, |operation, row| {
                let Operation { communicator, collective, bytes, .. } = operation;
                operations.insert(row.launched.kernel, OfOperation { communicator, collective, bytes });
            });
        }
        ByKernel { store, attribution, naming, operations, communicators, by_name: HashMap::default() }
    }

    /// The number of a kernel's value; `None` for keys that do not come from the kernel itself. `at` is the index of the key.
    pub(super) fn number(&mut self, values: &mut Values, at: usize, key: &GroupBy, row: &KernelLaunch) -> Option<u32> {
        let kernel = row.launched.kernel;
        let name = self.store.slices.name(kernel);
        let value = match key {
            GroupBy::Kernel | GroupBy::Category => {
                let text = self.store.strings.get(name).unwrap_or_default();
                let is_kernel = matches!(key, GroupBy::Kernel);
                let value = || if is_kernel { text } else { category(self.attribution, name, text) };
                let number = || values.number(GroupValue::single(value()));
                return Some(*self.by_name.entry((at, name)).or_insert_with(number));
            }
            GroupBy::Stream => self.stream(kernel),
            GroupBy::Rank => (self.naming.rank)(row),
            GroupBy::Group => self.of_operation(kernel, |known| self.group(known.communicator?)),
            GroupBy::Collective => self.of_operation(kernel, |known| known.collective.as_deref().map(str::to_owned)),
            GroupBy::Size => self.of_operation(kernel, |known| known.bytes.map(size_class)),
            _ => return None,
        };
        Some(values.number(GroupValue::single(value)))
    }

    fn stream(&self, kernel: SliceId) -> String {
        let gpu = self.store.tracks.process(self.store.gpu_of(kernel).process).pid;
        match self.store.stream_of(kernel) {
            Some(stream) => format!("GPU {gpu} stream {}", self.store.tracks.thread(stream).tid),
            None => format!("GPU {gpu}"),
        }
    }

    fn of_operation(&self, kernel: SliceId, value: impl Fn(&OfOperation) -> Option<String>) -> String {
        match self.operations.get(&kernel) {
            Some(known) => value(known).unwrap_or_else(|| NOT_RECORDED.to_owned()),
            None => NO_COLLECTIVE.to_owned(),
        }
    }

    /// `mesh_tp (3), 4 ranks`
    fn group(&self, communicator: usize) -> Option<String> {
        let Communicator { name, description, size, .. } = self.communicators.get(communicator)?;
        let mut text = match (description, name) {
            (Some(description), Some(name)) => format!("{description} ({name})"),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => "group".to_owned(),
        };
        if let Some(size) = size {
            text.push_str(&format!(", {size} ranks"));
        }
        Some(text)
    }
}

/// The family of a kernel, or what it does.
fn category(attribution: &Attribution, name: StringId, text: &str) -> &'static str {
    match family_of(text) {
        Some(family) => family.name,
        None if attribution.activity.is_collective[name.0 as usize] => OTHER,
        None if attribution.activity.may_communicate(name).is_some() => POSSIBLE,
        None => COMPUTATION,
    }
}

/// The class of a size: from one power of two to the next.
fn size_class(bytes: u64) -> String {
    let Some(power) = bytes.checked_ilog2() else { return "0 B".to_owned() };
    let bound = |power: u32| {
        let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][(power / 10) as usize];
        format!("{} {unit}", 1u64 << (power % 10))
    };
    format!("{} to {}", bound(power), bound(power + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_classes() {
        for (bytes, want) in [
            (0, "0 B"),
            (1, "1 B to 2 B"),
            (1023, "512 B to 1 KiB"),
            (1024, "1 KiB to 2 KiB"),
            (5_746_640, "4 MiB to 8 MiB"),
            (u64::MAX, "8 EiB to 16 EiB"),
        ] {
            assert_eq!(size_class(bytes), want);
        }
    }
}
