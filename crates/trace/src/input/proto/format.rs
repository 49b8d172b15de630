//! The format in the registry: how a list of packets is recognised, read in batches, and refused if it has no events.

use super::packets::PACKET;
use super::reader::Stream;
use super::wire::{Head, Stop};
use crate::damage::Damage;
use crate::error::Error;
use crate::event::{Format, Kind, Shard, Support, TrackItem, Writer};
use crate::input::containers::Turn;
use crate::input::containers::source::is_utf8;
use crate::input::reader::{File, Fit, Reading, Refusal, Summary, TraceReader, source_failure};

const BATCH: usize = 1 << 16;

impl TraceReader for Stream {
    const FORMAT: Format = Format {
        name: "Perfetto protobuf",
        what: "a trace in Perfetto's protobuf format",
        written_by: "Perfetto's SDK, rocprofv3, and others",
        support: Support::Read {
            expected: "Perfetto's protobuf with track events",
            writer: &Writer::PERFETTO,
            has_unique_keys: false,
        },
    };

    const TURN: Turn = Turn::First;

    /// Field 1 begins with a newline for a reader of text. JSON that begins with one fits no packets, and has no control characters, which
    /// packets always have (the numbers of clocks and the types of events are some). A file that begins with a newline, is not text and opens
    /// no JSON may be packets of which the first is damaged: their reader can say where it breaks.
    fn sniff(head: &[u8]) -> Fit {
        let is_text = || is_utf8(head) && head.iter().all(|byte| byte.is_ascii_whitespace() || *byte >= b' ');
        if head.first() != Some(&b'\n') || is_text() {
            return Fit::No;
        }
        let mut rest = head;
        // Empty packets and other fields may come first.
        let is_packet = loop {
            let Ok(Head { number, is_bytes, takes, length }) = Head::read(rest) else { break false };
            let (packet, after) = rest[takes..].split_at((length as usize).min(rest.len() - takes));
            if number == PACKET && is_bytes && length > 0 {
                match is_packet(packet, packet.len() as u64 == length) {
                    Some(is_packet) => break is_packet,
                    None => return Fit::No,
                }
            }
            rest = after;
        };
        let opens_json = matches!(head.trim_ascii_start().first(), Some(b'{' | b'['));
        match is_packet {
            true => Fit::Sure,
            false if opens_json => Fit::No,
            false => Fit::Maybe,
        }
    }

    fn open(file: File<'_>) -> Result<Vec<Self>, Refusal> {
        let budget = file.budget.clone();
        Ok(vec![Stream::new(file.into_text(), budget)])
    }

    fn read<S: Shard>(
        self,
        reading: &mut Reading<'_>,
        mut add: impl FnMut(S::Batch) -> bool + Send,
    ) -> Result<Summary, Refusal> {
        let mut shard = S::new(0, reading.keep_offsets);
        let mut goes_on = true;
        let summary = self.read(reading.args, |item| {
            match item {
                TrackItem::Event { track, event, offset } => {
                    // The flows of a slice stay in its batch: they are known as its own by coming right after it.
                    if shard.pending() >= BATCH && !matches!(event.kind, Kind::SliceFlow(_)) {
                        goes_on = add(shard.take_in_file_order());
                        (reading.progress)();
                    }
                    shard.add_on(track, event, offset);
                }
                TrackItem::Track(description) => shard.describe(&description),
            }
            goes_on
        });
        add(shard.take_in_file_order());
        let summary = refuse(reading.name, summary)?;
        *reading.text_bytes += summary.text_bytes;
        Ok(summary)
    }
}

/// Damage that may take all events of a trace that has some, what explains most first.
const LOSES_EVENTS: [Damage; 4] =
    [Damage::ClockUnknown, Damage::EventWithoutTime, Damage::EventWithoutSequence, Damage::PacketWithoutState];

/// Refuses packets without events.
fn refuse(name: &str, mut summary: Summary) -> Result<Summary, Refusal> {
    if let Some(source) = summary.failure.take() {
        source_failure(name, source, summary.events)?;
    }
    if summary.events > 0 {
        return Ok(summary);
    }
    let first = |kind| summary.damage.get(kind).first_offset;
    if let (0, Some(offset)) = (summary.elements, first(Damage::Truncated)) {
        return Err(Error::NothingWhole { name: name.to_owned(), offset }.into());
    }
    let lost = LOSES_EVENTS.into_iter().find(|kind| summary.damage.get(*kind).count > 0);
    Err(Refusal::NotATrace(match (lost, first(Damage::PacketStructure), first(Damage::PacketSyntax)) {
        (Some(kind), ..) => format!(
            "none of its {} packets is a track event that can be shown; there are {} {}",
            summary.elements,
            summary.damage.get(kind).count,
            kind.description().phrase
        ),
        (None, Some(offset), _) => {
            format!("this is a damaged list of packets: it is corrupt at byte {offset}, and has no whole track event")
        }
        (None, None, Some(offset)) => format!(
            "this is a damaged list of packets: the one at byte {offset} is not valid protobuf, and none of its {} packets is a track event",
            summary.elements
        ),
        (None, None, None) => format!("none of its {} packets is a track event", summary.elements),
    }))
}

/// Whether a packet, or its beginning, consists of fields; `None` for pprof's, whose fields 1 and 2 are numbers, not messages.
fn is_packet(packet: &[u8], is_whole: bool) -> Option<bool> {
    let mut rest = packet;
    while !rest.is_empty() {
        match Head::read(rest) {
            Ok(Head { number: ..=2, is_bytes: false, .. }) => return None,
            Ok(Head { takes, length, .. }) if length <= (rest.len() - takes) as u64 => {
                rest = &rest[takes + length as usize..];
            }
            // A field that is cut off is damage, unless the head ends there.
            Ok(_) | Err(Stop::CutOff) => return Some(!is_whole),
            Err(Stop::Broken) => return Some(false),
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(head: &[u8]) -> bool {
        Stream::sniff(head) != Fit::No
    }

    #[test]
    fn packets_are_distinguished_from_json() {
        // A packet of a timestamp and a sequence; one of 123 bytes, whose length is a brace.
        let long = [&b"\x0a\x7b\x40\x01\x5a\x77"[..], &[b'x'; 119], b"\x0a\x02\x50\x01"].concat();
        for (head, is_one, what) in [
            (&b"\x0a\x04\x08\x01\x50\x02"[..], false, "field 1 is a message, not a number"),
            (b"\x0a\x04\x40\x01\x53\x02", true, "a damaged packet, and no text"),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", true, "a damaged packet"),
            (b"\x0a {\"traceName\":\"\x01\"}", false, "JSON with a control character"),
            (b"\x0a\x04\x40\x01\x50\x02", true, "a packet"),
            (b"\x0a\x04\x40\x01\x50\x02\x0a", true, "a packet and the beginning of one"),
            (&long, true, "two packets"),
            (&long[..60], true, "a head may end anywhere"),
        ] {
            assert_eq!(begins(head), is_one, "{what}");
        }
        for text in
            ["\n{\"traceEvents\":[]}", "\n[{\"ph\":\"X\"}]", "\n  [", "\n", "{}", "\n{\"a\":1}", "\nname, value\n"]
        {
            assert!(!begins(text.as_bytes()), "{text:?}");
        }
        let json = format!("\n{{\"schemaVersion\":1,\"traceEvents\":[{}]}}", "{\"ph\":\"X\"},".repeat(60));
        assert!(!begins(&json.as_bytes()[..512]));
    }
}
