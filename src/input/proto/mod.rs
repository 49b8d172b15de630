//! Perfetto's protobuf format: a list of packets, read one after the other as a stream.
//!
//! `packets` cuts the stream, `wire` reads the fields of a packet, `state` remembers what a sequence of packets said before, `clocks`
//! puts times onto the trace's clock, `tracks` knows what the tracks are, `track_event` and `annotations` make events of it. Packets
//! of the operating system's tracing, counters and samples are passed over and counted.
//!
//! One thread reads, in file order: what a packet means depends on those before it. The names of fields and the rules are those of
//! Perfetto's `protos/perfetto/trace` and of its trace_processor. One rule is not kept: a name that is defined only behind its use.
//! Perfetto's own writers never do that, and to wait for it would mean to hold the file in memory; it is counted.

mod annotations;
mod clocks;
mod packets;
mod state;
mod track_event;
mod tracks;
mod wire;

use std::collections::HashMap;
use std::io::{self, Read};

use crate::damage::{Damage, DamageReport};
use crate::event::{self, ArgsWanted, Told, TrackKey};
use crate::input::packed::{PackedCause, PackedFailure};
use clocks::{Clock, Clocks, MONOTONIC};
use packets::{Next, PACKET, Packets};
use state::Sequence;
use track_event::{Parser, TrackEvent};
use tracks::Descriptors;
use wire::{Field, Fields, Kind, Malformed, Value, tag, varint};

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
const ZSTD_COMPRESSED: u32 = 133;

/// The bits of its flags.
const STARTS_ANEW: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Packets whose clock is not known yet wait for it, up to so many bytes in all.
const MAX_WAITING: usize = 64 << 20;

/// Whether a file that begins so is a list of packets. Field 1 is a newline to who reads text, so JSON that begins with one has to
/// be told apart: it fits no packets, and it has no control characters, which packets cannot do without (the numbers of clocks
/// and the types of events are some).
pub(super) fn begins(head: &[u8]) -> bool {
    let is_text = || head.iter().all(|byte| byte.is_ascii_whitespace() || *byte >= b' ');
    head.first() == Some(&0x0a) && frames(head) && !is_text()
}

/// Whether the first packet that is not empty consists of fields, as far as the bytes go.
fn frames(head: &[u8]) -> bool {
    let mut rest = head;
    loop {
        let Some((number, kind)) = varint(&mut rest).and_then(tag) else { return false };
        let length = match kind {
            Kind::Varint => varint(&mut rest).map(|_| 0),
            Kind::Fixed64 => Some(8),
            Kind::Fixed32 => Some(4),
            // The length itself may be cut off.
            Kind::Bytes => Some(varint(&mut rest).unwrap_or(u64::MAX)),
        };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else { return false };
        let (packet, behind) = rest.split_at(length.min(rest.len()));
        if number == PACKET && kind == Kind::Bytes && length > 0 {
            return has_fields(packet, packet.len() == length);
        }
        rest = behind;
    }
}

/// Whether a packet, or the beginning of one, consists of fields. Its first two fields are messages, which tells it from the
/// format of pprof, whose messages begin with numbers.
fn has_fields(packet: &[u8], is_whole: bool) -> bool {
    let mut rest = packet;
    while !rest.is_empty() {
        let Some(read) = varint(&mut rest) else { return !is_whole };
        let Some((number, kind)) = tag(read) else { return false };
        if number <= 2 && kind != Kind::Bytes {
            return false;
        }
        let length = match kind {
            Kind::Varint => {
                if varint(&mut rest).is_none() {
                    return !is_whole;
                }
                continue;
            }
            Kind::Fixed64 => 8,
            Kind::Fixed32 => 4,
            Kind::Bytes => match varint(&mut rest) {
                Some(length) => length,
                None => return !is_whole,
            },
        };
        match usize::try_from(length).ok().and_then(|length| rest.get(length..)) {
            Some(behind) => rest = behind,
            None => return !is_whole,
        }
    }
    true
}

/// What was read besides the events.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many packets there were, whatever is in them.
    pub packets: u64,
    /// How many of them were events that tables show.
    pub events: u64,
    /// What was wrong.
    pub damage: DamageReport,
    /// Where the file ended before its time.
    pub cut_off_at: Option<u64>,
    /// What the source of the bytes failed with.
    pub failure: Option<io::Error>,
    /// How many bytes were read.
    pub bytes: u64,
}

/// Reads packets. See the file's header.
#[derive(Debug)]
pub struct Reader {
    parser: Parser,
    sequences: HashMap<u64, Sequence, foldhash::fast::FixedState>,
    /// The track of each sequence's thread.
    threads: HashMap<u64, TrackKey, foldhash::fast::FixedState>,
    clocks: Clocks,
    descriptors: Descriptors,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    is_stopped: bool,
    summary: Summary,
}

/// A packet whose clock is not known yet.
#[derive(Debug)]
struct Waiting {
    event: Vec<u8>,
    ns: i64,
    clock: Option<Clock>,
    sequence: u64,
    generation: u64,
    offset: u64,
}

/// The fields of a packet that are looked at.
#[derive(Debug, Default)]
struct Packet<'a> {
    timestamp: Option<u64>,
    clock: Option<u64>,
    sequence: Option<u64>,
    flags: u64,
    was_cleared: bool,
    has_lost_some: bool,
    defaults: Option<&'a [u8]>,
    interned: Option<&'a [u8]>,
    snapshot: Option<&'a [u8]>,
    track: Option<&'a [u8]>,
    thread: Option<&'a [u8]>,
    event: Option<&'a [u8]>,
    packed: Option<(u32, &'a [u8])>,
    /// Messages that are not looked at.
    others: bool,
}

impl<'a> Packet<'a> {
    fn new(message: &'a [u8]) -> Result<Self, Malformed> {
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
    fn is_other(&self) -> bool {
        self.others
            && self.event.is_none()
            && self.track.is_none()
            && self.thread.is_none()
            && self.snapshot.is_none()
            && self.packed.is_none()
    }
}

impl Reader {
    /// A reader that keeps these arguments.
    pub fn new(wanted: ArgsWanted) -> Self {
        Reader {
            parser: Parser::new(wanted),
            sequences: HashMap::default(),
            threads: HashMap::default(),
            clocks: Clocks::default(),
            descriptors: Descriptors::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            is_stopped: false,
            summary: Summary::default(),
        }
    }

    /// Reads packets to the end and hands on what they tell. `tell` says whether to go on.
    pub fn read(mut self, source: impl Read, mut tell: impl FnMut(Told<'_>) -> bool) -> Summary {
        let mut packets = Packets::new(source);
        while !self.is_stopped {
            match packets.next() {
                Next::Packet(packet, offset) => {
                    self.summary.packets += 1;
                    self.packet(packet, offset, &mut tell);
                }
                Next::TooLong(offset) => {
                    self.summary.packets += 1;
                    self.summary.damage.count(Damage::PacketTooLong, Some(offset));
                }
                Next::End => break,
                Next::CutOff(offset) => {
                    self.summary.cut_off_at = Some(offset);
                    self.summary.damage.count(Damage::Truncated, Some(offset));
                    break;
                }
                Next::Broken(offset) => {
                    self.summary.damage.count(Damage::PacketStructure, Some(offset));
                    break;
                }
                Next::Failed(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        self.retry(&mut tell);
        self.descriptors.tell(|description| {
            tell(Told::Track(description));
        });
        self.summary.bytes = packets.offset();
        self.summary
    }

    fn fail(&mut self, error: io::Error) {
        if let Some(failure) = PackedFailure::of(&error) {
            let (kind, offset) = match failure.cause {
                PackedCause::CutOff => (Damage::PackedCutOff, Some(failure.offset)),
                PackedCause::Corrupt => (Damage::PackedCorrupt, Some(failure.offset)),
                PackedCause::TrailingBytes => (Damage::TrailingBytes, None),
            };
            self.summary.damage.count(kind, offset);
        }
        self.summary.failure = Some(error);
    }

    fn packet(&mut self, message: &[u8], offset: u64, tell: &mut impl FnMut(Told<'_>) -> bool) {
        let result = Packet::new(message).and_then(|packet| match packet.packed {
            Some((field, bytes)) => self.unpack(field, bytes, offset, tell),
            None => self.plain(&packet, offset, tell),
        });
        if result.is_err() {
            self.summary.damage.count(Damage::PacketSyntax, Some(offset));
        }
    }

    /// Reads the packets that are compressed into one.
    fn unpack(
        &mut self,
        field: u32,
        bytes: &[u8],
        offset: u64,
        tell: &mut impl FnMut(Told<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let source: Box<dyn Read + '_> = match (field, bytes) {
            (ZSTD_COMPRESSED, _) => Box::new(zstd::stream::read::Decoder::with_buffer(bytes).map_err(|_| Malformed)?),
            (_, [0x1f, 0x8b, ..]) => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
            _ => Box::new(flate2::bufread::ZlibDecoder::new(bytes)),
        };
        let mut packets = Packets::new(source);
        while !self.is_stopped {
            match packets.next() {
                Next::End => break,
                Next::Packet(message, _) => {
                    self.summary.packets += 1;
                    let result = Packet::new(message).and_then(|packet| match packet.packed {
                        // Perfetto never writes that.
                        Some(_) => Err(Malformed),
                        None => self.plain(&packet, offset, tell),
                    });
                    if result.is_err() {
                        self.summary.damage.count(Damage::PacketSyntax, Some(offset));
                    }
                }
                Next::TooLong(_) => self.summary.damage.count(Damage::PacketTooLong, Some(offset)),
                Next::CutOff(_) | Next::Broken(_) | Next::Failed(_) => return Err(Malformed),
            }
        }
        Ok(())
    }

    /// Reads one that is not compressed. What it says of its sequence comes before what it says itself.
    fn plain(
        &mut self,
        packet: &Packet<'_>,
        offset: u64,
        tell: &mut impl FnMut(Told<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let number = packet.sequence.unwrap_or(0);
        let sequence = self.sequences.entry(number).or_default();
        if packet.flags & STARTS_ANEW != 0 || packet.was_cleared {
            sequence.start_anew();
        } else if packet.has_lost_some {
            sequence.is_whole = false;
        }
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_whole {
            self.summary.damage.count(Damage::PacketWithoutState, Some(offset));
            return Ok(());
        }
        if let Some(defaults) = packet.defaults {
            sequence.set_defaults(defaults)?;
        }
        if let Some(interned) = packet.interned.filter(|_| sequence.is_whole) {
            sequence.intern(interned)?;
        }
        if let Some(snapshot) = packet.snapshot {
            self.clocks.snapshot(snapshot, number)?;
        }
        if let Some(thread) = packet.thread {
            let track = self.descriptors.add_thread(thread)?;
            self.threads.insert(number, track);
        }
        if let Some(track) = packet.track
            && let Some(thread) = self.descriptors.add(track)?
        {
            self.threads.insert(number, thread);
        }
        if packet.is_other() {
            self.summary.damage.count(Damage::PhaseNotShown, None);
        }
        match packet.event {
            Some(event) => self.event(event, packet, offset, tell),
            None => Ok(()),
        }
    }

    /// Puts an event onto the trace's clock.
    fn event(
        &mut self,
        message: &[u8],
        packet: &Packet<'_>,
        offset: u64,
        tell: &mut impl FnMut(Told<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let Some(number) = packet.sequence else {
            self.summary.damage.count(Damage::EventWithoutSequence, Some(offset));
            return Ok(());
        };
        let event = TrackEvent::new(message)?;
        let sequence = self.sequences.entry(number).or_default();
        let (clock, written) = match (event.absolute_us, packet.timestamp) {
            (Some(us), _) => (Some(MONOTONIC), us.saturating_mul(1000)),
            (None, Some(time)) => (packet.clock.or(sequence.default_clock), time),
            (None, None) => {
                self.summary.damage.count(Damage::EventWithoutTime, Some(offset));
                return Ok(());
            }
        };
        let clock = clock.map(|clock| Clock::new(clock, number));
        let ns = self.clocks.ns(clock, written);
        if let Some(ts) = self.clocks.on_trace(clock, ns) {
            return self.tell_event(&event, ts, number, offset, tell);
        }
        self.waiting_bytes += message.len();
        if self.waiting_bytes > MAX_WAITING {
            self.summary.damage.count(Damage::ClockUnknown, Some(offset));
            return Ok(());
        }
        let generation = sequence.generation;
        self.waiting.push(Waiting { event: message.to_owned(), ns, clock, sequence: number, generation, offset });
        Ok(())
    }

    fn tell_event(
        &mut self,
        event: &TrackEvent<'_>,
        ts: i64,
        number: u64,
        offset: u64,
        tell: &mut impl FnMut(Told<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let Reader { parser, sequences, threads, summary, is_stopped, .. } = self;
        let sequence = sequences.entry(number).or_default();
        let uuid = event.track.or(sequence.default_track).map(TrackKey::Uuid);
        let track = uuid.or_else(|| threads.get(&number).copied()).unwrap_or(TrackKey::Uuid(0));
        let Summary { damage, events, .. } = summary;
        parser.parse(
            event,
            ts,
            sequence,
            |kind| damage.count(kind, Some(offset)),
            |event| {
                *events += u64::from(!matches!(event.kind, event::Kind::SliceFlow(_)));
                *is_stopped |= !tell(Told::Event { track, event, offset });
            },
        )
    }

    /// Events whose clock was not known when they came. If no clock is known at all, all are on the trace's.
    fn retry(&mut self, tell: &mut impl FnMut(Told<'_>) -> bool) {
        for Waiting { event, ns, clock, sequence, generation, offset } in std::mem::take(&mut self.waiting) {
            if self.is_stopped {
                return;
            }
            let ts = if self.clocks.is_empty() { Some(ns) } else { self.clocks.on_trace(clock, ns) };
            // The names that it was written with may be forgotten.
            let remembers = self.sequences.get(&sequence).is_some_and(|s| s.generation == generation);
            let told = match (ts.filter(|_| remembers), TrackEvent::new(&event)) {
                (Some(ts), Ok(event)) => self.tell_event(&event, ts, sequence, offset, tell),
                _ => {
                    self.summary.damage.count(Damage::ClockUnknown, Some(offset));
                    continue;
                }
            };
            if told.is_err() {
                self.summary.damage.count(Damage::PacketSyntax, Some(offset));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_from_json() {
        // A packet of a timestamp and a sequence; one of 123 bytes, whose length is a brace.
        assert!(!begins(b"\x0a\x04\x08\x01\x50\x02"), "field 1 is a message, not a number");
        assert!(begins(b"\x0a\x04\x40\x01\x50\x02"));
        assert!(begins(b"\x0a\x04\x40\x01\x50\x02\x0a"));
        let long = [&b"\x0a\x7b\x40\x01\x5a\x77"[..], &[b'x'; 119], b"\x0a\x02\x50\x01"].concat();
        assert!(begins(&long));
        assert!(begins(&long[..60]), "a head may end anywhere");
        for text in
            ["\n{\"traceEvents\":[]}", "\n[{\"ph\":\"X\"}]", "\n  [", "\n", "{}", "\n{\"a\":1}", "\nname, value\n"]
        {
            assert!(!begins(text.as_bytes()), "{text:?}");
        }
        let json = format!("\n{{\"schemaVersion\":1,\"traceEvents\":[{}]}}", "{\"ph\":\"X\"},".repeat(60));
        assert!(!begins(&json.as_bytes()[..512]));
    }
}
