//! Byte offsets of events in the text, for code that copies events.
//!
//! The offsets of slices are in [`super::slices::Slices::offset`]. The slice that an event closed, or to which the end of a flow was bound, is
//! known only during nesting, so it is recorded then if the load keeps offsets.

use crate::id::SliceId;

/// The offsets of events other than slices.
#[derive(Debug, Default)]
pub struct EventOffsets {
    /// Slices closed by an event, and the byte offset of that event.
    pub ends: Vec<(SliceId, u64)>,
    /// The ends of flows that were bound to slices.
    pub flows: Vec<FlowEnd>,
}

/// One end of a flow, or a step between its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    /// The byte offset of its event in the text.
    pub offset: u64,
    /// The flow's number: `flow.trace_id` in SQL.
    pub flow: u64,
    /// The slice that it was bound to.
    pub slice: SliceId,
    /// Whether the flow leaves that slice.
    pub is_start: bool,
}
