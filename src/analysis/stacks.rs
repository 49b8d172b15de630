//! The call stacks above the launches, grouped and counted.

use std::collections::{BTreeMap, HashMap};

use rusqlite::named_params;
use serde::Serialize;

use super::launches::{Evidence, Launches};
use crate::error::Error;
use crate::nccl::frames::fold;
use crate::sql::{Database, queries};
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
///
/// # Errors
/// What SQLite fails with.
pub fn climb(database: &Database, launches: &Launches, window: Window, climb: Climb) -> Result<StackReport, Error> {
    let mut report = StackReport { kernels_in_trace: launches.kernels.len() as u64, ..StackReport::default() };
    let mut tree = Tree::new(database, climb.exact_names);
    let mut counts: BTreeMap<Node, u64> = BTreeMap::new();
    for launched in &launches.kernels {
        let runs_in_window = u64::from(window.contains(launched.kernel_ts));
        match launched.call {
            Some(call) if window.contains(call.ts) => {
                let (node, is_beside_thread) = tree.launch(call.slice)?;
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
    Ok(report)
}

/// One slice on the way up.
#[derive(Default)]
struct Frame {
    name: String,
    parent: Option<i64>,
    is_beside_thread: bool,
}

/// A place in the tree of callers.
type Node = usize;

/// All callers seen so far as one tree, the outermost at its root. Two slices whose callers have the same names, after
/// folding, are at the same place; so each slice is looked at once, however many launches are below it.
struct Tree<'a> {
    database: &'a Database,
    exact_names: bool,
    /// The caller and the name of every place but the root, which is place 0.
    places: Vec<(Node, String)>,
    by_name: HashMap<(Node, String), Node>,
    by_slice: HashMap<i64, Node>,
}

impl<'a> Tree<'a> {
    fn new(database: &'a Database, exact_names: bool) -> Self {
        let root = (0, String::new());
        Tree { database, exact_names, places: vec![root], by_name: HashMap::new(), by_slice: HashMap::new() }
    }

    /// The place of a launch, whose own name stays as it is, and whether it stands beside its thread.
    fn launch(&mut self, slice: i64) -> Result<(Node, bool), Error> {
        let Frame { name, parent, is_beside_thread } = self.look(slice)?;
        let caller = self.place_of(parent)?;
        Ok((self.child(caller, name), is_beside_thread))
    }

    /// The place of a slice among the callers, climbing until one is known.
    fn place_of(&mut self, slice: Option<i64>) -> Result<Node, Error> {
        let mut below = Vec::new();
        let mut next = slice;
        let mut place = 0;
        while let Some(slice) = next {
            if let Some(known) = self.by_slice.get(&slice) {
                place = *known;
                break;
            }
            let Frame { name, parent, .. } = self.look(slice)?;
            let name = if self.exact_names { name } else { fold(&name).into_owned() };
            below.push((slice, name));
            next = parent;
        }
        for (slice, name) in below.into_iter().rev() {
            place = self.child(place, name);
            self.by_slice.insert(slice, place);
        }
        Ok(place)
    }

    fn child(&mut self, caller: Node, name: String) -> Node {
        let next = self.places.len();
        let places = &mut self.places;
        *self.by_name.entry((caller, name)).or_insert_with_key(|key| {
            places.push(key.clone());
            next
        })
    }

    fn look(&self, slice: i64) -> Result<Frame, Error> {
        let rows = self.database.rows(queries::CALLER, named_params! { ":slice": slice }, |row| {
            let name = row.get::<_, Option<String>>(0)?.unwrap_or_default();
            Ok(Frame { name, parent: row.get(1)?, is_beside_thread: row.get(2)? })
        })?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// The frames down to a place, and whether callers were cut off.
    fn frames(&self, launch: Node, max_callers: Option<usize>) -> (Vec<String>, bool) {
        let mut frames = Vec::new();
        let mut place = launch;
        while place != 0 && max_callers.is_none_or(|max| frames.len() <= max) {
            let (caller, name) = &self.places[place];
            frames.push(name.clone());
            place = *caller;
        }
        frames.reverse();
        (frames, place != 0)
    }
}
