//! The calls of operators, with the kernels below each.
//!
//! A kernel belongs to one call: the innermost operator with recorded arguments among the callers of its launch. The record of a collective's
//! parameters does not count, because it repeats the arguments of the enclosing operator.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::inputs::{Inputs, Pools};
use crate::attribution::call_tree::{CallTree, Climber};
use crate::attribution::forward::Forwards;
use crate::attribution::launches::{Launches, WindowOn};
use crate::id::{PathId, SliceId};
use crate::names::args::COLLECTIVE_RECORD;
use crate::recorded_args::Operators;
use crate::store::Store;
use crate::store::args::ArgSetId;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// How many callers of a launch are searched for an operator: only contrived traces nest deeper.
const MAX_CALLERS: usize = 4_096;

/// A call path and the call path of the forward pass.
pub(super) type Stack = (Option<PathId>, Option<PathId>);

/// One call of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) slice: SliceId,
    pub(super) name: StringId,
    /// Index of its arguments' contents.
    pub(super) inputs: u32,
    pub(super) stack: Stack,
    /// The GPU time of the kernels below it that are not below a nested operator.
    pub(super) gpu: Ns,
}

/// All operator calls in a window.
pub(super) struct Calls<'a> {
    pub(super) store: &'a Store,
    pub(super) operators: Operators<'a>,
    /// By start.
    pub(super) all: Vec<Call>,
    pub(super) inputs: Vec<Inputs>,
    pub(super) pools: Pools,
    pub(super) tree: CallTree,
    /// The number of kernels in the window, and their GPU time.
    pub(super) kernels: (u64, Ns),
    /// The same for the kernels below a call.
    pub(super) below: (u64, Ns),
}

impl<'a> Calls<'a> {
    pub(super) fn collect(store: &'a Store, launches: &Launches, window: Window, on: WindowOn) -> Self {
        let mut calls = Calls {
            store,
            operators: Operators::new(store),
            all: Vec::new(),
            inputs: Vec::new(),
            pools: Pools::default(),
            tree: CallTree::default(),
            kernels: (0, Ns::ZERO),
            below: (0, Ns::ZERO),
        };
        let mut climber = Climber::new(store, false);
        calls.read(&mut climber, window);
        calls.add_kernels(&mut climber, launches, window, on);
        calls
    }

    fn read(&mut self, climber: &mut Climber<'a>, window: Window) {
        let store = self.store;
        let mut forwards = Forwards::new(store);
        let mut known: HashMap<ArgSetId, u32, FixedState> = HashMap::default();
        for slice in store.slices.ids() {
            if !self.operators.is_operator(slice) || !window.contains(store.slices.ts(slice)) {
                continue;
            }
            let inputs = *known.entry(store.slices.args(slice)).or_insert_with(|| {
                self.inputs.push(Inputs::read(&self.operators, slice, &mut self.pools));
                self.inputs.len() as u32 - 1
            });
            let found = climber.caller(&mut self.tree, slice);
            let forward = forwards.path(found, climber, &mut self.tree);
            let name = store.slices.name(slice);
            self.all.push(Call { slice, name, inputs, stack: (found.path, forward), gpu: Ns::ZERO });
        }
    }

    fn add_kernels(&mut self, climber: &mut Climber<'a>, launches: &Launches, window: Window, on: WindowOn) {
        let mut known: HashMap<SliceId, Option<usize>, FixedState> = HashMap::default();
        for launched in launches.kernels.iter().filter(|launched| window.contains(launched.at(self.store, on))) {
            let time = launched.gpu_time(self.store);
            self.kernels = (self.kernels.0 + 1, self.kernels.1 + time);
            let Some(call) = launched.call else { continue };
            let found = *known.entry(call).or_insert_with(|| self.call_of(climber, call));
            if let Some(call) = found.and_then(|at| self.all.get_mut(at)) {
                call.gpu += time;
                self.below = (self.below.0 + 1, self.below.1 + time);
            }
        }
    }

    /// The innermost call with arguments among a launch and its callers.
    fn call_of(&self, climber: &mut Climber<'a>, launch: SliceId) -> Option<usize> {
        let record = self.store.strings.find(COLLECTIVE_RECORD);
        let mut next = Some(launch);
        for _ in 0..MAX_CALLERS {
            let slice = next?;
            if let Ok(at) = self.all.binary_search_by_key(&slice, |call| call.slice)
                && record != Some(self.all[at].name)
                && self.inputs_of(&self.all[at]).has.contains(&true)
            {
                return Some(at);
            }
            let is_launch = slice == launch;
            next = if is_launch { climber.callers.caller_of_launch(slice) } else { climber.callers.caller(slice) };
        }
        None
    }

    pub(super) fn inputs_of(&self, call: &Call) -> &Inputs {
        &self.inputs[call.inputs as usize]
    }

    pub(super) fn text(&self, id: StringId) -> String {
        self.store.strings.get(id).unwrap_or_default().to_owned()
    }

    /// Whether rows are sorted by GPU time and omit calls without any. False for a trace in which no kernel is below an operator.
    pub(super) fn has_gpu_time(&self) -> bool {
        self.below.1 > Ns::ZERO
    }
}
