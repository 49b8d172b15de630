//! Goes through all packets of a stream, also compressed ones.

use std::io::{self, Read};
use std::sync::Arc;

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use zstd::stream::read::Decoder;

use super::events::{Emit, Events};
use super::messages::TracePacket;
use super::packets::{MAX_PACKET, Packets};
use super::wire::{Malformed, Stop};
use crate::damage::Damage;
use crate::event::{ArgsWanted, TrackItem};
use crate::input::containers::limit::{Budget, LimitReached, Limited, Limits};
use crate::input::containers::packed::PackedFailure;
use crate::input::reader::Summary;

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
        Stream::new(Box::new(io::Cursor::new(bytes)), Budget::new(Limits::of_text(u64::MAX), Arc::default()))
    }

    /// Reads to the end and emits events, with these arguments, and then the tracks. `emit` returns whether to go on.
    pub fn read(self, wanted: ArgsWanted, mut emit: impl FnMut(TrackItem<'_>) -> bool) -> Summary {
        let mut reader = Reader { budget: self.budget, events: Events::new(wanted) };
        let mut packets = Packets::new(self.bytes);
        let stop = loop {
            match packets.next() {
                Ok(Some((packet, offset))) => reader.packet(packet, offset, false, &mut emit),
                Ok(None) => break None,
                Err(stop) => break Some(stop),
            }
            if reader.events.is_stopped {
                break None;
            }
        };
        let offset = packets.offset();
        let failure = if reader.events.is_stopped { None } else { packets.finish() };
        let damage = &mut reader.events.summary.damage;
        let rest = packets.bytes() - offset;
        match stop {
            Some(Stop::CutOff) if failure.is_none() => damage.lose(Damage::Truncated, Some(offset), rest),
            Some(Stop::Broken) => damage.lose(Damage::PacketStructure, Some(offset), rest),
            _ => {}
        }
        if let Some(error) = failure {
            reader.fail(error);
        }
        Summary { text_bytes: packets.bytes(), ..reader.events.finish(&mut emit) }
    }
}

#[derive(Debug)]
struct Reader {
    budget: Budget,
    events: Events,
}

impl Reader {
    fn fail(&mut self, error: io::Error) {
        let summary = &mut self.events.summary;
        if let Some(failure) = PackedFailure::find_in(&error) {
            let (kind, offset) = failure.damage();
            summary.damage.count(kind, offset);
        }
        summary.failure = Some(error);
    }

    /// Reads a packet. Packets in a compressed one may not be compressed themselves: Perfetto never writes that.
    fn packet(&mut self, message: &[u8], offset: u64, is_packed: bool, emit: &mut impl Emit) {
        self.events.summary.elements += 1;
        let result = TracePacket::read(message).and_then(|packet| match packet.packed {
            Some(_) if is_packed => Err(Malformed),
            Some(bytes) => self.unpack(bytes, offset, emit),
            None => self.events.packet(&packet, offset, emit),
        });
        if result.is_err() {
            self.events.summary.damage.count(Damage::PacketSyntax, Some(offset));
        }
    }

    /// Reads the packets that are compressed in one. Together they may be as long as one packet, and count as text, or a small packet could
    /// decompress to more than there is memory or time for.
    fn unpack(&mut self, bytes: &[u8], offset: u64, emit: &mut impl Emit) -> Result<(), Malformed> {
        let text: Box<dyn Read + '_> = match bytes {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Decoder::with_buffer(bytes).map_err(|_| Malformed)?),
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(bytes)),
            _ => Box::new(OneStream(ZlibDecoder::new(bytes))),
        };
        let mut packets = Packets::new(Limited::new(text, self.budget.clone()).take(MAX_PACKET));
        let is_whole = loop {
            match packets.next() {
                Ok(Some((message, _))) => self.packet(message, offset, true, emit),
                Ok(None) => break packets.failure.is_none(),
                Err(_) => break false,
            }
            if self.events.is_stopped {
                return Ok(());
            }
        };
        if let Some(error) = packets.failure.take_if(|error| LimitReached::find_in(error).is_some()) {
            self.fail(error);
            self.events.is_stopped = true;
        } else if packets.bytes() >= MAX_PACKET {
            self.events.summary.damage.count(Damage::PacketTooLong, Some(offset));
        } else if !is_whole {
            return Err(Malformed);
        }
        Ok(())
    }
}

/// A zlib stream. Bytes after it are an error: nothing would read them.
struct OneStream<'a>(ZlibDecoder<&'a [u8]>);

impl Read for OneStream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 if !buf.is_empty() && !self.0.get_ref().is_empty() => Err(io::ErrorKind::InvalidData.into()),
            read => Ok(read),
        }
    }
}
