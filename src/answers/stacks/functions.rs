//! What the launching threads of a window run around their calls: Python functions, operators, annotations, and the calls themselves, nested.
//!
//! A window may have a hundred thousand, of which a page has room for some thousands. Those that are seen first when one zooms in are the longest; a
//! drawing begins with the costliest step, so there shorter ones are kept than elsewhere.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::id::{SliceId, ThreadId};
use crate::names::category::CategoryKind;
use crate::numbers::Numbers;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// In the costliest step, what is this many times shorter counts as much as elsewhere. A trace has about twice as many functions of half the length,
/// so of eight alike steps it has half of all rows.
pub(crate) const FINER: i64 = 8;

/// More rows than a page has room for, whatever they are.
const MOST: usize = 20_000;

#[derive(Debug, Clone, Default)]
pub struct Functions {
    /// By thread and start, the outer ones first.
    pub rows: Vec<FunctionRow>,
    /// How many there are in all.
    pub found: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionRow {
    /// Index of its thread.
    pub thread: u32,
    /// Start and end in ns since the window began, cut at the edges of the window.
    pub window: Window,
    /// Index of its name.
    pub name: u32,
    /// Whether it is a call into the runtime.
    pub is_call: bool,
}

impl Functions {
    /// What the threads, which have these places, run in a window. The step is in ns since the window began.
    pub(crate) fn find(
        store: &Store,
        window: Window,
        step: Option<Window>,
        place: &HashMap<ThreadId, u32>,
        names: &mut Numbers<StringId>,
    ) -> Self {
        let of_cpu = |slice: SliceId| match store.category_kind(slice) {
            CategoryKind::Runtime => Some(true),
            CategoryKind::Frame | CategoryKind::Cpu => Some(false),
            CategoryKind::Kernel | CategoryKind::Gpu => None,
        };
        let row = |slice: SliceId| {
            let own = store.slices.window(slice);
            let is_call = of_cpu(slice).filter(|_| own.overlaps(window))?;
            let thread = *place.get(&store.thread_of(slice)?)?;
            Some((slice, FunctionRow { thread, window: own.within(window), name: 0, is_call }))
        };
        let mut all: Vec<(SliceId, FunctionRow)> = store.slices.ids().filter_map(row).collect();
        let found = all.len() as u64;
        keep_heaviest(&mut all, MOST, |(_, row)| weight(row, step));
        all.sort_by_key(|(slice, row)| (row.thread, row.window.start, Reverse(row.window.end), *slice));
        let named = |(slice, row)| FunctionRow { name: names.number(store.slices.name(slice)), ..row };
        Functions { rows: all.into_iter().map(named).collect(), found }
    }

    /// The heaviest rows, in their order, and the least weight.
    pub(crate) fn heaviest(&self, most: usize, step: Option<Window>) -> (Vec<FunctionRow>, Ns) {
        let mut rows: Vec<(usize, FunctionRow)> = self.rows.iter().copied().enumerate().collect();
        keep_heaviest(&mut rows, most, |(_, row)| weight(row, step));
        rows.sort_unstable_by_key(|(at, _)| *at);
        let least = rows.iter().map(|(_, row)| weight(row, step)).min().unwrap_or_default();
        (rows.into_iter().map(|(_, row)| row).collect(), least)
    }
}

/// How long it is, or would be outside of the costliest step. A function weighs at least as much as what it calls.
fn weight(row: &FunctionRow, step: Option<Window>) -> Ns {
    let is_finer = step.is_some_and(|step| step.overlaps(row.window));
    Ns(row.window.duration().0.saturating_mul(if is_finer { FINER } else { 1 }))
}

/// Keeps so many, of equal ones the first.
fn keep_heaviest<T>(rows: &mut Vec<T>, most: usize, weight: impl Fn(&T) -> Ns) {
    if rows.len() > most {
        rows.sort_by_key(|row| Reverse(weight(row)));
        rows.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two steps of 100 ns the second is the costliest: there 5 ns count as 40 elsewhere. What spans both is in it, too.
    #[test]
    fn the_costliest_step_has_shorter_ones() {
        let row = |start, end| FunctionRow {
            thread: 0,
            window: Window { start: Ns(start), end: Ns(end) },
            name: 0,
            is_call: false,
        };
        let rows = vec![row(0, 200), row(10, 49), row(60, 80), row(110, 115), row(120, 124)];
        let all = Functions { found: rows.len() as u64, rows };
        let step = Some(Window { start: Ns(100), end: Ns(200) });
        assert_eq!(all.heaviest(2, step), (vec![all.rows[0], all.rows[3]], Ns(40)));
        assert_eq!(all.heaviest(3, step).0, [all.rows[0], all.rows[1], all.rows[3]]);
        assert_eq!(all.heaviest(2, None), (vec![all.rows[0], all.rows[1]], Ns(39)));
        assert_eq!(all.heaviest(9, step).0, all.rows);
    }
}
