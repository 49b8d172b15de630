//! Options of a load, and its progress.

use std::num::NonZero;

use crate::event::ArgsWanted;
use crate::input::limit::Limits;
use crate::time::TimeRule;

#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// How JSON times become nanoseconds: microseconds unless the file is known to differ
    /// ([`Store::in_nanoseconds`](crate::store::Store::in_nanoseconds)). Other formats define their unit.
    pub time: TimeRule,
    pub args: ArgsWanted,
    /// How many threads read, and answer questions about the store; `None`: one per core, up to 16. The result is the same.
    pub threads: Option<NonZero<usize>>,
    /// How many bytes of text a thread takes at a time; `None`: 512 KiB, the fastest. A stretch of nesting has one event for every 32 of
    /// these bytes. The result is the same, except for how much text is saved before corrupt compressed data, and how much of a broken
    /// event that crosses the end of a chunk.
    pub chunk: Option<NonZero<usize>>,
    /// Whether to keep the byte offsets of events, eight bytes each, so that events can be copied.
    pub keep_offsets: bool,
    /// How much text a trace may have.
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub taken: u64,
    /// The file's size, if it is known.
    pub size: Option<u64>,
}
