//! A build without the cargo feature `proto`: packets are recognised and refused.

use std::io::Read;

use super::summary::Summary;
use crate::event::{ArgsWanted, TrackItem};
use crate::input::containers::limit::Budget;

/// A list of packets, of which this build has none.
pub enum Stream {}

impl Stream {
    pub(in crate::input) fn new(_: Box<dyn Read + Send>, _: Budget) -> Result<Self, (&'static str, &'static str)> {
        let what = "this is a trace in Perfetto's protobuf format";
        Err((what, "This build cannot read Perfetto protobuf; build with the cargo feature `proto`"))
    }

    /// Never called: there is no value of this type.
    pub fn read(self, _: ArgsWanted, _: impl FnMut(TrackItem<'_>) -> bool) -> Summary {
        match self {}
    }
}
