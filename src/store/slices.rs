//! The slices of a trace as columns, in the order of their ids, which is time order.

use std::collections::{BTreeMap, HashMap};

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
    /// Its correlation id.
    pub correlation: Correlations,
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
            ts: column(n),
            dur: column(n),
            track: column(n),
            name: column(n),
            category: column(n),
            depth: column(n),
            parent: column(n),
            args: column(n),
            correlation: Correlations { small: column(n), large: HashMap::new() },
            thread_times: BTreeMap::new(),
        }
    }
}

/// An empty column with room for `n` values.
///
/// Columns are tens of megabytes that are written once from end to end; on virtual machines half of the time for that goes into
/// providing pages of 4 KiB one by one. Linux gives pages of 2 MiB where it is asked to.
fn column<T>(n: usize) -> Vec<T> {
    let column: Vec<T> = Vec::with_capacity(n);
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let start = column.as_ptr().addr().next_multiple_of(PAGE);
        let end = (column.as_ptr().addr() + n * size_of::<T>()) & !(PAGE - 1);
        if end > start {
            // SAFETY: the range lies within the column's own memory, and the advice changes neither its contents nor what may be
            // done with it. That it may be refused is no harm.
            unsafe {
                libc::madvise(column.as_ptr().cast_mut().with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE)
            };
        }
    }
    column
}

/// The numbers that GPU work shares with the calls that launched it. They fit 32 bits, unless somebody made them up.
#[derive(Debug, Default)]
pub struct Correlations {
    /// 0: none; [`LARGE`]: in the other column.
    small: Vec<u32>,
    large: HashMap<u32, i64>,
}

const LARGE: u32 = u32::MAX;

impl Correlations {
    /// The id of a slice; CUPTI counts from 1.
    pub fn get(&self, slice: usize) -> Option<i64> {
        match self.small.get(slice).copied()? {
            0 => None,
            LARGE => self.large.get(&(slice as u32)).copied(),
            id => Some(id.into()),
        }
    }

    /// Adds the next slice's; 0 for none.
    #[inline]
    pub(super) fn push(&mut self, id: u32) {
        if id == LARGE {
            self.large.insert(self.small.len() as u32, id.into());
        }
        self.small.push(id);
    }

    /// Sets that of a slice, which may be the next one.
    pub(super) fn set(&mut self, slice: u32, id: i64) {
        if slice as usize == self.small.len() {
            self.small.push(0);
        }
        match u32::try_from(id) {
            Ok(small) if small != LARGE => self.small[slice as usize] = small,
            _ => {
                self.small[slice as usize] = LARGE;
                self.large.insert(slice, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_ids_may_be_of_any_size() {
        let mut ids = Correlations::default();
        ids.push(0);
        ids.push(7);
        ids.push(u32::MAX);
        ids.set(3, i64::MAX);
        ids.set(4, 0);
        ids.set(1, 8);
        ids.set(2, 9);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|i| ids.get(i)), [None, Some(8), Some(9), Some(i64::MAX), None, None]);
        ids.set(4, u32::MAX.into());
        assert_eq!(ids.get(4), Some(u32::MAX.into()));
    }
}
