//! What a launching thread did from one launch to the next.

use crate::time::Ns;

/// What a launching thread did up to a launch, since the launch before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The thread, by the order of their first launches.
    pub thread: u32,
    /// When the launch before ended.
    pub start: Ns,
    /// When the call that launches started.
    pub call: Ns,
    /// When the launch ended.
    pub end: Ns,
    /// How long of that the thread was blocked until its GPU was done. That is waiting, if only for other ranks.
    pub blocked: Ns,
}

impl Segment {
    /// How long the thread was busy.
    pub fn active(&self) -> Ns {
        self.end - self.start - self.blocked
    }
}
