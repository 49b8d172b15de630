//! Cutting a stream of bytes into packets.
//!
//! A trace is one message whose field 1 is repeated, so that it can be written and read without ever being whole in
//! memory. Here only one packet is held at a time.

use std::io::{self, Read};

use super::ahead::Ahead;
use super::recover;
use super::wire::{Kind, tag};

/// The field of a trace that holds its packets.
pub(super) const PACKET: u32 = 1;

/// A packet that says it is longer is none. Perfetto's own are of some KiB, and none may be longer in its shared memory
/// than that is; what is compressed into one packet is some MiB.
pub(super) const MAX_PACKET: u64 = 256 << 20;

/// A trace has no other fields; one that is longer than this is damage.
const MAX_OTHER: u64 = 1 << 20;

/// Reads packets.
pub(super) struct Packets<R> {
    source: Ahead<R>,
    offset: u64,
    /// The bytes of the field's number, type and length.
    head: Vec<u8>,
    packet: Vec<u8>,
}

/// What comes next.
pub(super) enum Next<'a> {
    /// A packet, and where it begins.
    Packet(&'a [u8], u64),
    /// One that says it is longer than [`MAX_PACKET`].
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
    TooLong,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Failed(error)
    }
}

impl<R: Read> Packets<R> {
    pub(super) fn new(source: R) -> Self {
        Packets { source: Ahead::new(source), offset: 0, head: Vec::new(), packet: Vec::new() }
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
                Ok(Some(PACKET)) if self.packet.is_empty() => {}
                Ok(Some(PACKET)) => return Next::Packet(&self.packet, start),
                Ok(Some(_)) => {}
                Err(Stop::TooLong) => return Next::TooLong(start),
                Err(Stop::CutOff) => return Next::CutOff(start),
                Err(Stop::Broken) => return Next::Broken(start),
                Err(Stop::Failed(error)) => return Next::Failed(error),
            }
        }
    }

    /// Behind a place where no whole packet is: goes on to where the list does, if it does.
    pub(super) fn find_next(&mut self) -> io::Result<bool> {
        let mut window = std::mem::take(&mut self.head);
        window.append(&mut self.packet);
        let mut passed = self.offset - window.len() as u64;
        let found = recover::find(&mut window, &mut passed, &mut self.source)?;
        self.offset = passed + found.unwrap_or(window.len()) as u64;
        if let Some(at) = found {
            self.source.give_back(window, at);
        }
        Ok(found.is_some())
    }

    /// The number of the next field; its text or message is in the buffer.
    fn field(&mut self) -> Result<Option<u32>, Stop> {
        self.head.clear();
        self.packet.clear();
        let Some(first) = self.source.next()? else { return Ok(None) };
        let (number, kind) = tag(self.varint(Some(first))?).ok_or(Stop::Broken)?;
        let length = match kind {
            Kind::Varint => {
                self.varint(None)?;
                0
            }
            Kind::Fixed64 => 8,
            Kind::Fixed32 => 4,
            Kind::Bytes => self.varint(None)?,
        };
        let is_packet = number == PACKET && kind == Kind::Bytes;
        match (is_packet, length) {
            (true, length) if length > MAX_PACKET => return Err(Stop::TooLong),
            (false, length) if length > MAX_OTHER => return Err(Stop::Broken),
            _ => {}
        }
        // The memory grows with what there is, not with what was promised.
        let read = self.source.by_ref().take(length).read_to_end(&mut self.packet)? as u64;
        self.offset += read;
        if read < length {
            return Err(Stop::CutOff);
        }
        // Another field that has the number of packets is none of them.
        Ok(Some(if is_packet { PACKET } else { 0 }))
    }

    fn varint(&mut self, first: Option<u8>) -> Result<u64, Stop> {
        let (mut value, mut first) = (0, first);
        for at in 0..10 {
            let byte = match first.take() {
                Some(byte) => byte,
                None => self.source.next()?.ok_or(Stop::CutOff)?,
            };
            self.head.push(byte);
            self.offset += 1;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::Broken)
    }
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

    /// Packets of a timestamp and a sequence: the first tells the others apart.
    fn list(first: u8) -> Vec<u8> {
        (first..first + 3).flat_map(|n| [0x0a, 4, 0x40, n, 0x50, 7]).collect()
    }

    #[test]
    fn a_packet_may_be_too_long() {
        let length = MAX_PACKET + 1;
        let mut head = vec![0x0a];
        head.extend([length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8 | 0x80]);
        head.extend([(length >> 21) as u8 | 0x80, (length >> 28) as u8]);
        let list = list(1);
        for behind in [0, length] {
            let mut packets = Packets::new(head.chain(io::repeat(0).take(behind)).chain(&list[..]));
            assert!(matches!(packets.next(), Next::TooLong(0)));
            assert!(packets.find_next().unwrap());
            assert!(matches!(packets.next(), Next::Packet([0x40, 1, ..], at) if at == behind + 6));
        }
    }

    #[test]
    fn the_list_goes_on_behind_damage() {
        let goes_on = |damage: &[u8]| {
            let bytes = [&b"\x0a\x01a"[..], damage, &list(1), &list(4)].concat();
            let mut packets = Packets::new(&bytes[..]);
            assert!(matches!(packets.next(), Next::Packet(b"a", 0)));
            assert!(matches!(packets.next(), Next::Broken(3) | Next::CutOff(3) | Next::TooLong(3)), "{damage:?}");
            assert!(packets.find_next().unwrap(), "{damage:?}");
            for n in 1..7 {
                let Next::Packet(packet, at) = packets.next() else { panic!("{damage:?}: {n}") };
                assert_eq!((packet[1], at), (n, (3 + damage.len() + 6 * (n as usize - 1)) as u64), "{damage:?}");
            }
            assert!(matches!(packets.next(), Next::End));
        };
        goes_on(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
        goes_on(b"\x00");
        goes_on(b"\x03garbage");
        // Lengths that are wrong: beyond the end, beyond all limits, of another field.
        goes_on(b"\x0a\xff\x7f");
        goes_on(b"\x0a\xff\xff\xff\xff\x7f");
        goes_on(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        goes_on(b"\x12\xff\xff\x7f");
        // What was cut off is no reason to take a part of it for a packet.
        let cut = [&list(1)[..], b"\x0a\x7f", &list(4)[..12]].concat();
        let mut packets = Packets::new(&cut[..]);
        (0..3).for_each(|_| assert!(matches!(packets.next(), Next::Packet(..))));
        assert!(matches!(packets.next(), Next::CutOff(18)));
        assert!(!packets.find_next().unwrap());
        assert_eq!(packets.offset(), cut.len() as u64);
    }
}
