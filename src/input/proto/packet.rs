//! One packet: which of its fields are looked at.

use super::wire::{Field, Fields, Malformed, Value};

/// The fields of `TracePacket`.
const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const FLAGS: u32 = 13;
const STATE_CLEARED: u32 = 41;
const PREVIOUS_DROPPED: u32 = 42;
const THREAD_DESCRIPTOR: u32 = 44;
const COMPRESSED: u32 = 50;
const CLOCK: u32 = 58;
const DEFAULTS: u32 = 59;
const TRACK_DESCRIPTOR: u32 = 60;
pub(super) const ZSTD_COMPRESSED: u32 = 133;

/// The bits of its flags.
pub(super) const STARTS_ANEW: u64 = 1;
pub(super) const NEEDS_STATE: u64 = 2;

/// The fields of a packet that are looked at.
#[derive(Debug, Default)]
pub(super) struct Packet<'a> {
    pub(super) timestamp: Option<u64>,
    pub(super) clock: Option<u64>,
    pub(super) sequence: Option<u64>,
    pub(super) flags: u64,
    pub(super) was_cleared: bool,
    pub(super) has_lost_some: bool,
    pub(super) defaults: Option<&'a [u8]>,
    pub(super) interned: Option<&'a [u8]>,
    pub(super) snapshot: Option<&'a [u8]>,
    pub(super) track: Option<&'a [u8]>,
    pub(super) thread: Option<&'a [u8]>,
    pub(super) event: Option<&'a [u8]>,
    /// The field that holds compressed packets, and its bytes.
    pub(super) packed: Option<(u32, &'a [u8])>,
    /// Messages that are not looked at.
    others: bool,
}

impl<'a> Packet<'a> {
    pub(super) fn new(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut packet = Packet::default();
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            match (number, value) {
                (TIMESTAMP, Value::Varint(value)) => packet.timestamp = Some(value),
                (CLOCK, Value::Varint(value)) => packet.clock = Some(value),
                (SEQUENCE, Value::Varint(value)) => packet.sequence = Some(value),
                (FLAGS, Value::Varint(value)) => packet.flags = value,
                (STATE_CLEARED, Value::Varint(value)) => packet.was_cleared = value != 0,
                (PREVIOUS_DROPPED, Value::Varint(value)) => packet.has_lost_some = value != 0,
                (DEFAULTS, Value::Bytes(value)) => packet.defaults = Some(value),
                (INTERNED, Value::Bytes(value)) => packet.interned = Some(value),
                (CLOCK_SNAPSHOT, Value::Bytes(value)) => packet.snapshot = Some(value),
                (TRACK_DESCRIPTOR, Value::Bytes(value)) => packet.track = Some(value),
                (THREAD_DESCRIPTOR, Value::Bytes(value)) => packet.thread = Some(value),
                (TRACK_EVENT, Value::Bytes(value)) => packet.event = Some(value),
                (COMPRESSED | ZSTD_COMPRESSED, Value::Bytes(value)) => packet.packed = Some((number, value)),
                (_, Value::Bytes(_)) => packet.others = true,
                _ => {}
            }
        }
        Ok(packet)
    }

    /// Whether it is of a sort that no table shows.
    pub(super) fn is_other(&self) -> bool {
        self.others
            && self.event.is_none()
            && self.track.is_none()
            && self.thread.is_none()
            && self.snapshot.is_none()
            && self.packed.is_none()
    }
}
