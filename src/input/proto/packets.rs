//! Cutting a stream of bytes into packets.
//!
//! A trace is one message whose field 1 is repeated, so that it can be written and read without ever being whole in memory. Here
//! only one packet is held at a time.

use std::io::{self, BufRead, BufReader, Read};

use super::wire::{Kind, tag};

/// The field of a trace that holds its packets.
pub(super) const PACKET: u32 = 1;

/// A packet that says it is longer is passed over unread. Perfetto's own are of some KiB, and none may be longer in its shared memory
/// than that is; what is compressed into one packet is some MiB.
pub(super) const MAX_PACKET: u64 = 256 << 20;

/// Bytes are read in pieces of this size.
const BLOCK: usize = 256 * 1024;

/// Reads packets.
pub(super) struct Packets<R> {
    source: BufReader<R>,
    offset: u64,
    packet: Vec<u8>,
}

/// What comes next.
pub(super) enum Next<'a> {
    /// A packet, and where it begins.
    Packet(&'a [u8], u64),
    /// One that says it is longer than [`MAX_PACKET`]; it was passed over.
    TooLong(u64),
    /// Nothing.
    End,
    /// An end in the middle of what begins here.
    CutOff(u64),
    /// No field begins here, or one of a type that there is not.
    Broken(u64),
    /// Reading failed.
    Failed(io::Error),
}

/// Why there is no whole field.
enum Stop {
    CutOff,
    Broken,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Failed(error)
    }
}

impl<R: Read> Packets<R> {
    pub(super) fn new(source: R) -> Self {
        Packets { source: BufReader::with_capacity(BLOCK, source), offset: 0, packet: Vec::new() }
    }

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next packet that is not empty. Other fields of the trace are passed over.
    pub(super) fn next(&mut self) -> Next<'_> {
        loop {
            let start = self.offset;
            match self.field() {
                Ok(None) => return Next::End,
                Ok(Some(Found::Packet)) if self.packet.is_empty() => {}
                Ok(Some(Found::Packet)) => return Next::Packet(&self.packet, start),
                Ok(Some(Found::TooLong)) => return Next::TooLong(start),
                Ok(Some(Found::Other)) => {}
                Err(Stop::CutOff) => return Next::CutOff(start),
                Err(Stop::Broken) => return Next::Broken(start),
                Err(Stop::Failed(error)) => return Next::Failed(error),
            }
        }
    }

    fn field(&mut self) -> Result<Option<Found>, Stop> {
        if self.is_over()? {
            return Ok(None);
        }
        let (number, kind) = tag(self.varint()?).ok_or(Stop::Broken)?;
        let length = match kind {
            Kind::Varint => {
                self.varint()?;
                return Ok(Some(Found::Other));
            }
            Kind::Fixed64 => 8,
            Kind::Fixed32 => 4,
            Kind::Bytes => self.varint()?,
        };
        if number != PACKET || kind != Kind::Bytes {
            self.pass(length)?;
            return Ok(Some(Found::Other));
        }
        if length > MAX_PACKET {
            self.pass(length)?;
            return Ok(Some(Found::TooLong));
        }
        // The memory grows with what there is, not with what was promised.
        self.packet.clear();
        let read = self.source.by_ref().take(length).read_to_end(&mut self.packet)? as u64;
        self.offset += read;
        if read < length { Err(Stop::CutOff) } else { Ok(Some(Found::Packet)) }
    }

    fn is_over(&mut self) -> Result<bool, Stop> {
        loop {
            match self.source.fill_buf() {
                Ok(bytes) => return Ok(bytes.is_empty()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for at in 0..10 {
            if self.is_over()? {
                return Err(Stop::CutOff);
            }
            // `is_over` has filled the buffer.
            let byte = self.source.buffer()[0];
            self.source.consume(1);
            self.offset += 1;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::Broken)
    }

    fn pass(&mut self, length: u64) -> Result<(), Stop> {
        let passed = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
        self.offset += passed;
        if passed < length { Err(Stop::CutOff) } else { Ok(()) }
    }
}

/// A field of the trace.
enum Found {
    /// A packet, now in the buffer.
    Packet,
    TooLong,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<String> {
        let mut packets = Packets::new(bytes);
        let mut found = Vec::new();
        loop {
            match packets.next() {
                Next::Packet(packet, at) => found.push(format!("{at} {packet:?}")),
                Next::TooLong(at) => found.push(format!("{at} too long")),
                Next::CutOff(at) => return [found, vec![format!("{at} cut off")]].concat(),
                Next::Broken(at) => return [found, vec![format!("{at} broken")]].concat(),
                Next::End => return found,
                Next::Failed(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn packets_are_cut() {
        assert_eq!(read(b"\x0a\x01a\x0a\x00\x0a\x02bc"), ["0 [97]", "5 [98, 99]"]);
        // Other fields: a varint, eight bytes, four bytes, a text.
        assert_eq!(read(b"\x10\x80\x01\x1112345678\x1d1234\x22\x02xy\x0a\x01a"), ["21 [97]"]);
        assert_eq!(read(b"\x0a\x01a\x0a\x05bc"), ["0 [97]", "3 cut off"]);
        assert_eq!(read(b"\x0a\x01a\x0a"), ["0 [97]", "3 cut off"]);
        assert_eq!(read(b"\x0a\x01a\x0b\x01"), ["0 [97]", "3 broken"]);
        assert_eq!(read(b"\x0a\x01a\x00"), ["0 [97]", "3 broken"]);
        assert_eq!(read(b""), [""; 0]);
    }

    #[test]
    fn a_packet_may_be_too_long() {
        let length = MAX_PACKET + 1;
        let mut head = vec![0x0a];
        head.extend([length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8 | 0x80]);
        head.extend([(length >> 21) as u8 | 0x80, (length >> 28) as u8]);
        assert_eq!(read(&head), ["0 cut off"]);
        let whole = io::Cursor::new(head).chain(io::repeat(0).take(length)).chain(&b"\x0a\x01a"[..]);
        let mut packets = Packets::new(whole);
        assert!(matches!(packets.next(), Next::TooLong(0)));
        assert!(matches!(packets.next(), Next::Packet(b"a", at) if at == length + 6));
    }
}
