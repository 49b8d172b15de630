//! Walks from a slice: to its ancestors, to its descendants, and along flows.
//!
//! The walks along flows are breadth-first and return flows in Perfetto's order: for each slice they queue its relatives (descendants or
//! ancestors), then the flows that arrive at it, then those that leave it, both by id. Each slice is expanded once. A walk keeps its direction:
//! from a slice reached forwards it continues only forwards. Relatives of relatives are not searched, because they are the same slices.
//!
//! The descendants of a slice are those whose chain of parents leads to it. Perfetto finds them by track, depth and time with both ends included,
//! and so includes the descendants of a sibling that begins exactly when the slice ends.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use super::index::Postings;
use super::source::Source;
use crate::id::SliceId;

/// The direction of a walk along flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Flows in both directions, from slice to slice.
    Direct,
    /// Flows forwards, also from descendants.
    Following,
    /// Flows backwards, also from ancestors.
    Preceding,
}

/// How a walk reached a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReachedBy {
    Start,
    Incoming,
    Outgoing,
    Relative,
}

/// A store and the indexes that the walks need, built on first use.
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

    /// The flows on a walk from a slice, in its order.
    pub(super) fn flows(&self, start: SliceId, direction: Direction) -> Vec<u32> {
        let mut walk =
            Walk { known: HashSet::from([start]), queue: VecDeque::from([(start, ReachedBy::Start)]), found: vec![] };
        while let Some((slice, by)) = walk.queue.pop_front() {
            if by != ReachedBy::Relative {
                let relatives = match direction {
                    Direction::Direct => Vec::new(),
                    Direction::Following => self.descendants(slice),
                    Direction::Preceding => self.ancestors(slice),
                };
                relatives.into_iter().for_each(|relative| walk.reach(relative, ReachedBy::Relative));
            }
            if direction != Direction::Following && by != ReachedBy::Outgoing {
                for flow in rows(self.ends(&self.arriving, |source, flow| source.flows.slice_in[flow]), slice) {
                    walk.found.push(flow);
                    walk.reach(self.source.flows.slice_out[flow as usize], ReachedBy::Incoming);
                }
            }
            if direction != Direction::Preceding && by != ReachedBy::Incoming {
                for flow in rows(self.ends(&self.leaving, |source, flow| source.flows.slice_out[flow]), slice) {
                    walk.found.push(flow);
                    walk.reach(self.source.flows.slice_in[flow as usize], ReachedBy::Outgoing);
                }
            }
        }
        walk.found
    }

    fn ends<'a>(&self, index: &'a OnceLock<Postings>, end: fn(&Source, usize) -> SliceId) -> &'a Postings {
        index.get_or_init(|| {
            Postings::build(0..self.source.flows.len() as u32, |flow| Some(i64::from(end(&self.source, flow))))
        })
    }
}

fn rows(index: &Postings, slice: SliceId) -> impl Iterator<Item = u32> {
    index.find(slice.into()).map(|at| index.row(at))
}

/// The same as slice ids.
fn slices(index: &Postings, slice: SliceId) -> impl Iterator<Item = SliceId> {
    rows(index, slice).map(SliceId)
}

/// The state of a walk: the slices reached, those still to expand, and the flows found.
struct Walk {
    known: HashSet<SliceId>,
    queue: VecDeque<(SliceId, ReachedBy)>,
    found: Vec<u32>,
}

impl Walk {
    fn reach(&mut self, slice: SliceId, by: ReachedBy) {
        if self.known.insert(slice) {
            self.queue.push_back((slice, by));
        }
    }
}
