//! The nearest of a slice and its callers that satisfies a condition. Each slice is tested once, however many launches are below it.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::callers::Callers;
use crate::id::SliceId;

/// Remembers, for each slice, what the search from it upwards found.
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    known: HashMap<SliceId, Option<SliceId>, FixedState>,
}

impl Nearest {
    /// The nearest matching slice from a launch upwards.
    pub(crate) fn of_launch(
        &mut self,
        callers: &mut Callers<'_>,
        call: SliceId,
        is_it: impl Fn(SliceId) -> bool,
    ) -> Option<SliceId> {
        if is_it(call) {
            return Some(call);
        }
        // The caller of a launch may follow a rule of its own.
        let caller = callers.caller_of_launch(call);
        let (passed, known) = callers.up_to_known(caller, |slice| {
            self.known.get(&slice).copied().or_else(|| is_it(slice).then_some(Some(slice)))
        });
        let found = known.flatten();
        self.known.extend(passed.into_iter().chain(found).map(|slice| (slice, found)));
        found
    }
}
