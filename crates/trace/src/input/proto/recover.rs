//! Resynchronising: finds where a list of packets goes on after damage.
//!
//! Nothing marks the beginning of a packet: it is a newline and a length, which occur in packets, too. So the list goes on where
//! several packets follow each other, or the last ones end with the file. Each has to consist of whole fields, have Perfetto's types
//! in known fields, and have a field that only packets have. Lists in packets are written the same way, but lack such a field.
//!
//! The work is linear in the bytes of the file, whatever they are: each byte pays once for a few fields, and without work left a
//! candidate is not checked.

use super::packet::looks_like_packet;
use super::wire::varint;

/// How many packets in a row are taken for the list.
const CHAIN: usize = 3;

/// How many bytes they may take.
const MAX_CHAIN: usize = 64 << 20;

/// How many fields may be checked for each byte of the file, and in advance.
const WORK_PER_BYTE: usize = 8;
const WORK_IN_ADVANCE: usize = 1 << 20;

/// The result of checking a candidate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The list goes on here.
    List,
    /// It does not go on.
    Nothing,
    /// This many bytes from here on are needed to decide.
    Needs(usize),
}

/// Searches for the list after damage.
#[derive(Debug)]
pub(super) struct Search {
    /// How many fields may be checked.
    work: usize,
    /// The offset up to which the bytes of the file have paid.
    paid: u64,
}

impl Default for Search {
    fn default() -> Self {
        Search { work: WORK_IN_ADVANCE, paid: 0 }
    }
}

impl Search {
    /// Starts at an offset of the file.
    pub(super) fn start(&mut self, offset: u64) {
        let bytes = usize::try_from(offset.saturating_sub(self.paid)).unwrap_or(usize::MAX);
        self.work = self.work.saturating_add(bytes.saturating_mul(WORK_PER_BYTE));
        self.paid = self.paid.max(offset);
    }

    /// Returns how many bytes can be skipped, and the result for the candidate after them. With `is_all` no more bytes follow; with
    /// `is_end` they are the end of an undamaged file, where fewer packets are enough.
    pub(super) fn look(&mut self, bytes: &[u8], is_all: bool, is_end: bool) -> (usize, Seen) {
        let mut at = 0;
        loop {
            let before = at;
            at = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |skipped| at + skipped);
            self.pass(at - before);
            let seen = match &bytes[at..] {
                [] if is_all => return (at, Seen::Nothing),
                [] => Seen::Needs(1),
                rest => candidate(rest, is_end, &mut self.work),
            };
            match seen {
                Seen::Needs(needed) if is_all || needed > MAX_CHAIN => {}
                Seen::Nothing => {}
                seen => return (at, seen),
            }
            at += 1;
            self.pass(1);
        }
    }

    fn pass(&mut self, bytes: usize) {
        self.start(self.paid + bytes as u64);
    }
}

fn candidate(bytes: &[u8], is_end: bool, work: &mut usize) -> Seen {
    let mut rest = bytes;
    for found in 0..CHAIN {
        let Some((b'\n', mut after)) = rest.split_first().map(|(tag, after)| (*tag, after)) else {
            return match rest {
                [] if is_end && found > 0 => Seen::List,
                [] => Seen::Needs(bytes.len() + 1),
                _ => Seen::Nothing,
            };
        };
        let Some(length) = varint(&mut after) else {
            return if after.len() < 10 { Seen::Needs(bytes.len() + 1) } else { Seen::Nothing };
        };
        let Some(length) = usize::try_from(length).ok().filter(|length| (1..=MAX_CHAIN).contains(length)) else {
            return Seen::Nothing;
        };
        let Some((packet, next)) = after.split_at_checked(length) else {
            return Seen::Needs(bytes.len() - after.len() + length);
        };
        if !looks_like_packet(packet, work) {
            return Seen::Nothing;
        }
        rest = next;
    }
    Seen::List
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of a timestamp and a sequence.
    const PACKET: &[u8] = b"\x0a\x04\x40\x01\x50\x02";

    /// Where the list goes on after the first byte, if the bytes come in pieces of this size.
    fn search_in(bytes: &[u8], piece: usize, is_end: bool) -> Option<usize> {
        let (mut search, mut at, mut read) = (Search::default(), 1, 1);
        loop {
            let is_all = read >= bytes.len();
            let (skipped, seen) = search.look(&bytes[at.min(read)..read], is_all, is_all && is_end);
            at = at.min(read) + skipped;
            match seen {
                Seen::List => return Some(at),
                Seen::Nothing => return None,
                Seen::Needs(needed) => read = (at + needed.max(piece)).clamp(read + 1, bytes.len()),
            }
        }
    }

    fn search(parts: &[&[u8]]) -> Option<usize> {
        let bytes = parts.concat();
        let found = search_in(&bytes, 1 << 10, false);
        assert_eq!(found, search_in(&bytes, bytes.len(), false));
        found
    }

    #[test]
    fn three_packets_are_the_list() {
        assert_eq!(search(&[b"garbage", PACKET, PACKET, PACKET]), Some(7));
        assert_eq!(search(&[b"garbage", PACKET, PACKET]), None);
        assert_eq!(search(&[b"garbage", PACKET, PACKET, b"\x0a\x00", PACKET, PACKET]), None);
        assert_eq!(search(&[PACKET, PACKET, PACKET, PACKET]), Some(6), "not where the damage is");
        // The entries of a list of names, in a packet that has lost its head.
        let names = b"\x0a\x05\x08\x01\x12\x01a".repeat(5);
        assert_eq!(search(&[b"x", &names, PACKET, PACKET, PACKET]), Some(36));
        // Beyond what is read at once.
        let long = [&b"\x0a\xc0\x84\x3d\x50\x02\x0a"[..], &[0xba, 0x84, 0x3d], &vec![7; 999_994]].concat();
        assert_eq!(search(&[b"x", &long, PACKET, PACKET]), Some(1));
    }

    /// Each byte may begin a packet of the maximal length. To check them all would take hours.
    #[test]
    fn hostile_bytes_take_no_longer() {
        let claims = b"\x0a\x80\x80\x80\x10".repeat(1 << 21);
        assert_eq!(search(&[&claims]), None);
        let nested = b"\x0a\x80\x80\x40\x50\x01\x50\x01\x50\x01\x50\x01".repeat(1 << 20);
        assert_eq!(search(&[&nested]), None);
    }

    /// At the end of a file fewer are enough; a part of one is not.
    #[test]
    fn the_last_packets_are_the_list() {
        for piece in [1, 1 << 10] {
            assert_eq!(search_in(&[b"garbage", PACKET, PACKET].concat(), piece, true), Some(7));
            assert_eq!(search_in(&[b"garbage", PACKET].concat(), piece, true), Some(7));
            assert_eq!(search_in(&[b"garbage", PACKET, &PACKET[..5]].concat(), piece, true), None);
            assert_eq!(search_in(b"garbage", piece, true), None);
        }
    }

    /// Work that one search has used the next one lacks: each byte pays only once.
    #[test]
    fn work_is_given_once() {
        let list = PACKET.repeat(3);
        let mut search = Search { work: 5, paid: 100 };
        search.start(100);
        assert_eq!(candidate(&list, false, &mut search.work), Seen::Nothing, "six fields");
        let mut search = Search { work: 5, paid: 100 };
        search.start(101);
        assert_eq!(search.look(&list, false, false), (0, Seen::List));
        assert_eq!(search.work, 5 + 8 - 6);
        search.start(101);
        assert_eq!(search.work, 7);
    }
}
