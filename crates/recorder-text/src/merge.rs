//! The records of all rings in order of time, while others are written.

use nccl_stacks_recorder_format::layout::RINGS;
use nccl_stacks_recorder_format::{Handle, Record, Writer};

/// How far each ring has been read.
pub(crate) struct Cursors {
    next: [u64; RINGS],
    /// The position of the incomplete record at which reading stopped; 0 for none.
    stuck: [u64; RINGS],
    /// How many records were overwritten before they were read, or given up.
    pub(crate) lost: u64,
}

impl Cursors {
    /// Nothing has been read. All of it is 0, so that a static one takes no space in the library.
    pub(crate) const fn new() -> Self {
        Cursors { next: [0; RINGS], stuck: [0; RINGS], lost: 0 }
    }
}

/// Iterates over what is in the rings at the start. A record that is being written stops its ring until the next time; if it is still incomplete
/// then, its thread may have ended, and it is given up.
pub(crate) struct Merge<'a> {
    writer: &'a Writer,
    pub(crate) cursors: Cursors,
    ends: [u64; RINGS],
    heads: [Option<(Handle, Record)>; RINGS],
}

impl<'a> Merge<'a> {
    #[inline(never)]
    pub(crate) fn new(writer: &'a Writer, cursors: Cursors) -> Self {
        let mut merge = Merge { writer, cursors, ends: [0; RINGS], heads: [None; RINGS] };
        for ring in 0..RINGS {
            let claimed = writer.claimed(ring);
            let oldest = claimed.saturating_sub(writer.ring_sizes().of(ring)).saturating_add(1);
            if let (Some(end), Some(next)) = (merge.ends.get_mut(ring), merge.cursors.next.get_mut(ring)) {
                let first = (*next).max(1);
                (*end, *next) = (claimed, oldest.max(first));
                merge.cursors.lost = merge.cursors.lost.saturating_add(next.saturating_sub(first));
            }
            merge.advance(ring);
        }
        merge
    }

    /// How many records are missing so far, in all iterations: overwritten, given up, or without memory.
    pub(crate) fn lost(&self) -> u64 {
        self.cursors.lost.saturating_add(self.writer.lost())
    }

    /// Moves on to the next record of a ring.
    #[inline(never)]
    fn advance(&mut self, ring: usize) -> Option<()> {
        let head = self.heads.get_mut(ring)?;
        *head = None;
        let (next, end) = (self.cursors.next.get_mut(ring)?, self.ends.get_mut(ring)?);
        let stuck = self.cursors.stuck.get_mut(ring)?;
        while *next <= *end {
            *head = self.writer.at(ring, *next);
            let is_overwritten = || self.writer.claimed(ring) >= next.saturating_add(self.writer.ring_sizes().of(ring));
            if head.is_none() && *stuck != *next && !is_overwritten() {
                *stuck = *next;
                *end = 0;
                return None;
            }
            *next = next.saturating_add(1);
            if head.is_some() {
                return Some(());
            }
            self.cursors.lost = self.cursors.lost.saturating_add(1);
        }
        None
    }
}

impl Iterator for Merge<'_> {
    type Item = (Handle, Record);

    #[inline(never)]
    fn next(&mut self) -> Option<(Handle, Record)> {
        let times =
            self.heads.iter().enumerate().filter_map(|(ring, head)| head.map(|(_, record)| (record.time, ring)));
        let (_, ring) = times.min()?;
        let record = self.heads.get_mut(ring)?.take();
        self.advance(ring);
        record
    }
}
