//! What a thread is doing: in which function it is, and how deep in groups.
//!
//! The standard library has what a thread keeps for itself, this one has not. A key of the C library is found in a few instructions, without
//! a lock, and needs no memory of the linker's, of which a plugin that is loaded late may find none.

use core::sync::atomic::{AtomicU32, Ordering};

use super::real::Function;

/// The key, plus one; 0 before there is one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// The address of the function that it is in; 0 for none.
    pub(super) inside: u64,
    /// How many groups it has begun.
    pub(super) depth: u16,
}

fn key() -> Option<libc::pthread_key_t> {
    match KEY.load(Ordering::Acquire) {
        0 => make(),
        key => Some(key - 1),
    }
}

/// Makes the key. If two threads do, one of theirs remains.
#[cold]
fn make() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` may be written; there is nothing to be called when a thread ends.
    if unsafe { libc::pthread_key_create(&raw mut key, None) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: nobody has seen this key.
            unsafe { libc::pthread_key_delete(key) };
            Some(other - 1)
        }
    }
}

impl State {
    /// Of this thread. Where the process has no key left, a thread is never in anything.
    #[inline]
    pub(super) fn now() -> State {
        // SAFETY: has no condition; a thread that set nothing has null.
        let word = key().map_or(0, |key| unsafe { libc::pthread_getspecific(key) } as u64);
        State { inside: word >> 16, depth: word as u16 }
    }

    /// Makes it this thread's.
    #[inline]
    pub(super) fn keep(self) {
        if let Some(key) = key() {
            let word = self.inside << 16 | u64::from(self.depth);
            // SAFETY: the pointer is only a number, and never followed.
            unsafe { libc::pthread_setspecific(key, word as *const core::ffi::c_void) };
        }
    }

    /// The same, in a function.
    #[inline]
    pub(super) fn within(self, function: &Function) -> State {
        State { inside: core::ptr::from_ref(function) as u64, ..self }
    }

    /// Whether it is in this function.
    #[inline]
    pub(super) fn is_within(self, function: &Function) -> bool {
        self.inside == core::ptr::from_ref(function) as u64
    }
}
