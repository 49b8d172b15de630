//! Finds the caller of a slice on its thread, despite differing clocks, overlapping frames, and frames of other threads.
//!
//! `slice.parent_id` follows Perfetto's rule: a slice is nested, or it is on a lane beside its thread, and its parent is the slice around it. That
//! loses a frame that ends a microsecond after the operator in it, and makes a caller of whatever the profiler puts around a slice. So callers are
//! found here, from slice to slice, by everything known about both:
//!
//! - A caller is running when its callee begins. All slices of the thread that are running then are considered, on its track and on the lanes
//!   beside it, the innermost first.
//! - A callee ends before its caller, within the difference of the clocks ([`TOLERANCE`]).
//! - A Python function has its caller's number. The number decides where a function may just have ended. Where times are clear, they win: the
//!   profiler derives the number from times itself. When an operator ends, it pops its stack of frames up to there, and then frames are missing
//!   between a function and its recorded caller.
//! - A C function called from Python whose end was not seen is written as if it lasted to the end of the recording. It calls nothing from the next
//!   Python function on.
//! - The first function of a thread has no caller. The profiler writes the initial stacks of all Python threads onto one thread, in order of
//!   their numbers, so the frames above such a function belong to another thread.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use foldhash::fast::FixedState;

use crate::event::ids::PythonCaller;
use crate::id::{SliceId, ThreadId};
use crate::names::category::CategoryKind;
use crate::names::frames;
use crate::store::Store;
use crate::store::max_tree::MaxTree;
use crate::store::slices::UNFINISHED;
use crate::store::tracks::{Owner, Track};
use crate::time::Ns;

/// How much the ends of caller and callee may differ, because their times were taken in different ways. Traces from before March 2024 truncate
/// start and length to whole microseconds; in later ones the difference is less than one.
pub const TOLERANCE: Ns = Ns(2_000);

/// How many slices that begin soon after a call are considered. Only traces with broken times have more.
const MAX_SOON: usize = 256;

/// How many slices are considered as the caller of one. More run at once only if everything in the trace overlaps.
const MAX_TRIED: usize = 1_024;

/// How many slices are scanned for the next Python function before an index is built.
const MAX_NEAR: usize = 1_000;

/// When a C function was certainly over, and the Python function whose start proves it.
#[derive(Debug, Clone, Copy)]
struct SureEnd {
    at: Ns,
    witness: Option<SliceId>,
}

/// Finds callers. A clone shares the indexes.
#[derive(Debug, Clone)]
pub struct Callers<'a> {
    store: &'a Store,
    index: Arc<Index>,
    /// C functions whose end is in doubt, with the time at which they were certainly over.
    ends: HashMap<SliceId, SureEnd, FixedState>,
}

/// Indexes that take a pass over the trace; all but the lanes are built on first use.
#[derive(Debug)]
struct Index {
    /// By thread: the slices on its lanes.
    lanes: HashMap<ThreadId, Beside>,
    /// By thread, for threads with lanes: the slices on its own track, in order.
    own_tracks: OnceLock<HashMap<ThreadId, Vec<SliceId>>>,
    /// By thread and number: calls of Python functions.
    frames: OnceLock<HashMap<(ThreadId, i64), SliceId, FixedState>>,
    /// By thread: calls of Python functions, in order.
    frames_of_threads: OnceLock<HashMap<Option<ThreadId>, Vec<SliceId>>>,
}

/// The slices on a thread's lanes, in order, and their ends in ns.
#[derive(Debug)]
struct Beside {
    slices: Vec<SliceId>,
    ends: MaxTree,
}

impl<'a> Callers<'a> {
    /// Finds callers among the slices of a trace.
    pub fn new(store: &'a Store) -> Self {
        let mut lanes: HashMap<ThreadId, Vec<SliceId>> = HashMap::new();
        for slice in &store.spilled {
            let track = store.slices.track(*slice);
            if let Owner::Lane(thread) = store.tracks.track(track).owner {
                lanes.entry(thread).or_default().push(*slice);
            }
        }
        let beside = |slices: Vec<SliceId>| {
            let ends = slices.iter().map(|slice| end(store, *slice).0).collect();
            Beside { slices, ends }
        };
        let index = Index {
            lanes: lanes.into_iter().map(|(thread, slices)| (thread, beside(slices))).collect(),
            own_tracks: OnceLock::new(),
            frames: OnceLock::new(),
            frames_of_threads: OnceLock::new(),
        };
        Callers { store, index: Arc::new(index), ends: HashMap::default() }
    }

    /// The caller of a launch. If no operator encloses the launch, that may be an operator that begins a little later.
    pub fn caller_of_launch(&mut self, call: SliceId) -> Option<SliceId> {
        let caller = self.caller(call);
        if caller.is_some_and(|caller| self.kind(caller) == CategoryKind::Cpu)
            || self.kind(call) != CategoryKind::Runtime
        {
            return caller;
        }
        self.late_caller(call).or(caller)
    }

    /// The caller of a slice. Its id is always lower.
    pub fn caller(&mut self, slice: SliceId) -> Option<SliceId> {
        let kind = self.kind(slice);
        let python = if kind == CategoryKind::Frame { self.store.python_ids(slice) } else { None };
        let known = python.map_or(PythonCaller::Unknown, |(_, caller)| caller);
        if kind == CategoryKind::Frame && self.is_entry(slice, known) {
            return None;
        }
        let at = self.store.slices.ts(slice);
        let thread = self.store.thread_of(slice);
        // The slices that are running when this one begins, innermost first: on the thread's track, and on lanes.
        let mut own = self.innermost(slice);
        let beside = |callers: &Self, before: SliceId| callers.beside(thread, before, at);
        let mut other = beside(self, slice);
        for _ in 0..MAX_TRIED {
            // The inner one starts later; `None` is less than any slice.
            let is_own = own >= other;
            let candidate = own.max(other)?;
            if self.may_call(candidate, slice, known) {
                return Some(candidate);
            }
            if is_own {
                own = self.store.slices.parent(candidate);
            } else {
                other = beside(self, candidate);
            }
        }
        None
    }

    /// The slice and its callers up to the first one for which `known` has a value, and that value. If the caller stores results for these slices,
    /// each is passed only once.
    pub(crate) fn up_to_known<T>(
        &mut self,
        slice: Option<SliceId>,
        known: impl Fn(SliceId) -> Option<T>,
    ) -> (Vec<SliceId>, Option<T>) {
        let (mut next, mut passed) = (slice, Vec::new());
        while let Some(slice) = next {
            if let Some(found) = known(slice) {
                return (passed, Some(found));
            }
            passed.push(slice);
            next = self.caller(slice);
        }
        (passed, None)
    }

    /// What is known of a slice: `own` finds it by what is known of its caller, `first` for a slice without one. Each slice is visited once, however many
    /// are below it.
    pub(crate) fn inherited<T: Copy>(
        &mut self,
        slice: Option<SliceId>,
        known: &mut HashMap<SliceId, T, FixedState>,
        first: T,
        mut own: impl FnMut(T, SliceId) -> T,
    ) -> T {
        let (below, above) = self.up_to_known(slice, |slice| known.get(&slice).copied());
        let inherit = |above: T, slice: SliceId| {
            let found = own(above, slice);
            known.insert(slice, found);
            found
        };
        below.into_iter().rev().fold(above.unwrap_or(first), inherit)
    }

    /// The last slice on the lanes before another that is still running.
    fn beside(&self, thread: Option<ThreadId>, before: SliceId, at: Ns) -> Option<SliceId> {
        let Beside { slices, ends } = self.index.lanes.get(&thread?)?;
        let place = ends.last_at_least(slices.partition_point(|other| *other < before), (at + Ns(1)).0)?;
        Some(slices[place])
    }

    fn kind(&self, slice: SliceId) -> CategoryKind {
        self.store.category_kind(slice)
    }

    fn end(&self, slice: SliceId) -> Ns {
        end(self.store, slice)
    }

    fn name(&self, slice: SliceId) -> &'a str {
        self.store.slice_name(slice)
    }

    fn is_entry(&self, slice: SliceId, known: PythonCaller) -> bool {
        match known {
            PythonCaller::Unknown => {
                frames::is_thread_entry(self.name(slice)) || frames::is_program_entry(self.name(slice))
            }
            // A function without a caller in Python may have been called by an operator: a hook on autograd's thread.
            PythonCaller::Nobody | PythonCaller::Frame(_) => frames::is_thread_entry(self.name(slice)),
        }
    }

    /// The innermost slice on the thread's own track that is running when a slice begins.
    fn innermost(&mut self, slice: SliceId) -> Option<SliceId> {
        let store = self.store;
        let Owner::Lane(thread) = store.tracks.track(store.slices.track(slice)).owner else {
            return store.slices.parent(slice);
        };
        let Index { lanes, own_tracks, .. } = &*self.index;
        let own_tracks = own_tracks.get_or_init(|| slices_of_tracks(store, lanes.keys()));
        let own = own_tracks.get(&thread).map_or(&[][..], Vec::as_slice);
        let before = own.partition_point(|other| *other < slice);
        let latest = before.checked_sub(1).map(|at| own[at]);
        self.running_at(latest, slice)
    }

    /// The first of a slice and its parents that is still running when another begins.
    fn running_at(&self, mut candidate: Option<SliceId>, slice: SliceId) -> Option<SliceId> {
        let at = self.store.slices.ts(slice);
        while let Some(ended) = candidate.filter(|candidate| self.end(*candidate) <= at) {
            candidate = self.store.slices.parent(ended);
        }
        candidate
    }

    /// Whether a slice that is running when another begins may have called it.
    fn may_call(&mut self, caller: SliceId, slice: SliceId, known: PythonCaller) -> bool {
        let start = self.store.slices.ts(slice);
        if !holds((self.store.slices.ts(caller), self.end(caller)), (start, self.end(slice))) {
            return false;
        }
        match self.kind(caller) {
            CategoryKind::Frame => {}
            CategoryKind::Runtime => return self.is_called_by_runtime(caller, slice),
            // A device and its stream may have the same numbers as a process and its thread.
            CategoryKind::Kernel | CategoryKind::Gpu => return false,
            CategoryKind::Cpu => return true,
        }
        if frames::is_c_function(self.name(caller)) && self.sure_end(caller) <= start {
            return false;
        }
        let (Some((number, _)), Some(thread)) = (self.store.python_ids(caller), self.store.thread_of(slice)) else {
            return true;
        };
        match known {
            PythonCaller::Unknown => true,
            PythonCaller::Nobody => false,
            PythonCaller::Frame(wanted) if wanted == number => true,
            // The candidate is certainly running.
            PythonCaller::Frame(_) if start < self.end(caller) - TOLERANCE => true,
            PythonCaller::Frame(wanted) => match self.frame(thread, wanted) {
                // The recorded caller is a different one, unless it cannot be.
                Some(meant) => {
                    let runs = self.store.slices.ts(meant) <= start && start < self.end(meant);
                    !runs || (frames::is_c_function(self.name(meant)) && self.sure_end(meant) <= start)
                }
                None => true,
            },
        }
    }

    /// Whether a runtime call may have called a slice that begins in it: only a call of another layer, such as the driver's. Another call of the
    /// same layer belongs to another thread: Kineto before October 2024 wrote calls of threads without operators with a negative thread number,
    /// which Perfetto reads as the main thread. An operator that begins in the call and ends after it may be its caller, see `late_caller`.
    fn is_called_by_runtime(&self, caller: SliceId, slice: SliceId) -> bool {
        self.kind(slice) == CategoryKind::Runtime
            && self.store.slices.category(slice) != self.store.slices.category(caller)
            && self.end(slice) <= self.end(caller)
    }

    /// The call of a Python function with a number.
    fn frame(&mut self, thread: ThreadId, number: i64) -> Option<SliceId> {
        let store = self.store;
        let frames = self.index.frames.get_or_init(|| {
            let all = store.slices.ids().filter_map(|slice| {
                let (number, _) = store.python_ids(slice)?;
                Some(((store.thread_of(slice)?, number), slice))
            });
            all.collect()
        });
        frames.get(&(thread, number)).copied()
    }

    /// The first Python function of a thread that begins after a slice.
    fn next_frame(&mut self, slice: SliceId, thread: Option<ThreadId>) -> Option<SliceId> {
        let store = self.store;
        let is_frame = |slice: SliceId| store.category_kind(slice) == CategoryKind::Frame;
        let mut after = store.slices.ids_after(slice);
        // It is nearly always close, so an index is not worth a pass over the trace.
        if let Some(near) =
            after.by_ref().take(MAX_NEAR).find(|next| is_frame(*next) && store.thread_of(*next) == thread)
        {
            return Some(near);
        }
        let frames = self.index.frames_of_threads.get_or_init(|| {
            let mut frames: HashMap<Option<ThreadId>, Vec<SliceId>> = HashMap::new();
            for slice in store.slices.ids().filter(|slice| is_frame(*slice)) {
                frames.entry(store.thread_of(slice)).or_default().push(slice);
            }
            frames
        });
        let of_thread = frames.get(&thread)?;
        of_thread.get(of_thread.partition_point(|other| *other <= slice)).copied()
    }

    /// When a C function was over: at its end, or at the start of the next Python function if the end was not seen.
    fn sure_end(&mut self, slice: SliceId) -> Ns {
        let end = match self.ends.entry(slice) {
            Entry::Occupied(known) => return known.get().at,
            Entry::Vacant(_) => self.find_sure_end(slice),
        };
        self.ends.insert(slice, end);
        end.at
    }

    /// The Python functions whose start proved that an earlier C function was over. A copy of a part of the trace must include them, or its
    /// callers differ.
    pub fn witnesses(&self) -> impl Iterator<Item = SliceId> {
        self.ends.values().filter_map(|end| end.witness)
    }

    fn find_sure_end(&mut self, slice: SliceId) -> SureEnd {
        let (store, end) = (self.store, self.end(slice));
        let slices = &store.slices;
        let thread = store.thread_of(slice);
        let mut around = self.innermost(slice);
        let mut outermost = None;
        let mut caller_ended = false;
        while let Some(caller) = around {
            caller_ended |= self.kind(caller) == CategoryKind::Frame && self.end(caller) < end - TOLERANCE;
            outermost = around;
            around = slices.parent(caller);
        }
        let lasts_to_the_stop = outermost.is_some_and(|outermost| self.end(outermost) == end);
        if !caller_ended && !lasts_to_the_stop {
            return SureEnd { at: end, witness: None };
        }
        let next = self.next_frame(slice, thread);
        let next = next.filter(|next| slices.ts(*next) < end);
        SureEnd { at: next.map_or(end, |next| slices.ts(next)), witness: next }
    }

    /// The innermost operator that begins a little after a runtime call, contains most of it and ends after it: different clocks time such calls
    /// and operators.
    fn late_caller(&self, call: SliceId) -> Option<SliceId> {
        let (store, slices) = (self.store, &self.store.slices);
        let thread = store.thread_of(call)?;
        let (start, end) = (slices.ts(call), self.end(call));
        let soon = start + TOLERANCE;
        let begin_soon = slices.ids_after(call).take(MAX_SOON).take_while(|other| slices.ts(*other) <= soon);
        let holding = begin_soon.filter(|other| {
            let span = (slices.ts(*other), self.end(*other));
            store.category_kind(*other) == CategoryKind::Cpu
                && span.0 > start
                && span.1 > end
                && end - span.0 > span.0 - start
                && store.thread_of(*other) == Some(thread)
        });
        // The climb cannot come back here, because runtime calls call no operators.
        holding.last()
    }
}

/// The end of a slice; [`Ns::MAX`] if it is unknown.
pub(crate) fn end(store: &Store, slice: SliceId) -> Ns {
    match store.slices.dur(slice) {
        UNFINISHED => Ns::MAX,
        dur => store.slices.ts(slice) + dur,
    }
}

/// The slices on the own tracks of some threads, in order, by thread.
fn slices_of_tracks<'a>(store: &Store, threads: impl Iterator<Item = &'a ThreadId>) -> HashMap<ThreadId, Vec<SliceId>> {
    let mut by_thread: HashMap<ThreadId, Vec<SliceId>> = threads.map(|thread| (*thread, Vec::new())).collect();
    let of_track = |track: &Track| match track.owner {
        Owner::Thread(thread) => by_thread.contains_key(&thread).then(Vec::new),
        _ => None,
    };
    let mut by_track: Vec<Option<Vec<SliceId>>> = store.tracks.tracks.iter().map(of_track).collect();
    for slice in store.slices.ids() {
        if let Some(of_track) = &mut by_track[store.slices.track(slice).row()] {
            of_track.push(slice);
        }
    }
    for (track, slices) in store.tracks.tracks.iter().zip(by_track) {
        if let (Owner::Thread(thread), Some(slices)) = (track.owner, slices) {
            by_thread.insert(thread, slices);
        }
    }
    by_thread
}

/// Whether a span that begins earlier contains another: entirely, or mostly if the ends differ by at most the difference of the clocks.
fn holds(caller: (Ns, Ns), callee: (Ns, Ns)) -> bool {
    let over = callee.1 - caller.1;
    over <= Ns::ZERO || (over <= TOLERANCE && caller.1 - callee.0 > over)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ArgsWanted;
    use crate::id::TrackId;
    use crate::input::from_reader;
    use crate::load::{LoadOptions, load_input};
    use proptest::prelude::*;

    /// The rule without indexes: tries everything that is running on the thread's track and on each of its lanes, innermost first.
    fn searched(callers: &mut Callers<'_>, slice: SliceId) -> Option<SliceId> {
        let store = callers.store;
        let (slices, thread) = (&store.slices, store.thread_of(slice));
        let known = store.python_ids(slice).map_or(PythonCaller::Unknown, |(_, caller)| caller);
        if callers.kind(slice) == CategoryKind::Frame && callers.is_entry(slice, known) {
            return None;
        }
        let mut running = Vec::new();
        let lanes = (0..store.tracks.tracks.len())
            .map(TrackId::of_row)
            .filter(|track| matches!(store.tracks.track(*track).owner, Owner::Lane(of) if Some(of) == thread));
        for lane in lanes {
            let latest = slices.ids().take(slice.row()).rfind(|other| slices.track(*other) == lane);
            running.push(callers.running_at(latest, slice));
        }
        running.push(callers.innermost(slice));
        loop {
            let innermost = running.iter_mut().max()?;
            let candidate = (*innermost)?;
            *innermost = slices.parent(candidate);
            if callers.may_call(candidate, slice, known) {
                return Some(candidate);
            }
        }
    }

    proptest! {
        #[test]
        fn callers_are_those_of_a_search(
            events in prop::collection::vec((0u32..60, 0u32..30, 0usize..5, 0u32..4, 0u32..5, 1u32..3), 1..60)
        ) {
            let events: Vec<String> = events
                .iter()
                .map(|(ts, dur, kind, number, parent, tid)| {
                    let (category, name) = [
                        ("cpu_op", "aten::op"),
                        ("python_function", "train.py(3): step"),
                        ("python_function", "<built-in method run>"),
                        ("cuda_runtime", "cudaLaunchKernel"),
                        ("kernel", "k"),
                    ][*kind];
                    let ids = match kind {
                        1 | 2 => format!(r#""Python id":{number},"Python parent id":{parent}"#),
                        _ => format!(r#""correlation":{number}"#),
                    };
                    format!(r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{ids}}}}}"#)
                })
                .collect();
            let text = format!("[{}]", events.join(",")).into_bytes();
            let input = from_reader("random".to_owned(), None, Box::new(std::io::Cursor::new(text))).unwrap();
            let options = LoadOptions { args: ArgsWanted::COLLECTIVES, ..LoadOptions::default() };
            let store = load_input(input, options, |_| {}).unwrap().store;
            let (mut callers, mut plain) = (Callers::new(&store), Callers::new(&store));
            for slice in store.slices.ids() {
                prop_assert_eq!(callers.caller(slice), searched(&mut plain, slice));
            }
        }
    }
}
