//! How a list of packets is recognised.

use super::wire::{Kind, tag, varint};
use crate::input::reader::Fit;

/// The field of a trace that holds its packets.
pub(super) const PACKET: u32 = 1;

/// Field 1 begins with a newline for a reader of text, so JSON that begins with one has to be distinguished: it fits no packets,
/// and it has no control characters, which packets always have (the numbers of clocks and the types of events are some). A file
/// that begins with a newline, is not text and opens no JSON may be a list of packets whose first one is damaged: whole ones may
/// follow, and the reader of packets can say where it breaks.
pub(super) fn sniff(head: &[u8]) -> Fit {
    let is_text = || {
        // The head may end within a character.
        let is_utf8 = std::str::from_utf8(head).err().is_none_or(|error| error.error_len().is_none());
        is_utf8 && head.iter().all(|byte| byte.is_ascii_whitespace() || *byte >= b' ')
    };
    if head.first() != Some(&0x0a) || is_text() {
        return Fit::No;
    }
    let opens_json = matches!(head.trim_ascii_start().first(), Some(b'{' | b'['));
    match first_packet(head) {
        First::Packet => Fit::Sure,
        First::Nothing if !opens_json => Fit::Maybe,
        First::Nothing | First::Profile => Fit::No,
    }
}

/// What the first packet that is not empty looks like.
#[derive(Debug, PartialEq, Eq)]
enum First {
    /// Fields, as far as the bytes go.
    Packet,
    /// Fields, as in pprof's messages.
    Profile,
    Nothing,
}

fn first_packet(head: &[u8]) -> First {
    let mut rest = head;
    loop {
        let Some((number, kind)) = varint(&mut rest).and_then(tag) else { return First::Nothing };
        let length = match kind {
            Kind::Varint => varint(&mut rest).map(|_| 0),
            Kind::Fixed64 => Some(8),
            Kind::Fixed32 => Some(4),
            // The head may end within the length.
            Kind::Bytes => Some(varint(&mut rest).unwrap_or(u64::MAX)),
        };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else { return First::Nothing };
        let (packet, after) = rest.split_at(length.min(rest.len()));
        if number == PACKET && kind == Kind::Bytes && length > 0 {
            return contents(packet, packet.len() == length);
        }
        rest = after;
    }
}

/// Checks a packet or its beginning. Fields 1 and 2 of a packet are messages, those of pprof's messages are numbers.
fn contents(packet: &[u8], is_whole: bool) -> First {
    let mut rest = packet;
    // A field that is cut off is damage, unless the head ends there.
    let cut_off = if is_whole { First::Nothing } else { First::Packet };
    while !rest.is_empty() {
        let Some(read) = varint(&mut rest) else { return cut_off };
        let Some((number, kind)) = tag(read) else { return First::Nothing };
        if number <= 2 && kind != Kind::Bytes {
            return First::Profile;
        }
        let length = match kind {
            Kind::Varint => {
                if varint(&mut rest).is_none() {
                    return cut_off;
                }
                continue;
            }
            Kind::Fixed64 => 8,
            Kind::Fixed32 => 4,
            Kind::Bytes => match varint(&mut rest) {
                Some(length) => length,
                None => return cut_off,
            },
        };
        match usize::try_from(length).ok().and_then(|length| rest.get(length..)) {
            Some(after) => rest = after,
            None => return cut_off,
        }
    }
    First::Packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(head: &[u8]) -> bool {
        sniff(head) != Fit::No
    }

    #[test]
    fn packets_are_distinguished_from_json() {
        // A packet of a timestamp and a sequence; one of 123 bytes, whose length is a brace.
        assert!(!begins(b"\x0a\x04\x08\x01\x50\x02"), "field 1 is a message, not a number");
        assert!(begins(b"\x0a\x04\x40\x01\x53\x02"), "a damaged packet, and no text");
        assert!(begins(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
        assert!(!begins(b"\x0a {\"traceName\":\"\x01\"}"), "JSON with a control character");
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
