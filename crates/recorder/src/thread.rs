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

/// By ring: how many threads have it in the high half, and in the low half how many ever had it, up to the most that fits.
static USERS: [AtomicU32; RINGS] = [const { AtomicU32::new(0) }; RINGS];

const ONE_USER: u32 = 1 << 16;

/// The deepest group that is counted: NCCL's own limit is lower than any program's need for it.
const DEEPEST: u16 = (1 << 11) - 1;

/// Where the number of the ring is, from 1; 0 is none.
const RING_AT: u32 = 11;
const RING: u64 = 31 << RING_AT;

const _: () = assert!(RINGS < 1 << 5 && RING | DEEPEST as u64 == 0xffff);

/// What a thread is doing: the key's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u64);

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
    // SAFETY: `key` may be written; the function lives as long as the library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } != 0 {
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

/// A thread has ended, and its ring is free for another one.
unsafe extern "C" fn ended(word: *mut c_void) {
    if let Some(users) = State(word as u64).users() {
        users.fetch_sub(ONE_USER, Ordering::Relaxed);
    }
}

/// In a child that was forked off: it has one thread, this one.
pub(crate) fn forked() {
    USERS.iter().for_each(|users| users.store(0, Ordering::Relaxed));
    if let Some(users) = State::now().users() {
        users.store(ONE_USER | 1, Ordering::Relaxed);
    }
}

impl State {
    /// Of this thread. Where the process has no key left, a thread is never in anything.
    #[inline]
    pub(crate) fn now() -> State {
        // SAFETY: has no condition; a thread that set nothing has null.
        State(key().map_or(0, |key| unsafe { libc::pthread_getspecific(key) } as u64))
    }

    /// Makes it this thread's.
    #[inline]
    pub(crate) fn keep(self) {
        if let Some(key) = key() {
            // SAFETY: the pointer is only a number, and never followed.
            unsafe { libc::pthread_setspecific(key, self.0 as *const c_void) };
        }
    }

    /// The address of the description of the function that it is in; 0 for none.
    #[inline]
    pub(crate) fn inside(self) -> u64 {
        self.0 >> 16
    }

    /// How many groups it has begun.
    #[inline]
    pub(crate) fn depth(self) -> u16 {
        self.0 as u16 & DEEPEST
    }

    /// The same, in a function whose description is at this address.
    #[inline]
    pub(crate) fn within(self, function: u64) -> State {
        State(function << 16 | self.0 & 0xffff)
    }

    /// The same, in so many groups.
    #[inline]
    pub(crate) fn at(self, depth: u16) -> State {
        State(self.0 & !u64::from(DEEPEST) | u64::from(depth.min(DEEPEST)))
    }

    /// The same with a ring: of those that fewest threads have the one that fewest ever had. So a thread that writes much erases the records of no
    /// other one until there are more threads than rings, nor of one that has ended until each ring had a thread.
    #[inline]
    pub(crate) fn with_ring(self) -> State {
        match self.0 & RING {
            0 => State(self.0 | u64::from(next_ring()) << RING_AT),
            _ => self,
        }
    }

    /// The ring of a state that has one.
    #[inline]
    pub(crate) fn ring(self) -> usize {
        ((self.0 & RING) >> RING_AT).wrapping_sub(1) as usize % RINGS
    }

    /// Who else has the ring; `None` for a state without.
    fn users(self) -> Option<&'static AtomicU32> {
        USERS.get(self.ring()).filter(|_| self.0 & RING != 0)
    }
}

#[cold]
#[inline(never)]
fn next_ring() -> u8 {
    if key().is_none() {
        // The choice cannot be kept; by its number a thread always has the same.
        return (clock::thread().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u8 % RINGS as u8 + 1;
    }
    loop {
        let users = USERS.iter().map(|users| users.load(Ordering::Relaxed));
        let Some((found, ring)) = users.zip(0u8..).min() else { return 1 };
        let ever = if found & 0xffff == 0xffff { 0 } else { 1 };
        let taken = found.wrapping_add(ONE_USER).wrapping_add(ever);
        let is_taken =
            |users: &AtomicU32| users.compare_exchange(found, taken, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if USERS.get(usize::from(ring)).is_none_or(is_taken) {
            return ring.saturating_add(1);
        }
    }
}

/// The ring of this thread.
#[inline]
pub(crate) fn ring() -> usize {
    match State::now() {
        state if state.0 & RING == 0 => first(state),
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
