//! The output of the reader of an export: events, and a summary at the end.

use crate::damage::DamageReport;
use crate::event::{Event, HeaderField, TrackDescription, TrackKey};

/// What the reader of a process passes on.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event of a thread, or of a stream of a GPU.
    Event(&'a Event<'a>),
    /// A range that is bound to no thread, on a track without others at that time.
    Range(TrackKey, &'a Event<'a>),
    /// The description of such a track, after all ranges.
    Track(TrackDescription<'a>),
}

/// What was read beside the events.
#[derive(Debug, Default)]
pub struct Summary {
    pub events: u64,
    /// The facts of the recording.
    pub header: Vec<HeaderField>,
    pub damage: DamageReport,
    /// The part of the database's size, in bytes, that counts for this process.
    pub bytes: u64,
}
