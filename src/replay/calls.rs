//! The calls and the work of a rank from which its graph is built: calls of threads that launch or wait, and slices on streams.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;

use super::waits::WaitsFor;
use crate::attribution::launches::Launched;
use crate::id::{GpuId, ProcessId, SliceId, ThreadId};
use crate::names::calls::{GRAPH_LAUNCHES, Work, records_event, waits_for_gpu};
use crate::names::category::CategoryKind;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// What a rank's graph is made from.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) store: &'a Store,
    /// The work of all its GPUs, in the order of starts.
    pub(crate) work: &'a [Launched],
    pub(crate) gpus: &'a [GpuId],
    /// The window that is asked about.
    pub(crate) window: Window,
    /// The kernels of its rows of collectives, in the order of the rows. Those that only send or only receive have a word for that: all have the same name.
    pub(crate) rows: Vec<(SliceId, Option<&'static str>)>,
    /// Its steps, in order.
    pub(crate) steps: Vec<Window>,
    pub(crate) last_step: Option<SliceId>,
    /// When the profiler began to record.
    pub(crate) profiled_from: Option<Ns>,
}

/// A call of a thread that launches or waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) slice: SliceId,
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) thread: ThreadId,
    /// When the first of what it launches starts.
    pub(super) launches: Option<Ns>,
    /// The last of its own copies, if it goes on after that.
    pub(super) copied: Option<usize>,
    pub(super) kind: CallKind,
}

impl Call {
    pub(super) fn waits(&self) -> bool {
        self.copied.is_some() || self.kind.waits_for.is_some()
    }
}

/// What the name of a call says.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallKind {
    pub(super) waits_for: Option<WaitsFor>,
    pub(super) makes_stream_wait: bool,
    records_event: bool,
    pub(super) is_graph: bool,
}

impl CallKind {
    fn of_name(name: &str) -> Self {
        CallKind {
            waits_for: waits_for_gpu(name).then(|| WaitsFor::of_name(name)),
            makes_stream_wait: name.contains("StreamWaitEvent"),
            records_event: records_event(name),
            is_graph: GRAPH_LAUNCHES.contains(&name),
        }
    }
}

#[derive(Default)]
pub(super) struct Calls {
    /// What matters, in the order of starts.
    pub(super) calls: Vec<Call>,
    /// By piece: the position of the call that launched it, if that is one of them.
    pub(super) of_pieces: Vec<Option<u32>>,
    /// When events were recorded, in order.
    pub(super) records: Vec<Ns>,
    /// By launching thread: when its last call ends.
    pub(super) last: BTreeMap<ThreadId, Ns>,
}

/// A slice on a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) slice: SliceId,
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) stream: ThreadId,
    pub(super) call: Option<SliceId>,
}

/// By stream: what was launched before the window and ended last of that, in the window.
pub(super) type Earlier = BTreeMap<ThreadId, (Ns, SliceId)>;

/// The work on the rank's GPUs in the window, in the order of starts, and what they still ran of before.
pub(super) fn pieces(source: &Source<'_>) -> (Vec<Piece>, Earlier) {
    let store = source.store;
    let is_own =
        |of: &&Launched| store.slices.dur(of.kernel) >= Ns::ZERO && source.gpus.contains(&store.gpu_of(of.kernel));
    let is_call =
        |call: &SliceId| store.thread_of(*call).is_some() && store.category_kind(*call) == CategoryKind::Runtime;
    let (mut pieces, mut earlier) = (Vec::new(), Earlier::new());
    for launched in source.work.iter().filter(is_own) {
        let (slice, call) = (launched.kernel, launched.call.filter(is_call));
        let Some(stream) = store.stream_of(slice) else { continue };
        let start = store.slices.ts(slice);
        let (at, end) = (call.map_or(start, |call| store.slices.ts(call)), start + store.slices.dur(slice));
        if source.window.contains(at) {
            pieces.push(Piece { slice, start, end, stream, call });
        } else if at < source.window.start && end > source.window.start {
            let last = earlier.entry(stream).or_insert((end, slice));
            *last = (*last).max((end, slice));
        }
    }
    (pieces, earlier)
}

impl Calls {
    /// The calls of the window that launch or wait, of processes that launch, in the order of starts.
    pub(super) fn find(source: &Source<'_>, pieces: &[Piece]) -> Self {
        let store = source.store;
        let mut launching: Vec<(SliceId, usize)> =
            pieces.iter().enumerate().filter_map(|(at, piece)| Some((piece.call?, at))).collect();
        launching.sort();
        let mut launching = launching.chunk_by(|(one, _), (other, _)| one == other).peekable();
        let mut kinds: HashMap<StringId, CallKind, FixedState> = HashMap::default();
        let mut processes: HashSet<ProcessId, FixedState> = HashSet::default();
        let mut threads: HashSet<ThreadId, FixedState> = HashSet::default();
        for call in pieces.iter().filter_map(|piece| piece.call) {
            processes.extend(store.process_of(call));
            threads.extend(store.thread_of(call));
        }
        let step = source.steps.first().map(|step| step.start);
        let first = pieces.iter().filter_map(|piece| Some(store.slices.ts(piece.call?))).min().unwrap_or(Ns::MAX);
        let begin = step.map_or(first, |step| step.min(first));
        let last = pieces.iter().map(|piece| piece.end).max().unwrap_or(Ns::MIN);
        // What launching threads call after the last step is no part of it, but may be of what has no steps.
        let end = source.steps.last().map_or(Ns::MAX, |step| step.end.max(last));
        let mut found = Calls { of_pieces: vec![None; pieces.len()], ..Calls::default() };
        for slice in store.runtime_calls.iter().copied() {
            let Some(thread) = store.thread_of(slice) else { continue };
            let start = store.slices.ts(slice);
            // Calls are in the order of their ids, too.
            while launching.next_if(|of| of[0].0 < slice).is_some() {}
            let is_launching = threads.contains(&thread);
            let asked = if is_launching { begin..=end } else { first..=last };
            let is_asked = asked.contains(&start) && source.window.contains(start);
            if !is_asked || !store.process_of(slice).is_some_and(|process| processes.contains(&process)) {
                continue;
            }
            let name = store.slices.name(slice);
            let kind = *kinds.entry(name).or_insert_with(|| CallKind::of_name(store.slice_name(slice)));
            let end = start + store.slices.dur(slice).max(Ns::ZERO);
            if is_launching {
                let last = found.last.entry(thread).or_insert(end);
                *last = (*last).max(end);
            }
            if kind.records_event {
                found.records.push(start);
            }
            let work = launching.next_if(|of| of[0].0 == slice);
            // A call that goes on after the end of its copy waited for it.
            let has_ended = |(_, at): &(SliceId, usize)| {
                let of = pieces[*at].slice;
                let is_copy = store.category_kind(of) == CategoryKind::Gpu
                    && Work::of_slice(store.slice_name(of), false) == Some(Work::Copy);
                is_copy && pieces[*at].end <= end
            };
            let launches = work.and_then(|work| work.iter().map(|(_, at)| pieces[*at].start).min());
            let copied = work.filter(|work| work.iter().all(has_ended));
            let copied = copied.and_then(|work| work.iter().map(|(_, at)| *at).max_by_key(|at| pieces[*at].end));
            if launches.is_some() || kind.waits_for.is_some() || kind.makes_stream_wait {
                let at = found.calls.len() as u32;
                work.into_iter().flatten().for_each(|(_, piece)| found.of_pieces[*piece] = Some(at));
                found.calls.push(Call { slice, start, end, thread, launches, copied, kind });
            }
        }
        found
    }
}
