//! What the launching threads of a rank do: in which functions they are themselves, and where they wait for other threads or for other ranks' CPUs.
//!
//! A thread waits for another one where it is in no function, or in one that is known to wait, for a while. Collectives of CPUs (`gloo:broadcast`) are
//! recorded on threads of their own; the thread that waits for one is in one function when it ends, and in another one then.

use std::collections::BTreeSet;

use super::rank::{EdgeKind, FUNCTIONS, NodeKind, RankGraph, longest_first};
use crate::id::{ProcessId, SliceId, ThreadId};
use crate::names::calls::waits_for_thread;
use crate::names::frames::is_c_function;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// A thread that waits for another one does nothing for at least this: a thread that launches takes some time from one call to the next, too.
const IDLE: Ns = Ns(50_000);

/// A time in which a thread starts and ends no slice, from the end of the one before.
#[derive(Debug, Clone, Copy)]
struct Quiet {
    end: Ns,
    /// The innermost slice that it is in; [`StringId::NULL`] for none.
    name: StringId,
    /// Whether it may wait for another thread.
    may_wait: bool,
}

#[derive(Debug, Clone, Copy)]
struct CpuCollective {
    window: Window,
    name: StringId,
}

/// The launching threads of a rank.
#[derive(Debug)]
pub(super) struct Threads {
    /// When the first one of each thread begins.
    begin: Ns,
    /// By thread, in order.
    quiet: Vec<Vec<Quiet>>,
    /// In the order of their ends.
    cpu_collectives: Vec<CpuCollective>,
    /// The names of annotations in which a thread is in no function.
    pub(super) annotations: BTreeSet<StringId>,
}

impl Threads {
    pub(super) fn find(store: &Store, threads: &[ThreadId]) -> Self {
        let cpu_collectives = cpu_collectives(store, threads);
        let (quiet, annotations) = quiet(store, threads);
        Threads { begin: store.span.start, quiet, cpu_collectives, annotations }
    }

    /// The times in which a thread starts and ends no slice.
    fn quiet(&self, lane: usize) -> impl Iterator<Item = (Window, &Quiet)> {
        let mut start = self.begin;
        let window = move |end: Ns| Window { start: std::mem::replace(&mut start, end), end };
        self.quiet[lane].iter().map(|quiet| quiet.end).map(window).zip(&self.quiet[lane])
    }

    pub(super) fn name_of(&self, number: u32) -> StringId {
        self.cpu_collectives[number as usize].name
    }

    /// The collectives of CPUs for which a thread waits: their numbers, when they start, and when the thread waits.
    pub(super) fn cpu_collectives(&self, lane: usize) -> Vec<(u32, Ns, Window)> {
        let wait = |window: Window| {
            let Window { start, end } = window;
            let (number, of) = self.ends_in(window)?;
            Some((number, of.window.start, Window { start: of.window.start.max(start).min(end), end }))
        };
        self.quiet(lane).filter_map(|(window, _)| wait(window)).collect()
    }

    /// The times in which a thread may wait for another one.
    pub(super) fn idle(&self, lane: usize) -> Vec<Window> {
        let idle = self.quiet(lane).filter(|(window, quiet)| quiet.may_wait && window.duration() >= IDLE);
        idle.map(|(window, _)| window).filter(|window| self.ends_in(*window).is_none()).collect()
    }

    /// The last collective of CPUs that ends in a window.
    fn ends_in(&self, window: Window) -> Option<(u32, CpuCollective)> {
        let after = self.cpu_collectives.partition_point(|of| of.window.end <= window.end);
        let last = after.checked_sub(1)?;
        let of = self.cpu_collectives[last];
        (of.window.end > window.start).then_some((last as u32, of))
    }

    /// By interval of a graph: how long its thread was itself in which function, without waiting, the longest first. `text` gives the number of a name.
    pub(super) fn functions(
        &self,
        graph: &RankGraph,
        of_thread: &[Vec<u32>],
        mut text: impl FnMut(StringId) -> u32,
    ) -> Vec<Vec<(u32, Ns)>> {
        let mut found: Vec<Vec<(u32, Ns)>> = vec![Vec::new(); graph.intervals.len()];
        let mut sums = Sums::default();
        for (lane, nodes) in of_thread.iter().enumerate() {
            let (mut at, mut interval) = (0, None);
            // What a thread did before its first node began is no work of the job's.
            let begin = nodes.first().map_or(Ns::MAX, |first| graph.nodes[*first as usize].start);
            for (window, Quiet { name, .. }) in self.quiet(lane) {
                let mut start = window.start.max(begin);
                while start < window.end {
                    let Some(node) = nodes.get(at).map(|at| &graph.nodes[*at as usize]) else { break };
                    if node.end <= start {
                        at += 1;
                        continue;
                    }
                    let until = node.end.min(window.end);
                    let waited = waited(graph, nodes[at]);
                    let active = until - start - (until.min(waited.end) - start.max(waited.start)).max(Ns::ZERO);
                    if active > Ns::ZERO {
                        if let Some(before) =
                            interval.replace(node.interval as usize).filter(|of| *of != node.interval as usize)
                        {
                            sums.give(&mut found[before]);
                        }
                        sums.add(text(*name), active);
                    }
                    start = until;
                }
            }
            interval.into_iter().for_each(|interval| sums.give(&mut found[interval]));
        }
        for functions in &mut found {
            longest_first(functions);
            functions.truncate(FUNCTIONS);
            functions.shrink_to_fit();
        }
        found
    }
}

/// Sums of times by text.
#[derive(Default)]
struct Sums {
    /// Of all texts that are known.
    times: Vec<Ns>,
    texts: Vec<u32>,
}

impl Sums {
    fn add(&mut self, text: u32, time: Ns) {
        let at = text as usize;
        self.times.resize(self.times.len().max(at + 1), Ns::ZERO);
        if self.times[at] == Ns::ZERO {
            self.texts.push(text);
        }
        self.times[at] += time;
    }

    /// Adds them to others, and begins again.
    fn give(&mut self, to: &mut Vec<(u32, Ns)>) {
        to.drain(..).for_each(|(text, time)| self.add(text, time));
        to.reserve_exact(self.texts.len());
        to.extend(self.texts.drain(..).map(|text| (text, std::mem::take(&mut self.times[text as usize]))));
    }
}

/// When a thread waits before a node: in the whole of a call that waits, or while a launch waits for a place in the queue.
fn waited(graph: &RankGraph, at: u32) -> Window {
    let node = &graph.nodes[at as usize];
    let end = match node.kind {
        NodeKind::CpuArrival(_) => node.start,
        NodeKind::Launch | NodeKind::Returned => {
            let blocked = graph.edges[at as usize].iter().filter(|edge| edge.kind == EdgeKind::Blocked);
            blocked.map(|edge| graph.nodes[edge.from as usize].end).max().unwrap_or(node.start)
        }
        _ => node.end,
    };
    Window { start: node.start, end }
}

/// By thread: the times in which it starts and ends no slice. And the names of annotations in which that is in no function.
fn quiet(store: &Store, threads: &[ThreadId]) -> (Vec<Vec<Quiet>>, BTreeSet<StringId>) {
    // By thread: its place among those that are asked for.
    let mut lane_of: Vec<Option<usize>> = Vec::new();
    for (thread, lane) in threads.iter().zip(0..) {
        lane_of.resize(lane_of.len().max(thread.row() + 1), None);
        lane_of[thread.row()] = Some(lane);
    }
    let waiting = Waiting::find(store);
    let mut sweeps: Vec<Sweep<'_>> = threads
        .iter()
        .map(|_| Sweep {
            waiting: &waiting,
            open: Vec::new(),
            last: store.span.start,
            found: Vec::new(),
            annotations: BTreeSet::new(),
        })
        .collect();
    for slice in store.slices.ids() {
        let Some(lane) = store.thread_of(slice).and_then(|thread| *lane_of.get(thread.row())?) else { continue };
        let (start, dur) = (store.slices.ts(slice), store.slices.dur(slice));
        sweeps[lane].close(start);
        sweeps[lane].open.push((if dur < Ns::ZERO { store.span.end } else { start + dur }, slice));
    }
    sweeps.iter_mut().for_each(Sweep::finish);
    let annotations = sweeps.iter().flat_map(|sweep| sweep.annotations.iter().copied()).collect();
    (sweeps.into_iter().map(|sweep| sweep.found).collect(), annotations)
}

/// In which slices a thread may wait for another one.
struct Waiting<'a> {
    store: &'a Store,
    /// An annotation says what a thread is busy with, not that it is busy.
    annotations: Option<StringId>,
    /// By name: whether it is of a function that waits.
    is_waiting: Vec<bool>,
    /// By name: whether it is of a C function called from Python.
    is_c_function: Vec<bool>,
}

impl<'a> Waiting<'a> {
    fn find(store: &'a Store) -> Self {
        let by_name = |is: fn(&str) -> bool| {
            let mut found = vec![false; store.strings.len()];
            for name in store.names.iter().filter(|name| name.of_cpu).map(|name| name.id) {
                found[name.0 as usize] = store.strings.get(name).is_some_and(is);
            }
            found
        };
        let (is_waiting, is_c_function) = (by_name(waits_for_thread), by_name(is_c_function));
        Waiting { store, annotations: store.strings.find("user_annotation"), is_waiting, is_c_function }
    }

    fn is_annotation(&self, slice: SliceId) -> bool {
        Some(self.store.slices.category(slice)) == self.annotations
    }

    fn may_wait(&self, slice: SliceId) -> bool {
        let slices = &self.store.slices;
        self.is_annotation(slice) || self.is_waiting[slices.name(slice).0 as usize]
    }
}

/// Goes through the slices of a thread in the order of their starts.
struct Sweep<'a> {
    waiting: &'a Waiting<'a>,
    open: Vec<(Ns, SliceId)>,
    last: Ns,
    found: Vec<Quiet>,
    annotations: BTreeSet<StringId>,
}

impl Sweep<'_> {
    fn add(&mut self, end: Ns, of: Option<SliceId>) {
        if end > self.last {
            let may_wait = of.is_none_or(|of| self.waiting.may_wait(of));
            let name = of.map_or(StringId::NULL, |of| self.name(of));
            if of.is_some_and(|of| self.waiting.is_annotation(of)) {
                self.annotations.insert(name);
            }
            self.found.push(Quiet { end, name, may_wait });
            self.last = end;
        }
    }

    /// The name of a slice; of a C function called from Python that of its caller, which has a line.
    fn name(&self, of: SliceId) -> StringId {
        let name = |slice: SliceId| self.waiting.store.slices.name(slice);
        let is_c = |slice: SliceId| self.waiting.is_c_function[name(slice).0 as usize];
        let callers = self.open.iter().rev().map(|(_, slice)| *slice);
        let caller = callers.filter(|_| is_c(of)).find(|slice| !is_c(*slice));
        name(caller.unwrap_or(of))
    }

    fn close(&mut self, until: Ns) {
        while let Some((end, of)) = self.open.pop_if(|(end, _)| *end <= until) {
            self.add(end, Some(of));
        }
        self.add(until, self.open.last().map(|(_, of)| *of));
    }

    fn finish(&mut self) {
        while let Some((end, of)) = self.open.pop() {
            self.add(end, Some(of));
        }
    }
}

/// The collectives of CPUs of the threads' processes, in the order of their ends.
fn cpu_collectives(store: &Store, threads: &[ThreadId]) -> Vec<CpuCollective> {
    let process = |thread: ThreadId| store.tracks.thread(thread).upid;
    let processes: BTreeSet<ProcessId> = threads.iter().map(|thread| process(*thread)).collect();
    let of_rank = |slice: SliceId| store.thread_of(slice).is_some_and(|of| processes.contains(&process(of)));
    let is_named = |name: StringId| store.strings.get(name).is_some_and(|name| name.starts_with("gloo:"));
    let names: Vec<StringId> =
        store.names.iter().filter(|name| name.of_cpu && is_named(name.id)).map(|name| name.id).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let collective = |slice: SliceId| {
        let (name, dur) = (store.slices.name(slice), store.slices.dur(slice));
        let is_one = names.contains(&name) && dur >= Ns::ZERO && of_rank(slice);
        is_one.then(|| CpuCollective { window: Window::new(store.slices.ts(slice), dur), name })
    };
    let mut found: Vec<CpuCollective> = store.slices.ids().filter_map(collective).collect();
    found.sort_by_key(|of| of.window.end);
    found
}
