//! The records of all rings, in the order of their times, while others are written.

use nccl_stacks_recorder_format::layout::RINGS;
use nccl_stacks_recorder_format::{Handle, Record, Writer};

/// How far each ring was read.
pub(crate) struct Cursors {
    next: [u64; RINGS],
    /// The position at which reading ended because its record was not complete; 0 for none.
    stuck: [u64; RINGS],
    /// How many records were overwritten before they were read, or given up.
    pub(crate) lost: u64,
}

impl Cursors {
    /// Nothing was read. All of it is 0, so that a static one is no part of a file.
    pub(crate) const fn new() -> Self {
        Cursors { next: [0; RINGS], stuck: [0; RINGS], lost: 0 }
    }
}

/// Goes over what is in the rings when it begins. A record that is being written is left for the next time, and with it what follows in its
/// ring; the second time it is given up, for a thread may have ended there.
pub(crate) struct Merge<'a> {
    writer: &'a Writer,
    cursors: &'a mut Cursors,
    ends: [u64; RINGS],
    heads: [Option<(Handle, Record)>; RINGS],
}

impl<'a> Merge<'a> {
    pub(crate) fn new(writer: &'a Writer, cursors: &'a mut Cursors) -> Self {
        let mut merge = Merge { writer, cursors, ends: [0; RINGS], heads: [None; RINGS] };
        for ring in 0..RINGS {
            let claimed = writer.claimed(ring);
            let oldest = claimed.saturating_sub(writer.ring_records()).saturating_add(1);
            if let (Some(end), Some(next)) = (merge.ends.get_mut(ring), merge.cursors.next.get_mut(ring)) {
                let first = (*next).max(1);
                (*end, *next) = (claimed, oldest.max(first));
                merge.cursors.lost = merge.cursors.lost.saturating_add(next.saturating_sub(first));
            }
            merge.advance(ring);
        }
        merge
    }

    /// How many records are missing so far, here and before: overwritten, given up, or without memory.
    pub(crate) fn lost(&self) -> u64 {
        self.cursors.lost.saturating_add(self.writer.lost())
    }

    /// The next record of a ring into its place.
    fn advance(&mut self, ring: usize) -> Option<()> {
        let head = self.heads.get_mut(ring)?;
        *head = None;
        let (next, end) = (self.cursors.next.get_mut(ring)?, self.ends.get_mut(ring)?);
        let stuck = self.cursors.stuck.get_mut(ring)?;
        while *next <= *end {
            *head = self.writer.at(ring, *next);
            let is_overwritten = || self.writer.claimed(ring) >= next.saturating_add(self.writer.ring_records());
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

    fn next(&mut self) -> Option<(Handle, Record)> {
        let times =
            self.heads.iter().enumerate().filter_map(|(ring, head)| head.map(|(_, record)| (record.time, ring)));
        let (_, ring) = times.min()?;
        let record = self.heads.get_mut(ring)?.take();
        self.advance(ring);
        record
    }
}
