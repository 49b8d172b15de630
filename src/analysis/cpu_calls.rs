//! The calls of a window that a drawing shows beside the kernels: by thread, those that launch kernels or graphs, and those that block.
//!
//! A call inside another one of these is part of it, so the calls of a thread never overlap.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::attribution::launches;
use crate::id::{SliceId, ThreadId};
use crate::names::calls::{Work, waits_for_collective, waits_for_gpu};
use crate::names::category::CategoryKind;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// The calls of a window.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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
    /// The number of calls.
    pub count: u64,
    /// Whether it launched a chosen kernel; then it is never merged.
    pub is_chosen: bool,
}

/// A call before it has a row.
struct Call {
    slice: SliceId,
    thread: ThreadId,
    start: Ns,
    end: Ns,
    blocks: bool,
}

impl CpuCalls {
    /// The calls of a window, in at most `most` rows, and the row of each call of `chosen`, if it has one.
    pub(crate) fn find(
        store: &Store,
        window: Window,
        chosen: &BTreeSet<SliceId>,
        most: usize,
    ) -> (Self, HashMap<SliceId, u32>) {
        let mut calls = CpuCalls::default();
        let mut found = outermost(in_window(store, window));
        let launching: BTreeSet<ThreadId> = found.iter().filter(|call| !call.blocks).map(|call| call.thread).collect();
        found.retain(|call| launching.contains(&call.thread));
        let place = calls.add_threads(store, launching);
        let mut names: HashMap<StringId, u32> = HashMap::new();
        let mut row = |call: &Call| CallRow {
            thread: place[&call.thread],
            window: Window {
                start: call.start.max(window.start) - window.start,
                end: call.end.min(window.end) - window.start,
            },
            name: Some(*names.entry(store.slices.name(call.slice)).or_insert_with(|| {
                calls.names.push(store.slice_name(call.slice).to_owned());
                calls.names.len() as u32 - 1
            })),
            blocks: call.blocks,
            count: 1,
            is_chosen: chosen.contains(&call.slice),
        };
        let rows: Vec<CallRow> = found.iter().map(&mut row).collect();
        calls.fill(rows, window.duration(), most);
        // Chosen calls keep their order, whatever is merged or left out between them.
        let at = |call: &Call| {
            let key = (call.start.max(window.start) - window.start, place[&call.thread]);
            let at = calls.rows.binary_search_by_key(&key, |row| (row.window.start, row.thread)).ok()?;
            Some((call.slice, at as u32))
        };
        let of_call = found.iter().filter(|call| chosen.contains(&call.slice)).filter_map(at).collect();
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

    /// Stores the rows, merged until they are few enough.
    fn fill(&mut self, mut rows: Vec<CallRow>, length: Ns, most: usize) {
        let mut gap = Ns((length.0 / (1 << 20)).max(1));
        while rows.len() > most && gap.0 <= length.0 / 100 {
            rows = merged(&rows, gap, self.threads.len());
            self.merged = gap;
            gap = Ns(gap.0 * 2);
        }
        rows.sort_by_key(|row| (row.window.start, row.thread));
        self.rows = rows;
        if self.rows.len() > most {
            self.shorten(most);
        }
    }

    /// Leaves out the shortest rows until at most `most` remain, and counts their calls. Launches of chosen kernels go last. Returns the new place
    /// of each row.
    pub(crate) fn shorten(&mut self, most: usize) -> Vec<Option<u32>> {
        let rows = std::mem::take(&mut self.rows);
        let mut kept: Vec<usize> = (0..rows.len()).collect();
        kept.sort_by_key(|at| (!rows[*at].is_chosen, std::cmp::Reverse(rows[*at].window.duration()), *at));
        kept.truncate(most);
        kept.sort_unstable();
        let mut place = vec![None; rows.len()];
        kept.iter().zip(0..).for_each(|(was, at)| place[*was] = Some(at));
        self.rows = kept.into_iter().map(|at| rows[at]).collect();
        let count = |rows: &[CallRow]| rows.iter().map(|row| row.count).sum::<u64>();
        self.left_out += count(&rows) - count(&self.rows);
        place
    }
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
        let start = store.slices.ts(slice);
        let end = start + store.slices.dur(slice).max(Ns::ZERO);
        let is_inside = start < window.end && end > window.start;
        Some(Call { slice, thread: store.thread_of(slice).filter(|_| is_inside)?, start, end, blocks })
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
    found.sort_by_key(|call| (call.start, std::cmp::Reverse(call.end), call.slice));
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
        let end = store.slices.ts(launched.kernel) + store.slices.dur(launched.kernel).max(Ns::ZERO);
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
        let is_outermost = call.start >= *until;
        *until = (*until).max(call.end);
        is_outermost
    };
    calls.into_iter().filter(is_outermost).collect()
}

/// Merges calls of one kind that are neighbours on a thread if the gap between them is at most `gap`.
fn merged(rows: &[CallRow], gap: Ns, threads: usize) -> Vec<CallRow> {
    let mut found: Vec<CallRow> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; threads];
    for row in rows {
        match last[row.thread as usize].map(|at| &mut found[at]) {
            Some(before)
                if !before.is_chosen
                    && !row.is_chosen
                    && before.blocks == row.blocks
                    && row.window.start - before.window.end <= gap =>
            {
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
        assert_eq!(merged(&rows, Ns(5), 2), [first, rows[1], rows[3]]);
        assert_eq!(merged(&rows, Ns(4), 2), rows);
        let other = [rows[0], CallRow { name: Some(1), ..rows[2] }, CallRow { blocks: true, ..row(0, 21, 22, false) }];
        assert_eq!(merged(&other, Ns(5), 1), [CallRow { name: None, ..first }, other[2]]);
    }

    /// Of four calls, the chosen one and the longest stay; the places are those after that.
    #[test]
    fn launches_of_chosen_kernels_stay() {
        let rows = vec![row(0, 0, 90, false), row(0, 200, 201, true), row(0, 400, 495, false), row(0, 700, 702, false)];
        let mut calls = CpuCalls { rows: rows.clone(), ..CpuCalls::default() };
        assert_eq!(calls.shorten(2), [None, Some(0), Some(1), None]);
        assert_eq!((calls.rows, calls.left_out), (vec![rows[1], rows[2]], 2));
    }
}
