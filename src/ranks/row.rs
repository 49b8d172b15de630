//! The long columns of a part: a row for each collective, and a segment for each launch.

use crate::time::Ns;

/// One collective on one rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The kernel: its slice in the trace. 0 in a file of parts, where there is no trace that it would be a slice of.
    pub kernel: u32,
    /// When it started.
    pub start: Ns,
    /// How long it ran; 0 if it did not end.
    pub dur: Ns,
    /// How long no compute kernel ran beside it.
    pub exposed: Ns,
    /// How long compute kernels ran on its GPU since the collective before, on all streams.
    pub busy_before: Ns,
    /// For how much of that time none did.
    pub idle_before: Ns,
    /// A position in the kinds.
    pub kind: u32,
    /// A position in the groups.
    pub group: Option<u32>,
    /// PyTorch's number of the collective in its group.
    pub seq: Option<u32>,
    /// A position in the stacks.
    pub stack: Option<u32>,
    /// Its stream, by the order of their first rows.
    pub stream: u32,
    /// A position in the steps.
    pub step: Option<u32>,
    /// The segment that ends with its launch.
    pub segment: Option<u32>,
    /// The class of what ran on the GPU since the collective before.
    pub gpu_class: Option<u32>,
    /// Whether a graph replayed it.
    pub is_replay: bool,
}

impl Row {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start + self.dur
    }
}

/// What a launching thread did up to a launch, since the launch before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// The thread, by the order of their first launches.
    pub thread: u32,
    /// A position in the classes.
    pub class: u32,
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
