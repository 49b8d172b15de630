//! Words that loom watches, each of which is expensive; and other words, whose order is not explored.

use std::collections::BTreeMap;
use std::sync::atomic;

pub(crate) use loom::sync::atomic::{Ordering, fence};

/// The words of a model, by their offsets in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(&'static BTreeMap<usize, Word>);

/// One word.
#[derive(Debug)]
pub(crate) enum Word {
    Watched(loom::sync::atomic::AtomicU64),
    Other(atomic::AtomicU64),
}

impl Words {
    /// Zeroed words at these offsets. There is no real memory.
    pub(crate) fn new(watched: impl Iterator<Item = usize>, others: impl Iterator<Item = usize>) -> Words {
        let others = others.map(|at| (at, Word::Other(atomic::AtomicU64::new(0))));
        let watched = watched.map(|at| (at, Word::Watched(loom::sync::atomic::AtomicU64::new(0))));
        Words(Box::leak(Box::new(others.chain(watched).collect())))
    }

    /// Models have no real memory.
    pub(crate) unsafe fn new(_: std::ptr::NonNull<u64>) -> Words {
        unreachable!()
    }

    pub(crate) fn at(&self, offset: usize) -> &Word {
        &self.0[&offset]
    }
}

/// Runs an operation of the format on a word.
macro_rules! on {
    ($word:expr, $atomic:ident => $what:expr) => {
        match $word {
            Word::Watched($atomic) => $what,
            Word::Other($atomic) => $what,
        }
    };
}

impl Word {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        on!(self, word => word.load(order))
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        on!(self, word => word.store(value, order));
    }

    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        on!(self, word => word.fetch_add(value, order))
    }

    pub(crate) fn compare_exchange(&self, from: u64, to: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        on!(self, word => word.compare_exchange(from, to, done, not))
    }

    pub(crate) fn compare_exchange_weak(&self, from: u64, to: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        // Loom's weak exchange only fails if the word differs.
        self.compare_exchange(from, to, done, not)
    }
}
