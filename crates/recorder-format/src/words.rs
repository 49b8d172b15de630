//! Memory that other threads and processes write, too: 64-bit words, each loaded or stored whole.
//!
//! A reference to bytes promises that nobody changes them, and nobody can promise that here. So a file that is being written is only accessed
//! through these words. Narrower values are parts of a word, because mixing access sizes among threads is undefined.

pub(crate) use crate::memory::{Ordering, Words, fence};

impl Words {
    /// The 32 bits at an offset, which must be a multiple of 4 bytes.
    pub(crate) fn half(&self, offset: usize) -> u32 {
        (self.at(offset & !7).load(Ordering::Acquire) >> shift(offset)) as u32
    }

    /// Stores 32 bits, and leaves the other half of the word.
    pub(crate) fn set_half(&self, offset: usize, value: u32) {
        let (word, keep) = (self.at(offset & !7), !(u64::from(u32::MAX) << shift(offset)));
        let mut found = word.load(Ordering::Relaxed);
        while let Err(newer) = word.compare_exchange_weak(
            found,
            found & keep | u64::from(value) << shift(offset),
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            found = newer;
        }
    }

    /// Adds 1 to 32 bits and returns their old value. A carry would go into the other half.
    #[inline]
    pub(crate) fn count(&self, offset: usize) -> u32 {
        (self.at(offset & !7).fetch_add(1 << shift(offset), Ordering::Relaxed) >> shift(offset)) as u32
    }

    /// Stores bytes into a place of `room` bytes, padded with zeros to the end of the last word. The offset must be a multiple of 8.
    pub(crate) fn set_bytes(&self, offset: usize, room: usize, bytes: &[u8]) {
        let mut rest = bytes.get(..room).unwrap_or(bytes);
        for at in (0..room).step_by(8) {
            let (now, later) = rest.split_at(rest.len().min(8));
            let mut word = [0; 8];
            word[..now.len()].copy_from_slice(now);
            self.at(offset + at).store(u64::from_le_bytes(word), Ordering::Relaxed);
            rest = later;
        }
    }

    /// Copies from an offset. Offset and length must be multiples of 8.
    pub(crate) fn copy(&self, offset: usize, into: &mut [u8]) {
        for (at, part) in into.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&self.at(offset + 8 * at).load(Ordering::Relaxed).to_le_bytes());
        }
    }
}

/// The shift of the 32 bits at an offset within their word, in bits.
const fn shift(offset: usize) -> u32 {
    8 * (offset & 4) as u32
}
