//! Finds the causal graph of one rank in its trace.
//!
//! Edges between streams are known where a call made one stream wait for another (`cudaStreamWaitEvent`): what was launched next waits for what was
//! launched last on each other stream before that call. Which event a call waits for is in no trace, so a wait for an event is an edge only if the
//! call was blocked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use foldhash::fast::FixedState;

pub(crate) use super::calls::Source;
use super::calls::{Call, Calls, Earlier, Piece, pieces};
use super::full_queues::{self, Launching};
use super::places;
use super::rank::{EdgeKind, NodeKind, RankEdge, RankEdges, RankGraph, RankNode};
use super::threads::Threads;
use super::waits::{self, Waited, Waiting, Waits};
use crate::id::{ProcessId, SliceId, ThreadId, TraceId};
use crate::names::calls::Work;
use crate::names::frames::fold;
use crate::names::steps::is_profiler;
use crate::numbers::Numbers;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// When the profiler of a trace began: its own slice says so, in the traces of PyTorch since 1.11. `None` if there are several, as in merged traces.
pub(crate) fn profiled_from(store: &Store, trace: TraceId) -> Option<Ns> {
    let names = store.names.iter().filter(|name| store.strings.get(name.id).is_some_and(is_profiler));
    let names: Vec<StringId> = names.map(|name| name.id).collect();
    if names.is_empty() {
        return None;
    }
    let is_one = |slice: &SliceId| names.contains(&store.slices.name(*slice)) && store.trace_of(*slice) == trace;
    let mut found = store.slices.ids().filter(is_one);
    let first = found.next()?;
    found.next().is_none().then(|| store.slices.ts(first))
}

/// What starts at most this much after its launch, or the slice before it, has waited for nothing else. Of the real traces that were measured none
/// changes its answer between 5 and 50 µs.
const UNEXPLAINED: Ns = Ns(5_000);

/// Many traces round times to a microsecond: what ended so much after something that waited for it may have ended before.
pub(super) const ROUNDED: Ns = Ns(1_000);

/// The name of the time in which a thread is in no slice.
pub(crate) const OUTSIDE: &str = "(outside of any slice)";

/// How many slices of a stream may still run when a slice starts that waited for an earlier one of them.
const LOOK_BACK: usize = 256;

/// No job uses as many streams at once.
const MOST_STREAMS: usize = 256;

/// By stream: its slices, by when they were launched.
type ByLaunch = BTreeMap<ThreadId, Vec<(Ns, usize)>>;

pub(crate) fn build(source: &Source<'_>) -> RankGraph {
    let (pieces, earlier) = pieces(source);
    let calls = Calls::find(source, &pieces);
    let mut builder = Builder {
        source,
        pieces: &pieces,
        graph: RankGraph {
            steps: source.steps.len() as u32,
            profiled_from: source.profiled_from,
            ..RankGraph::default()
        },
        edges: Vec::new(),
        names: Names::new(source.store),
        launches: Vec::new(),
        returned: Vec::new(),
        threads: Vec::new(),
        of_thread: Vec::new(),
        blocked: Vec::new(),
    };
    let room = calls.calls.len() + pieces.len();
    builder.graph.nodes.reserve(room);
    builder.graph.slices.reserve(room);
    builder.edges.reserve(room);
    builder.add_calls(&calls);
    builder.add_slices(&calls.calls, earlier);
    let threads = Threads::find(source.store, &builder.threads);
    builder.add_waits(&threads);
    builder.link_threads();
    builder.graph.texts.clone_from(&builder.names.texts.list);
    builder.graph.edges = std::mem::take(&mut builder.edges).into_iter().collect();
    places::find(&mut builder.graph);
    let Builder { mut graph, mut names, of_thread, .. } = builder;
    let functions = threads.functions(&graph, &of_thread, |name| names.text(source.store, name, None));
    let annotations: BTreeSet<u32> =
        threads.annotations.iter().map(|name| names.text(source.store, *name, None)).collect();
    graph.annotations = annotations.into_iter().collect();
    graph.texts = names.texts.list;
    graph.intervals.iter_mut().zip(functions).for_each(|(interval, functions)| interval.functions = functions);
    graph
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
    /// By node: the edges into it.
    edges: Vec<RankEdges>,
    names: Names,
    /// By piece: the node after which it can start, and the one at which its call returns.
    launches: Vec<Option<u32>>,
    returned: Vec<Option<(u32, Window)>>,
    threads: Vec<ThreadId>,
    /// By thread: its nodes.
    of_thread: Vec<Vec<u32>>,
    /// Nodes of calls that wait, or may, with the slice for which they do.
    blocked: Vec<(u32, usize, EdgeKind)>,
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
        self.edges.push(edges);
        self.graph.nodes.len() as u32 - 1
    }

    fn on_thread(&mut self, lane: usize, kind: NodeKind, Window { start, end }: Window, name: StringId) -> u32 {
        let (name, step) = (self.text(name, None), self.step(start).into());
        let node = RankNode { start, end, lane: lane as u32, name, step, ..RankNode::new(kind) };
        let at = self.push(node, None, RankEdges::new());
        self.of_thread[lane].push(at);
        at
    }

    fn add_calls(&mut self, calls: &Calls) {
        let mut lanes: HashMap<ThreadId, u32, FixedState> = HashMap::default();
        for call in calls.calls.iter().filter(|call| call.launches.is_some() || call.waits()) {
            let next = self.threads.len() as u32;
            if *lanes.entry(call.thread).or_insert(next) == next {
                self.threads.push(call.thread);
                self.of_thread.push(Vec::new());
            }
        }
        // By call: its thread, if that launches or waits.
        let lane_of: Vec<Option<u32>> = calls.calls.iter().map(|call| lanes.get(&call.thread).copied()).collect();
        let work = |(piece, call): (&Piece, &Option<u32>)| {
            let launch = call.and_then(|call| Some((calls.calls[call as usize].start, lane_of[call as usize]?)));
            waits::Work { end: piece.end, stream: piece.stream, launch }
        };
        let work: Vec<waits::Work> = self.pieces.iter().zip(&calls.of_pieces).map(work).collect();
        let waiting = |(call, lane): (&Call, &Option<u32>)| {
            let window = Window { start: call.start, end: call.end };
            let (waits_for, lane) = (call.kind.waits_for?, (*lane)?);
            Some(Waiting { name: self.source.store.slices.name(call.slice), waits_for, window, lane })
        };
        let waits: Vec<Option<Waiting>> = calls.calls.iter().zip(&lane_of).map(waiting).collect();
        let known = Waits::find(&work, &waits.iter().flatten().copied().collect::<Vec<_>>(), &calls.records);
        // The nodes of slices follow, those of what was before them first.
        let mut edges: Vec<(u32, usize, EdgeKind)> = Vec::new();
        let mut nodes: Vec<Option<(u32, u32)>> = vec![None; calls.calls.len()];
        for (at, (call, waiting)) in calls.calls.iter().zip(waits).enumerate() {
            let Some(lane) = lane_of[at].map(|lane| lane as usize) else { continue };
            if let Some(starts) = call.launches {
                nodes[at] = Some(self.add_launch(lane, call, starts));
            }
            if let Some(copy) = call.copied {
                // It has launched it when it begins.
                let window = Window { start: call.start, end: call.end };
                let at = self.of_call(lane, NodeKind::Blocked, window, call);
                edges.push((at, copy, EdgeKind::Blocked));
            } else if let Some(waiting) = waiting {
                edges.extend(self.add_wait(lane, call, known.waited_for(&waiting)));
            }
        }
        let of_piece = |call: &Option<u32>| nodes[(*call)? as usize];
        self.launches = calls.of_pieces.iter().map(|call| Some(of_piece(call)?.0)).collect();
        let returned = |at: &Option<u32>| {
            let (call, (_, returned)) = (&calls.calls[(*at)? as usize], of_piece(at)?);
            Some((returned, Window { start: call.start, end: call.end }))
        };
        self.returned = calls.of_pieces.iter().map(returned).collect();
        self.add_ends(calls);
        self.blocked = edges;
    }

    fn of_call(&mut self, lane: usize, kind: NodeKind, window: Window, call: &Call) -> u32 {
        let at = self.on_thread(lane, kind, window, self.source.store.slices.name(call.slice));
        self.graph.slices[at as usize] = Some(call.slice);
        // Where it begins: like calls may return in the next step on a rank that does not wait.
        self.graph.nodes[at as usize].step = self.step(call.start).into();
        at
    }

    /// A call that launches: the node after which its work can start, and the one at which it returns. Work that starts before its call returns is launched when
    /// that begins. That is so with one of ten graphs and nearly all copies that wait; so that these are the same on all ranks, such a call has both nodes.
    fn add_launch(&mut self, lane: usize, call: &Call, starts: Ns) -> (u32, u32) {
        let is_copy = Work::of_call(self.source.store.slice_name(call.slice)) == Some(Work::Copy);
        let (whole, begins) = (Window { start: call.start, end: call.end }, call.start.min(starts));
        let begin = Window { start: begins, end: begins };
        if call.copied.is_some() || starts < call.end && !(is_copy || call.kind.is_graph) {
            let at = self.of_call(lane, NodeKind::Launch, begin, call);
            return (at, at);
        }
        if !(is_copy || call.kind.is_graph) {
            let at = self.of_call(lane, NodeKind::Launch, whole, call);
            return (at, at);
        }
        let at = self.of_call(lane, NodeKind::Launch, begin, call);
        let returned = self.of_call(lane, NodeKind::Returned, whole, call);
        (if starts < call.end { at } else { returned }, returned)
    }

    /// A call that waits for others' work, and the slices for which it waits or may wait.
    fn add_wait(&mut self, lane: usize, call: &Call, waited: Waited) -> Vec<(u32, usize, EdgeKind)> {
        let at = |start: Ns, end: Ns| Window { start, end };
        match waited {
            Waited::For { work, since, until } => {
                let node = self.of_call(lane, NodeKind::Blocked, at(since, until), call);
                if until < call.end {
                    self.of_call(lane, NodeKind::Profiler, at(until, call.end), call);
                }
                vec![(node, work, EdgeKind::Blocked)]
            }
            Waited::Nothing(may_wait) => {
                let node = self.of_call(lane, NodeKind::Blocked, at(call.end, call.end), call);
                may_wait.into_iter().map(|work| (node, work, EdgeKind::MayBlock)).collect()
            }
            Waited::Unknown(since) => {
                self.of_call(lane, NodeKind::Blocked, at(since, since), call);
                self.of_call(lane, NodeKind::Unknown, at(since, call.end), call);
                Vec::new()
            }
        }
    }

    /// Where threads end: with the last step, and with their last calls.
    fn add_ends(&mut self, calls: &Calls) {
        let of_step = self.source.last_step.and_then(|step| self.source.store.thread_of(step));
        let last = self.source.steps.last().map(|step| step.end.min(self.source.window.end));
        for lane in 0..self.threads.len() {
            let thread = self.threads[lane];
            let ended = self.of_thread[lane].last().map(|at| self.graph.nodes[*at as usize].end);
            let of_step = last.filter(|_| of_step == Some(thread));
            let end = calls.last.get(&thread).copied().max(of_step);
            let Some(end) = end.filter(|end| ended.is_some_and(|ended| *end > ended)) else { continue };
            let at = self.on_thread(lane, NodeKind::End, Window { start: end, end }, StringId::NULL);
            let is_in_last = last.is_some_and(|last| end <= last);
            self.graph.nodes[at as usize].step = is_in_last.then(|| self.source.steps.len() as u32 - 1).into();
        }
    }

    /// The nodes of streams, and the edges from threads and between streams. Where slices of a stream overlap (programmatic dependent launch), the
    /// later one starts when the earlier one ends.
    fn add_slices(&mut self, calls: &[Call], earlier: Earlier) {
        let numbered = self.source.rows.iter().zip(0..).map(|((slice, word), row)| (*slice, (row, *word)));
        let rows: HashMap<SliceId, (u32, Option<&str>), FixedState> = numbered.collect();
        let (waiting, by_launch) = (self.waiting_launches(calls), self.by_launch());
        let mut streams: HashMap<ThreadId, u32, FixedState> = HashMap::default();
        // By stream: the node that ends last.
        let mut last: Vec<Option<u32>> = Vec::new();
        let mut ended = Ended::default();
        for (stream, (end, slice)) in earlier {
            let lane = last.len() as u32;
            let name = self.text(self.source.store.slices.name(slice), None);
            let start = self.source.window.start;
            let node = RankNode { start, end, lane, name, ..RankNode::new(NodeKind::Earlier) };
            let at = self.push(node, Some(slice), RankEdges::new());
            streams.insert(stream, lane);
            last.push(Some(at));
            ended.running.push(Reverse((end, at)));
        }
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
            let same_graph = before.and_then(|before| {
                let call = self.pieces[(before.checked_sub(first)?) as usize].call;
                call.filter(|_| call == piece.call)
            });
            edges.extend(self.unexplained(piece, (lane, first), same_graph, &ended, &edges));
            let node = RankNode {
                start: before_end.map_or(piece.start, |end| end.max(piece.start)),
                end: piece.end,
                lane,
                name: self.text(self.source.store.slices.name(piece.slice), row.and_then(|(_, word)| word)),
                step: launch.map(|launch| self.graph.nodes[launch as usize].step).unwrap_or_default(),
                ..RankNode::new(row.map_or(NodeKind::Slice, |(row, _)| NodeKind::Collective(row)))
            };
            self.push(node, Some(piece.slice), edges);
            ended.running.push(Reverse((piece.end, at)));
            if before_end.is_none_or(|end| piece.end >= end) {
                last[lane as usize] = Some(at);
            }
        }
        for (node, piece, kind) in std::mem::take(&mut self.blocked) {
            self.edges[node as usize].push(RankEdge { from: first + piece as u32, kind });
        }
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
            if call.kind.makes_stream_wait {
                pending.insert(call.thread, call.start);
            } else if call.launches.is_some()
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

    /// `ended` are the slices that ended before. Within a graph a slice waits for none of another launch, of whatever stream; what of those ended last before it is
    /// a coincidence.
    fn unexplained(
        &self,
        piece: &Piece,
        (lane, first): (u32, u32),
        graph: Option<SliceId>,
        ended: &Ended,
        edges: &[RankEdge],
    ) -> Option<RankEdge> {
        let explained = edges.iter().map(|edge| self.graph.nodes[edge.from as usize].end).max();
        if explained.is_some_and(|explained| piece.start - explained <= UNEXPLAINED) {
            return None;
        }
        let call = |at: u32| self.pieces[at.checked_sub(first)? as usize].call;
        let is_other =
            |at: u32| self.graph.nodes[at as usize].lane != lane && graph.is_none_or(|graph| call(at) == Some(graph));
        let before = ended.ended.iter().rev().take(LOOK_BACK);
        let (end, from) = before.copied().find(|(_, at)| is_other(*at))?;
        explained.is_none_or(|explained| end > explained).then_some(RankEdge { from, kind: EdgeKind::Unexplained })
    }

    /// A call that launches returns after an earlier launch if the queue is full.
    fn add_full_queues(&mut self, calls: &[Call], first: u32) {
        let waits: HashSet<SliceId, FixedState> =
            calls.iter().filter(|call| call.copied.is_some()).map(|call| call.slice).collect();
        let mut of_streams: BTreeMap<ThreadId, Vec<Launching>> = BTreeMap::new();
        for (last, (piece, returned)) in self.pieces.iter().zip(&self.returned).enumerate() {
            let launching = of_streams.entry(piece.stream).or_default();
            let call = returned.filter(|_| piece.call.is_none_or(|call| !waits.contains(&call)));
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
                    self.edges[node as usize].push(RankEdge { from, kind: EdgeKind::Blocked });
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
        self.graph.nodes[at as usize].step = self.step(idle.end).into();
        self.edges[at as usize].push(RankEdge { from, kind: EdgeKind::Wake });
    }

    /// Each thread does one thing after the other. What it does before its first node begins with the step, if there is
    /// one, or with the window.
    fn link_threads(&mut self) {
        for of in &mut self.of_thread {
            of.sort_by_key(|at| (self.graph.nodes[*at as usize].end, *at));
            for pair in of.windows(2) {
                self.edges[pair[1] as usize].push(RankEdge { from: pair[0], kind: EdgeKind::Thread });
            }
            let Some(first) = of.first().map(|at| *at as usize) else { continue };
            if let Some(step) = self.graph.nodes[first].step.get() {
                let start = self.source.steps[step as usize].start.max(self.source.window.start);
                self.graph.nodes[first].start = self.graph.nodes[first].start.min(start);
            }
        }
    }
}
