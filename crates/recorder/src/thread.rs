//! What a thread keeps for itself: in which function it is, how deep in groups, and which ring is its own.
//!
//! The standard library has what a thread keeps for itself, this one has not. A key of the C library is found in a few instructions, without
//! a lock, and needs no memory of the linker's, of which a plugin that is loaded late may find none. Its value is one word, and never followed as an
//! address: 48 bits for the function, 5 for the ring, 11 for the depth.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use nccl_stacks_recorder_format::layout::RINGS;

use crate::clock;

/// The key, plus one; 0 before there is one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// How many threads were given a ring.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// The deepest group that is counted: NCCL's own limit is lower than any program's need for it.
const DEEPEST: u16 = (1 << 11) - 1;

const _: () = assert!(RINGS < 1 << 5);

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// The address of the function that it is in; 0 for none.
    pub(crate) inside: u64,
    /// How many groups it has begun.
    pub(crate) depth: u16,
    /// Its ring, from 1; 0 if it has none yet.
    ring: u8,
}

fn key() -> Option<libc::pthread_key_t> {
    match KEY.load(Ordering::Acquire) {
        0 => make(),
        key => Some(key - 1),
    }
}

/// Makes the key. If two threads do, one of theirs remains.
#[cold]
#[inline(never)]
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
    pub(crate) fn now() -> State {
        // SAFETY: has no condition; a thread that set nothing has null.
        let word = key().map_or(0, |key| unsafe { libc::pthread_getspecific(key) } as u64);
        State { inside: word >> 16, ring: (word >> 11) as u8 & 31, depth: word as u16 & DEEPEST }
    }

    /// Makes it this thread's.
    #[inline]
    pub(crate) fn keep(self) {
        if let Some(key) = key() {
            let word = self.inside << 16 | u64::from(self.ring) << 11 | u64::from(self.depth);
            // SAFETY: the pointer is only a number, and never followed.
            unsafe { libc::pthread_setspecific(key, word as *const c_void) };
        }
    }

    /// The same, in a function whose description is at this address.
    #[inline]
    pub(crate) fn within(self, function: u64) -> State {
        State { inside: function, ..self }
    }

    /// The same, in so many groups.
    #[inline]
    pub(crate) fn at(self, depth: u16) -> State {
        State { depth: depth.min(DEEPEST), ..self }
    }

    /// The same with a ring of its own: threads get them one after the other, so that one that writes much erases the records of no
    /// other until there are more threads than rings.
    #[inline]
    pub(crate) fn with_ring(self) -> State {
        match self.ring {
            0 => State { ring: next_ring(), ..self },
            _ => self,
        }
    }

    /// The ring of a state that has one.
    #[inline]
    pub(crate) fn ring(self) -> usize {
        usize::from(self.ring).wrapping_sub(1) % RINGS
    }
}

#[cold]
#[inline(never)]
fn next_ring() -> u8 {
    // Without a key the choice cannot be kept; by its number a thread always has the same.
    let turn = match key() {
        Some(_) => u64::from(GIVEN.fetch_add(1, Ordering::Relaxed)),
        None => clock::thread().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60,
    };
    (turn % RINGS as u64) as u8 + 1
}

/// The ring of this thread.
#[inline]
pub(crate) fn ring() -> usize {
    match State::now() {
        state if state.ring == 0 => first(state),
        state => state.ring(),
    }
}

/// Gives a thread its ring.
#[cold]
#[inline(never)]
fn first(state: State) -> usize {
    let state = state.with_ring();
    state.keep();
    state.ring()
}
