//! The result of reading packets, besides the events.

use std::io;

use crate::damage::DamageReport;
use crate::event::HeaderField;

/// What was read besides the events.
#[derive(Debug, Default)]
pub struct Summary {
    /// The number of packets of any kind.
    pub packets: u64,
    /// The number of events that tables show.
    pub events: u64,
    /// The attributes of the whole trace.
    pub header: Vec<HeaderField>,
    /// The damage.
    pub damage: DamageReport,
    /// The offset of a packet in which the file ended.
    pub cut_off_at: Option<u64>,
    /// The error that ended the source of the bytes.
    pub failure: Option<io::Error>,
    /// How many bytes were read.
    pub bytes: u64,
}
