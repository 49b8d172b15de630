//! Where the calls of a row come from: the costliest call path, and the number of paths.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::calls::{Call, Calls, Stack};
use crate::analysis::stack_key::StackKey;
use crate::names::frames::UserCode;
use crate::store::strings::StringId;
use crate::time::Ns;

/// The call paths of a row's calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The most telling frame of the costliest path; `None` if no caller is recorded.
    pub headline: Option<String>,
    /// The callers on this path, outermost first.
    pub frames: Vec<String>,
    /// The number of paths.
    pub stacks: u64,
}

/// Calls and the GPU time below them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) gpu: Ns,
}

impl Sums {
    pub(super) fn add(&mut self, call: &Call) {
        self.calls += 1;
        self.gpu += call.gpu;
    }
}

/// The calls of a row, by call path.
#[derive(Debug, Default)]
pub(super) struct ByStack {
    pub(super) all: Sums,
    of: HashMap<Stack, Sums, FixedState>,
}

impl ByStack {
    pub(super) fn add(&mut self, call: &Call) {
        self.all.add(call);
        self.of.entry(call.stack).or_default().add(call);
    }

    /// The costliest path; if several cost the same, the one with the most calls.
    pub(super) fn place(&self, calls: &Calls<'_>, operator: StringId) -> Place {
        let most = self.of.iter().max_by_key(|(stack, sums)| (sums.gpu, sums.calls, std::cmp::Reverse(**stack)));
        let mut place = most.map_or(Place::default(), |(stack, _)| of_stack(*stack, calls, operator));
        place.stacks = self.of.len() as u64;
        place
    }
}

/// The place of a single call path.
pub(super) fn of_stack((path, forward): Stack, calls: &Calls<'_>, operator: StringId) -> Place {
    let mut frames = path.map_or(Vec::new(), |path| calls.tree.call_path(path).frames);
    // The operator itself.
    frames.pop();
    let forward = forward.map(|path| calls.tree.call_path(path));
    let key = StackKey { frames, forward, ..StackKey::default() };
    // An operator nested in one of the same name adds nothing.
    let name = calls.store.strings.get(operator).unwrap_or_default();
    let mut telling = key.telling_frames(&UserCode::default()).into_iter();
    let headline = telling.find(|frame| *frame != name);
    Place { headline, frames: key.frames, stacks: 1 }
}
