//! Thread-local state: which function the thread is in, how deep in groups, and which ring it uses.
//!
//! Without the standard library there is no `thread_local!`. A pthread key is looked up in a few instructions and without a lock. It also needs no
//! static TLS of the linker, which may be used up when a plugin is loaded late. Its value is one word that is never dereferenced: 48 bits for
//! the function, 5 for the ring, 11 for the depth.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use nccl_stacks_recorder_format::layout::RINGS;

use crate::clock;

/// The key plus one; 0 before it exists.
static KEY: AtomicU32 = AtomicU32::new(0);

/// For each ring: in the high half how many threads use it, in the low half how many ever did, saturating.
static USERS: [AtomicU32; RINGS] = [const { AtomicU32::new(0) }; RINGS];

const ONE_USER: u32 = 1 << 16;

/// The deepest group that is counted. No program nests that deep.
const DEEPEST: u16 = (1 << 11) - 1;

/// Where the ring's number is, from 1; 0 is none.
const RING_AT: u32 = 11;
const RING: u64 = 31 << RING_AT;

const _: () = assert!(RINGS < 1 << 5 && RING | DEEPEST as u64 == 0xffff);

/// The state of a thread: the value of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u64);

/// Creates the key, when the library is loaded.
pub(crate) fn prepare() {
    key();
}

fn key() -> Option<libc::pthread_key_t> {
    match KEY.load(Ordering::Acquire) {
        0 => make(),
        key => Some(key - 1),
    }
}

/// Creates the key. If two threads do, one of their keys is dropped.
#[cold]
#[inline(never)]
fn make() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` may be written; `ended` lives as long as the library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: no other thread has seen this key.
            unsafe { libc::pthread_key_delete(key) };
            Some(other - 1)
        }
    }
}

/// Frees the ring of a thread that has ended.
unsafe extern "C" fn ended(word: *mut c_void) {
    if let Some(users) = State(word as u64).users() {
        users.fetch_sub(ONE_USER, Ordering::Relaxed);
    }
}

/// Runs in a forked child, whose only thread is this one.
pub(crate) fn forked() {
    USERS.iter().for_each(|users| users.store(0, Ordering::Relaxed));
    if let Some(users) = State::now().users() {
        users.store(ONE_USER | 1, Ordering::Relaxed);
    }
}

impl State {
    /// The state of this thread. If the process has no key left, it is always empty.
    #[inline]
    pub(crate) fn now() -> State {
        // SAFETY: the key exists; a thread that set no value has null.
        State(key().map_or(0, |key| unsafe { libc::pthread_getspecific(key) } as u64))
    }

    /// Makes this the state of this thread.
    #[inline]
    pub(crate) fn keep(self) {
        if let Some(key) = key() {
            // SAFETY: the pointer is only a number, and is never dereferenced.
            unsafe { libc::pthread_setspecific(key, self.0 as *const c_void) };
        }
    }

    /// The address of the description of the current function; 0 for none.
    #[inline]
    pub(crate) fn inside(self) -> u64 {
        self.0 >> 16
    }

    /// How many groups are open.
    #[inline]
    pub(crate) fn depth(self) -> u16 {
        self.0 as u16 & DEEPEST
    }

    /// The same state, in the function whose description is at this address.
    #[inline]
    pub(crate) fn within(self, function: u64) -> State {
        State(function << 16 | self.0 & 0xffff)
    }

    /// The same state, with this many open groups.
    #[inline]
    pub(crate) fn at(self, depth: u16) -> State {
        State(self.0 & !u64::from(DEEPEST) | u64::from(depth.min(DEEPEST)))
    }

    /// The same state with a ring: among the rings with the fewest current threads, the one with the fewest threads ever. So a busy thread does not
    /// overwrite another thread's records until there are more threads than rings, nor an ended thread's until each ring had a thread.
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

    /// The user counts of its ring; `None` for a state without a ring.
    fn users(self) -> Option<&'static AtomicU32> {
        USERS.get(self.ring()).filter(|_| self.0 & RING != 0)
    }
}

#[cold]
#[inline(never)]
fn next_ring() -> u8 {
    if key().is_none() {
        // The choice cannot be stored; deriving it from the thread's number makes it stable.
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

/// Assigns a ring to the thread.
#[cold]
#[inline(never)]
fn first(state: State) -> usize {
    let state = state.with_ring();
    state.keep();
    state.ring()
}
