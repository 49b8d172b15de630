//! Memory that other threads and processes write too: 64-bit words, each loaded or stored whole.
//!
//! A reference to bytes promises that nobody changes them, which nobody can promise here. So all of a file that is being written is reached
//! through these words, and what is narrower is a part of one: accesses of two widths to the same bytes have no meaning among threads.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// The words of a mapped file, by their offsets in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(NonNull<AtomicU64>);

// SAFETY: words are atomic, and whoever makes one promises that they are never taken away.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// # Safety
    ///
    /// From here on there are zeroed or written words at all offsets that are asked for, until the process ends.
    pub(crate) unsafe fn new(start: NonNull<AtomicU64>) -> Words {
        Words(start)
    }

    /// The word at an offset, a multiple of 8 bytes.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: as `new` was promised.
        unsafe { self.0.byte_add(offset).as_ref() }
    }

    /// The address of what is at an offset, for calls of the system.
    pub(crate) fn address(&self, offset: usize) -> *mut core::ffi::c_void {
        self.0.as_ptr().wrapping_byte_add(offset).cast()
    }

    /// The 32 bits at an offset, a multiple of 4 bytes.
    pub(crate) fn half(&self, offset: usize) -> u32 {
        (self.at(offset & !7).load(Ordering::Acquire) >> shift(offset)) as u32
    }

    /// Stores these 32 bits, and leaves the other half of their word.
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

    /// Adds 1 to these 32 bits and returns what they were. Their carry goes into the other half.
    #[inline]
    pub(crate) fn count(&self, offset: usize) -> u32 {
        (self.at(offset & !7).fetch_add(1 << shift(offset), Ordering::Relaxed) >> shift(offset)) as u32
    }

    /// Stores bytes into a place of `room` bytes, and zeros after them up to the end of its last word. The offset is a multiple of 8.
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

    /// Copies what is at an offset, a multiple of 8, as is the length.
    pub(crate) fn copy(&self, offset: usize, into: &mut [u8]) {
        for (at, part) in into.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&self.at(offset + 8 * at).load(Ordering::Relaxed).to_le_bytes());
        }
    }
}

/// How far the 32 bits at an offset are from the low end of their word, in bits.
const fn shift(offset: usize) -> u32 {
    8 * (offset & 4) as u32
}
