//! Loading Perfetto's protobuf: one thread reads, in file order, and hands the store a batch of events now and then.

use super::{LoadOptions, check_failure};
use crate::damage::Damage;
use crate::error::Error;
use crate::event::{Kind, TrackItem};
use crate::input::proto::{Stream, Summary};
use crate::store::Builder;
use crate::store::batch::Shard;

/// So many events make a batch.
const BATCH: usize = 1 << 16;

/// What may be wrong with all events of a trace that has some, what says most first.
const LOSES_EVENTS: [Damage; 4] =
    [Damage::ClockUnknown, Damage::EventWithoutTime, Damage::EventWithoutSequence, Damage::PacketWithoutState];

/// Reads packets into a builder; `progress` is called with every batch.
pub(super) fn load(
    name: &str,
    stream: Stream,
    options: LoadOptions,
    builder: &mut Builder,
    mut progress: impl FnMut(),
) -> Result<Summary, Error> {
    let mut shard = Shard::new(0).keep_offsets(options.keep_offsets);
    let summary = stream.read(options.args, |told| {
        match told {
            TrackItem::Event { track, event, offset } => {
                // The arrows of a slice stay in its batch: they are found by coming right behind it.
                if shard.pending() >= BATCH && !matches!(event.kind, Kind::SliceFlow(_)) {
                    builder.add(shard.take().in_file_order());
                    progress();
                }
                shard.add_on(track, event, offset);
            }
            TrackItem::Track(description) => shard.describe(&description),
        }
        !builder.is_full()
    });
    builder.add(shard.take().in_file_order());
    if builder.is_full() {
        return Err(Error::TooLarge { name: name.to_owned() });
    }
    check(name, summary)
}

/// Refuses what has no events.
fn check(name: &str, mut summary: Summary) -> Result<Summary, Error> {
    if let Some(source) = summary.failure.take() {
        check_failure(name, source, summary.events)?;
    }
    if summary.events > 0 {
        return Ok(summary);
    }
    let name = name.to_owned();
    if let (0, Some(offset)) = (summary.packets, summary.cut_off_at) {
        return Err(Error::NothingWhole { name, offset });
    }
    let first = |kind| summary.damage.get(kind).first_offset;
    let lost = LOSES_EVENTS.into_iter().find(|kind| summary.damage.get(*kind).count > 0);
    let breaks = first(Damage::PacketStructure).or(first(Damage::PacketTooLong));
    let what = match (lost, breaks, first(Damage::PacketSyntax)) {
        (Some(kind), ..) => format!(
            "none of its {} packets is a track event that can be shown; there are {} {}",
            summary.packets,
            summary.damage.get(kind).count,
            kind.description().phrase
        ),
        (None, Some(offset), _) => {
            format!("this is a damaged list of packets: it breaks at byte {offset}, and nowhere is a whole track event")
        }
        (None, None, Some(offset)) => format!(
            "this is a damaged list of packets: the one at byte {offset} is not valid protobuf, and none of all {} is a track event",
            summary.packets
        ),
        (None, None, None) => format!("none of its {} packets is a track event", summary.packets),
    };
    Err(Error::NotATrace { name, what })
}
