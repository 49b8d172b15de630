//! Loading JSON: several threads read, each into a shard of its own, and the store takes their batches in file order.

use std::io::Read;
use std::num::NonZero;

use super::options::LoadOptions;
use crate::error::Error;
use crate::event::Event;
use crate::input::json::{Collect, Division, Reader, Summary};
use crate::store::Builder;
use crate::store::batch::{Batch, Shard};

impl Collect for Shard {
    type Batch = Batch;

    #[inline]
    fn add(&mut self, event: &Event<'_>, offset: u64) {
        Shard::add(self, event, offset);
    }

    fn take(&mut self) -> Batch {
        Shard::take(self)
    }
}

/// Reads JSON into a builder; `progress` is called with every block of text.
pub(super) fn load(
    name: &str,
    text: impl Read + Send,
    options: LoadOptions,
    threads: NonZero<usize>,
    builder: &mut Builder,
    progress: impl FnMut() + Send,
) -> Result<Summary, Error> {
    let LoadOptions { time, args, chunk, keep_offsets, .. } = options;
    let summary = Reader::new(time, args, threads).read(
        text,
        Division { chunk, in_order: false },
        |number| Shard::new(number).keep_offsets(keep_offsets),
        |batch| {
            builder.add(batch);
            !builder.is_full()
        },
        progress,
    );
    if builder.is_full() {
        return Err(Error::TooLarge { name: name.to_owned() });
    }
    Ok(summary)
}
