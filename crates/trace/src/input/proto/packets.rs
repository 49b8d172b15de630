//! Splits a stream of bytes into packets.
//!
//! A trace is one message whose field 1 is repeated. Memory holds a window of it, with the current packet in one piece. Nothing marks the
//! beginning of a packet: after bytes that are no whole field, the list is over, as in Perfetto.

use std::io::{self, Read};

use super::wire::{Head, MAX_HEAD, Stop};

pub(super) const PACKET: u32 = 1;

/// The longest packet. Perfetto's own have some KiB, the packets compressed into one some MiB.
pub(super) const MAX_PACKET: u64 = 256 << 20;

/// A trace has no other fields; a longer one is damage.
const MAX_OTHER: u64 = 1 << 20;

/// Bytes are read in blocks of at least this size.
const BLOCK: usize = 256 * 1024;

pub(super) struct Packets<R> {
    source: R,
    window: Vec<u8>,
    at: usize,
    /// The offset of the window.
    passed: u64,
    /// Nothing follows the window.
    is_all: bool,
    pub(super) failure: Option<io::Error>,
}

impl<R: Read> Packets<R> {
    pub(super) fn new(source: R) -> Self {
        let window = Vec::with_capacity(BLOCK);
        Packets { source, window, at: 0, passed: 0, is_all: false, failure: None }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.passed + self.window.len() as u64
    }

    pub(super) fn offset(&self) -> u64 {
        self.passed + self.at as u64
    }

    /// The next packet that is not empty, and its offset; `None` at the end. Other fields of the trace are skipped.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u64)>, Stop> {
        loop {
            let offset = self.offset();
            if self.fill(MAX_HEAD) == 0 {
                return Ok(None);
            }
            let Head { number, is_bytes, takes, length } = Head::read(&self.window[self.at..])?;
            // A field of another type with the number of packets is not a packet.
            let is_packet = number == PACKET && is_bytes;
            if length > if is_packet { MAX_PACKET } else { MAX_OTHER } {
                return Err(Stop::Broken);
            }
            let takes_all = takes + length as usize;
            if self.fill(takes_all) < takes_all {
                return Err(Stop::CutOff);
            }
            let message = self.at + takes..self.at + takes_all;
            self.at = message.end;
            if is_packet && !message.is_empty() {
                return Ok(Some((&self.window[message], offset)));
            }
        }
    }

    /// Reads to the end. Returns the error that ended the source.
    pub(super) fn finish(&mut self) -> Option<io::Error> {
        while !self.is_all {
            self.at = self.window.len();
            self.fill(1);
        }
        self.failure.take()
    }

    /// Reads until the window has this many bytes, or all. Returns how many there are. Bytes before the position are dropped when they are at
    /// least as many as the rest, so each byte is moved only a few times. Memory grows with the bytes there are, not with the claimed length.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<String> {
        let (mut packets, mut found) = (Packets::new(bytes), Vec::new());
        loop {
            match packets.next() {
                Ok(Some((packet, at))) => found.push(format!("{at} {packet:?}")),
                Ok(None) => return found,
                Err(stop) => {
                    found.push(format!("{} {stop:?}", packets.offset()));
                    assert!(packets.finish().is_none() && packets.bytes() == bytes.len() as u64);
                    return found;
                }
            }
        }
    }

    #[test]
    fn packets_are_split() {
        assert_eq!(read(b"\x0a\x01a\x0a\x00\x0a\x02bc"), ["0 [97]", "5 [98, 99]"]);
        // Other fields: a varint, eight bytes, four bytes, a text.
        assert_eq!(read(b"\x10\x80\x01\x1112345678\x1d1234\x22\x02xy\x0a\x01a"), ["21 [97]"]);
        assert_eq!(read(b""), [""; 0]);
        for cut_off in [&b"\x0a\x05bc"[..], b"\x0a", b"\x0a\xff", b"\x0a\xff\x7f\x0a\x01a", b"\x12\xff\x7f"] {
            assert_eq!(read(&[b"\x0a\x01a", cut_off].concat()), ["0 [97]", "3 CutOff"], "{cut_off:?}");
        }
        // No type, no number, a number without end, lengths beyond all limits.
        let endless = [0xff; 11];
        for broken in [&b"\x0b\x01"[..], b"\x00", &endless, b"\x0a\xff\xff\xff\xff\x7f", b"\x12\xff\xff\x7f"] {
            assert_eq!(read(&[b"\x0a\x01a", broken, b"\x0a\x01a"].concat()), ["0 [97]", "3 Broken"], "{broken:?}");
        }
        // What follows may be longer than a block.
        assert_eq!(read(&[&b"\x0a\x01a"[..], &vec![0; 3 * BLOCK], b"\x0a\x01a"].concat()), ["0 [97]", "3 Broken"]);
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
        assert_eq!(packets.next(), Ok(Some((&b"a"[..], 0))));
        assert_eq!(packets.next(), Err(Stop::CutOff));
        assert!(packets.finish().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut));
    }
}
