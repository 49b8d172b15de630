//! Where in the text the events stand, for whoever wants to copy them.
//!
//! Slices have their own ([`super::slices::Slices::offset`]). Which slice an event closed, and to which a flow's end was bound,
//! is known for sure only while the slices are laid; so it is written down then, if a load asks for offsets.

use crate::id::SliceId;

/// The offsets of events that are no slices.
#[derive(Debug, Default)]
pub struct EventOffsets {
    /// Slices that an event of their own closed, and where that stands.
    pub ends: Vec<(SliceId, u64)>,
    /// The ends of flows, as far as they were bound to slices.
    pub flows: Vec<FlowEnd>,
}

/// One end of a flow, or a step on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    /// Where its event begins in the text.
    pub offset: u64,
    /// The flow's number: `trace_id` of `flow`.
    pub flow: u64,
    /// The slice to which it was bound.
    pub slice: SliceId,
    /// Whether the flow leaves that slice.
    pub is_start: bool,
}
