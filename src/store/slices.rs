//! The slices of a trace as columns, in the order of their ids, which is time order.

use std::collections::BTreeMap;

use super::args::ArgSetId;
use super::strings::StringId;

/// A slice that is at the top of its track has this for its parent.
pub const NO_PARENT: u32 = u32::MAX;

/// The length of a slice that was opened and never closed.
pub const UNFINISHED: i64 = -1;

/// The slices; slice `i` is row `i` of every column.
#[derive(Debug, Default)]
pub struct Slices {
    /// Start, in ns; never falls from one row to the next.
    pub ts: Vec<i64>,
    /// Length in ns, or [`UNFINISHED`].
    pub dur: Vec<i64>,
    /// The track it lies on.
    pub track: Vec<u32>,
    /// Its name.
    pub name: Vec<StringId>,
    /// Its category.
    pub category: Vec<StringId>,
    /// How many slices enclose it on its track.
    pub depth: Vec<u16>,
    /// The innermost of these, or [`NO_PARENT`].
    pub parent: Vec<u32>,
    /// Its arguments.
    pub args: Vec<ArgSetId>,
    /// CPU time of its thread, in ns: at its start, and how much of it passed. Few traces have it.
    pub thread_times: BTreeMap<u32, (Option<i64>, Option<i64>)>,
}

impl Slices {
    /// How many slices there are.
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    pub(super) fn with_capacity(n: usize) -> Self {
        Slices {
            ts: Vec::with_capacity(n),
            dur: Vec::with_capacity(n),
            track: Vec::with_capacity(n),
            name: Vec::with_capacity(n),
            category: Vec::with_capacity(n),
            depth: Vec::with_capacity(n),
            parent: Vec::with_capacity(n),
            args: Vec::with_capacity(n),
            thread_times: BTreeMap::new(),
        }
    }
}
