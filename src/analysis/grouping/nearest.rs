//! The nearest of a slice and its callers that is what is looked for. Each slice is looked at once, however many launches are below it.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::attribution::callers::Callers;
use crate::id::SliceId;

/// Remembers, by slice, what was found from there on upwards.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    known: HashMap<SliceId, Option<SliceId>, FixedState>,
}

impl Nearest {
    /// The nearest slice from a launch on upwards.
    pub(super) fn of_launch(
        &mut self,
        callers: &mut Callers<'_>,
        call: SliceId,
        is_it: impl Fn(SliceId) -> bool,
    ) -> Option<SliceId> {
        if is_it(call) {
            return Some(call);
        }
        // A launch may have its caller by a rule of its own.
        let mut next = callers.caller_of_launch(call);
        let mut passed = Vec::new();
        let found = loop {
            let Some(slice) = next else { break None };
            if let Some(known) = self.known.get(&slice) {
                break *known;
            }
            passed.push(slice);
            if is_it(slice) {
                break Some(slice);
            }
            next = callers.caller(slice);
        };
        self.known.extend(passed.into_iter().map(|slice| (slice, found)));
        found
    }
}
