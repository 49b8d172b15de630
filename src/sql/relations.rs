//! Walks from a slice: to its ancestors, to its descendants, and along flows.
//!
//! The walks along flows are breadth-first and give their arrows in the order in which Perfetto's do: of each slice first its
//! relatives are queued, then the arrows that arrive at it are taken, then those that leave it, both by id. Each slice is
//! expanded once. A walk does not turn: from a slice that was reached forwards it goes on forwards only. Of relatives no relatives
//! are looked for, since they would be the same.
//!
//! Descendants are those whose chain of parents leads to the slice. Perfetto looks for them by track, depth and time with both
//! ends included, and so also takes in what lies in a sibling that begins in the very moment in which the slice ends.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use super::index::Postings;
use super::source::Source;
use crate::id::SliceId;

/// Where a walk along flows goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    /// Arrows in both directions, from slice to slice.
    Direct,
    /// Arrows forwards, also from descendants.
    Following,
    /// Arrows backwards, also from ancestors.
    Preceding,
}

/// How a walk came to a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Start,
    Incoming,
    Outgoing,
    Relative,
}

/// A store and the lists that the walks need, built when first used.
pub(super) struct Relations {
    pub(super) source: Arc<Source>,
    children: OnceLock<Postings>,
    arriving: OnceLock<Postings>,
    leaving: OnceLock<Postings>,
}

impl Relations {
    pub(super) fn new(source: Arc<Source>) -> Self {
        Relations { source, children: OnceLock::new(), arriving: OnceLock::new(), leaving: OnceLock::new() }
    }

    /// The slices that enclose a slice, the outermost first.
    pub(super) fn ancestors(&self, slice: SliceId) -> Vec<SliceId> {
        let parent = |slice: SliceId| self.source.slices.parent(slice);
        let mut found: Vec<SliceId> = std::iter::successors(parent(slice), |id| parent(*id)).collect();
        found.reverse();
        found
    }

    /// The slices that a slice encloses, by id.
    pub(super) fn descendants(&self, slice: SliceId) -> Vec<SliceId> {
        let children = self.children.get_or_init(|| {
            let slices = &self.source.slices;
            let parent = |row| slices.parent(SliceId::of_row(row)).map(i64::from);
            Postings::build(0..slices.len() as u32, parent)
        });
        let mut found: Vec<SliceId> = slices(children, slice).collect();
        let mut next = 0;
        while let Some(&child) = found.get(next) {
            found.extend(slices(children, child));
            next += 1;
        }
        found.sort_unstable();
        found
    }

    /// The arrows that a walk from a slice meets, in its order.
    pub(super) fn flows(&self, start: SliceId, along: Along) -> Vec<u32> {
        let mut walk = Walk { known: HashSet::from([start]), queue: VecDeque::from([(start, By::Start)]), met: vec![] };
        while let Some((slice, by)) = walk.queue.pop_front() {
            if by != By::Relative {
                let relatives = match along {
                    Along::Direct => Vec::new(),
                    Along::Following => self.descendants(slice),
                    Along::Preceding => self.ancestors(slice),
                };
                relatives.into_iter().for_each(|relative| walk.reach(relative, By::Relative));
            }
            if along != Along::Following && by != By::Outgoing {
                for flow in rows(self.ends(&self.arriving, |source, flow| source.flows.slice_in[flow]), slice) {
                    walk.met.push(flow);
                    walk.reach(self.source.flows.slice_out[flow as usize], By::Incoming);
                }
            }
            if along != Along::Preceding && by != By::Incoming {
                for flow in rows(self.ends(&self.leaving, |source, flow| source.flows.slice_out[flow]), slice) {
                    walk.met.push(flow);
                    walk.reach(self.source.flows.slice_in[flow as usize], By::Outgoing);
                }
            }
        }
        walk.met
    }

    fn ends<'a>(&self, index: &'a OnceLock<Postings>, end: fn(&Source, usize) -> SliceId) -> &'a Postings {
        index.get_or_init(|| {
            Postings::build(0..self.source.flows.len() as u32, |flow| Some(i64::from(end(&self.source, flow))))
        })
    }
}

/// The rows that hold a slice.
fn rows(index: &Postings, slice: SliceId) -> impl Iterator<Item = u32> {
    index.find(slice.into()).map(|at| index.row(at))
}

/// The same where the rows are slices.
fn slices(index: &Postings, slice: SliceId) -> impl Iterator<Item = SliceId> {
    rows(index, slice).map(SliceId)
}

struct Walk {
    known: HashSet<SliceId>,
    queue: VecDeque<(SliceId, By)>,
    met: Vec<u32>,
}

impl Walk {
    fn reach(&mut self, slice: SliceId, by: By) {
        if self.known.insert(slice) {
            self.queue.push_back((slice, by));
        }
    }
}
