//! What is above a launch: whether its callers include Python functions, a module and an operator.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::has;
use crate::attribution::callers::Callers;
use crate::id::SliceId;
use crate::names::args::MODULE_HIERARCHY;
use crate::names::category::CategoryKind;
use crate::names::described::{MODULE_FRAME, is_operator};
use crate::store::Store;
use crate::store::strings::StringId;

/// What a slice and its callers include.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Above {
    /// Of [`has`]: a Python function; a call of a module, or an operator that names the modules around it; an operator.
    pub(super) flags: u32,
    /// The innermost backward operator.
    pub(super) backward: Option<SliceId>,
}

/// Climbs from launches. Each slice is visited once, however many launches are below it.
pub(super) struct Climb<'a> {
    store: &'a Store,
    pub(super) callers: Callers<'a>,
    known: HashMap<SliceId, Above, FixedState>,
    /// By string id: whether the string is a category of operators.
    operators: Vec<bool>,
    /// The argument key under which operators name the modules around them.
    hierarchy: Option<StringId>,
}

impl<'a> Climb<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        let is_operators = |id: usize| store.strings.get(StringId(id as u32)).is_some_and(is_operator);
        let operators = (0..store.strings.len()).map(is_operators).collect();
        let hierarchy = store.arg_key(MODULE_HIERARCHY);
        Climb { store, callers: Callers::new(store), known: HashMap::default(), operators, hierarchy }
    }

    pub(super) fn launch(&mut self, call: SliceId) -> Above {
        // A launch found by External id has the operator itself as its call.
        if self.is_operator(call) {
            return self.above(call);
        }
        self.callers.caller_of_launch(call).map_or(Above::default(), |caller| self.above(caller))
    }

    /// What is above a slice, including the slice itself.
    pub(super) fn above(&mut self, slice: SliceId) -> Above {
        let (below, known) = self.callers.up_to_known(Some(slice), |slice| self.known.get(&slice).copied());
        let mut found = known.unwrap_or_default();
        for slice in below.into_iter().rev() {
            let own = self.own(slice);
            found = Above { flags: found.flags | own.flags, backward: own.backward.or(found.backward) };
            self.known.insert(slice, found);
        }
        found
    }

    pub(super) fn is_operator(&self, slice: SliceId) -> bool {
        self.operators[self.store.slices.category(slice).0 as usize]
    }

    fn own(&self, slice: SliceId) -> Above {
        let store = self.store;
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        if store.category_kind(slice) == CategoryKind::Frame {
            let is_module = store.slice_name(slice).starts_with(MODULE_FRAME);
            return Above { flags: has::PYTHON | flag(is_module, has::MODULE), backward: None };
        }
        let mut args = store.args.set(store.slices.args(slice)).iter();
        let names_modules = args.any(|arg| Some(arg.flat_key) == self.hierarchy);
        Above {
            flags: flag(names_modules, has::MODULE) | flag(self.is_operator(slice), has::BY_OPERATOR),
            backward: store.autograd(slice).filter(|number| number.forward_thread != 0).map(|_| slice),
        }
    }
}
