//! Finds the causal graph of one rank in its trace.
//!
//! Edges between streams are known where a call made one stream wait for another (`cudaStreamWaitEvent`): what was launched next waits for what was
//! launched last on each other stream before that call. Which event a call waits for is in no trace, so a wait for an event is an edge only if the
//! call was blocked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use foldhash::fast::FixedState;

use super::full_queues::{self, Launching};
use super::places;
use super::rank::{EdgeKind, NodeKind, RankEdge, RankEdges, RankGraph, RankNode};
use super::threads::Threads;
use crate::attribution::launches::Launched;
use crate::id::{GpuId, ProcessId, SliceId, ThreadId};
use crate::names::calls::{Work, waits_for_gpu};
use crate::names::category::CategoryKind;
use crate::names::frames::fold;
use crate::numbers::Numbers;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// What a rank's graph is made from.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// The trace.
    pub(crate) store: &'a Store,
    /// The work of all its GPUs, in the order of starts.
    pub(crate) work: &'a [Launched],
    /// The GPUs of the rank.
    pub(crate) gpus: &'a [GpuId],
    /// The window that is asked about.
    pub(crate) window: Window,
    /// The kernels of its rows of collectives, in the order of the rows. Those that only send or only receive have a word for that: all have the same name.
    pub(crate) rows: Vec<(SliceId, Option<&'static str>)>,
    /// Its steps, in order.
    pub(crate) steps: Vec<Window>,
}

/// What starts at most this much after its launch, or the slice before it, has waited for nothing else. Of the real traces that were measured none
/// changes its answer between 5 and 50 µs.
const UNEXPLAINED: Ns = Ns(5_000);

/// Many traces round times to a microsecond: what ended so much after something that waited for it may have ended before.
const ROUNDED: Ns = Ns(1_000);

/// The name of the time in which a thread is in no slice.
pub(crate) const OUTSIDE: &str = "(outside of any slice)";

/// How many slices of a stream may still run when a slice starts that waited for an earlier one of them.
const LOOK_BACK: usize = 256;

/// No job uses as many streams at once.
const MOST_STREAMS: usize = 256;

/// A call of a thread that launches or waits.
#[derive(Debug, Clone, Copy)]
struct Call {
    slice: SliceId,
    start: Ns,
    end: Ns,
    thread: ThreadId,
    launches: bool,
    waits: bool,
    makes_stream_wait: bool,
}

/// What the name of a call says.
#[derive(Debug, Clone, Copy)]
struct CallKind {
    waits: bool,
    makes_stream_wait: bool,
}

impl CallKind {
    fn of_name(name: &str) -> Self {
        CallKind { waits: waits_for_gpu(name), makes_stream_wait: name.contains("StreamWaitEvent") }
    }
}

/// A slice on a stream.
#[derive(Debug, Clone, Copy)]
struct Piece {
    slice: SliceId,
    start: Ns,
    end: Ns,
    stream: ThreadId,
    call: Option<SliceId>,
}

/// By stream: its slices, by when they were launched.
type ByLaunch = BTreeMap<ThreadId, Vec<(Ns, usize)>>;

/// The graph of a rank.
pub(crate) fn build(source: &Source<'_>) -> RankGraph {
    let pieces = pieces(source);
    let calls = calls(source, &pieces);
    let mut builder = Builder {
        source,
        pieces: &pieces,
        graph: RankGraph { steps: source.steps.len() as u32, ..RankGraph::default() },
        names: Names::new(source.store),
        launches: Vec::new(),
        threads: Vec::new(),
        of_thread: Vec::new(),
        blocked: Vec::new(),
    };
    builder.graph.reserve(calls.len() + pieces.len());
    builder.add_calls(&calls);
    builder.add_slices(&calls);
    let threads = Threads::find(source.store, &builder.threads);
    builder.add_waits(&threads);
    builder.link_threads();
    builder.graph.texts.clone_from(&builder.names.texts.list);
    places::find(&mut builder.graph);
    let Builder { mut graph, mut names, of_thread, .. } = builder;
    let functions = threads.functions(&graph, &of_thread, |name| names.text(source.store, name, None));
    graph.texts = names.texts.list;
    graph.intervals.iter_mut().zip(functions).for_each(|(interval, functions)| interval.functions = functions);
    graph
}

/// The work on the rank's GPUs in the window, in the order of starts.
fn pieces(source: &Source<'_>) -> Vec<Piece> {
    let store = source.store;
    let is_own =
        |of: &&Launched| store.slices.dur(of.kernel) >= Ns::ZERO && source.gpus.contains(&store.gpu_of(of.kernel));
    let is_call =
        |call: &SliceId| store.thread_of(*call).is_some() && store.category_kind(*call) == CategoryKind::Runtime;
    let piece = |launched: &Launched| {
        let (slice, call) = (launched.kernel, launched.call.filter(is_call));
        let start = store.slices.ts(slice);
        let at = call.map_or(start, |call| store.slices.ts(call));
        let piece = Piece { slice, start, end: start + store.slices.dur(slice), stream: store.stream_of(slice)?, call };
        source.window.contains(at).then_some(piece)
    };
    source.work.iter().filter(is_own).filter_map(piece).collect()
}

/// The calls of the window that launch or wait, of processes that launch, in the order of starts.
fn calls(source: &Source<'_>, pieces: &[Piece]) -> Vec<Call> {
    let store = source.store;
    let mut launching: Vec<(SliceId, usize)> =
        pieces.iter().enumerate().filter_map(|(at, piece)| Some((piece.call?, at))).collect();
    launching.sort();
    let mut launching = launching.chunk_by(|(one, _), (other, _)| one == other).peekable();
    let mut kinds: HashMap<StringId, CallKind, FixedState> = HashMap::default();
    let processes: HashSet<ProcessId, FixedState> =
        pieces.iter().filter_map(|piece| store.process_of(piece.call?)).collect();
    let first = pieces.iter().filter_map(|piece| Some(store.slices.ts(piece.call?))).min().unwrap_or(Ns::MAX);
    let last = pieces.iter().map(|piece| piece.end).max().unwrap_or(Ns::MIN);
    let mut found = Vec::new();
    for slice in store.runtime_calls.iter().copied() {
        let Some(thread) = store.thread_of(slice) else { continue };
        let start = store.slices.ts(slice);
        // Calls are in the order of their ids, too.
        while launching.next_if(|of| of[0].0 < slice).is_some() {}
        let is_asked = (first..=last).contains(&start) && source.window.contains(start);
        if !is_asked || !store.process_of(slice).is_some_and(|process| processes.contains(&process)) {
            continue;
        }
        let kind = *kinds.entry(store.slices.name(slice)).or_insert_with(|| CallKind::of_name(store.slice_name(slice)));
        let end = start + store.slices.dur(slice).max(Ns::ZERO);
        let work = launching.next_if(|of| of[0].0 == slice);
        // A call that goes on after the end of its copy waited for it.
        let has_ended = |(_, at): &(SliceId, usize)| {
            let of = pieces[*at].slice;
            let is_copy = store.category_kind(of) == CategoryKind::Gpu
                && Work::of_slice(store.slice_name(of), false) == Some(Work::Copy);
            is_copy && pieces[*at].end <= end
        };
        let waits = kind.waits || work.is_some_and(|work| work.iter().all(has_ended));
        let makes_stream_wait = kind.makes_stream_wait;
        if work.is_some() || waits || makes_stream_wait {
            found.push(Call { slice, start, end, thread, launches: work.is_some(), waits, makes_stream_wait });
        }
    }
    found
}

/// Names as texts: numbers of layers are folded.
struct Names {
    texts: Numbers<String>,
    /// By name, if it is known yet.
    plain: Vec<Option<u32>>,
    /// The same after a word.
    after_words: HashMap<(StringId, &'static str), u32, FixedState>,
}

impl Names {
    fn new(store: &Store) -> Self {
        Names { texts: Numbers::default(), plain: vec![None; store.strings.len()], after_words: HashMap::default() }
    }

    /// The number of a name, after a word if there is one.
    fn text(&mut self, store: &Store, name: StringId, word: Option<&'static str>) -> u32 {
        let known = match word {
            None => self.plain[name.0 as usize],
            Some(word) => self.after_words.get(&(name, word)).copied(),
        };
        if let Some(known) = known {
            return known;
        }
        let text = match store.strings.get(name).filter(|_| name != StringId::NULL) {
            Some(name) => fold(name).into_owned(),
            None => OUTSIDE.to_owned(),
        };
        let text = word.map_or_else(|| text.clone(), |word| format!("{word}: {text}"));
        let at = self.texts.number(text);
        match word {
            None => self.plain[name.0 as usize] = Some(at),
            Some(word) => _ = self.after_words.insert((name, word), at),
        }
        at
    }
}

/// The slices that have ended at some time, of those that started before.
#[derive(Default)]
struct Ended {
    running: BinaryHeap<Reverse<(Ns, u32)>>,
    /// In the order of ends.
    ended: Vec<(Ns, u32)>,
}

impl Ended {
    /// Goes on to a later time.
    fn until(&mut self, time: Ns) {
        while self.running.peek().is_some_and(|Reverse((end, _))| *end <= time)
            && let Some(Reverse(next)) = self.running.pop()
        {
            // What started since then may end before others that were running.
            let later = self.ended.iter().rev().take(LOOK_BACK).take_while(|of| **of > next).count();
            self.ended.insert(self.ended.len() - later, next);
        }
    }
}

struct Builder<'a> {
    source: &'a Source<'a>,
    pieces: &'a [Piece],
    graph: RankGraph,
    names: Names,
    /// By piece: the node of its launch.
    launches: Vec<Option<u32>>,
    threads: Vec<ThreadId>,
    /// By thread: its nodes.
    of_thread: Vec<Vec<u32>>,
    /// Nodes of calls that wait.
    blocked: Vec<(u32, SliceId)>,
}

impl Builder<'_> {
    fn text(&mut self, name: StringId, word: Option<&'static str>) -> u32 {
        self.names.text(self.source.store, name, word)
    }

    fn step(&self, time: Ns) -> Option<u32> {
        let after = self.source.steps.partition_point(|step| step.start <= time);
        let at = after.checked_sub(1)?;
        self.source.steps[at].contains(time).then_some(at as u32)
    }

    fn push(&mut self, node: RankNode, slice: Option<SliceId>, edges: RankEdges) -> u32 {
        self.graph.nodes.push(node);
        self.graph.slices.push(slice);
        self.graph.edges.push(edges);
        self.graph.nodes.len() as u32 - 1
    }

    fn on_thread(&mut self, lane: usize, kind: NodeKind, Window { start, end }: Window, name: StringId) -> u32 {
        let (name, step) = (self.text(name, None), self.step(start));
        let node = RankNode { start, end, lane: lane as u32, name, step, ..RankNode::new(kind) };
        let at = self.push(node, None, RankEdges::new());
        self.of_thread[lane].push(at);
        at
    }

    fn add_calls(&mut self, calls: &[Call]) {
        let mut lanes: HashMap<ThreadId, usize, FixedState> = HashMap::default();
        let mut nodes: HashMap<SliceId, u32, FixedState> =
            HashMap::with_capacity_and_hasher(calls.len(), FixedState::default());
        for call in calls.iter().filter(|call| call.launches || call.waits) {
            let next = self.threads.len();
            let lane = *lanes.entry(call.thread).or_insert(next);
            if lane == next {
                self.threads.push(call.thread);
                self.of_thread.push(Vec::new());
            }
            let name = self.source.store.slices.name(call.slice);
            if call.launches {
                // A call that waits for its own copy has launched it when it begins.
                let end = if call.waits { call.start } else { call.end };
                let at = self.on_thread(lane, NodeKind::Launch, Window { start: call.start, end }, name);
                self.graph.slices[at as usize] = Some(call.slice);
                nodes.insert(call.slice, at);
            }
            if call.waits {
                let at = self.on_thread(lane, NodeKind::Blocked, Window { start: call.start, end: call.end }, name);
                self.graph.slices[at as usize] = Some(call.slice);
                self.blocked.push((at, call.slice));
            }
        }
        self.launches = self.pieces.iter().map(|piece| nodes.get(&piece.call?).copied()).collect();
    }

    /// The nodes of streams, and the edges from threads and between streams. Where slices of a stream overlap (programmatic dependent launch), the
    /// later one starts when the earlier one ends.
    fn add_slices(&mut self, calls: &[Call]) {
        let numbered = self.source.rows.iter().zip(0..).map(|((slice, word), row)| (*slice, (row, *word)));
        let rows: HashMap<SliceId, (u32, Option<&str>), FixedState> = numbered.collect();
        let (waiting, by_launch) = (self.waiting_launches(calls), self.by_launch());
        let mut streams: HashMap<ThreadId, u32, FixedState> = HashMap::default();
        // By stream: the node that ends last.
        let mut last: Vec<Option<u32>> = Vec::new();
        let mut ended = Ended::default();
        let first = self.graph.nodes.len() as u32;
        for (number, (piece, at)) in self.pieces.iter().zip(first..).enumerate() {
            let next = last.len() as u32;
            let lane = *streams.entry(piece.stream).or_insert(next);
            if lane == next {
                last.push(None);
            }
            let row = rows.get(&piece.slice).copied();
            let launch = self.launches[number];
            let before = last[lane as usize];
            let before_end = before.map(|before| self.graph.nodes[before as usize].end);
            let mut edges: RankEdges =
                launch.map(|from| RankEdge { from, kind: EdgeKind::Launch }).into_iter().collect();
            edges.extend(before.map(|from| RankEdge { from, kind: EdgeKind::Stream }));
            if let Some(waited) = piece.call.and_then(|call| waiting.get(&call)) {
                self.wait_events(number, *waited, &by_launch, first, &mut edges);
            }
            ended.until(piece.start + ROUNDED);
            edges.extend(self.unexplained(piece, lane, &ended, &edges));
            let node = RankNode {
                start: before_end.map_or(piece.start, |end| end.max(piece.start)),
                end: piece.end,
                lane,
                name: self.text(self.source.store.slices.name(piece.slice), row.and_then(|(_, word)| word)),
                step: launch.and_then(|launch| self.graph.nodes[launch as usize].step),
                ..RankNode::new(row.map_or(NodeKind::Slice, |(row, _)| NodeKind::Collective(row)))
            };
            self.push(node, Some(piece.slice), edges);
            ended.running.push(Reverse((piece.end, at)));
            if before_end.is_none_or(|end| piece.end >= end) {
                last[lane as usize] = Some(at);
            }
        }
        self.add_blocked_edges(first);
        self.add_full_queues(calls, first);
    }

    fn by_launch(&self) -> ByLaunch {
        let mut found = ByLaunch::new();
        for (at, (piece, launch)) in self.pieces.iter().zip(&self.launches).enumerate() {
            let Some(launch) = launch else { continue };
            found.entry(piece.stream).or_default().push((self.graph.nodes[*launch as usize].start, at));
        }
        found.values_mut().for_each(|of| of.sort_unstable());
        found
    }

    /// For the launches after calls that made a stream wait: when the last of those calls began.
    fn waiting_launches(&self, calls: &[Call]) -> HashMap<SliceId, Ns, FixedState> {
        let mut pending: BTreeMap<ThreadId, Ns> = BTreeMap::new();
        let mut found: HashMap<SliceId, Ns, FixedState> = HashMap::default();
        for call in calls {
            if call.makes_stream_wait {
                pending.insert(call.thread, call.start);
            } else if call.launches
                && let Some(at) = pending.remove(&call.thread)
            {
                found.insert(call.slice, at);
            }
        }
        found
    }

    /// Edges from what was launched last on each other stream before the call that made this one wait.
    fn wait_events(&self, piece: usize, waited: Ns, by_launch: &ByLaunch, first: u32, edges: &mut RankEdges) {
        let (of, piece) = (piece, &self.pieces[piece]);
        let others = by_launch.iter().filter(|(stream, _)| **stream != piece.stream).map(|(_, of)| of);
        for launched in others.take(MOST_STREAMS) {
            let before = &launched[..launched.partition_point(|(launched, _)| *launched < waited)];
            // One that is shorter than times are rounded may start after what waited for it.
            let has_ended = |(_, at): &&(Ns, usize)| *at < of && self.pieces[*at].end <= piece.start + ROUNDED;
            let ended = before.iter().rev().take(LOOK_BACK).find(has_ended);
            edges.extend(ended.map(|(_, at)| RankEdge { from: first + *at as u32, kind: EdgeKind::WaitEvent }));
        }
    }

    /// `ended` are the slices that ended before.
    fn unexplained(&self, piece: &Piece, lane: u32, ended: &Ended, edges: &[RankEdge]) -> Option<RankEdge> {
        let explained = edges.iter().map(|edge| self.graph.nodes[edge.from as usize].end).max();
        if explained.is_some_and(|explained| piece.start - explained <= UNEXPLAINED) {
            return None;
        }
        let before = ended.ended.iter().rev().take(LOOK_BACK);
        let (end, from) = before.copied().find(|(_, at)| self.graph.nodes[*at as usize].lane != lane)?;
        explained.is_none_or(|explained| end > explained).then_some(RankEdge { from, kind: EdgeKind::Unexplained })
    }

    /// What calls that wait for the GPU wait for: what their own thread launched last, on all streams if they wait for the device.
    fn add_blocked_edges(&mut self, first: u32) {
        let mut launched: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
        for (launch, at) in self.launches.iter().zip(first..) {
            let Some(launch) = launch.map(|launch| self.graph.nodes[launch as usize]) else { continue };
            launched.entry(launch.lane).or_default().push((launch.start, at));
        }
        launched.values_mut().for_each(|of| of.sort_unstable());
        for (node, call) in std::mem::take(&mut self.blocked) {
            let blocked = self.graph.nodes[node as usize];
            let end = |at: u32| self.graph.nodes[at as usize].end;
            let waited = |of: &Vec<(Ns, u32)>| {
                let before = &of[..of.partition_point(|(launched, _)| *launched <= blocked.start)];
                before.iter().rev().map(|(_, at)| *at).take(LOOK_BACK).find(|at| end(*at) <= blocked.end + ROUNDED)
            };
            let name = self.source.store.slice_name(call);
            let found: Vec<u32> = match name.contains("DeviceSynchronize") {
                true => launched.values().filter_map(waited).collect(),
                false => launched.get(&blocked.lane).and_then(waited).into_iter().collect(),
            };
            let is_event = name.contains("EventSynchronize");
            let found = found.into_iter().filter(|at| !is_event || end(*at) > blocked.start);
            let edges: Vec<RankEdge> = found.map(|from| RankEdge { from, kind: EdgeKind::Blocked }).collect();
            self.graph.edges[node as usize].extend(edges);
        }
    }

    /// A call that launches returns after an earlier launch if the queue is full.
    fn add_full_queues(&mut self, calls: &[Call], first: u32) {
        let waits: HashSet<SliceId, FixedState> =
            calls.iter().filter(|call| call.launches && call.waits).map(|call| call.slice).collect();
        let mut of_streams: BTreeMap<ThreadId, Vec<Launching>> = BTreeMap::new();
        for (last, (piece, launch)) in self.pieces.iter().zip(&self.launches).enumerate() {
            let launching = of_streams.entry(piece.stream).or_default();
            let launch = launch.filter(|_| piece.call.is_none_or(|call| !waits.contains(&call)));
            let call = launch.map(|launch| {
                let node = &self.graph.nodes[launch as usize];
                (launch, Window { start: node.start, end: node.end })
            });
            match launching.last_mut() {
                Some(before) if call.is_some() && before.call == call => (before.done, before.last) = (piece.end, last),
                // What has no call is from before the trace began.
                Some(before) if call.is_none() && before.call.is_some() => {}
                _ => launching.push(Launching { call, done: piece.end, last }),
            }
        }
        for mut launching in of_streams.into_values() {
            launching.sort_by_key(|launching| launching.call.map(|(_, window)| window.start));
            for (at, earlier) in full_queues::waits(&launching) {
                let from = first + launching[earlier].last as u32;
                if let Some((node, _)) = launching[at].call {
                    self.graph.edges[node as usize].push(RankEdge { from, kind: EdgeKind::Blocked });
                }
            }
        }
    }

    /// Where threads wait: for collectives of CPUs, or while another one launches.
    fn add_waits(&mut self, threads: &Threads) {
        // Of several threads that are quiet when it ends, the one that waited for the shortest time.
        let mut cpus: BTreeMap<u32, (Ns, usize, Ns, Window)> = BTreeMap::new();
        for lane in 0..self.threads.len() {
            let asked =
                threads.cpu_collectives(lane).into_iter().filter(|(_, start, _)| self.source.window.contains(*start));
            for (number, start, wait) in asked {
                let of = (wait.duration(), lane, start, wait);
                cpus.entry(number).and_modify(|known| *known = if of.0 < known.0 { of } else { *known }).or_insert(of);
            }
        }
        for (number, (_, lane, start, wait)) in cpus {
            let name = threads.name_of(number);
            let arrival = Window { start, end: start.min(wait.start) };
            self.on_thread(lane, NodeKind::CpuArrival(number), arrival, name);
            self.on_thread(lane, NodeKind::CpuLeft(number), wait, name);
        }
        // By process: what its threads launched, by when that returned.
        let mut launched: BTreeMap<ProcessId, Vec<(Ns, u32)>> = BTreeMap::new();
        for (at, node) in self.graph.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_cpu()) {
            let process = self.source.store.tracks.thread(self.threads[node.lane as usize]).upid;
            launched.entry(process).or_default().push((node.end, at as u32));
        }
        launched.values_mut().for_each(|of| of.sort_unstable());
        for lane in 0..self.threads.len() {
            let process = self.source.store.tracks.thread(self.threads[lane]).upid;
            for idle in threads.idle(lane).into_iter().filter(|idle| self.source.window.contains(idle.start)) {
                self.add_wake(lane, idle, launched.get(&process).map_or(&[], Vec::as_slice));
            }
        }
    }

    /// A thread did nothing while another one of its process launched: it was woken by that.
    fn add_wake(&mut self, lane: usize, idle: Window, launched: &[(Ns, u32)]) {
        let before = &launched[..launched.partition_point(|(end, _)| *end <= idle.end)];
        let in_time = before.iter().rev().take_while(|(end, _)| *end >= idle.start).take(LOOK_BACK);
        let other = in_time.map(|(_, at)| *at).find(|at| self.graph.nodes[*at as usize].lane as usize != lane);
        let Some(from) = other else { return };
        let at = self.on_thread(lane, NodeKind::Woken, idle, StringId::NULL);
        self.graph.nodes[at as usize].step = self.step(idle.end);
        self.graph.edges[at as usize].push(RankEdge { from, kind: EdgeKind::Wake });
    }

    /// Each thread does one thing after the other. What it does before its first node begins with the step, if there is
    /// one, or with the window.
    fn link_threads(&mut self) {
        for of in &mut self.of_thread {
            of.sort_by_key(|at| (self.graph.nodes[*at as usize].end, *at));
            for pair in of.windows(2) {
                self.graph.edges[pair[1] as usize].push(RankEdge { from: pair[0], kind: EdgeKind::Thread });
            }
            let Some(first) = of.first().map(|at| *at as usize) else { continue };
            if let Some(step) = self.graph.nodes[first].step {
                let start = self.source.steps[step as usize].start.max(self.source.window.start);
                self.graph.nodes[first].start = self.graph.nodes[first].start.min(start);
            }
        }
    }
}
