//! All callers as one tree, the outermost at its root.
//!
//! Two slices whose callers have the same names, after folding, are at the same place. So each slice is looked at once, however
//! many launches are below it, and a stack is a number until it is shown. Stacks of several traces can stand in one tree: a
//! capture's beside its replay's.

use std::collections::HashMap;

use super::callers::Callers;
use crate::nccl::args::COLLECTIVE_RECORD;
use crate::nccl::frames::fold;
use crate::store::Store;
use crate::store::strings::{StringId, Strings};

/// A place in the tree; 0 is its root, which no slice has.
pub type Node = usize;

/// The tree.
#[derive(Debug)]
pub struct Tree {
    names: Strings,
    /// The caller and the name of every place.
    places: Vec<(Node, StringId)>,
    by_name: HashMap<(Node, StringId), Node, foldhash::fast::FixedState>,
}

/// A way from a launch to its outermost callers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct CallPath {
    /// From the outermost caller to the launch.
    pub frames: Vec<String>,
    /// Whether there are more callers above, which were cut off.
    #[serde(rename = "cut")]
    pub truncated: bool,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { names: Strings::default(), places: vec![(0, StringId::NULL)], by_name: HashMap::default() }
    }
}

impl Tree {
    fn child(&mut self, caller: Node, name: StringId) -> Node {
        let next = self.places.len();
        let node = *self.by_name.entry((caller, name)).or_insert(next);
        if node == next {
            self.places.push((caller, name));
        }
        node
    }

    /// The frames down to a place, at most this many callers above the last.
    pub fn trail(&self, last: Node, max_callers: Option<usize>) -> CallPath {
        let mut frames = Vec::new();
        let mut place = last;
        while place != 0 && max_callers.is_none_or(|max| frames.len() <= max) {
            let (caller, name) = self.places[place];
            frames.push(self.names.get(name).unwrap_or_default().to_owned());
            place = caller;
        }
        frames.reverse();
        CallPath { frames, truncated: place != 0 }
    }
}

/// What is known of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Its place.
    pub node: Node,
    /// The innermost operator of the backward pass that it is or lies in.
    pub backward: Option<u32>,
    /// The innermost record of a collective that it is or lies in.
    pub record: Option<u32>,
}

impl Found {
    /// What is found of a slice, given what is found of its caller.
    fn below(self, node: Node, backward: Option<u32>, record: Option<u32>) -> Self {
        Found { node, backward: backward.or(self.backward), record: record.or(self.record) }
    }
}

/// Climbs from the slices of one trace, and finds their places in a tree.
#[derive(Debug)]
pub struct Climber<'a> {
    /// Who called whom.
    pub callers: Callers<'a>,
    store: &'a Store,
    exact_names: bool,
    record_name: Option<StringId>,
    by_slice: HashMap<u32, Found, foldhash::fast::FixedState>,
    /// The same for launches, whose own names stay as they are: a graph's has many kernels.
    by_launch: HashMap<u32, Found, foldhash::fast::FixedState>,
    /// What callers' names are in the tree.
    folded: HashMap<StringId, StringId, foldhash::fast::FixedState>,
}

impl<'a> Climber<'a> {
    /// For the slices of a trace. Exact names stay as they are, so that layers and objects stay apart.
    pub fn new(store: &'a Store, exact_names: bool) -> Self {
        Climber {
            callers: Callers::new(store),
            store,
            exact_names,
            record_name: store.strings.find(COLLECTIVE_RECORD),
            by_slice: HashMap::default(),
            by_launch: HashMap::default(),
            folded: HashMap::default(),
        }
    }

    /// What is found of a launch, whose own name stays as it is.
    pub fn launch(&mut self, tree: &mut Tree, slice: u32) -> Found {
        if let Some(known) = self.by_launch.get(&slice) {
            return *known;
        }
        let caller = self.callers.caller_of_launch(slice).map_or(Found::default(), |caller| self.place(tree, caller));
        let name = tree.names.intern(self.name(self.store.slices.name(slice as usize)));
        let found = caller.below(tree.child(caller.node, name), self.backward(slice), self.record(slice));
        self.by_launch.insert(slice, found);
        found
    }

    fn backward(&self, slice: u32) -> Option<u32> {
        self.store.autograd(slice as usize).filter(|number| number.forward_thread != 0).map(|_| slice)
    }

    fn record(&self, slice: u32) -> Option<u32> {
        (self.record_name == Some(self.store.slices.name(slice as usize))).then_some(slice)
    }

    /// The same for a slice among the callers, climbing until one is known.
    pub fn place(&mut self, tree: &mut Tree, slice: u32) -> Found {
        let mut below = Vec::new();
        let (mut next, mut place) = (Some(slice), Found::default());
        while let Some(slice) = next {
            if let Some(known) = self.by_slice.get(&slice) {
                place = *known;
                break;
            }
            below.push(slice);
            next = self.callers.caller(slice);
        }
        for slice in below.into_iter().rev() {
            let name = self.folded_name(tree, self.store.slices.name(slice as usize));
            place = place.below(tree.child(place.node, name), self.backward(slice), self.record(slice));
            self.by_slice.insert(slice, place);
        }
        place
    }

    fn name(&self, name: StringId) -> &'a str {
        self.store.strings.get(name).unwrap_or_default()
    }

    /// A caller's name as it is shown.
    fn folded_name(&mut self, tree: &mut Tree, name: StringId) -> StringId {
        if let Some(known) = self.folded.get(&name) {
            return *known;
        }
        let text = self.name(name);
        let folded = tree.names.intern(&if self.exact_names { text.into() } else { fold(text) });
        self.folded.insert(name, folded);
        folded
    }
}
