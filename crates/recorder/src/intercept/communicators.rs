//! Which number in the file a communicator of NCCL's has.
//!
//! A table of fixed size, from addresses to numbers. Looking up is one load as a rule; nothing waits. An address is entered when NCCL has
//! set it and taken out before it is given back, for the next communicator may get the same memory.
//!
//! NCCL sets the address of a communicator that is split from another one only when it is complete: at the end of the group around the
//! call, or later on a thread of its own. Those are pending: the place that NCCL will write to is looked at when a group has ended, or when
//! an address is used that nobody knows. It is read by the system, which finds out whether it is still memory.

use core::ffi::c_void;
use core::ptr::null;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Communicator, Writer};

use super::identity::{self, UniqueId};
use super::real;
use crate::{clock, process};

/// More than twice as many as a file has communicators, so that ways through the table are short.
const SLOTS: usize = 2048;
const EMPTY: u64 = 0;
const REMOVED: u64 = 1;
const BUSY: u64 = 2;

/// An address, and what belongs to it: the number, with the process's generation above it.
struct Slot {
    key: AtomicU64,
    value: AtomicU64,
}

static TABLE: [Slot; SLOTS] = [const { Slot { key: AtomicU64::new(EMPTY), value: AtomicU64::new(0) } }; SLOTS];

/// Where NCCL will write addresses; the keys are those places.
static PENDING: [Slot; 64] = [const { Slot { key: AtomicU64::new(EMPTY), value: AtomicU64::new(0) } }; 64];

/// How many of those are taken.
static PENDING_COUNT: AtomicU32 = AtomicU32::new(0);

/// The slots in which an address may be, the likeliest first.
fn slots(address: u64) -> impl Iterator<Item = &'static Slot> {
    // Structures lie at multiples of 16 at least.
    let first = ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize;
    (0..SLOTS).filter_map(move |step| TABLE.get(first.wrapping_add(step) % SLOTS))
}

fn value_of(number: u16) -> u64 {
    process::generation() << 16 | u64::from(number)
}

/// The number in a value; 0 if it is of the process that this one was forked from.
fn number_of(value: u64) -> u16 {
    if value >> 16 == process::generation() { value as u16 } else { 0 }
}

/// The slot of an address.
#[inline]
fn find(address: u64) -> Option<(&'static Slot, u64)> {
    for slot in slots(address) {
        match slot.key.load(Ordering::Acquire) {
            EMPTY => return None,
            key if key == address => {
                let value = slot.value.load(Ordering::Acquire);
                // Otherwise the slot was given to another one meanwhile.
                return (slot.key.load(Ordering::Acquire) == address).then_some((slot, value));
            }
            _ => {}
        }
    }
    None
}

/// The number of a communicator, from 1; 0 if it is unknown.
#[inline]
pub(super) fn number(writer: &Writer, address: *const c_void) -> u16 {
    match find(address as u64) {
        Some((_, value)) => number_of(value),
        None if PENDING_COUNT.load(Ordering::Relaxed) > 0 && !address.is_null() => {
            settle(writer);
            find(address as u64).map_or(0, |(_, value)| number_of(value))
        }
        None => 0,
    }
}

/// Takes the first slot that is free, or whose entry is of the process before a fork.
fn take(slot: &Slot, address: u64, value: u64) -> bool {
    let key = slot.key.load(Ordering::Acquire);
    let is_old = key > BUSY && slot.value.load(Ordering::Acquire) >> 16 != process::generation();
    if !(key == EMPTY || key == REMOVED || is_old) {
        return false;
    }
    if slot.key.compare_exchange(key, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    slot.value.store(value, Ordering::Release);
    slot.key.store(address, Ordering::Release);
    true
}

/// Enters a communicator that NCCL has made.
fn insert(writer: &Writer, number: u16, address: u64) {
    if number == 0 || address <= BUSY {
        return;
    }
    writer.set_address(number, address);
    if let Some((slot, _)) = find(address) {
        // One that ended without a call that is seen here.
        slot.value.store(value_of(number), Ordering::Release);
        return;
    }
    for slot in slots(address) {
        if take(slot, address, value_of(number)) {
            return;
        }
    }
}

/// Takes out a communicator whose memory NCCL will give back.
pub(super) fn remove(address: *const c_void) {
    if let Some((slot, _)) = find(address as u64) {
        slot.key.store(REMOVED, Ordering::Release);
    }
}

/// What is known of a communicator before it is made.
fn about(hash: u64, rank: i32, size: i32) -> Communicator<'static> {
    Communicator { by: 2, hash, rank, size, nodes: -1, made: clock::now(), ..Communicator::default() }
}

/// Makes known one that is made from an id. A rank that never comes back from that call is one that waits for others.
pub(super) fn announce(writer: &Writer, id: Option<&UniqueId>, rank: i32, size: i32) -> u16 {
    let Some(id) = id else { return writer.communicator(&about(0, rank, size)) };
    let hash = identity::nccl(id, real::version());
    writer.communicator(&Communicator { group_hash: identity::megatrace(id), ..about(hash, rank, size) })
}

/// How one is made from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `ncclCommSplit`, with colour and key. A colour of -1 makes none.
    Split(i32, i32),
    /// `ncclCommShrink`.
    Shrink,
    /// `ncclCommGrow`, to so many ranks; the rank of one that joins, or -1.
    Grow(i32, i32),
}

/// Makes known one that is made from another one.
pub(super) fn announce_child(writer: &Writer, parent: u16, parent_at: *const c_void, way: Way) -> u16 {
    // NCCL counts splits and growths, from 1, and hashes that count; it does not count shrinkings.
    let count = |is_counted| match (parent, is_counted) {
        (0, _) => (0, 0),
        (_, true) => writer.next_child(parent).map_or((0, 0), |(hash, count)| (hash, count.wrapping_add(1))),
        (_, false) => (writer.hash(parent), 0),
    };
    let hash_of = |(hash, count): (u64, u32), color| {
        if hash == 0 { 0 } else { identity::child(hash, count.cast_signed(), color) }
    };
    let child = match way {
        Way::Split(color, key) => {
            let counted = count(true);
            if color == -1 {
                return 0;
            }
            Communicator { color, key, ..about(hash_of(counted, color), -1, -1) }
        }
        Way::Shrink => about(hash_of(count(false), 0), -1, -1),
        Way::Grow(size, rank) => {
            // Its hash comes from what only NCCL knows.
            count(true);
            let is_joining = parent_at.is_null();
            about(0, if is_joining { rank } else { real::rank_and_size(parent_at).0 }, size)
        }
    };
    writer.communicator(&Communicator { parent, ..child })
}

/// NCCL has returned from making one: its address is entered if NCCL has set it, and is pending otherwise. `is_complete`: no group is open and
/// NCCL is done, so that it can be asked for the rank.
pub(super) fn made(writer: &Writer, number: u16, place: *const *const c_void, is_complete: bool) {
    if number == 0 || place.is_null() {
        return;
    }
    // SAFETY: NCCL has just written there, or will; so the caller has kept it.
    let address = unsafe { *place };
    if address.is_null() {
        if !is_complete && PENDING.iter().any(|slot| take(slot, place as u64, value_of(number))) {
            PENDING_COUNT.fetch_add(1, Ordering::Relaxed);
        }
        return;
    }
    insert(writer, number, address as u64);
    if is_complete {
        ask(writer, number, address);
    }
}

/// Has NCCL say the rank and the size of one that was split.
fn ask(writer: &Writer, number: u16, address: *const c_void) {
    let (rank, size) = real::rank_and_size(address);
    // What the arguments said stays if NCCL says nothing.
    if rank >= 0 && size >= 0 {
        writer.set_rank(number, rank, size);
    }
}

/// Makes all known that one process has of a communicator for each of its GPUs.
pub(super) fn made_all(writer: &Writer, places: *const *const c_void, count: i32) {
    for rank in 0..if places.is_null() { 0 } else { count } {
        // SAFETY: NCCL has just written so many addresses there.
        let address = unsafe { *places.add(usize::try_from(rank).unwrap_or(0)) };
        insert(writer, announce(writer, None, rank, count), address as u64);
    }
}

/// Looks at what is pending.
#[cold]
pub(super) fn settle(writer: &Writer) {
    if PENDING_COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    for slot in &PENDING {
        let place = slot.key.load(Ordering::Acquire);
        let number = number_of(slot.value.load(Ordering::Acquire));
        if place <= BUSY {
            continue;
        }
        let address = read(place);
        let is_done = address != Some(0) || number == 0;
        // Only one thread takes it out.
        if is_done && slot.key.compare_exchange(place, REMOVED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            PENDING_COUNT.fetch_sub(1, Ordering::Relaxed);
            if let Some(address) = address.filter(|address| *address > BUSY && number != 0) {
                insert(writer, number, address);
                ask(writer, number, address as *const c_void);
            }
        }
    }
}

/// Reads a word of this process, if it is there.
fn read(place: u64) -> Option<u64> {
    let mut word = 0u64;
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 8 };
    let from = libc::iovec { iov_base: place as *mut c_void, iov_len: 8 };
    // SAFETY: the word may be written, and the system looks itself whether the other one may be read.
    let length = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    (length == 8).then_some(word)
}

/// No communicator.
pub(super) const NONE: *const c_void = null();
