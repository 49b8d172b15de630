//! Splits a stream of bytes into packets.
//!
//! A trace is one message whose field 1 is repeated, so that it is never whole in memory. A window of it is kept, with the current
//! packet in one piece. Bytes that turn out not to be a packet can be searched again without being copied.

use std::io::{self, Read};
use std::ops::Range;

use super::recover::{Search, Seen};
use super::sniff::PACKET;
use super::wire::{Kind, tag, varint};

/// The longest packet. Perfetto's own have some KiB, and none is longer than its shared memory; the packets compressed into one have
/// some MiB.
pub(super) const MAX_PACKET: u64 = 256 << 20;

/// A trace has no other fields; a longer one is damage.
const MAX_OTHER: u64 = 1 << 20;

/// Bytes are read in blocks of at least this size.
const BLOCK: usize = 256 * 1024;

/// A field's number and type, and its number or length.
const MAX_HEAD: usize = 2 * MAX_VARINT;
const MAX_VARINT: usize = 10;

/// Reads packets.
pub(super) struct Packets<R> {
    source: R,
    window: Vec<u8>,
    /// The position in the window.
    at: usize,
    /// The offset of the window.
    passed: u64,
    /// Nothing follows the window.
    is_all: bool,
    /// The error that ended the source.
    failure: Option<io::Error>,
    search: Search,
}

/// What is next in the stream.
pub(super) enum Next<'a> {
    /// A packet and its offset.
    Packet(&'a [u8], u64),
    /// The offset of a packet that claims to be longer than [`MAX_PACKET`].
    TooLong(u64),
    /// The end of the stream.
    End,
    /// The offset of a field in which the stream ends.
    CutOff(u64),
    /// The offset of bytes that are not a field, or a field of an unknown type.
    Broken(u64),
    /// Reading failed.
    Failed(io::Error),
}

/// Why a field is not whole.
enum Stop {
    CutOff,
    Broken,
    TooLong,
}

/// The beginning of a field.
struct Head {
    is_packet: bool,
    /// Its own length, and that of the text or message after it.
    takes: usize,
    length: usize,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(source: R) -> Self {
        let window = Vec::with_capacity(BLOCK);
        Packets { source, window, at: 0, passed: 0, is_all: false, failure: None, search: Search::default() }
    }

    /// How many bytes have been read.
    pub(super) fn bytes(&self) -> u64 {
        self.passed + self.window.len() as u64
    }

    fn offset(&self) -> u64 {
        self.passed + self.at as u64
    }

    /// The next packet that is not empty. Other fields of the trace are skipped. Bytes that are not a whole field stay.
    pub(super) fn next(&mut self) -> Next<'_> {
        loop {
            let start = self.offset();
            match self.field() {
                Ok(Some((true, message))) if !message.is_empty() => return Next::Packet(&self.window[message], start),
                Ok(Some(_)) => {}
                Ok(None) => return self.failure.take().map_or(Next::End, Next::Failed),
                Err(Stop::TooLong) => return Next::TooLong(start),
                Err(Stop::Broken) => return Next::Broken(start),
                Err(Stop::CutOff) => return self.failure.take().map_or(Next::CutOff(start), Next::Failed),
            }
        }
    }

    /// Goes on to where the list does, after bytes that are not a whole packet. Returns whether it does. With `may_be_short` one or two
    /// packets at the end of the file are enough.
    pub(super) fn find_next(&mut self, may_be_short: bool) -> io::Result<bool> {
        self.at = (self.at + 1).min(self.window.len());
        self.search.start(self.offset());
        loop {
            let is_end = self.is_all && may_be_short && self.failure.is_none();
            let (skipped, found) = self.search.look(&self.window[self.at..], self.is_all, is_end);
            self.at += skipped;
            match found {
                Seen::List => return Ok(true),
                Seen::Nothing => return self.failure.take().map_or(Ok(false), Err),
                Seen::Needs(bytes) => self.fill(bytes),
            };
        }
    }

    /// The next field: whether it is a packet, and the range of its text or message in the window.
    fn field(&mut self) -> Result<Option<(bool, Range<usize>)>, Stop> {
        if self.fill(MAX_HEAD) == 0 {
            return Ok(None);
        }
        let Head { is_packet, takes, length } = head(&self.window[self.at..])?;
        if self.fill(takes + length) < takes + length {
            return Err(Stop::CutOff);
        }
        let start = self.at + takes;
        self.at = start + length;
        Ok(Some((is_packet, start..self.at)))
    }

    /// Reads until the window has this many bytes, or all. Returns how many there are. Bytes before the position are dropped when they
    /// are at least as many as the rest, so each byte is moved only a few times. Memory grows with the bytes that there are, not with
    /// the claimed length.
    fn fill(&mut self, bytes: usize) -> usize {
        while !self.is_all && self.window.len() - self.at < bytes {
            let left = self.window.len() - self.at;
            if self.at >= left {
                self.window.drain(..self.at);
                self.passed += self.at as u64;
                self.at = 0;
            }
            let more = (bytes - left).max(BLOCK) as u64;
            match self.source.by_ref().take(more).read_to_end(&mut self.window) {
                Ok(read) => self.is_all = (read as u64) < more,
                // The bytes before the error are in the window, and come first.
                Err(error) => (self.is_all, self.failure) = (true, Some(error)),
            }
        }
        self.window.len() - self.at
    }
}

fn head(bytes: &[u8]) -> Result<Head, Stop> {
    let mut rest = bytes;
    let number = |rest: &mut &[u8]| match varint(rest) {
        Some(number) => Ok(number),
        None if rest.len() < MAX_VARINT => Err(Stop::CutOff),
        None => Err(Stop::Broken),
    };
    let (field, kind) = tag(number(&mut rest)?).ok_or(Stop::Broken)?;
    let length = match kind {
        Kind::Varint => number(&mut rest).map(|_| 0)?,
        Kind::Fixed64 => 8,
        Kind::Fixed32 => 4,
        Kind::Bytes => number(&mut rest)?,
    };
    // A field of another type with the number of packets is not a packet.
    let is_packet = field == PACKET && kind == Kind::Bytes;
    match length {
        length if is_packet && length > MAX_PACKET => Err(Stop::TooLong),
        length if !is_packet && length > MAX_OTHER => Err(Stop::Broken),
        length => Ok(Head { is_packet, takes: bytes.len() - rest.len(), length: length as usize }),
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
    fn packets_are_split() {
        assert_eq!(read(b"\x0a\x01a\x0a\x00\x0a\x02bc"), ["0 [97]", "5 [98, 99]"]);
        // Other fields: a varint, eight bytes, four bytes, a text.
        assert_eq!(read(b"\x10\x80\x01\x1112345678\x1d1234\x22\x02xy\x0a\x01a"), ["21 [97]"]);
        assert_eq!(read(b"\x0a\x01a\x0a\x05bc"), ["0 [97]", "3 cut off"]);
        assert_eq!(read(b"\x0a\x01a\x0a"), ["0 [97]", "3 cut off"]);
        assert_eq!(read(b"\x0a\x01a\x0b\x01"), ["0 [97]", "3 broken"]);
        assert_eq!(read(b"\x0a\x01a\x00"), ["0 [97]", "3 broken"]);
        assert_eq!(read(b""), [""; 0]);
    }

    /// Packets of a timestamp, which numbers them, and a sequence.
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
        for after in [0, length] {
            let mut packets = Packets::new(head.chain(io::repeat(0).take(after)).chain(&list[..]));
            assert!(matches!(packets.next(), Next::TooLong(0)));
            assert!(packets.find_next(true).unwrap());
            assert!(matches!(packets.next(), Next::Packet([0x40, 1, ..], at) if at == after + 6));
        }
    }

    #[test]
    fn the_list_goes_on_after_damage() {
        let goes_on = |damage: &[u8]| {
            let bytes = [&b"\x0a\x01a"[..], damage, &list(1), &list(4)].concat();
            let mut packets = Packets::new(&bytes[..]);
            assert!(matches!(packets.next(), Next::Packet(b"a", 0)));
            assert!(matches!(packets.next(), Next::Broken(3) | Next::CutOff(3) | Next::TooLong(3)), "{damage:?}");
            assert!(packets.find_next(true).unwrap(), "{damage:?}");
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
        // A part of a packet that was cut off is not a packet.
        let cut = [&list(1)[..], b"\x0a\x7f", &list(4)[..12]].concat();
        let mut packets = Packets::new(&cut[..]);
        (0..3).for_each(|_| assert!(matches!(packets.next(), Next::Packet(..))));
        assert!(matches!(packets.next(), Next::CutOff(18)));
        assert!(!packets.find_next(false).unwrap());
        assert_eq!(packets.bytes(), cut.len() as u64);
    }

    /// Counts the bytes that are read.
    struct Counted<'a>(&'a [u8], u64);

    impl Read for Counted<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buf)?;
            self.1 += read as u64;
            Ok(read)
        }
    }

    /// Each false length reaches beyond the end. The bytes after it are read once and never moved.
    #[test]
    fn what_is_read_for_a_false_length_stays() {
        let bytes = [list(1), b"\x0a\xff\xff\xff\x7f".to_vec()].concat().repeat(20_000);
        let mut packets = Packets::new(Counted(&bytes, 0));
        let (mut found, mut damage, mut window) = (0, 0, None);
        loop {
            match packets.next() {
                Next::Packet(..) => found += 1,
                Next::End => break,
                Next::CutOff(_) => {
                    damage += 1;
                    if !packets.find_next(false).unwrap() {
                        break;
                    }
                    let here = (packets.window.as_ptr(), packets.window.len());
                    assert_eq!(*window.get_or_insert(here), here);
                }
                _ => panic!("the lengths are allowed"),
            }
        }
        assert_eq!((found, damage, packets.source.1), (60_000, 20_000, bytes.len() as u64));
    }

    /// A whole packet at the end is one, unless the file was cut off in the packet around it.
    #[test]
    fn the_last_packets_need_none_after_them() {
        for n in 1..3 {
            let bytes = [&b"\x0a\x01a\x00"[..], &list(1)[..6 * n]].concat();
            for (may_be_short, left) in [(true, n), (false, 0)] {
                let mut packets = Packets::new(&bytes[..]);
                assert!(matches!(packets.next(), Next::Packet(b"a", 0)));
                assert!(matches!(packets.next(), Next::Broken(3)));
                assert_eq!(packets.find_next(may_be_short).unwrap(), left > 0);
                (0..left).for_each(|_| assert!(matches!(packets.next(), Next::Packet(..))));
                assert!(matches!(packets.next(), Next::End));
            }
        }
    }

    /// Whole packets before an error come first.
    #[test]
    fn a_failure_comes_after_what_was_read() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::TimedOut.into())
            }
        }
        let mut packets = Packets::new(b"\x0a\x01a\x0a\x02b".chain(Fails));
        assert!(matches!(packets.next(), Next::Packet(b"a", 0)));
        assert!(matches!(packets.next(), Next::Failed(error) if error.kind() == io::ErrorKind::TimedOut));
    }
}
