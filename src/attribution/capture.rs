//! The call paths of kernels that a CUDA graph replays, from the trace of the graph's capture.
//!
//! A replay is one call for all kernels of a graph. The code that put them into the graph was recorded, if at all, when the graph was captured.
//! During a capture nothing runs on the GPU, but the launching calls and their callers are in the trace, between a call that begins the capture
//! and one that ends it. They are the graph's content, in order. So a replay belongs to a capture with the same content: equally many kernels,
//! copies and fills in the same order, with the same names if the capture has names. ROCm records the kernel's name in the call that launches it;
//! CUDA does not, so there the order decides. The order of a replay on several streams means nothing, so names alone decide, if all launches of a
//! name have the same call path. If both traces have the ids of the graph's nodes, the ids decide.
//!
//! Several captures may have the same content, such as a model's layers, or the same model twice. If all of them give the same call path, the
//! kernel gets it; otherwise the kernel is ambiguous and gets none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use serde::{Deserialize, Serialize};

use super::call_tree::{CallTree, Climber};
use super::launches::{Evidence, Launches};
use crate::id::{PathId, ProcessId, SliceId, ThreadId, TraceId};
use crate::names::args::{GRAPH_ID, GRAPH_NODE_ID, KERNEL};
use crate::names::calls::{CAPTURE_BEGIN, CAPTURE_END, GRAPH_LAUNCHES, Work};
use crate::names::category::CategoryKind;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;

/// All captures read so far.
#[derive(Debug, Default)]
pub struct Captures {
    exact_names: bool,
    tree: CallTree,
    graphs: u64,
    recordings: Vec<Recording>,
    /// The indexes of the recordings, hashed by content.
    known: HashTable<usize>,
    /// By the ids of graph and node.
    nodes: HashMap<(i64, i64), Made>,
}

/// A node of a graph and the call path that made it.
#[derive(Debug)]
struct Made {
    /// `None` if there are several call paths.
    stack: Option<PathId>,
    kernel: Option<String>,
}

/// The content that one capture put into its graph, in order.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Recording {
    work: Vec<(Work, Option<String>)>,
    stacks: Vec<PathId>,
}

/// How many kernels got a call path from the captures, and why the others did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaptureTally {
    /// The number of captured graphs.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub graphs: u64,
    /// The number of replayed kernels with the call path of their capture.
    pub matched: u64,
    /// Of these, the number matched only by their position in the graph, because the capture has no names.
    pub by_order: u64,
    /// The number of kernels that match several captures with different call paths.
    pub ambiguous: u64,
    /// The number of kernels whose graph no capture has.
    pub unknown: u64,
}

impl CaptureTally {
    /// Adds the tally of another trace.
    pub(crate) fn add(&mut self, other: CaptureTally) {
        self.graphs += other.graphs;
        self.matched += other.matched;
        self.by_order += other.by_order;
        self.ambiguous += other.ambiguous;
        self.unknown += other.unknown;
    }
}

/// The call paths that the captures give to the kernels of a trace.
#[derive(Debug, Default)]
pub struct Captured {
    /// The call tree with these paths.
    pub tree: CallTree,
    /// The call path of each kernel that has one, by kernel.
    pub stacks: HashMap<SliceId, PathId>,
    pub tally: CaptureTally,
}

impl Captures {
    /// Without captures. With exact names, callers' names are not folded.
    pub fn new(exact_names: bool) -> Self {
        Captures { exact_names, ..Captures::default() }
    }

    /// Adds the captures of a trace, which must have been loaded with all arguments. Returns their number.
    pub fn add(&mut self, store: &Store) -> usize {
        let mut climber = Climber::new(store, self.exact_names);
        let captures = captures(store);
        self.graphs += captures.len() as u64;
        for calls in captures.iter().flat_map(|Calls { own, all }| std::iter::once(own).chain(all)) {
            let stacks: Vec<PathId> =
                calls.iter().filter_map(|(call, _)| climber.launch(&mut self.tree, *call).path).collect();
            for ((call, _), stack) in calls.iter().zip(&stacks) {
                self.add_node(store, *call, *stack);
            }
            let work = calls.iter().map(|(call, work)| (*work, kernel_name(store, *call).map(str::to_owned)));
            let recording = Recording { work: work.collect(), stacks };
            // Every worker and every trial captures the same graph again; it is kept once.
            self.remember(recording);
        }
        captures.len()
    }

    /// Keeps a recording unless an equal one is known.
    fn remember(&mut self, recording: Recording) {
        let hash = |recording: &Recording| FixedState::default().hash_one(recording);
        let recordings = &mut self.recordings;
        let place = self.known.entry(hash(&recording), |at| recordings[*at] == recording, |at| hash(&recordings[*at]));
        if let Entry::Vacant(place) = place {
            place.insert(recordings.len());
            recordings.push(recording);
        }
    }

    fn add_node(&mut self, store: &Store, call: SliceId, stack: PathId) {
        let set = store.slices.args(call);
        let id = |key| store.arg_key(key).and_then(|key| store.whole_arg(set, key)).unwrap_or(0);
        let ids = (id(GRAPH_ID), id(GRAPH_NODE_ID));
        if ids.1 != 0 {
            let kernel = kernel_name(store, call).map(str::to_owned);
            self.nodes
                .entry(ids)
                .and_modify(|known| known.stack = known.stack.filter(|known| *known == stack))
                .or_insert(Made { stack: Some(stack), kernel });
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.recordings.is_empty()
    }

    /// By call path: a number shared by all paths with equal frames.
    fn alike(&self) -> HashMap<PathId, usize> {
        let mut paths = HashMap::new();
        let stacks = self.recordings.iter().flat_map(|recording| &recording.stacks);
        let mut alike = HashMap::new();
        for stack in stacks {
            alike.entry(*stack).or_insert_with(|| {
                let next = paths.len();
                *paths.entry(self.tree.call_path(*stack)).or_insert(next)
            });
        }
        alike
    }

    /// Finds the call paths of all replayed kernels. Kernels tied to a capture only by their graph node get [`Evidence::Capture`].
    pub fn stacks(self, store: &Store, launches: &mut Launches) -> Captured {
        let mut captured = Captured::default();
        captured.tally.graphs = self.graphs;
        if self.is_empty() {
            return captured;
        }
        let alike = self.alike();
        let replays: HashMap<SliceId, Replay<'_>> = replays(store, launches)
            .into_iter()
            .map(|(call, work)| (call, Replay::new(store, work, &self.recordings)))
            .collect();
        for launched in &mut launches.kernels {
            let name = store.slice_name(launched.kernel);
            let by_node = store.graph_node(launched.kernel).and_then(|ids| self.nodes.get(&ids));
            // Another process may use the same ids.
            let by_node = by_node.filter(|made| made.kernel.as_deref().is_none_or(|kernel| kernel == name));
            let is_replay = launched.evidence == Evidence::GraphReplay;
            let found = match (by_node.map(|made| made.stack), launched.call) {
                (Some(Some(stack)), _) => Match::Stack { stack, by_order: false },
                (Some(None), _) => Match::Ambiguous,
                (None, Some(call)) if is_replay => replays[&call].stack(launched.kernel, name, &alike),
                _ => continue,
            };
            match found {
                Match::Stack { stack, by_order } => {
                    captured.stacks.insert(launched.kernel, stack);
                    captured.tally.matched += 1;
                    captured.tally.by_order += u64::from(by_order);
                    if launched.call.is_none() {
                        launched.evidence = Evidence::Capture;
                    }
                }
                Match::Ambiguous => captured.tally.ambiguous += 1,
                Match::Unknown => captured.tally.unknown += 1,
            }
        }
        captured.tree = self.tree;
        captured
    }
}

/// Whether a trace may have replayed kernels: a call that launches a graph, or a kernel with a graph node.
pub fn may_have_replays(store: &Store) -> bool {
    let launches: Vec<StringId> = GRAPH_LAUNCHES.iter().filter_map(|name| store.strings.find(name)).collect();
    store.runtime_calls.iter().any(|call| launches.contains(&store.slices.name(*call)))
        || store.kernels.iter().any(|kernel| store.graph_node(*kernel).is_some())
}

/// The work that one graph launch put onto the GPU, in order, and the captures with the same content.
struct Replay<'a> {
    work: Vec<SliceId>,
    /// Whether everything ran on one stream.
    in_order: bool,
    same: Vec<&'a Recording>,
}

impl<'a> Replay<'a> {
    fn new(store: &Store, work: Vec<SliceId>, recordings: &'a [Recording]) -> Self {
        let in_order = work.windows(2).all(|pair| store.stream_of(pair[0]) == store.stream_of(pair[1]));
        let mut held: Vec<(Option<Work>, &str)> =
            work.iter().map(|slice| (work_of(store, *slice), store.slice_name(*slice))).collect();
        let same = if in_order {
            recordings.iter().filter(|recording| recording.holds_in_order(&held)).collect()
        } else {
            held.sort_unstable();
            recordings.iter().filter(|recording| recording.holds_in_any_order(&held)).collect()
        };
        Replay { work, in_order, same }
    }

    /// The call path of a kernel: by its position, or by its name if there is no order. `alike` is [`Captures::alike`].
    fn stack(&self, kernel: SliceId, name: &str, alike: &HashMap<PathId, usize>) -> Match {
        let (Ok(place), [first, ..]) = (self.work.binary_search(&kernel), &self.same[..]) else {
            return Match::Unknown;
        };
        let of_recording = |recording: &'a Recording| -> Vec<PathId> {
            if self.in_order {
                return vec![recording.stacks[place]];
            }
            let all = recording.work.iter().zip(&recording.stacks);
            all.filter(|((_, of), _)| of.as_deref() == Some(name)).map(|(_, stack)| *stack).collect()
        };
        let mut stacks = self.same.iter().flat_map(|recording| of_recording(recording));
        let Some(stack) = stacks.next() else { return Match::Unknown };
        if !stacks.all(|other| alike.get(&other) == alike.get(&stack)) {
            return Match::Ambiguous;
        }
        Match::Stack { stack, by_order: self.in_order && first.work[place].1.is_none() }
    }
}

enum Match {
    Stack { stack: PathId, by_order: bool },
    Ambiguous,
    Unknown,
}

impl Recording {
    /// Whether a replay on one stream has the same content. Copies and fills have no names here.
    fn holds_in_order(&self, replay: &[(Option<Work>, &str)]) -> bool {
        self.work.len() == replay.len()
            && self.work.iter().zip(replay).all(|((work, name), (other, other_name))| {
                let is_same_kernel = *work != Work::Kernel || name.as_deref().is_none_or(|name| name == *other_name);
                *other == Some(*work) && is_same_kernel
            })
    }

    /// The same for a replay on several streams, sorted: as many kernels of each name, and as many copies and fills.
    fn holds_in_any_order(&self, replay: &[(Option<Work>, &str)]) -> bool {
        let is_named = self.work.iter().all(|(work, name)| *work != Work::Kernel || name.is_some());
        if !is_named || self.work.len() != replay.len() {
            return false;
        }
        let kernels =
            self.work.iter().filter(|(work, _)| *work == Work::Kernel).filter_map(|(_, name)| name.as_deref());
        let mut kernels: Vec<&str> = kernels.collect();
        kernels.sort_unstable();
        let others = replay.iter().filter(|(work, _)| *work == Some(Work::Kernel)).map(|(_, name)| *name);
        let count = |wanted| self.work.iter().filter(|(work, _)| *work == wanted).count();
        let replayed = |wanted| replay.iter().filter(|(work, _)| *work == Some(wanted)).count();
        others.eq(kernels) && [Work::Copy, Work::Fill].into_iter().all(|work| count(work) == replayed(work))
    }
}

/// The work that each graph launch put onto the GPU, in time order, for launches of chosen kernels.
fn replays(store: &Store, launches: &Launches) -> HashMap<SliceId, Vec<SliceId>> {
    let mut by_id: HashMap<(TraceId, i64), (SliceId, bool)> = HashMap::new();
    let mut replays: HashMap<SliceId, Vec<SliceId>> = HashMap::new();
    for launched in launches.kernels.iter().filter(|launched| launched.evidence == Evidence::GraphReplay) {
        let Some(call) = launched.call else { continue };
        replays.entry(call).or_default();
        if let Some(id) = store.trace_correlation(launched.kernel) {
            // An id that several calls have does not identify a launch.
            let sure = !launched.uncertain;
            by_id.entry(id).and_modify(|(known, only)| *only &= sure && *known == call).or_insert((call, sure));
        }
    }
    for slice in store.slices.ids() {
        if !matches!(store.category_kind(slice), CategoryKind::Kernel | CategoryKind::Gpu) {
            continue;
        }
        let Some((call, true)) = store.trace_correlation(slice).and_then(|id| by_id.get(&id)) else { continue };
        if work_of(store, slice).is_some()
            && let Some(replay) = replays.get_mut(call)
        {
            replay.push(slice);
        }
    }
    replays
}

/// The launching calls of one capture, in order.
#[derive(Debug, Default)]
struct Calls {
    /// The calls of the thread that began it.
    own: Vec<(SliceId, Work)>,
    /// All calls of its process, if other threads made any and no other capture was open: autograd's thread works for the one that waits for it.
    all: Option<Vec<(SliceId, Work)>>,
}

/// A capture that has not ended.
#[derive(Debug)]
struct Open {
    upid: Option<ProcessId>,
    own: Vec<(SliceId, Work)>,
}

/// All calls of a capture's process since the capture began.
#[derive(Debug)]
struct Together {
    utid: Option<ThreadId>,
    calls: Vec<(SliceId, Work)>,
}

/// The captures of all traces, each trace separately, because their calls are unrelated.
fn captures(store: &Store) -> Vec<Calls> {
    let mut of_traces: Vec<Vec<SliceId>> = vec![Vec::new(); store.traces.len()];
    store.runtime_calls.iter().for_each(|call| of_traces[store.trace_of(*call).row()].push(*call));
    of_traces.iter().flat_map(|calls| captures_among(store, calls)).collect()
}

/// The captures among some calls, in order. If no call begins a capture, takes the calls for which nothing ran, thread by thread.
fn captures_among(store: &Store, calls: &[SliceId]) -> Vec<Calls> {
    let (mut open, mut closed): (HashMap<Option<ThreadId>, Open>, Vec<Calls>) = Default::default();
    // The open capture, while it is the only one.
    let mut alone: Option<Together> = None;
    let mut has_ends = false;
    for call in calls.iter().copied() {
        let (name, utid) = (store.slice_name(call), store.thread_of(call));
        let upid = store.process_of(call);
        if name.contains(CAPTURE_BEGIN) {
            has_ends = true;
            open.remove(&utid);
            alone = open.is_empty().then_some(Together { utid, calls: Vec::new() });
            open.insert(utid, Open { upid, own: Vec::new() });
        } else if name.contains(CAPTURE_END) {
            let Some(Open { own, .. }) = open.remove(&utid) else { continue };
            let all = alone.take_if(|alone| alone.utid == utid).map(|alone| alone.calls);
            closed.push(Calls { all: all.filter(|all| all.len() > own.len()), own });
        } else if let Some(work) = Work::of_call(name) {
            if let Some(capture) = open.get_mut(&utid).filter(|capture| capture.upid == upid) {
                capture.own.push((call, work));
            }
            if let Some(alone) = alone.as_mut().filter(|alone| open[&alone.utid].upid == upid) {
                alone.calls.push((call, work));
            }
        }
    }
    if !has_ends {
        closed = without_ends(store, calls);
    }
    closed.retain(|calls| !calls.own.is_empty() || calls.all.is_some());
    closed
}

fn without_ends(store: &Store, calls: &[SliceId]) -> Vec<Calls> {
    if calls.iter().any(|call| GRAPH_LAUNCHES.contains(&store.slice_name(*call))) {
        return Vec::new();
    }
    let ran: HashSet<(TraceId, i64)> = store.kernels.iter().filter_map(|k| store.trace_correlation(*k)).collect();
    let mut by_thread: BTreeMap<Option<ThreadId>, Vec<(SliceId, Work)>> = Default::default();
    for call in calls.iter().copied() {
        let has_run = store.trace_correlation(call).is_some_and(|id| ran.contains(&id));
        if let (Some(work), false) = (Work::of_call(store.slice_name(call)), has_run) {
            by_thread.entry(store.thread_of(call)).or_default().push((call, work));
        }
    }
    by_thread.into_values().map(|own| Calls { own, all: None }).collect()
}

fn work_of(store: &Store, slice: SliceId) -> Option<Work> {
    let is_kernel = store.category_kind(slice) == CategoryKind::Kernel;
    let ended = store.slices.dur(slice) != UNFINISHED;
    Work::of_slice(store.slice_name(slice), is_kernel).filter(|_| ended)
}

/// The name of the kernel that a call launches, if recorded.
fn kernel_name(store: &Store, call: SliceId) -> Option<&str> {
    store.text_arg(store.slices.args(call), store.arg_key(KERNEL)?)
}
