//! How to load, and how far a load has come.

use std::num::NonZero;

use crate::event::ArgsWanted;
use crate::input::limit::Limits;
use crate::time::TimeRule;

/// How to load.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// How the times of JSON become nanoseconds: which unit they have, which is microseconds unless the file is known to be different
    /// ([`Store::in_nanoseconds`](crate::store::Store::in_nanoseconds)). The other formats name their unit.
    pub time: TimeRule,
    /// Which arguments to keep.
    pub args: ArgsWanted,
    /// How many threads read, and answer questions to the store; `None`: as many as the machine has, up to 16. The result is the same.
    pub threads: Option<NonZero<usize>>,
    /// How many bytes of text a thread takes at a time; `None`: 512 KiB, which is best. For every 32 of them an event is nested at a time. The
    /// result is the same, but for how much text is saved before the byte where compressed data are corrupt, and of a broken event that lies
    /// across the end of what a thread took.
    pub chunk: Option<NonZero<usize>>,
    /// Whether to keep the offsets of the events in the text, so that they can be copied: eight bytes for each.
    pub keep_offsets: bool,
    /// How much text the trace may have.
    pub limits: Limits,
}

/// How far a load has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes taken from the file.
    pub taken: u64,
    /// The file's size, if it is known.
    pub size: Option<u64>,
}
