//! Telling a list of packets by its first bytes.

use super::packets::PACKET;
use super::wire::{Kind, tag, varint};

/// Whether a file that begins so is a list of packets. Field 1 is a newline to who reads text, so JSON that begins with one has to
/// be told apart: it fits no packets, and it has no control characters, which packets cannot do without (the numbers of clocks
/// and the types of events are some).
pub(in crate::input) fn begins(head: &[u8]) -> bool {
    let is_text = || head.iter().all(|byte| byte.is_ascii_whitespace() || *byte >= b' ');
    head.first() == Some(&0x0a) && frames(head) && !is_text()
}

/// Whether the first packet that is not empty consists of fields, as far as the bytes go.
fn frames(head: &[u8]) -> bool {
    let mut rest = head;
    loop {
        let Some((number, kind)) = varint(&mut rest).and_then(tag) else { return false };
        let length = match kind {
            Kind::Varint => varint(&mut rest).map(|_| 0),
            Kind::Fixed64 => Some(8),
            Kind::Fixed32 => Some(4),
            // The length itself may be cut off.
            Kind::Bytes => Some(varint(&mut rest).unwrap_or(u64::MAX)),
        };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else { return false };
        let (packet, behind) = rest.split_at(length.min(rest.len()));
        if number == PACKET && kind == Kind::Bytes && length > 0 {
            return has_fields(packet, packet.len() == length);
        }
        rest = behind;
    }
}

/// Whether a packet, or the beginning of one, consists of fields. Its first two fields are messages, which tells it from the
/// format of pprof, whose messages begin with numbers.
fn has_fields(packet: &[u8], is_whole: bool) -> bool {
    let mut rest = packet;
    while !rest.is_empty() {
        let Some(read) = varint(&mut rest) else { return !is_whole };
        let Some((number, kind)) = tag(read) else { return false };
        if number <= 2 && kind != Kind::Bytes {
            return false;
        }
        let length = match kind {
            Kind::Varint => {
                if varint(&mut rest).is_none() {
                    return !is_whole;
                }
                continue;
            }
            Kind::Fixed64 => 8,
            Kind::Fixed32 => 4,
            Kind::Bytes => match varint(&mut rest) {
                Some(length) => length,
                None => return !is_whole,
            },
        };
        match usize::try_from(length).ok().and_then(|length| rest.get(length..)) {
            Some(behind) => rest = behind,
            None => return !is_whole,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_from_json() {
        // A packet of a timestamp and a sequence; one of 123 bytes, whose length is a brace.
        assert!(!begins(b"\x0a\x04\x08\x01\x50\x02"), "field 1 is a message, not a number");
        assert!(begins(b"\x0a\x04\x40\x01\x50\x02"));
        assert!(begins(b"\x0a\x04\x40\x01\x50\x02\x0a"));
        let long = [&b"\x0a\x7b\x40\x01\x5a\x77"[..], &[b'x'; 119], b"\x0a\x02\x50\x01"].concat();
        assert!(begins(&long));
        assert!(begins(&long[..60]), "a head may end anywhere");
        for text in
            ["\n{\"traceEvents\":[]}", "\n[{\"ph\":\"X\"}]", "\n  [", "\n", "{}", "\n{\"a\":1}", "\nname, value\n"]
        {
            assert!(!begins(text.as_bytes()), "{text:?}");
        }
        let json = format!("\n{{\"schemaVersion\":1,\"traceEvents\":[{}]}}", "{\"ph\":\"X\"},".repeat(60));
        assert!(!begins(&json.as_bytes()[..512]));
    }
}
