//! The words of a file as atomics in memory. Only this module knows that they are in memory; all loads and stores of [words](crate::words) use it.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
pub(crate) use core::sync::atomic::{Ordering, fence};

/// The words of a file, addressed by their offsets in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(NonNull<AtomicU64>);

// SAFETY: words are atomic, and the caller of `new` promises that they stay valid.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// # Safety
    ///
    /// Zeroed or written words exist at all offsets that will be used, until the process ends.
    pub(crate) unsafe fn new(start: NonNull<AtomicU64>) -> Words {
        Words(start)
    }

    /// The word at an offset, which must be a multiple of 8 bytes.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: the caller of `new` promised it.
        unsafe { self.0.byte_add(offset).as_ref() }
    }

    /// The address at an offset, for system calls.
    pub(crate) fn address(&self, offset: usize) -> *mut core::ffi::c_void {
        self.0.as_ptr().wrapping_byte_add(offset).cast()
    }
}
