//! Words that loom watches: only those that a model names, for each costs.

use std::collections::BTreeMap;

use loom::sync::atomic::AtomicU64;
pub(crate) use loom::sync::atomic::{Ordering, fence};

/// The words of a model, by their offsets in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(&'static BTreeMap<usize, AtomicU64>);

impl Words {
    /// With words of zeros at these offsets, and the system's memory of none.
    pub(crate) fn of(offsets: impl Iterator<Item = usize>) -> Words {
        Words(Box::leak(Box::new(offsets.map(|at| (at, AtomicU64::new(0))).collect())))
    }

    /// No model has memory.
    pub(crate) unsafe fn new(_: std::ptr::NonNull<u64>) -> Words {
        unreachable!()
    }

    pub(crate) fn at(&self, offset: usize) -> &AtomicU64 {
        &self.0[&offset]
    }
}
