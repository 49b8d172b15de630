//! The names and last ends of slices, and the kinds of their categories, found in one pass over the rows.

use std::collections::BTreeSet;
use std::num::NonZero;

use super::Name;
use super::extent::{Counted, Ends};
use super::order::Role;
use super::slices::Rows;
use super::strings::{StringId, Strings};
use crate::id::TrackId;
use crate::names::category::CategoryKind;
use crate::parallel::in_parts;
use crate::time::Ns;

/// The minimum number of rows per thread.
const MIN_ROWS: usize = 1 << 16;

/// The kind of each text as a category, by [`StringId`].
pub(super) fn category_kinds(categories: &BTreeSet<StringId>, strings: &Strings) -> Vec<CategoryKind> {
    let mut kinds = vec![CategoryKind::Cpu; categories.last().map_or(1, |id| id.0 as usize + 1)];
    for id in categories {
        kinds[id.0 as usize] = strings.get(*id).map_or(CategoryKind::Cpu, CategoryKind::from_name);
    }
    kinds
}

impl Role {
    pub(super) fn from_kind(kind: CategoryKind) -> Self {
        match kind {
            CategoryKind::Kernel => Role::Kernel,
            CategoryKind::Runtime => Role::RuntimeCall,
            CategoryKind::Gpu | CategoryKind::Frame | CategoryKind::Cpu => Role::Other,
        }
    }
}

/// The names of slices, and their last ends.
#[derive(Default)]
pub(super) struct Named {
    /// See [`super::Store::names`]; indexed by [`StringId`] until the end.
    pub(super) names: Vec<Name>,
    pub(super) ends: Ends,
}

impl Named {
    /// Takes all rows except the dropped ones, which are sorted. `kinds` is indexed by category.
    pub(super) fn find(
        rows: &Rows,
        dropped: &[u32],
        kinds: &[CategoryKind],
        counted: &Counted,
        threads: NonZero<usize>,
    ) -> Self {
        let parts = in_parts(rows.len(), MIN_ROWS, threads, |part| {
            let (first, last) = (part.start, part.end);
            let from = dropped.partition_point(|row| (*row as usize) < first);
            let (mut named, mut dropped) = (Named::default(), dropped[from..].iter().peekable());
            for row in first..last {
                if dropped.next_if(|dropped| **dropped as usize == row).is_none() {
                    named.add(rows, row, kinds, counted);
                }
            }
            named
        });
        let mut named = parts.into_iter().reduce(Named::join).unwrap_or_default();
        named.names.retain(|name| name.id != StringId::NULL && (name.of_kernel || name.of_cpu || name.of_gpu));
        named
    }

    #[inline]
    fn add(&mut self, rows: &Rows, row: usize, kinds: &[CategoryKind], counted: &Counted) {
        let (ts, kind) = (Ns(rows.ts[row]), kinds[rows.category[row].0 as usize]);
        self.ends.add(ts, Ns(rows.dur.get(row)), counted.counts(kind, TrackId(rows.track[row])));
        let id = rows.name[row].0 as usize;
        self.make_room_for(id + 1);
        let name = &mut self.names[id];
        match kind {
            CategoryKind::Kernel => {
                name.of_kernel = true;
                self.ends.add_kernel(ts);
            }
            CategoryKind::Runtime | CategoryKind::Frame | CategoryKind::Cpu => name.of_cpu = true,
            CategoryKind::Gpu => name.of_gpu = true,
        }
    }

    fn make_room_for(&mut self, names: usize) {
        let known = self.names.len();
        self.names.extend((known..names).map(|id| Name { id: StringId(id as u32), ..Name::default() }));
    }

    fn join(mut self, other: Named) -> Self {
        self.make_room_for(other.names.len());
        for (name, more) in self.names.iter_mut().zip(other.names) {
            name.of_kernel |= more.of_kernel;
            name.of_cpu |= more.of_cpu;
            name.of_gpu |= more.of_gpu;
        }
        self.ends.join(other.ends);
        self
    }
}
