//! Thread-local state: which function the thread is in, how deep in groups, and which rings it uses: one for calls and one for events.
//!
//! Without the standard library there is no `thread_local!`. A pthread key is looked up in a few instructions, without a lock and without static TLS,
//! which may be used up when a plugin is loaded late. Its value is one word that is never dereferenced: 48 bits for the function, 4 and 3 for the
//! rings, 9 for the depth.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use nccl_stacks_recorder_format::layout::{CALL_RINGS, RINGS};

use crate::clock;

/// The key plus one; 0 before it exists.
static KEY: AtomicU32 = AtomicU32::new(0);

/// For each ring: in the high half how many threads use it, in the low half how many ever did, saturating.
static USERS: [AtomicU32; RINGS] = [const { AtomicU32::new(0) }; RINGS];

const ONE_USER: u32 = 1 << 16;

/// The deepest group that is counted. No program nests that deep.
const DEEPEST: u16 = (1 << 9) - 1;

/// The rings of one use, and where a state has the number of the thread's own, from 1; 0 is none.
#[derive(Clone, Copy)]
pub(crate) struct Rings {
    first: usize,
    count: usize,
    at: u32,
    mask: u64,
}

pub(crate) const CALLS: Rings = Rings { first: 0, count: CALL_RINGS, at: 9, mask: 15 << 9 };

/// What the profiler plugin records.
pub(crate) const EVENTS: Rings = Rings { first: CALL_RINGS, count: RINGS - CALL_RINGS, at: 13, mask: 7 << 13 };

const _: () = assert!(CALLS.count < 1 << 4 && EVENTS.count < 1 << 3);
const _: () = assert!(CALLS.mask | EVENTS.mask | DEEPEST as u64 == 0xffff);

/// The state of a thread: the value of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u64);

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

/// Frees the rings of a thread that has ended.
unsafe extern "C" fn ended(word: *mut c_void) {
    for rings in [CALLS, EVENTS] {
        if let Some(users) = State(word as u64).users(rings) {
            users.fetch_sub(ONE_USER, Ordering::Relaxed);
        }
    }
}

/// Runs in a forked child, whose only thread is this one.
pub(crate) fn forked() {
    USERS.iter().for_each(|users| users.store(0, Ordering::Relaxed));
    for rings in [CALLS, EVENTS] {
        if let Some(users) = State::now().users(rings) {
            users.store(ONE_USER | 1, Ordering::Relaxed);
        }
    }
}

impl State {
    /// The state of this thread. If the process has no key left, it is always empty.
    #[inline]
    pub(crate) fn now() -> State {
        // SAFETY: the key exists; a thread that set no value has null.
        State(key().map_or(0, |key| unsafe { libc::pthread_getspecific(key) } as u64))
    }

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

    #[inline]
    pub(crate) fn depth(self) -> u16 {
        self.0 as u16 & DEEPEST
    }

    /// The same state, in the function whose description is at this address.
    #[inline]
    pub(crate) fn within(self, function: u64) -> State {
        State(function << 16 | self.0 & 0xffff)
    }

    #[inline]
    pub(crate) fn at(self, depth: u16) -> State {
        State(self.0 & !u64::from(DEEPEST) | u64::from(depth.min(DEEPEST)))
    }

    /// The same state with a ring for each use. Both at once: restoring the state of before a call would forget a ring that the plugin chose within it.
    #[inline]
    pub(crate) fn with_rings(self) -> State {
        match self.0 & CALLS.mask {
            0 => self.with_ring(EVENTS).with_ring(CALLS),
            _ => self,
        }
    }

    /// The same state with a ring for a use: of those with the fewest current threads, the one with the fewest ever. So no thread overwrites another's
    /// records until there are more threads than rings, nor an ended thread's until each ring had a thread.
    #[inline]
    pub(crate) fn with_ring(self, rings: Rings) -> State {
        match self.0 & rings.mask {
            0 => State(self.0 | u64::from(next_ring(rings)) << rings.at),
            _ => self,
        }
    }

    /// The ring of a state that has one for this use.
    #[inline]
    pub(crate) fn ring(self, rings: Rings) -> usize {
        let own = ((self.0 & rings.mask) >> rings.at).wrapping_sub(1) as usize;
        rings.first.wrapping_add(own) % RINGS
    }

    fn users(self, rings: Rings) -> Option<&'static AtomicU32> {
        USERS.get(self.ring(rings)).filter(|_| self.0 & rings.mask != 0)
    }
}

/// The number of a ring among those of a use, from 1.
#[cold]
#[inline(never)]
fn next_ring(rings: Rings) -> u8 {
    if key().is_none() {
        // The choice cannot be stored; deriving it from the thread's number makes it stable.
        let number = (clock::thread().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize;
        return number.checked_rem(rings.count).map_or(1, |ring| ring as u8).saturating_add(1);
    }
    loop {
        let users = USERS.iter().skip(rings.first).take(rings.count).map(|users| users.load(Ordering::Relaxed));
        let Some((found, ring)) = users.zip(0u8..).min() else { return 1 };
        let ever = if found & 0xffff == 0xffff { 0 } else { 1 };
        let taken = found.wrapping_add(ONE_USER).wrapping_add(ever);
        let is_taken =
            |users: &AtomicU32| users.compare_exchange(found, taken, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if USERS.get(rings.first.wrapping_add(usize::from(ring))).is_none_or(is_taken) {
            return ring.saturating_add(1);
        }
    }
}

#[inline]
pub(crate) fn event_ring() -> usize {
    match State::now() {
        state if state.0 & EVENTS.mask == 0 => first(state),
        state => state.ring(EVENTS),
    }
}

#[cold]
#[inline(never)]
fn first(state: State) -> usize {
    let state = state.with_ring(EVENTS);
    state.keep();
    state.ring(EVENTS)
}
