//! Goes through all packets of a stream, also compressed ones and those after damage.

use std::io::{self, Read};
use std::sync::Arc;

use super::events::Events;
use super::packet::Packet;
use super::packets::{MAX_PACKET, Next, Packets};
use super::summary::Summary;
use super::unpack;
use super::wire::Malformed;
use crate::damage::Damage;
use crate::event::{ArgsWanted, TrackItem};
use crate::input::containers::limit::{Budget, LimitReached, Limits};
use crate::input::containers::packed::{PackedCause, PackedFailure};

/// A list of packets, not read yet.
pub struct Stream {
    bytes: Box<dyn Read + Send>,
    budget: Budget,
}

impl Stream {
    /// Packets that are compressed within the bytes are charged to the budget, too.
    pub(in crate::input) fn new(bytes: Box<dyn Read + Send>, budget: Budget) -> Self {
        Stream { bytes, budget }
    }

    /// Bytes in memory without limits, for tests.
    pub fn unlimited(bytes: Vec<u8>) -> Self {
        let budget = Budget::new(Limits::of_text(u64::MAX), Arc::default());
        Stream { bytes: Box::new(io::Cursor::new(bytes)), budget }
    }

    /// Reads to the end and emits events, with these arguments, and then the tracks. `emit` returns whether to go on.
    pub fn read(self, wanted: ArgsWanted, emit: impl FnMut(TrackItem<'_>) -> bool) -> Summary {
        let reader = Reader { budget: self.budget, events: Events::new(wanted) };
        reader.read(self.bytes, emit)
    }
}

#[derive(Debug)]
struct Reader {
    budget: Budget,
    events: Events,
}

impl Reader {
    fn read(mut self, source: impl Read, mut emit: impl FnMut(TrackItem<'_>) -> bool) -> Summary {
        let mut packets = Packets::new(source);
        while !self.events.is_stopped {
            let (kind, offset) = match packets.next() {
                Next::Packet(packet, offset) => {
                    self.packet(packet, offset, false, &mut emit);
                    continue;
                }
                Next::End => break,
                Next::Failed(error) => {
                    self.fail(error);
                    break;
                }
                Next::TooLong(offset) => {
                    self.events.summary.packets += 1;
                    (Damage::PacketTooLong, offset)
                }
                Next::Broken(offset) => (Damage::PacketStructure, offset),
                Next::CutOff(offset) => (Damage::Truncated, offset),
            };
            let found = packets.find_next(kind != Damage::Truncated);
            let goes_on = found.as_ref().is_ok_and(|found| *found);
            // A file that ended in a packet, but goes on after it, had a wrong length.
            let kind = if goes_on && kind == Damage::Truncated { Damage::PacketStructure } else { kind };
            self.events.summary.damage.count(kind, Some(offset));
            self.events.summary.cut_off_at = (kind == Damage::Truncated).then_some(offset);
            if let Err(error) = found {
                self.fail(error);
            }
            if !goes_on {
                break;
            }
        }
        let mut summary = self.events.finish(&mut emit);
        summary.bytes = packets.bytes();
        summary
    }

    fn fail(&mut self, error: io::Error) {
        let summary = &mut self.events.summary;
        if let Some(failure) = PackedFailure::find_in(&error) {
            let (kind, offset) = match failure.cause {
                PackedCause::CutOff => (Damage::PackedCutOff, Some(failure.offset)),
                PackedCause::Corrupt => (Damage::PackedCorrupt, Some(failure.offset)),
                PackedCause::Checksum => (Damage::PackedChecksum, Some(failure.offset)),
                PackedCause::TrailingBytes => (Damage::TrailingBytes, None),
            };
            summary.damage.count(kind, offset);
        }
        summary.failure = Some(error);
    }

    /// Reads a packet. Packets in a compressed one may not be compressed themselves: Perfetto never writes that.
    fn packet(&mut self, message: &[u8], offset: u64, is_packed: bool, emit: &mut impl FnMut(TrackItem<'_>) -> bool) {
        self.events.summary.packets += 1;
        let result = Packet::new(message).and_then(|packet| match packet.packed {
            Some(_) if is_packed => Err(Malformed),
            Some((field, bytes)) => self.unpack(field, bytes, offset, emit),
            None => self.events.packet(&packet, offset, emit),
        });
        if result.is_err() {
            self.events.summary.damage.count(Damage::PacketSyntax, Some(offset));
        }
    }

    /// Reads the packets that are compressed in one.
    fn unpack(
        &mut self,
        field: u32,
        bytes: &[u8],
        offset: u64,
        emit: &mut impl FnMut(TrackItem<'_>) -> bool,
    ) -> Result<(), Malformed> {
        let mut packets = Packets::new(unpack::text(field, bytes, self.budget.clone())?);
        while !self.events.is_stopped {
            let is_whole = match packets.next() {
                Next::Packet(message, _) => {
                    self.packet(message, offset, true, emit);
                    continue;
                }
                Next::Failed(error) if LimitReached::find_in(&error).is_some() => {
                    self.fail(error);
                    self.events.is_stopped = true;
                    break;
                }
                Next::End => true,
                Next::TooLong(_) | Next::CutOff(_) | Next::Broken(_) | Next::Failed(_) => false,
            };
            if packets.bytes() >= MAX_PACKET {
                self.events.summary.damage.count(Damage::PacketTooLong, Some(offset));
                return Ok(());
            }
            return if is_whole { Ok(()) } else { Err(Malformed) };
        }
        Ok(())
    }
}
