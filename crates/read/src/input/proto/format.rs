//! The format in the registry: a list of packets is read by one thread, in file order, and hands on a batch of events now and then.

use super::{Stream, Summary, sniff};
use crate::damage::Damage;
use crate::error::Error;
use crate::event::{Format, Kind, Support, TrackItem, Writer};
use crate::input::containers::Turn;
use crate::input::reader::{self, File, Fit, Reading, Refusal, Shard, TraceReader, source_failure};

/// How many events make a batch.
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

    fn sniff(head: &[u8]) -> Fit {
        sniff::sniff(head)
    }

    fn open(file: File<'_>) -> Result<Vec<Self>, Refusal> {
        let budget = file.budget.clone();
        Ok(vec![Stream::new(file.into_text(), budget)])
    }

    fn read<S: Shard>(
        self,
        reading: &mut Reading<'_>,
        mut add: impl FnMut(S::Batch) -> bool + Send,
    ) -> Result<reader::Summary, Refusal> {
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
        let Summary { header, events, damage, bytes, .. } = refuse(reading.name, summary)?;
        *reading.text_bytes += bytes;
        Ok(reader::Summary { header, events, damage, text_bytes: bytes })
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
    if let (0, Some(offset)) = (summary.packets, summary.cut_off_at) {
        return Err(Error::NothingWhole { name: name.to_owned(), offset }.into());
    }
    let first = |kind| summary.damage.get(kind).first_offset;
    let lost = LOSES_EVENTS.into_iter().find(|kind| summary.damage.get(*kind).count > 0);
    let breaks = first(Damage::PacketStructure).or(first(Damage::PacketTooLong));
    Err(Refusal::NotATrace(match (lost, breaks, first(Damage::PacketSyntax)) {
        (Some(kind), ..) => format!(
            "none of its {} packets is a track event that can be shown; there are {} {}",
            summary.packets,
            summary.damage.get(kind).count,
            kind.description().phrase
        ),
        (None, Some(offset), _) => {
            format!("this is a damaged list of packets: it is corrupt at byte {offset}, and has no whole track event")
        }
        (None, None, Some(offset)) => format!(
            "this is a damaged list of packets: the one at byte {offset} is not valid protobuf, and none of its {} packets is a track event",
            summary.packets
        ),
        (None, None, None) => format!("none of its {} packets is a track event", summary.packets),
    }))
}
