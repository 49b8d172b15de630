//! The call stacks above the launches, grouped and counted.
//!
//! Parents and names are read from the store's columns: a climb takes a step for every slice on the way, and an SQL statement for
//! each would take longer than all else together.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::launches::{Evidence, Launches};
use crate::nccl::frames::fold;
use crate::store::Store;
use crate::store::slices::NO_PARENT;
use crate::store::strings::{StringId, Strings};
use crate::store::tracks::Owner;
use crate::time::Window;

/// How to climb.
#[derive(Debug, Clone, Copy)]
pub struct Climb {
    /// How many callers above the launch to keep; `None` for all.
    pub max_callers: Option<usize>,
    /// Keep names as they are, so that layers and objects stay apart.
    pub exact_names: bool,
}

/// One stack and how many kernels were launched from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// From the outermost caller to the launch.
    pub frames: Vec<String>,
    /// Whether there are more callers above, which were cut off.
    pub cut: bool,
    /// How many kernels.
    pub count: u64,
}

/// The stacks of a window.
#[derive(Debug, Default, Serialize)]
pub struct StackReport {
    /// By count, the largest first; equal counts by text.
    pub stacks: Vec<Stack>,
    /// How many chosen kernels the whole trace has.
    pub kernels_in_trace: u64,
    /// How many of them were launched in the window: the sum of all counts.
    pub launched_in_window: u64,
    /// How many of these share their correlation id with several calls, so that time alone decided for one of them.
    pub uncertain: u64,
    /// How many of these were launched by a call that partly overlaps another slice of its thread: it stands on a track of its
    /// own, and its callers are not known.
    pub without_callers: u64,
    /// How many of them started in the window and have no launch in the trace.
    pub without_launch: u64,
    /// How many of them started in the window and were launched before or after it.
    pub launched_elsewhere: u64,
}

/// Climbs from every launch in the window, and groups.
pub fn climb(store: &Store, launches: &Launches, window: Window, climb: Climb) -> StackReport {
    let mut report = StackReport { kernels_in_trace: launches.kernels.len() as u64, ..StackReport::default() };
    let mut tree = Tree::new(store, climb.exact_names);
    let mut counts: BTreeMap<Node, u64> = BTreeMap::new();
    for launched in &launches.kernels {
        let runs_in_window = u64::from(window.contains(launched.kernel_ts));
        match launched.call {
            Some(call) if window.contains(call.ts) => {
                let (node, is_beside_thread) = tree.launch(call.slice);
                *counts.entry(node).or_default() += 1;
                report.launched_in_window += 1;
                report.without_callers += u64::from(is_beside_thread);
                report.uncertain += u64::from(launched.evidence == Evidence::LatestOfSeveral);
            }
            Some(_) => report.launched_elsewhere += runs_in_window,
            None => report.without_launch += runs_in_window,
        }
    }
    // Stacks that differ only above the cut are one.
    let mut groups: BTreeMap<(Vec<String>, bool), u64> = BTreeMap::new();
    for (node, count) in counts {
        *groups.entry(tree.frames(node, climb.max_callers)).or_default() += count;
    }
    report.stacks = groups.into_iter().map(|((frames, cut), count)| Stack { frames, cut, count }).collect();
    report.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.count));
    report
}

/// A place in the tree of callers.
type Node = usize;

/// All callers seen so far as one tree, the outermost at its root. Two slices whose callers have the same names, after
/// folding, are at the same place; so each slice is looked at once, however many launches are below it.
struct Tree<'a> {
    store: &'a Store,
    exact_names: bool,
    /// The caller and the name of every place but the root, which is place 0.
    places: Vec<(Node, FrameName)>,
    by_name: HashMap<(Node, FrameName), Node, foldhash::fast::FixedState>,
    by_slice: HashMap<u32, Node, foldhash::fast::FixedState>,
    /// What callers' names are folded to.
    folded: HashMap<StringId, FrameName, foldhash::fast::FixedState>,
    /// Folded names that no slice has.
    made_up: Strings,
}

/// A name as a stack shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum FrameName {
    /// That of slices.
    Own(StringId),
    /// What is left of others.
    MadeUp(StringId),
}

impl<'a> Tree<'a> {
    fn new(store: &'a Store, exact_names: bool) -> Self {
        Tree {
            store,
            exact_names,
            places: vec![(0, FrameName::Own(StringId::NULL))],
            by_name: HashMap::default(),
            by_slice: HashMap::default(),
            folded: HashMap::default(),
            made_up: Strings::default(),
        }
    }

    /// The place of a launch, whose own name stays as it is, and whether it stands beside its thread.
    fn launch(&mut self, slice: i64) -> (Node, bool) {
        let slices = &self.store.slices;
        let at = usize::try_from(slice).unwrap_or(usize::MAX);
        if at >= slices.len() {
            return (0, false);
        }
        let owner = self.store.tracks.tracks.get(slices.track(at) as usize).map(|track| track.owner);
        let caller = self.place_of(slices.parent(at));
        (self.child(caller, FrameName::Own(slices.name(at))), matches!(owner, Some(Owner::ThreadOverlap(_))))
    }

    /// The place of a slice among the callers, climbing until one is known.
    fn place_of(&mut self, slice: u32) -> Node {
        let mut below = Vec::new();
        let (mut next, mut place) = (slice, 0);
        while next != NO_PARENT {
            if let Some(known) = self.by_slice.get(&next) {
                place = *known;
                break;
            }
            below.push(next);
            next = self.store.slices.parent(next as usize);
        }
        for slice in below.into_iter().rev() {
            let name = self.name_of(self.store.slices.name(slice as usize));
            place = self.child(place, name);
            self.by_slice.insert(slice, place);
        }
        place
    }

    /// A caller's name as it is shown. Equal texts are one name, whether slices have it or it was made here.
    fn name_of(&mut self, name: StringId) -> FrameName {
        if self.exact_names {
            return FrameName::Own(name);
        }
        if let Some(known) = self.folded.get(&name) {
            return *known;
        }
        let text = self.store.strings.get(name).unwrap_or_default();
        let folded = match fold(text) {
            folded if folded == text => FrameName::Own(name),
            folded => match self.store.strings.find(&folded) {
                Some(id) => FrameName::Own(id),
                None => FrameName::MadeUp(self.made_up.intern(&folded)),
            },
        };
        self.folded.insert(name, folded);
        folded
    }

    fn child(&mut self, caller: Node, name: FrameName) -> Node {
        let next = self.places.len();
        let node = *self.by_name.entry((caller, name)).or_insert(next);
        if node == next {
            self.places.push((caller, name));
        }
        node
    }

    /// The frames down to a place, and whether callers were cut off.
    fn frames(&self, launch: Node, max_callers: Option<usize>) -> (Vec<String>, bool) {
        let mut frames = Vec::new();
        let mut place = launch;
        while place != 0 && max_callers.is_none_or(|max| frames.len() <= max) {
            let (caller, name) = self.places[place];
            let name = match name {
                FrameName::Own(id) => self.store.strings.get(id),
                FrameName::MadeUp(id) => self.made_up.get(id),
            };
            frames.push(name.unwrap_or_default().to_owned());
            place = caller;
        }
        frames.reverse();
        (frames, place != 0)
    }
}
