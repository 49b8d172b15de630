//! Stacks of kernels that a graph replays, from the trace of the graph's capture.
//!
//! A replayed graph is one call for all its kernels; who put them there was recorded, if at all, when the graph was captured.
//! During a capture nothing runs on the GPU, but the launching calls are there, with their callers, between a call that begins the
//! capture and one that ends it. They are what the graph holds, in their order. So a graph of a replay and a capture belong
//! together if they hold the same: as many kernels, copies and fills in the same order, and the same names where the capture has
//! names. ROCm writes the kernel's name to the call that launches it; CUDA does not, and then the order has to do, which is only
//! sure if the graph runs on one stream. Where both traces have the ids of the graph's nodes, these decide.
//!
//! Several captures may hold the same: a model's layers, or the same model twice. If all of them say the same stack it is the
//! kernel's; otherwise the kernel is ambiguous, and gets none.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::launches::{Evidence, Launches};
use super::tree::{Climber, Node, Tree};
use crate::event::ArgValue;
use crate::nccl::args::{GRAPH_ID, GRAPH_NODE_ID, KERNEL, in_table};
use crate::nccl::calls::{CAPTURE_BEGIN, CAPTURE_END, GRAPH_LAUNCHES, Work};
use crate::nccl::category::CategoryKind;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;

/// All captures that are at hand.
#[derive(Debug, Default)]
pub struct Captures {
    exact_names: bool,
    tree: Tree,
    recordings: Vec<Recording>,
    /// By the ids of graph and node.
    nodes: HashMap<(i64, i64), Option<Node>>,
}

/// What one capture put into its graph, in order.
#[derive(Debug)]
struct Recording {
    work: Vec<(Work, Option<String>)>,
    stacks: Vec<Node>,
}

/// The stacks that were found for kernels, and what was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CaptureTally {
    /// How many captured graphs there were to choose from.
    pub graphs: u64,
    /// How many replayed kernels have the stack of their capture.
    pub matched: u64,
    /// How many of these were matched by their place in the graph alone, because the capture has no names.
    pub by_order: u64,
    /// How many have several captures that say different stacks.
    pub ambiguous: u64,
    /// How many are of a graph that no capture holds.
    pub unknown: u64,
}

/// What the captures say of the kernels of a trace.
#[derive(Debug, Default)]
pub struct Captured {
    /// The tree in which their stacks are places.
    pub tree: Tree,
    /// By kernel.
    pub stacks: HashMap<u32, Node>,
    /// How many.
    pub tally: CaptureTally,
}

impl Captures {
    /// None yet. Exact names of callers stay as they are.
    pub fn new(exact_names: bool) -> Self {
        Captures { exact_names, ..Captures::default() }
    }

    /// Takes what a trace of captures holds, which must have been loaded with all arguments. Returns how many captures it has.
    pub fn add(&mut self, store: &Store) -> usize {
        let before = self.recordings.len();
        let mut climber = Climber::new(store, self.exact_names);
        for calls in recordings(store) {
            let stacks: Vec<Node> = calls.iter().map(|(call, _)| climber.launch(&mut self.tree, *call).node).collect();
            for ((call, _), stack) in calls.iter().zip(&stacks) {
                self.add_node(store, *call, *stack);
            }
            let work = calls.into_iter().map(|(call, work)| (work, kernel_name(store, call).map(str::to_owned)));
            self.recordings.push(Recording { work: work.collect(), stacks });
        }
        self.recordings.len() - before
    }

    /// Remembers the node that a call made, if it says so.
    fn add_node(&mut self, store: &Store, call: u32, stack: Node) {
        let id = |key| match arg(store, call, key) {
            Some(ArgValue::Int(id)) => id,
            _ => 0,
        };
        let ids = (id(GRAPH_ID), id(GRAPH_NODE_ID));
        if ids.1 != 0 {
            // Two stacks for one node are as good as none.
            self.nodes
                .entry(ids)
                .and_modify(|known| *known = known.filter(|known| *known == stack))
                .or_insert(Some(stack));
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.recordings.is_empty()
    }

    /// Finds the stacks of all replayed kernels among the launches. Two stacks are alike if they are so up to this many callers.
    /// Kernels that only their node ties to a capture get that for evidence.
    pub fn stacks(self, store: &Store, launches: &mut Launches, max_callers: Option<usize>) -> Captured {
        let alike = |a, b| a == b || self.tree.trail(a, max_callers) == self.tree.trail(b, max_callers);
        let mut captured = Captured::default();
        captured.tally.graphs = self.recordings.len() as u64;
        if self.is_empty() {
            return captured;
        }
        let replays: HashMap<u32, Replay<'_>> = replays(store, launches)
            .into_iter()
            .map(|(call, work)| {
                let same = self.recordings.iter().filter(|recording| recording.is_of(store, &work)).collect();
                (call, Replay { work, same })
            })
            .collect();
        for launched in &mut launches.kernels {
            let by_node = store.graph_node(launched.kernel as usize).and_then(|ids| self.nodes.get(&ids)).copied();
            let is_replay = launched.evidence == Evidence::GraphReplay;
            let found = match (by_node, launched.call) {
                (Some(Some(stack)), _) => Match::Stack { stack, by_order: false },
                (Some(None), _) => Match::Ambiguous,
                (None, Some(call)) if is_replay => replays[&call.slice].stack(launched.kernel, &alike),
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

/// What one launch of a graph put onto the GPU, in order, and the captures that hold the same.
struct Replay<'a> {
    work: Vec<u32>,
    same: Vec<&'a Recording>,
}

impl Replay<'_> {
    /// The stack of a kernel by its place.
    fn stack(&self, kernel: u32, alike: &impl Fn(Node, Node) -> bool) -> Match {
        let (Ok(place), [first, others @ ..]) = (self.work.binary_search(&kernel), &self.same[..]) else {
            return Match::Unknown;
        };
        let stack = first.stacks[place];
        if !others.iter().all(|other| alike(other.stacks[place], stack)) {
            return Match::Ambiguous;
        }
        Match::Stack { stack, by_order: first.work[place].1.is_none() }
    }
}

enum Match {
    Stack { stack: Node, by_order: bool },
    Ambiguous,
    Unknown,
}

impl Recording {
    /// Whether a replay holds the same.
    fn is_of(&self, store: &Store, replay: &[u32]) -> bool {
        if self.work.len() != replay.len() {
            return false;
        }
        let stream = |slice: &u32| store.tracks.thread_of(store.slices.track(*slice as usize));
        let has_names = self.work.iter().any(|(_, name)| name.is_some());
        let in_order = has_names || replay.windows(2).all(|pair| stream(&pair[0]) == stream(&pair[1]));
        in_order
            && self.work.iter().zip(replay).all(|((work, name), slice)| {
                let slice_name = name_of(store, *slice);
                work_of(store, *slice) == Some(*work)
                    && (*work != Work::Kernel || name.as_deref().is_none_or(|name| name == slice_name))
            })
    }
}

/// What each graph's launch put onto the GPU, in order of time: of those launches that have chosen kernels.
fn replays(store: &Store, launches: &Launches) -> HashMap<u32, Vec<u32>> {
    let mut by_id: HashMap<i64, (u32, bool)> = HashMap::new();
    let mut replays: HashMap<u32, Vec<u32>> = HashMap::new();
    for launched in launches.kernels.iter().filter(|launched| launched.evidence == Evidence::GraphReplay) {
        let Some(call) = launched.call else { continue };
        replays.entry(call.slice).or_default();
        if let Some(id) = store.correlation(launched.kernel as usize) {
            // Ids that several calls have say nothing of what belongs together.
            by_id.entry(id).and_modify(|(known, only)| *only &= *known == call.slice).or_insert((call.slice, true));
        }
    }
    for slice in 0..store.slices.len() {
        if !matches!(store.category_kind(slice), CategoryKind::Kernel | CategoryKind::Gpu) {
            continue;
        }
        let Some((call, true)) = store.correlation(slice).and_then(|id| by_id.get(&id)) else { continue };
        if work_of(store, slice as u32).is_some()
            && let Some(replay) = replays.get_mut(call)
        {
            replay.push(slice as u32);
        }
    }
    replays
}

/// The launching calls of each capture in a trace, in order. If no call says that a capture begins, those are taken, thread by
/// thread, that nothing ran for.
fn recordings(store: &Store) -> Vec<Vec<(u32, Work)>> {
    let thread = |slice: u32| store.tracks.thread_of(store.slices.track(slice as usize));
    let mut open: HashMap<Option<u32>, Vec<(u32, Work)>> = HashMap::new();
    let mut all = Vec::new();
    let mut has_ends = false;
    for call in store.runtime_calls.iter().copied() {
        let name = name_of(store, call);
        if name.contains(CAPTURE_BEGIN) {
            has_ends = true;
            open.insert(thread(call), Vec::new());
        } else if name.contains(CAPTURE_END) {
            all.extend(open.remove(&thread(call)));
        } else if let Some(work) = Work::of_call(name)
            && let Some(calls) = open.get_mut(&thread(call))
        {
            calls.push((call, work));
        }
    }
    if !has_ends {
        all = without_ends(store);
    }
    all.retain(|calls| !calls.is_empty());
    all
}

fn without_ends(store: &Store) -> Vec<Vec<(u32, Work)>> {
    if store.runtime_calls.iter().any(|call| GRAPH_LAUNCHES.contains(&name_of(store, *call))) {
        return Vec::new();
    }
    let ran: HashSet<i64> = store.kernels.iter().filter_map(|k| store.correlation(*k as usize)).collect();
    let mut by_thread: BTreeMap<Option<u32>, Vec<(u32, Work)>> = Default::default();
    for call in store.runtime_calls.iter().copied() {
        let has_run = store.correlation(call as usize).is_some_and(|id| ran.contains(&id));
        if let (Some(work), false) = (Work::of_call(name_of(store, call)), has_run) {
            by_thread.entry(store.tracks.thread_of(store.slices.track(call as usize))).or_default().push((call, work));
        }
    }
    by_thread.into_values().collect()
}

fn work_of(store: &Store, slice: u32) -> Option<Work> {
    let is_kernel = store.category_kind(slice as usize) == CategoryKind::Kernel;
    let ended = store.slices.dur(slice as usize) != UNFINISHED;
    Work::of_slice(name_of(store, slice), is_kernel).filter(|_| ended)
}

fn name_of(store: &Store, slice: u32) -> &str {
    store.strings.get(store.slices.name(slice as usize)).unwrap_or_default()
}

/// The name of the kernel that a call launches, if it says so.
fn kernel_name(store: &Store, call: u32) -> Option<&str> {
    match arg(store, call, KERNEL)? {
        ArgValue::Text(name) => store.strings.get(name),
        _ => None,
    }
}

fn arg(store: &Store, slice: u32, key: &str) -> Option<ArgValue<StringId>> {
    store.args.get(store.slices.args(slice as usize), store.strings.find(&in_table(key))?)
}
