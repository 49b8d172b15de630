//! One packet: the fields that are read.

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
const PROCESS_DESCRIPTOR: u32 = 43;
const THREAD_DESCRIPTOR: u32 = 44;
const COMPRESSED: u32 = 50;
const CLOCK: u32 = 58;
const DEFAULTS: u32 = 59;
const TRACK_DESCRIPTOR: u32 = 60;
const MACHINE: u32 = 98;
const TRACE_ATTRIBUTES: u32 = 126;
pub(super) const ZSTD_COMPRESSED: u32 = 133;

/// The bits of its flags.
pub(super) const STARTS_ANEW: u64 = 1;
pub(super) const NEEDS_STATE: u64 = 2;

/// The fields of a packet that are read.
#[derive(Debug, Default)]
pub(super) struct Packet<'a> {
    pub(super) timestamp: Option<u64>,
    pub(super) clock: Option<u64>,
    pub(super) sequence: Option<u64>,
    /// Perfetto's `machine_id`: 0 is the machine that recorded the trace.
    pub(super) machine: u64,
    pub(super) flags: u64,
    pub(super) was_cleared: bool,
    pub(super) has_lost_some: bool,
    pub(super) defaults: Option<&'a [u8]>,
    pub(super) interned: Option<&'a [u8]>,
    pub(super) snapshot: Option<&'a [u8]>,
    pub(super) track: Option<&'a [u8]>,
    pub(super) thread: Option<&'a [u8]>,
    pub(super) process: Option<&'a [u8]>,
    pub(super) attributes: Option<&'a [u8]>,
    pub(super) event: Option<&'a [u8]>,
    /// The field that holds compressed packets, and its bytes.
    pub(super) packed: Option<(u32, &'a [u8])>,
    /// Whether there are other messages.
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
                (MACHINE, Value::Varint(value)) => packet.machine = value,
                (FLAGS, Value::Varint(value)) => packet.flags = value,
                (STATE_CLEARED, Value::Varint(value)) => packet.was_cleared = value != 0,
                (PREVIOUS_DROPPED, Value::Varint(value)) => packet.has_lost_some = value != 0,
                (DEFAULTS, Value::Bytes(value)) => packet.defaults = Some(value),
                (INTERNED, Value::Bytes(value)) => packet.interned = Some(value),
                (CLOCK_SNAPSHOT, Value::Bytes(value)) => packet.snapshot = Some(value),
                (TRACK_DESCRIPTOR, Value::Bytes(value)) => packet.track = Some(value),
                (THREAD_DESCRIPTOR, Value::Bytes(value)) => packet.thread = Some(value),
                (PROCESS_DESCRIPTOR, Value::Bytes(value)) => packet.process = Some(value),
                (TRACE_ATTRIBUTES, Value::Bytes(value)) => packet.attributes = Some(value),
                (TRACK_EVENT, Value::Bytes(value)) => packet.event = Some(value),
                (COMPRESSED | ZSTD_COMPRESSED, Value::Bytes(value)) => packet.packed = Some((number, value)),
                (_, Value::Bytes(_)) => packet.others = true,
                _ => {}
            }
        }
        Ok(packet)
    }

    /// Whether no table shows anything of it.
    pub(super) fn is_other(&self) -> bool {
        self.others
            && self.event.is_none()
            && self.track.is_none()
            && self.thread.is_none()
            && self.process.is_none()
            && self.attributes.is_none()
            && self.snapshot.is_none()
            && self.packed.is_none()
    }
}

/// Whether a message may be a packet: it consists of whole fields, known ones have their types, and one of them is a field that only
/// packets have. Each field takes one from `work`; with none left the answer is no.
pub(super) fn looks_like_packet(message: &[u8], work: &mut usize) -> bool {
    let mut is_packet = false;
    for field in Fields::new(message) {
        let (Ok(Field { number, value }), Some(left)) = (field, work.checked_sub(1)) else { return false };
        *work = left;
        let is_right = match number {
            TIMESTAMP | SEQUENCE | FLAGS | STATE_CLEARED | PREVIOUS_DROPPED | CLOCK => {
                matches!(value, Value::Varint(_))
            }
            // Fields 1 and 2 are messages of the operating system's tracing.
            1 | 2 | CLOCK_SNAPSHOT | TRACK_EVENT | INTERNED | PROCESS_DESCRIPTOR | THREAD_DESCRIPTOR | COMPRESSED
            | DEFAULTS | TRACK_DESCRIPTOR | TRACE_ATTRIBUTES | ZSTD_COMPRESSED => matches!(value, Value::Bytes(_)),
            _ => true,
        };
        if !is_right {
            return false;
        }
        is_packet |= matches!(
            number,
            TIMESTAMP | SEQUENCE | CLOCK_SNAPSHOT | COMPRESSED | TRACK_DESCRIPTOR | TRACE_ATTRIBUTES | ZSTD_COMPRESSED
        );
    }
    is_packet
}
