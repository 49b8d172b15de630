//! Where in the text the events stand, for whoever wants to copy them.
//!
//! Slices have their own ([`super::slices::Slices::place`]). Which slice an event closed, and to which an arrow's end was bound,
//! is known for sure only while the slices are laid; so it is written down then, if a load asks for places.

/// The places of events that are no slices.
#[derive(Debug, Default)]
pub struct Places {
    /// Slices that an event of their own closed, and where that stands.
    pub ends: Vec<(u32, u64)>,
    /// The ends of arrows, as far as they were bound to slices.
    pub arrows: Vec<ArrowEnd>,
}

/// One end of an arrow, or a step on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrowEnd {
    /// Where its event begins in the text.
    pub place: u64,
    /// The arrow's number: `trace_id` of `flow`.
    pub arrow: u64,
    /// The slice to which it was bound.
    pub slice: u32,
    /// Whether the arrow leaves that slice.
    pub is_start: bool,
}
