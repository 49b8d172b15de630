//! What is above a launch: whether its callers include Python functions, a module and an operator.

use std::collections::HashMap;

use foldhash::fast::FixedState;

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
    /// Whether there is a Python function.
    pub(super) python: bool,
    /// Whether there is a call of a module, or an operator that names the modules around it.
    pub(super) module: bool,
    /// Whether there is an operator.
    pub(super) operator: bool,
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

    /// What is above a launch.
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
            found = self.own(slice).with(found);
            self.known.insert(slice, found);
        }
        found
    }

    pub(super) fn is_operator(&self, slice: SliceId) -> bool {
        self.operators[self.store.slices.category(slice).0 as usize]
    }

    fn own(&self, slice: SliceId) -> Above {
        let store = self.store;
        if store.category_kind(slice) == CategoryKind::Frame {
            return Above {
                python: true,
                module: store.slice_name(slice).starts_with(MODULE_FRAME),
                ..Above::default()
            };
        }
        let mut args = store.args.set(store.slices.args(slice)).iter();
        Above {
            python: false,
            module: args.any(|arg| Some(arg.flat_key) == self.hierarchy),
            operator: self.is_operator(slice),
            backward: store.autograd(slice).filter(|number| number.forward_thread != 0).map(|_| slice),
        }
    }
}

impl Above {
    /// Combines this with what is above it.
    fn with(self, callers: Above) -> Self {
        Above {
            python: self.python || callers.python,
            module: self.module || callers.module,
            operator: self.operator || callers.operator,
            backward: self.backward.or(callers.backward),
        }
    }
}
