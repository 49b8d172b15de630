//! What the slices of a store are by their categories, and from when to when they last: found in one pass over all slices.

use std::collections::BTreeSet;
use std::num::NonZero;

use super::Name;
use super::extent::Extent;
use super::slices::Slices;
use super::strings::{StringId, Strings};
use crate::fork::in_parts;
use crate::id::SliceId;
use crate::nccl::category::CategoryKind;

/// A thread is started for so many slices at least.
const MIN_SLICES: usize = 1 << 16;

/// Slices and their names by kind.
#[derive(Default)]
pub(super) struct Roles {
    /// See [`super::Store::names`].
    pub(super) names: Vec<Name>,
    /// See [`super::Store::kernels`].
    pub(super) kernels: Vec<SliceId>,
    /// See [`super::Store::runtime_calls`].
    pub(super) runtime_calls: Vec<SliceId>,
    pub(super) extent: Extent,
}

/// By [`StringId`]: the kind of this text as a category, for those that are categories.
pub(super) fn category_kinds(categories: &BTreeSet<StringId>, strings: &Strings) -> Vec<CategoryKind> {
    let mut kinds = vec![CategoryKind::Cpu; categories.last().map_or(1, |id| id.0 as usize + 1)];
    for id in categories {
        kinds[id.0 as usize] = strings.get(*id).map_or(CategoryKind::Cpu, CategoryKind::of);
    }
    kinds
}

impl Roles {
    /// Those of all slices, found by so many threads.
    pub(super) fn of(slices: &Slices, category_kinds: &[CategoryKind], threads: NonZero<usize>) -> Self {
        let parts = in_parts(slices.len(), MIN_SLICES, threads, |ids| {
            Roles::of_some(slices, ids.map(SliceId::of_row), category_kinds)
        });
        let mut roles = parts.into_iter().reduce(Roles::join).unwrap_or_default();
        roles.names.retain(|name| name.id != StringId::NULL && (name.of_kernel || name.of_cpu || name.of_gpu));
        roles
    }

    /// Those of slices that follow each other. `names` is by [`StringId`] here.
    fn of_some(slices: &Slices, ids: impl Iterator<Item = SliceId>, category_kinds: &[CategoryKind]) -> Self {
        let mut roles = Roles::default();
        for slice in ids {
            roles.extent.add(slices.ts(slice), slices.dur(slice));
            let id = slices.name(slice);
            roles.make_room_for(id.0 as usize + 1);
            let name = &mut roles.names[id.0 as usize];
            match category_kinds[slices.category(slice).0 as usize] {
                CategoryKind::Kernel => {
                    name.of_kernel = true;
                    roles.kernels.push(slice);
                    roles.extent.add_kernel(slices.ts(slice));
                }
                CategoryKind::Runtime => {
                    name.of_cpu = true;
                    roles.runtime_calls.push(slice);
                }
                CategoryKind::Frame | CategoryKind::Cpu => name.of_cpu = true,
                CategoryKind::Gpu => name.of_gpu = true,
            }
        }
        roles
    }

    fn make_room_for(&mut self, names: usize) {
        let known = self.names.len();
        self.names.extend((known..names).map(|id| Name { id: StringId(id as u32), ..Name::default() }));
    }

    /// Those of these slices and of the ones that follow.
    fn join(mut self, next: Roles) -> Self {
        self.make_room_for(next.names.len());
        for (name, more) in self.names.iter_mut().zip(next.names) {
            name.of_kernel |= more.of_kernel;
            name.of_cpu |= more.of_cpu;
            name.of_gpu |= more.of_gpu;
        }
        self.kernels.extend(next.kernels);
        self.runtime_calls.extend(next.runtime_calls);
        self.extent.join(&next.extent);
        self
    }
}
