//! Loading Perfetto's protobuf: one thread reads, in file order, and hands the store a batch of events now and then.

use super::options::LoadOptions;
use super::refuse;
use crate::error::Error;
use crate::event::{Kind, TrackItem};
use crate::input::proto::{Stream, Summary};
use crate::store::Builder;
use crate::store::batch::Shard;

/// How many events make a batch.
const BATCH: usize = 1 << 16;

/// Reads packets into a builder; `progress` is called with every batch.
pub(super) fn load(
    name: &str,
    stream: Stream,
    options: LoadOptions,
    builder: &mut Builder,
    mut progress: impl FnMut(),
) -> Result<Summary, Error> {
    let mut shard = Shard::new(0).keep_offsets(options.keep_offsets);
    let summary = stream.read(options.args, |item| {
        match item {
            TrackItem::Event { track, event, offset } => {
                // The flows of a slice stay in its batch: they are known as its own by coming right after it.
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
    refuse::packets(name, summary)
}
