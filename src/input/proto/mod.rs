//! Perfetto's protobuf format: a list of packets, read one after the other as a stream.
//!
//! `sniff` tells such a file, `packets` cuts the stream, with `recover` to go on behind damage, and what is compressed
//! within it, which `unpack` reads; `packet` and `wire` read the fields of a packet, `state` remembers what a sequence of packets said before, `clocks` puts
//! times onto the trace's clock, `tracks` knows what the tracks are; `events` hands the events on, which `track_event`,
//! `legacy`, `typed`, `annotations` and `ties` read and for whose names `held` waits. Packets of the operating system's
//! tracing, counters and samples are passed over and counted.
//!
//! One thread reads, in file order: what a packet means depends on those before it, and its names on those behind it,
//! too. The names of fields and the rules are those of Perfetto's `protos/perfetto/trace` and of its trace_processor.

mod annotations;
mod attributes;
mod clocks;
mod events;
mod held;
mod legacy;
mod packet;
mod packets;
mod recover;
mod sniff;
mod state;
mod ties;
mod track_event;
mod tracks;
mod typed;
mod unpack;
mod wire;

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;

use crate::damage::{Damage, DamageReport};
use crate::event::{ArgsWanted, HeaderField, Told};
use crate::input::limit::{Budget, LimitReached, Limits};
use crate::input::packed::{PackedCause, PackedFailure};
use clocks::{Clock, Clocks};
use events::Waiting;
use held::Held;
use packet::{NEEDS_STATE, Packet, STARTS_ANEW};
use packets::{MAX_PACKET, Next, Packets};
pub(super) use sniff::FORMAT;
use state::Sequence;
use track_event::Parser;
use tracks::{Descriptors, OfThread};
use wire::Malformed;

/// A list of packets that is not read yet.
pub struct Stream {
    bytes: Box<dyn Read + Send>,
    budget: Budget,
}

impl Stream {
    /// What is compressed within the bytes is paid for by a budget, too.
    pub(super) fn new(bytes: Box<dyn Read + Send>, budget: Budget) -> Result<Self, (&'static str, &'static str)> {
        Ok(Stream { bytes, budget })
    }

    /// Bytes in memory that may become whatever they do, for tests.
    pub fn unlimited(bytes: Vec<u8>) -> Self {
        let budget = Budget::new(Limits::of_text(u64::MAX), Arc::default());
        Stream { bytes: Box::new(io::Cursor::new(bytes)), budget }
    }

    /// Reads it to the end, keeps these arguments, and hands on what it tells. `tell` says whether to go on.
    pub fn read(self, wanted: ArgsWanted, tell: impl FnMut(Told<'_>) -> bool) -> Summary {
        Reader::new(wanted, self.budget).read(self.bytes, tell)
    }
}

/// What was read besides the events.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many packets there were, whatever is in them.
    pub packets: u64,
    /// How many of them were events that tables show.
    pub events: u64,
    /// What the packets say of the trace as a whole.
    pub header: Vec<HeaderField>,
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
struct Reader {
    parser: Parser,
    budget: Budget,
    sequences: HashMap<u64, Sequence, foldhash::fast::FixedState>,
    /// The thread of each sequence.
    threads: HashMap<u64, OfThread, foldhash::fast::FixedState>,
    /// How much the names of all sequences take.
    names_bytes: Rc<Cell<usize>>,
    clocks: Clocks,
    descriptors: Descriptors,
    /// Events whose names are not known yet, and those behind them.
    held: Held,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    is_stopped: bool,
    summary: Summary,
}

impl Reader {
    fn new(wanted: ArgsWanted, budget: Budget) -> Self {
        Reader {
            parser: Parser::new(wanted),
            budget,
            sequences: HashMap::default(),
            threads: HashMap::default(),
            names_bytes: Rc::default(),
            clocks: Clocks::default(),
            descriptors: Descriptors::default(),
            held: Held::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            is_stopped: false,
            summary: Summary::default(),
        }
    }

    /// Reads packets to the end and hands on what they tell. `tell` says whether to go on.
    fn read(mut self, source: impl Read, mut tell: impl FnMut(Told<'_>) -> bool) -> Summary {
        let mut packets = Packets::new(source);
        while !self.is_stopped {
            let (kind, offset) = match packets.next() {
                Next::Packet(packet, offset) => {
                    self.packet(packet, offset, false, &mut tell);
                    continue;
                }
                Next::End => break,
                Next::Failed(error) => {
                    self.fail(error);
                    break;
                }
                Next::TooLong(offset) => {
                    self.summary.packets += 1;
                    (Damage::PacketTooLong, offset)
                }
                Next::Broken(offset) => (Damage::PacketStructure, offset),
                Next::CutOff(offset) => (Damage::Truncated, offset),
            };
            let found = packets.find_next(kind != Damage::Truncated);
            let goes_on = found.as_ref().is_ok_and(|found| *found);
            // What ended in the middle of a packet and goes on had a wrong length.
            let kind = if goes_on && kind == Damage::Truncated { Damage::PacketStructure } else { kind };
            self.summary.damage.count(kind, Some(offset));
            self.summary.cut_off_at = (kind == Damage::Truncated).then_some(offset);
            if let Err(error) = found {
                self.fail(error);
            }
            if !goes_on {
                break;
            }
        }
        self.finish(&mut tell);
        self.summary.bytes = packets.bytes();
        self.summary
    }

    /// At the end: nothing can come any more that something waits for.
    fn finish(&mut self, tell: &mut impl FnMut(Told<'_>) -> bool) {
        while !self.is_stopped && self.release(false, tell) {}
        self.retry(tell);
        self.descriptors.tell(|description| {
            tell(Told::Track(description));
        });
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

    /// Reads a packet. Of those that are packed into one none is packed itself.
    fn packet(&mut self, message: &[u8], offset: u64, is_packed: bool, tell: &mut impl FnMut(Told<'_>) -> bool) {
        self.summary.packets += 1;
        let result = Packet::new(message).and_then(|packet| match packet.packed {
            // Perfetto never writes that.
            Some(_) if is_packed => Err(Malformed),
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
        let mut packets = Packets::new(unpack::text(field, bytes, self.budget.clone())?);
        while !self.is_stopped {
            let is_whole = match packets.next() {
                Next::Packet(message, _) => {
                    self.packet(message, offset, true, tell);
                    continue;
                }
                Next::Failed(error) if LimitReached::of(&error).is_some() => {
                    self.fail(error);
                    self.is_stopped = true;
                    break;
                }
                Next::End => true,
                Next::TooLong(_) | Next::CutOff(_) | Next::Broken(_) | Next::Failed(_) => false,
            };
            if packets.bytes() >= MAX_PACKET {
                self.summary.damage.count(Damage::PacketTooLong, Some(offset));
                return Ok(());
            }
            return if is_whole { Ok(()) } else { Err(Malformed) };
        }
        Ok(())
    }

    /// Reads one that is not compressed. What it says of the trace, of its sequence and of clocks comes before what it
    /// says itself, and counts even if that builds on what was lost.
    fn plain(
        &mut self,
        packet: &Packet<'_>,
        offset: u64,
        tell: &mut impl FnMut(Told<'_>) -> bool,
    ) -> Result<(), Malformed> {
        if let Some(attributes) = packet.attributes {
            attributes::add(attributes, &mut self.summary)?;
        }
        if packet.machine != 0 {
            self.summary.damage.count(Damage::OtherMachine, Some(offset));
        }
        let number = packet.sequence.unwrap_or(0);
        let names_bytes = &self.names_bytes;
        let sequence = self.sequences.entry(number).or_insert_with(|| Sequence::new(Rc::clone(names_bytes)));
        if packet.flags & STARTS_ANEW != 0 || packet.was_cleared {
            sequence.start_anew();
        } else if packet.has_lost_some {
            sequence.lose();
        }
        if let Some(defaults) = packet.defaults {
            sequence.set_defaults(defaults)?;
        }
        if let Some(interned) = packet.interned.filter(|_| sequence.is_whole) {
            sequence.intern(interned)?;
        }
        if let Some(snapshot) = packet.snapshot
            && !self.clocks.snapshot(snapshot, number)?
        {
            self.summary.damage.count(Damage::SnapshotInvalid, Some(offset));
        }
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_whole {
            self.summary.damage.count(Damage::PacketWithoutState, Some(offset));
            return Ok(());
        }
        // Each time moves a clock on that counts from packet to packet, whatever the packet is of.
        let is_timed = packet.snapshot.is_none() || packet.event.is_some();
        let time = packet.timestamp.filter(|_| is_timed).map(|written| {
            let clock = [packet.clock, sequence.default_clock].into_iter().flatten().find(|clock| *clock != 0);
            let clock = clock.map(|clock| Clock::new(clock, number));
            (clock, self.clocks.ns(clock, written))
        });
        self.describe(packet, number)?;
        if packet.is_other() {
            self.summary.damage.count(Damage::PhaseNotShown, None);
        }
        while !self.is_stopped && self.release(true, tell) {}
        match packet.event {
            Some(event) => self.event(event, (packet.sequence, time), offset, tell),
            None => Ok(()),
        }
    }

    /// What a packet says of tracks, threads and processes.
    fn describe(&mut self, packet: &Packet<'_>, number: u64) -> Result<(), Malformed> {
        if let Some(process) = packet.process {
            self.descriptors.add_process(process)?;
        }
        let of_thread = match (packet.track, packet.thread) {
            (Some(track), _) => self.descriptors.add(track)?,
            (None, Some(thread)) => Some(self.descriptors.add_thread(thread)?),
            (None, None) => None,
        };
        if let Some(of_thread) = of_thread {
            self.threads.insert(number, of_thread);
            if let Some(sequence) = self.sequences.get_mut(&number).filter(|sequence| sequence.is_whole) {
                sequence.reference = Some(of_thread.reference);
            }
        }
        Ok(())
    }
}
