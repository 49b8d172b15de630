//! Perfetto's protobuf format: a list of packets, read one after the other as a stream.
//!
//! `sniff` tells such a file, `packets` cuts the stream, `packet` and `wire` read the fields of a packet, `state` remembers what a sequence of packets said before, `clocks`
//! puts times onto the trace's clock, `tracks` knows what the tracks are, `track_event` and `annotations` make events of it. Packets
//! of the operating system's tracing, counters and samples are passed over and counted.
//!
//! One thread reads, in file order: what a packet means depends on those before it. The names of fields and the rules are those of
//! Perfetto's `protos/perfetto/trace` and of its trace_processor. One rule is not kept: a name that is defined only behind its use.
//! Perfetto's own writers never do that, and to wait for it would mean to hold the file in memory; it is counted.

mod annotations;
mod clocks;
mod packet;
mod packets;
mod sniff;
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
use packet::{NEEDS_STATE, Packet, STARTS_ANEW, ZSTD_COMPRESSED};
use packets::{Next, Packets};
pub(super) use sniff::begins;
use state::Sequence;
use track_event::{Parser, TrackEvent};
use tracks::Descriptors;
use wire::Malformed;

/// Packets whose clock is not known yet wait for it, up to so many bytes in all.
const MAX_WAITING: usize = 64 << 20;

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
