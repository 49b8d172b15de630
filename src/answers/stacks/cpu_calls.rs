//! The calls of a window that a drawing shows beside the kernels: by thread, those that launch kernels or graphs, and those that block.
//!
//! A call inside another one of these is part of it, so the calls of a thread never overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::functions::{FINER, Functions};
use crate::attribution::launches;
use crate::id::{SliceId, ThreadId};
use crate::names::calls::{Work, waits_for_collective, waits_for_gpu};
use crate::names::category::CategoryKind;
use crate::numbers::Numbers;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

#[derive(Debug, Clone, Default)]
pub struct CpuCalls {
    /// The threads that launch kernels in the window, by process and number.
    pub threads: Vec<CpuThread>,
    /// The names of the calls, each once.
    pub names: Vec<String>,
    /// The calls, by start.
    pub rows: Vec<CallRow>,
    /// Neighbours of one kind with a gap up to this are merged into one row; 0 if no rows are merged.
    pub merged: Ns,
    /// The number of calls left out because there were too many rows; the shortest rows go first.
    pub left_out: u64,
    /// What the threads run around these calls; their names are among those of the calls.
    pub functions: Functions,
    /// The costliest step, in ns since the window began, if there are several: it is drawn finer.
    pub step: Option<Window>,
}

/// A thread that launches kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuThread {
    /// Its process: the number that the trace has.
    pub process: i64,
    /// Its number in the trace.
    pub thread: i64,
    /// Its name; empty if it has none.
    pub name: String,
}

/// A call, or several merged ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRow {
    /// Index of its thread.
    pub thread: u32,
    /// Start and end in ns since the window began, cut at the edges of the window.
    pub window: Window,
    /// Index of its name; `None` for merged calls of several names.
    pub name: Option<u32>,
    /// Whether it blocks; otherwise it launches.
    pub blocks: bool,
    pub count: u64,
    /// Whether it launched a chosen kernel; then it is never merged.
    pub is_chosen: bool,
}

impl CallRow {
    /// Whether two neighbours may be one row: both launch, or both block, and neither launched a chosen kernel.
    fn may_join(&self, next: &CallRow) -> bool {
        self.blocks == next.blocks && !self.is_chosen && !next.is_chosen
    }
}

/// A call before it has a row.
struct Call {
    slice: SliceId,
    thread: ThreadId,
    window: Window,
    blocks: bool,
}

impl CpuCalls {
    /// The calls of a window, and the row of each call of `chosen`, if it has one.
    pub(crate) fn find(
        store: &Store,
        window: Window,
        step: Option<Window>,
        chosen: &BTreeSet<SliceId>,
    ) -> (Self, HashMap<SliceId, u32>) {
        let mut calls = CpuCalls { step, ..CpuCalls::default() };
        let mut found = outermost(in_window(store, window));
        let launching: BTreeSet<ThreadId> = found.iter().filter(|call| !call.blocks).map(|call| call.thread).collect();
        found.retain(|call| launching.contains(&call.thread));
        let place = calls.add_threads(store, launching);
        // What begins before the window is cut to its start, where threads are in their order.
        found.sort_by_key(|call| (call.window.start.max(window.start), place[&call.thread]));
        let mut names: Numbers<StringId> = Numbers::default();
        let row = |call: &Call| CallRow {
            thread: place[&call.thread],
            window: call.window.within(window),
            name: Some(names.number(store.slices.name(call.slice))),
            blocks: call.blocks,
            count: 1,
            is_chosen: chosen.contains(&call.slice),
        };
        calls.rows = found.iter().map(row).collect();
        calls.functions = Functions::find(store, window, step, &place, &mut names);
        calls.names = texts(store, names);
        let of_chosen = found.iter().zip(0..).filter(|(call, _)| chosen.contains(&call.slice));
        let of_call = of_chosen.map(|(call, at)| (call.slice, at)).collect();
        (calls, of_call)
    }

    fn add_threads(&mut self, store: &Store, launching: BTreeSet<ThreadId>) -> HashMap<ThreadId, u32> {
        let thread = |id: ThreadId| {
            let thread = store.tracks.thread(id);
            let name = store.strings.get(thread.name).unwrap_or_default().to_owned();
            let process = store.tracks.process(thread.upid);
            (process.trace, CpuThread { process: process.pid, thread: thread.tid, name }, id)
        };
        let mut threads: Vec<_> = launching.into_iter().map(thread).collect();
        threads.sort_by_key(|(trace, thread, id)| (*trace, thread.process, thread.thread, *id));
        let place = threads.iter().zip(0..).map(|((_, _, id), at)| (*id, at)).collect();
        self.threads = threads.into_iter().map(|(_, thread, _)| thread).collect();
        place
    }

    /// Reduces the rows to at most `most`: merges those with the smallest gaps, then leaves out the shortest. Returns the new place of each row that
    /// launched a chosen kernel, if it has one.
    pub(crate) fn thin(&mut self, most: usize) -> Vec<Option<u32>> {
        let before = self.rows.clone();
        if let Some(surplus) = before.len().checked_sub(most).and_then(|over| over.checked_sub(1)) {
            let mut gaps = gaps(&before, self.step, self.threads.len());
            gaps.sort_unstable();
            let gap = gaps.get(surplus).or(gaps.last()).copied().unwrap_or_default();
            self.merged = self.merged.max(gap).max(Ns(1));
            self.rows = merged(&before, gap, self.step, self.threads.len());
        }
        if self.rows.len() > most {
            self.shorten(most);
        }
        let key = |row: &CallRow| (row.window.start, row.thread);
        let rows = &self.rows;
        let place = |row: &CallRow| rows.binary_search_by_key(&key(row), key).ok().map(|at| at as u32);
        before.iter().map(|row| place(row).filter(|_| row.is_chosen)).collect()
    }

    /// Leaves out the shortest rows until at most `most` remain, and counts their calls. Launches of chosen kernels go last.
    fn shorten(&mut self, most: usize) {
        let rows = std::mem::take(&mut self.rows);
        let mut kept: Vec<usize> = (0..rows.len()).collect();
        kept.sort_by_key(|at| (!rows[*at].is_chosen, std::cmp::Reverse(rows[*at].window.duration()), *at));
        kept.truncate(most);
        kept.sort_unstable();
        self.rows = kept.into_iter().map(|at| rows[at]).collect();
        let count = |rows: &[CallRow]| rows.iter().map(|row| row.count).sum::<u64>();
        self.left_out += count(&rows) - count(&self.rows);
    }
}

/// The texts that have numbers.
pub(super) fn texts(store: &Store, names: Numbers<StringId>) -> Vec<String> {
    names.list.into_iter().map(|name| store.strings.get(name).unwrap_or_default().to_owned()).collect()
}

/// The calls that overlap a window, in the order of their starts.
fn in_window(store: &Store, window: Window) -> Vec<Call> {
    let copies = copies_until(store);
    let waiting: BTreeSet<StringId> = store
        .names
        .iter()
        .filter(|name| name.of_cpu && store.strings.get(name.id).is_some_and(waits_for_collective))
        .map(|name| name.id)
        .collect();
    let call = |slice: SliceId, blocks: bool| {
        let own = store.slices.window(slice);
        Some(Call { slice, thread: store.thread_of(slice).filter(|_| own.overlaps(window))?, window: own, blocks })
    };
    let runtime = |slice: SliceId| {
        let name = store.slice_name(slice);
        let end = store.slices.ts(slice) + store.slices.dur(slice);
        // A call that goes on after the end of its copy waited for it.
        let blocks = waits_for_gpu(name) || copies.get(&slice).is_some_and(|last| *last <= end);
        (blocks || Work::is_launch(name)).then(|| call(slice, blocks)).flatten()
    };
    let mut found: Vec<Call> = store.runtime_calls.iter().filter_map(|slice| runtime(*slice)).collect();
    if !waiting.is_empty() {
        let waits = store.slices.ids().filter(|slice| waiting.contains(&store.slices.name(*slice)));
        found.extend(waits.filter_map(|slice| call(slice, true)));
    }
    found.sort_by_key(|call| (call.window.start, std::cmp::Reverse(call.window.end), call.slice));
    found
}

/// By call: the end of the last copy that it launched.
fn copies_until(store: &Store) -> HashMap<SliceId, Ns> {
    let is_copy = |slice: &SliceId| {
        store.category_kind(*slice) == CategoryKind::Gpu
            && Work::of_slice(store.slice_name(*slice), false) == Some(Work::Copy)
    };
    let copies: Vec<SliceId> = store.slices.ids().filter(is_copy).collect();
    let mut until: HashMap<SliceId, Ns> = HashMap::new();
    for launched in launches::for_work(store, copies).kernels {
        let end = store.slices.window(launched.kernel).end;
        let Some(call) = launched.call else { continue };
        until.entry(call).and_modify(|last| *last = (*last).max(end)).or_insert(end);
    }
    until
}

/// The calls that are in no other one of their thread.
fn outermost(calls: Vec<Call>) -> Vec<Call> {
    let mut until: BTreeMap<ThreadId, Ns> = BTreeMap::new();
    let is_outermost = |call: &Call| {
        let until = until.entry(call.thread).or_insert(Ns::MIN);
        let is_outermost = call.window.start >= *until;
        *until = (*until).max(call.window.end);
        is_outermost
    };
    calls.into_iter().filter(is_outermost).collect()
}

/// The gap between two neighbours. In the costliest step it counts as a longer one.
fn gap(before: &CallRow, row: &CallRow, step: Option<Window>) -> Ns {
    let gap = row.window.start - before.window.end;
    if step.is_some_and(|step| step.overlaps(row.window)) { Ns(gap.0.saturating_mul(FINER)) } else { gap }
}

/// The gaps between neighbours on a thread that may be merged.
fn gaps(rows: &[CallRow], step: Option<Window>, threads: usize) -> Vec<Ns> {
    let mut last: Vec<Option<CallRow>> = vec![None; threads];
    let gap = |row: &CallRow| {
        let before = last[row.thread as usize].replace(*row)?;
        before.may_join(row).then(|| gap(&before, row, step))
    };
    rows.iter().filter_map(gap).collect()
}

/// Merges neighbours on a thread if the gap between them is at most `most`.
fn merged(rows: &[CallRow], most: Ns, step: Option<Window>, threads: usize) -> Vec<CallRow> {
    let mut found: Vec<CallRow> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; threads];
    for row in rows {
        match last[row.thread as usize].map(|at| &mut found[at]) {
            Some(before) if before.may_join(row) && gap(before, row, step) <= most => {
                before.window.end = row.window.end;
                before.count += row.count;
                before.name = before.name.filter(|name| row.name == Some(*name));
            }
            _ => {
                last[row.thread as usize] = Some(found.len());
                found.push(*row);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(thread: u32, start: i64, end: i64, is_chosen: bool) -> CallRow {
        CallRow {
            thread,
            window: Window { start: Ns(start), end: Ns(end) },
            name: Some(0),
            blocks: false,
            count: 1,
            is_chosen,
        }
    }

    /// On thread 0, three calls are 5 ns apart; the last launched a collective. Thread 1 is apart.
    #[test]
    fn neighbours_of_one_kind_are_merged() {
        let rows = [row(0, 0, 10, false), row(1, 12, 14, false), row(0, 15, 20, false), row(0, 25, 30, true)];
        let first = CallRow { count: 2, ..row(0, 0, 20, false) };
        assert_eq!(merged(&rows, Ns(5), None, 2), [first, rows[1], rows[3]]);
        assert_eq!(merged(&rows, Ns(4), None, 2), rows);
        // In the costliest step only an eighth of the gap closes.
        let step = Some(Window { start: Ns(0), end: Ns(100) });
        assert_eq!(merged(&rows, Ns(39), step, 2), rows);
        assert_eq!(merged(&rows, Ns(40), step, 2), [first, rows[1], rows[3]]);
        let other = [rows[0], CallRow { name: Some(1), ..rows[2] }, CallRow { blocks: true, ..row(0, 21, 22, false) }];
        assert_eq!(merged(&other, Ns(5), None, 1), [CallRow { name: None, ..first }, other[2]]);
    }

    /// Of four calls with gaps of 2, 5 and 1 ns, two rows are left when the two smallest gaps are closed.
    #[test]
    fn the_smallest_gaps_are_merged() {
        let rows = vec![row(0, 0, 10, false), row(0, 12, 14, false), row(0, 19, 20, false), row(0, 21, 30, false)];
        let thread = CpuThread { process: 1, thread: 2, name: String::new() };
        let mut calls = CpuCalls { threads: vec![thread], rows: rows.clone(), ..CpuCalls::default() };
        assert_eq!(calls.thin(4), [None; 4]);
        assert_eq!((&calls.rows, calls.merged), (&rows, Ns::ZERO));
        calls.thin(2);
        let wanted = [CallRow { count: 2, ..row(0, 0, 14, false) }, CallRow { count: 2, ..row(0, 19, 30, false) }];
        assert_eq!((&calls.rows[..], calls.merged, calls.left_out), (&wanted[..], Ns(2), 0));
    }

    /// Of four calls that cannot be merged, the chosen one and the longest stay; the place is that after that.
    #[test]
    fn launches_of_chosen_kernels_stay() {
        let last = CallRow { blocks: true, ..row(0, 700, 702, false) };
        let rows = vec![row(0, 0, 90, false), row(0, 200, 201, true), row(0, 400, 495, false), last];
        let thread = CpuThread { process: 1, thread: 2, name: String::new() };
        let mut calls = CpuCalls { threads: vec![thread], rows: rows.clone(), ..CpuCalls::default() };
        assert_eq!(calls.thin(2), [None, Some(0), None, None]);
        assert_eq!((calls.rows, calls.left_out), (vec![rows[1], rows[2]], 2));
    }
}
