//! The call paths of operators and of memory events, for the tables that show where they come from.

use std::collections::BTreeSet;

use crate::attribution::call_tree::{CallTree, Climber};
use crate::attribution::forward::Forwards;
use crate::attribution::stack_key::StackKey;
use crate::id::{PathId, SliceId};
use crate::store::Store;

/// A call path, and the call path of the forward pass.
type Stack = (Option<PathId>, Option<PathId>);

/// The call paths of some slices.
#[derive(Debug)]
pub(super) struct CallerStacks {
    tree: CallTree,
    /// Sorted.
    distinct: Vec<Stack>,
    /// By index of the slice.
    stacks: Vec<Stack>,
}

impl CallerStacks {
    /// Finds the call paths of slices, given in order.
    pub(super) fn find(store: &Store, slices: &[SliceId]) -> Self {
        let (mut climber, mut forwards) = (Climber::new(store, false), Forwards::new(store));
        let mut tree = CallTree::default();
        let stack = |slice: &SliceId| {
            let place = climber.caller(&mut tree, *slice);
            (place.path, forwards.path(place, &mut climber, &mut tree))
        };
        let stacks: Vec<Stack> = slices.iter().map(stack).collect();
        let distinct: BTreeSet<Stack> = stacks.iter().copied().collect();
        CallerStacks { tree, distinct: distinct.into_iter().collect(), stacks }
    }

    /// The number of the stack of the slice at an index: equal for slices with equal call paths.
    pub(super) fn number(&self, position: usize) -> i64 {
        self.distinct.partition_point(|stack| *stack < self.stacks[position]) as i64
    }

    /// The callers of the slice at an index, without the slice itself.
    pub(super) fn key(&self, position: usize) -> StackKey {
        let (path, forward) = self.stacks[position];
        let mut frames = path.map_or(Vec::new(), |path| self.tree.call_path(path).frames);
        frames.pop();
        StackKey { frames, forward: forward.map(|path| self.tree.call_path(path)), ..StackKey::default() }
    }
}
