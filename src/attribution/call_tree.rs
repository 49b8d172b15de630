//! The call tree: all call paths of a trace, with shared prefixes stored once.
//!
//! Slices whose callers have equal names, after folding, have the same call path. So each slice is visited once, however many launches are below
//! it, and a path is a number until it is printed. Several traces can share a tree, such as those of a graph's capture and its replay.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::callers::Callers;
use super::{pieces, start_lines};
use crate::id::{PathId, SliceId};
use crate::names::args::COLLECTIVE_RECORD;
use crate::names::collectives::BATCH;
use crate::names::frames::{fold, fsdp_module, is_collective, is_piece_wrapper, location, without_numbers};
use crate::names::gradients;
use crate::names::steps::{self, common_text, is_mark};
use crate::store::Store;
use crate::store::strings::{StringId, Strings};

/// The call tree. A caller's path has a lower number than its callees' paths.
#[derive(Debug, Default)]
pub struct CallTree {
    names: Strings,
    paths: Vec<Node>,
    by_name: HashMap<(Option<PathId>, StringId), PathId, foldhash::fast::FixedState>,
}

/// The last frame of a path, and the path of its caller.
#[derive(Debug, Clone, Copy)]
struct Node {
    caller: Option<PathId>,
    name: StringId,
    depth: u32,
}

/// The frames of a call path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallPath {
    /// The frames, from the outermost caller to the launch.
    pub frames: Vec<String>,
}

impl CallTree {
    /// The number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The path of a path's caller; `None` for an outermost frame.
    pub fn caller(&self, path: PathId) -> Option<PathId> {
        self.paths[path.row()].caller
    }

    /// The name of the last frame of a path.
    pub fn name(&self, path: PathId) -> &str {
        self.names.get(self.paths[path.row()].name).unwrap_or_default()
    }

    /// The number of callers above a path's last frame: 0 for an outermost frame.
    pub fn depth(&self, path: PathId) -> u32 {
        self.paths[path.row()].depth
    }

    /// A path and the paths of its callers, innermost first.
    pub fn upwards(&self, path: PathId) -> impl Iterator<Item = PathId> {
        std::iter::successors(Some(path), |path| self.caller(*path))
    }

    pub fn call_path(&self, last: PathId) -> CallPath {
        let mut frames: Vec<String> = self.upwards(last).map(|path| self.name(path).to_owned()).collect();
        frames.reverse();
        CallPath { frames }
    }

    /// Adds the paths of another tree. Returns their ids in this tree, indexed by their ids in the other.
    ///
    /// If this tree holds the first half of some launches and the other tree the second half, all paths get the ids they would have in one tree:
    /// new paths appear in the order of the launches.
    pub(crate) fn append(&mut self, other: &CallTree) -> Vec<PathId> {
        let mut ids: Vec<PathId> = Vec::with_capacity(other.len());
        for Node { caller, name, .. } in &other.paths {
            let name = self.names.intern(other.names.get(*name).unwrap_or_default());
            ids.push(self.callee(caller.map(|caller| ids[caller.row()]), name));
        }
        ids
    }

    /// A path with one more frame.
    pub(super) fn add(&mut self, caller: Option<PathId>, name: &str) -> PathId {
        let name = self.names.intern(name);
        self.callee(caller, name)
    }

    /// The longest common prefix of two paths.
    pub(super) fn shared(&self, a: PathId, b: PathId) -> Option<PathId> {
        let (mut a, mut b) = (a, b);
        while a != b {
            // Shorten the longer one.
            match self.depth(a).cmp(&self.depth(b)) {
                Ordering::Less => b = self.caller(b)?,
                Ordering::Greater => a = self.caller(a)?,
                Ordering::Equal => (a, b) = (self.caller(a)?, self.caller(b)?),
            }
        }
        Some(a)
    }

    fn callee(&mut self, caller: Option<PathId>, name: StringId) -> PathId {
        let next = PathId::of_row(self.paths.len());
        let path = *self.by_name.entry((caller, name)).or_insert(next);
        if path == next {
            let depth = caller.map_or(0, |caller| self.depth(caller) + 1);
            self.paths.push(Node { caller, name, depth });
        }
        path
    }
}

/// The place of a slice in the call tree, and the special slices around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Its call path; `None` above the outermost frames.
    pub path: Option<PathId>,
    /// The innermost operator of the backward pass that it is or is inside of.
    pub backward: Option<SliceId>,
    /// The innermost record of a collective that it is or is inside of.
    pub record: Option<SliceId>,
    /// The innermost annotation of a batch of collectives that it is or is inside of.
    pub batch: Option<SliceId>,
    /// The outermost run of `AccumulateGrad` that it is or is inside of.
    pub gradient: Option<SliceId>,
}

impl Place {
    /// Combines the values of a slice's caller with the slice's own. A slice that is no frame has the path of its caller.
    fn below(self, path: Option<PathId>, own: Place) -> Self {
        Place {
            path,
            backward: own.backward.or(self.backward),
            record: own.record.or(self.record),
            batch: own.batch.or(self.batch),
            gradient: self.gradient.or(own.gradient),
        }
    }
}

/// Climbs from the slices of one trace to their callers, and adds their paths to a tree.
#[derive(Debug, Clone)]
pub struct Climber<'a> {
    pub callers: Callers<'a>,
    store: &'a Store,
    exact_names: bool,
    annotation: Option<StringId>,
    record_name: Option<StringId>,
    batch_name: Option<StringId>,
    gradient_names: [Option<StringId>; 2],
    by_slice: HashMap<SliceId, Place, foldhash::fast::FixedState>,
    /// The same for launches, whose own names are not folded, because one graph launch has many kernels.
    by_launch: HashMap<SliceId, Place, foldhash::fast::FixedState>,
    /// The frames of callers by name, and by whether they are annotations.
    folded: HashMap<(StringId, bool), Frame, foldhash::fast::FixedState>,
    shared: Arc<Shared>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Its name as shown; `None` if it marks a step, which calls nothing.
    name: Option<StringId>,
    /// Whether calls with this name may run pieces of a compiled model.
    may_run_piece: bool,
}

/// Maps that take a pass over the trace, built on first use. Clones of a climber share them.
#[derive(Debug, Default)]
struct Shared {
    /// The frame of a piece, by the call of its wrapper.
    pieces: OnceLock<HashMap<SliceId, String, foldhash::fast::FixedState>>,
    /// Functions whose recorded line is not the line of their definition, and their names with that line.
    lines: OnceLock<HashMap<SliceId, String, foldhash::fast::FixedState>>,
    /// The names without numbers of annotations that several names share.
    numbered: OnceLock<HashMap<StringId, String, foldhash::fast::FixedState>>,
}

impl<'a> Climber<'a> {
    /// Climbs in a trace. With exact names, callers' names are not folded, so that layers and objects stay apart.
    pub fn new(store: &'a Store, exact_names: bool) -> Self {
        Climber {
            callers: Callers::new(store),
            store,
            exact_names,
            annotation: store.strings.find(steps::ANNOTATION),
            record_name: store.strings.find(COLLECTIVE_RECORD),
            batch_name: store.strings.find(BATCH),
            gradient_names: gradients::NODES.map(|name| store.strings.find(name)),
            by_slice: HashMap::default(),
            by_launch: HashMap::default(),
            folded: HashMap::default(),
            shared: Arc::default(),
        }
    }

    /// Finds the place of a launch. Its own name is not folded.
    pub fn launch(&mut self, tree: &mut CallTree, slice: SliceId) -> Place {
        if let Some(known) = self.by_launch.get(&slice) {
            return *known;
        }
        let above = self.callers.caller_of_launch(slice);
        let mut caller = above.map_or(Place::default(), |caller| self.caller(tree, caller));
        // Without any other caller, that it was in a step is all that is known.
        if let (None, Some(mark)) = (caller.path, above) {
            caller.path = Some(tree.add(None, common_text(self.name(self.store.slices.name(mark)))));
        }
        let name = tree.names.intern(self.name(self.store.slices.name(slice)));
        let found = caller.below(Some(tree.callee(caller.path, name)), self.own(slice));
        self.by_launch.insert(slice, found);
        found
    }

    /// The special slice that a slice itself is.
    fn own(&self, slice: SliceId) -> Place {
        let name = Some(self.store.slices.name(slice));
        let is_backward = self.store.autograd(slice).is_some_and(|number| number.forward_thread != 0);
        Place {
            path: None,
            backward: is_backward.then_some(slice),
            record: (self.record_name == name).then_some(slice),
            batch: (self.batch_name == name).then_some(slice),
            gradient: self.gradient_names.contains(&name).then_some(slice),
        }
    }

    /// The same for a caller. Climbs until it reaches a known slice.
    pub fn caller(&mut self, tree: &mut CallTree, slice: SliceId) -> Place {
        let (below, known) = self.callers.up_to_known(Some(slice), |slice| self.by_slice.get(&slice).copied());
        let mut found = known.unwrap_or_default();
        for slice in below.into_iter().rev() {
            let Frame { name, may_run_piece } = self.frame(tree, slice);
            if may_run_piece && let Some(piece) = self.piece(slice) {
                let piece = tree.names.intern(piece);
                found.path = Some(tree.callee(found.path, piece));
            }
            let path = name.map_or(found.path, |name| Some(tree.callee(found.path, name)));
            found = found.below(path, self.own(slice));
            self.by_slice.insert(slice, found);
        }
        found
    }

    fn name(&self, name: StringId) -> &'a str {
        self.store.strings.get(name).unwrap_or_default()
    }

    fn frame(&mut self, tree: &mut CallTree, slice: SliceId) -> Frame {
        let named = |name| Frame { name: Some(name), may_run_piece: false };
        if !self.exact_names {
            let lines = self.shared.lines.get_or_init(|| start_lines::names(self.store, &mut self.callers));
            if let Some(name) = lines.get(&slice) {
                return named(tree.names.intern(&fold(name)));
            }
        }
        let (name, is_annotation) =
            (self.store.slices.name(slice), Some(self.store.slices.category(slice)) == self.annotation);
        if let Some(known) = self.folded.get(&(name, is_annotation)) {
            return *known;
        }
        let text = self.name(name);
        let numbered =
            || self.shared.numbered.get_or_init(|| numbered(self.store)).get(&name).filter(|_| is_annotation);
        let frame = match self.exact_names {
            true => named(tree.names.intern(text)),
            false if is_mark(text, is_annotation) => Frame { name: None, may_run_piece: false },
            false => match numbered() {
                Some(folded) => named(tree.names.intern(folded)),
                None => named(tree.names.intern(&fold(text))),
            },
        };
        let frame = Frame { may_run_piece: is_piece_wrapper(text), ..frame };
        self.folded.insert((name, is_annotation), frame);
        frame
    }

    /// The frame of the piece that a wrapper runs.
    fn piece(&mut self, wrapper: SliceId) -> Option<&str> {
        let Climber { shared, store, callers, exact_names, .. } = self;
        let pieces = shared.pieces.get_or_init(|| pieces::frames(store, callers, *exact_names));
        pieces.get(&wrapper).map(String::as_str)
    }
}

/// Names that differ in numbers alone, without these. Annotations with layers, microbatches and sizes in their names are one call site.
fn numbered(store: &Store) -> HashMap<StringId, String, foldhash::fast::FixedState> {
    let mut alike: HashMap<String, Vec<StringId>> = HashMap::new();
    for name in store.names.iter().filter(|name| name.of_cpu) {
        let text = store.strings.get(name.id).unwrap_or_default();
        // What has its numbers at the end alone is folded without other names.
        let rest = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let has_own_rule = location(text).is_some() || fsdp_module(text).is_some() || is_collective(text);
        let folded = without_numbers(text, |_| false);
        if folded != text && folded.strip_suffix('*') != Some(rest) && !has_own_rule {
            alike.entry(folded).or_default().push(name.id);
        }
    }
    let several = alike.into_iter().filter(|(_, names)| names.len() > 1);
    several.flat_map(|(folded, names)| names.into_iter().map(move |name| (name, folded.clone()))).collect()
}
