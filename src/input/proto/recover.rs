//! Finding where a list of packets goes on behind damage.
//!
//! Nothing marks the beginning of a packet: it is a newline and a length, which occur within packets, too. So the list
//! is said to go on where several packets follow each other, each of which consists of whole fields, has the types that
//! Perfetto gives to those that we know, and says something that only packets say. The entries of lists within packets,
//! which are written the same way, say nothing of that.
//!
//! The work is linear in the bytes passed over, whatever they are: looking into a place costs work, passing a byte over
//! gives some, and where there is none left a place is not looked into.

use std::io::{self, Read};

use super::packet::looks_like_packet;
use super::wire::varint;

/// So many packets in a row are taken for the list.
const CHAIN: usize = 3;

/// They have to lie within so many bytes.
const MAX_CHAIN: usize = 64 << 20;

/// So many bytes are read at first: mostly the next packets are near.
const FIRST: usize = 1 << 10;

/// How many fields may be looked at for each byte that was passed over, and in advance.
const WORK_PER_BYTE: usize = 8;
const WORK_IN_ADVANCE: usize = 1 << 20;

/// What a place is.
enum Place {
    /// The list goes on here.
    Chain,
    Nothing,
    /// More bytes are needed to say that: so many from here in all.
    Needs(usize),
}

/// Looks for the next packet in `window`, from its second byte on, and in what follows it. Where it begins in the
/// window, which then ends where the source goes on; `None` at the source's end. `passed` counts the bytes before the
/// window.
pub(super) fn find(window: &mut Vec<u8>, passed: &mut u64, source: &mut impl Read) -> io::Result<Option<usize>> {
    let (mut at, mut work, mut is_all) = (1, WORK_IN_ADVANCE, false);
    loop {
        let rest = window.get(at..).unwrap_or_default();
        let skipped = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        at += skipped;
        work = work.saturating_add((skipped + 1) * WORK_PER_BYTE);
        let needed = match window.get(at..) {
            None | Some([]) => 1,
            Some(rest) => match place(rest, &mut work) {
                Place::Chain => return Ok(Some(at)),
                Place::Needs(needed) if !is_all && needed <= MAX_CHAIN => needed,
                _ => {
                    at += 1;
                    continue;
                }
            },
        };
        if is_all {
            return Ok(None);
        }
        let kept = at.min(window.len());
        window.drain(..kept);
        *passed += kept as u64;
        at -= kept;
        // As much as there is, at least: so each byte is moved a few times only.
        let more = needed.saturating_sub(window.len()).max(window.len()).max(FIRST) as u64;
        is_all = (source.by_ref().take(more).read_to_end(window)? as u64) < more;
    }
}

fn place(bytes: &[u8], work: &mut usize) -> Place {
    let mut rest = bytes;
    for _ in 0..CHAIN {
        let Some((b'\n', mut behind)) = rest.split_first().map(|(tag, behind)| (*tag, behind)) else {
            return if rest.is_empty() { Place::Needs(bytes.len() + 1) } else { Place::Nothing };
        };
        let Some(length) = varint(&mut behind) else {
            return if behind.len() < 10 { Place::Needs(bytes.len() + 1) } else { Place::Nothing };
        };
        let Some(length) = usize::try_from(length).ok().filter(|length| (1..=MAX_CHAIN).contains(length)) else {
            return Place::Nothing;
        };
        let Some((packet, next)) = behind.split_at_checked(length) else {
            return Place::Needs(bytes.len() - behind.len() + length);
        };
        if !looks_like_packet(packet, work) {
            return Place::Nothing;
        }
        rest = next;
    }
    Place::Chain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of a timestamp and a sequence.
    const PACKET: &[u8] = b"\x0a\x04\x40\x01\x50\x02";

    fn search(parts: &[&[u8]]) -> Option<u64> {
        let bytes = parts.concat();
        let (mut window, mut passed) = (bytes[..bytes.len().min(2)].to_vec(), 0);
        let mut rest = &bytes[window.len()..];
        let found = find(&mut window, &mut passed, &mut rest).unwrap();
        found.map(|at| passed + at as u64)
    }

    #[test]
    fn three_packets_are_the_list() {
        assert_eq!(search(&[b"garbage", PACKET, PACKET, PACKET]), Some(7));
        assert_eq!(search(&[b"garbage", PACKET, PACKET]), None);
        assert_eq!(search(&[b"garbage", PACKET, PACKET, b"\x0a\x00", PACKET, PACKET]), None);
        assert_eq!(search(&[PACKET, PACKET, PACKET, PACKET]), Some(6), "not where the damage is");
        // The entries of a list of names, within a packet that has lost its head.
        let names = b"\x0a\x05\x08\x01\x12\x01a".repeat(5);
        assert_eq!(search(&[b"x", &names, PACKET, PACKET, PACKET]), Some(36));
        // Beyond what is read at once.
        let long = [&b"\x0a\xc0\x84\x3d\x50\x02\x0a"[..], &[0xba, 0x84, 0x3d], &vec![7; 999_994]].concat();
        assert_eq!(search(&[b"x", &long, PACKET, PACKET]), Some(1));
    }

    /// Each byte may begin a packet that is as long as may be. Would they all be looked into, this would take hours.
    #[test]
    fn hostile_bytes_take_no_longer() {
        let claims = b"\x0a\x80\x80\x80\x10".repeat(1 << 21);
        assert_eq!(search(&[&claims]), None);
        let nested = b"\x0a\x80\x80\x40\x50\x01\x50\x01\x50\x01\x50\x01".repeat(1 << 20);
        assert_eq!(search(&[&nested]), None);
    }
}
