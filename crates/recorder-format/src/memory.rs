//! Where words are, and their atomics: all that depends on memory being memory. [Words](crate::words) are loaded and stored through it.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
pub(crate) use core::sync::atomic::{Ordering, fence};

/// The words of a file, by their offsets in bytes.
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
}
