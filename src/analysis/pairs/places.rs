//! Where each kernel was launched: in a forward operator that made a node, in a numbered node, or in an unnumbered one.
//!
//! The innermost of these decides, so that each kernel is counted once. Operators recomputed in the backward pass make nodes of their own only if a
//! checkpoint builds a graph again; the others belong to the node that runs them.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;

use super::nodes::Nodes;
use crate::attribution::callers::Callers;
use crate::id::SliceId;
use crate::store::Store;

/// Where a kernel was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside all pairs and nodes.
    Elsewhere,
    /// In a forward operator of a pair.
    Operator(SliceId),
    /// In a numbered node.
    Node {
        /// The index of the node.
        node: usize,
        /// Whether a forward operator is between the node and the launch.
        recomputed: bool,
    },
    /// In an unnumbered node, given by its outermost operator.
    Unnumbered(SliceId),
}

/// Finds the places of launches.
pub(super) struct Places<'a> {
    store: &'a Store,
    nodes: &'a Nodes,
    /// The forward operators of pairs.
    operators: HashSet<SliceId, FixedState>,
    known: HashMap<SliceId, Place, FixedState>,
}

impl<'a> Places<'a> {
    pub(super) fn new(store: &'a Store, nodes: &'a Nodes, operators: HashSet<SliceId, FixedState>) -> Self {
        Places { store, nodes, operators, known: HashMap::default() }
    }

    /// The place of a launching call.
    pub(super) fn of_launch(&mut self, callers: &mut Callers<'_>, call: SliceId) -> Place {
        let around = callers.caller_of_launch(call).map_or(Place::Elsewhere, |caller| self.place(callers, caller));
        self.below(around, call)
    }

    /// The place of a slice, possibly the slice itself. Climbs until a place is known.
    fn place(&mut self, callers: &mut Callers<'_>, slice: SliceId) -> Place {
        let mut below = Vec::new();
        let (mut next, mut place) = (Some(slice), Place::Elsewhere);
        while let Some(slice) = next {
            if let Some(known) = self.known.get(&slice) {
                place = *known;
                break;
            }
            below.push(slice);
            next = callers.caller(slice);
        }
        for slice in below.into_iter().rev() {
            place = self.below(place, slice);
            self.known.insert(slice, place);
        }
        place
    }

    /// The place of a slice, given its caller's place.
    fn below(&self, around: Place, slice: SliceId) -> Place {
        if self.operators.contains(&slice) {
            return Place::Operator(slice);
        }
        if let Some(node) = self.nodes.of.get(&slice) {
            return Place::Node { node: *node, recomputed: false };
        }
        if self.nodes.runs_node(self.store, slice) && !matches!(around, Place::Unnumbered(_)) {
            return Place::Unnumbered(slice);
        }
        match around {
            Place::Node { node, .. } if self.store.autograd(slice).is_some() => Place::Node { node, recomputed: true },
            around => around,
        }
    }
}
