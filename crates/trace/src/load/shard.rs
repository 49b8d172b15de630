//! Lets readers collect events in the store's shard.

use crate::event::{Event, TrackDescription, TrackKey};
use crate::input::{Collect, Shard as Collector};
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

impl Collector for Shard {
    fn new(number: usize, keep_offsets: bool) -> Self {
        Shard::new(number).keep_offsets(keep_offsets)
    }

    fn add_on(&mut self, track: TrackKey, event: &Event<'_>, offset: u64) {
        Shard::add_on(self, track, event, offset);
    }

    fn describe(&mut self, description: &TrackDescription<'_>) {
        Shard::describe(self, description);
    }

    fn pending(&self) -> usize {
        Shard::pending(self)
    }

    fn take_in_file_order(&mut self) -> Batch {
        Shard::take(self).in_file_order()
    }
}
