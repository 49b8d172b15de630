//! Loading a process of an export of Nsight Systems: one thread reads, table by table, and hands the store a batch of events now and then.

use super::options::LoadOptions;
use crate::error::Error;
use crate::input::nsys::{Item, Process, Summary};
use crate::store::Builder;
use crate::store::batch::Shard;

/// How many events make a batch.
const BATCH: usize = 1 << 16;

/// A row of a database has no byte offset.
const NO_OFFSET: u64 = 0;

/// Reads a process into a builder; `progress` is called with every batch.
pub(super) fn load(
    name: &str,
    process: Process,
    options: LoadOptions,
    builder: &mut Builder,
    mut progress: impl FnMut(),
) -> Result<Summary, Error> {
    let mut shard = Shard::new(0).keep_offsets(options.keep_offsets);
    let summary = process.read(options.args, |item| {
        match item {
            Item::Event(event) => shard.add(event, NO_OFFSET),
            Item::Range(track, event) => shard.add_on(track, event, NO_OFFSET),
            Item::Track(description) => shard.describe(&description),
        }
        if shard.pending() >= BATCH {
            builder.add(shard.take());
            progress();
        }
        !builder.is_full()
    })?;
    builder.add(shard.take());
    if builder.is_full() {
        return Err(Error::TooLarge { name: name.to_owned() });
    }
    Ok(summary)
}
