//! What operations of several ranks, or of several sources, have to do with each other.

pub mod outliers;
