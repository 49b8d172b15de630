//! Which number in the file a communicator of NCCL's has.
//!
//! A table of fixed size, from addresses to numbers. Looking up is one load as a rule; nothing waits. An address is entered when NCCL has
//! set it and taken out before it is given back, for the next communicator may get the same memory.
//!
//! NCCL sets the address of a communicator that is split from another one only when it is complete: at the end of the group around the
//! call, or later on a thread of its own. The place that it writes to is the caller's, who may copy the address and use the place for something else.
//! So a place is read only within the call that passed it, and an address that was not there then is learned when the program first passes it
//! in a call: NCCL is asked for its rank and size, which it answers of what the program has just passed, and if one communicator alone that is announced
//! and has no address can be it, it is that one. If several can be, it gets a number of its own with its rank and size, and who reads the file finds out by what the
//! plugin recorded within the calls.

use core::ffi::c_void;
use core::ptr::null;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Communicator, Writer, layout};

use super::identity::{self, UniqueId};
use super::real;
use crate::{clock, process};

/// More than twice as many as a file has communicators, so that ways through the table are short.
const SLOTS: usize = 2048;
const EMPTY: u64 = 0;
const REMOVED: u64 = 1;
const BUSY: u64 = 2;

/// What made a communicator known.
const PLUGIN: u32 = 1;
const INTERCEPTOR: u32 = 2;

/// An address, and what belongs to it: the number, with the process's generation above it.
struct Slot {
    key: AtomicU64,
    value: AtomicU64,
}

static TABLE: [Slot; SLOTS] = [const { Slot { key: AtomicU64::new(EMPTY), value: AtomicU64::new(0) } }; SLOTS];

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

/// The number of a communicator, from 1; 0 if it is unknown, `None` if nothing was ever asked about it.
#[inline]
fn entered(writer: &Writer, address: *const c_void) -> Option<u16> {
    let (_, value) = find(address as u64)?;
    // One that ended without being destroyed may have given its entry to another one.
    Some(number_of(value)).map(|number| if writer.address(number) == address as u64 { number } else { 0 })
}

/// The number of a communicator that ends, from 1; 0 if it is unknown.
pub(super) fn number(writer: &Writer, address: *const c_void) -> u16 {
    entered(writer, address).unwrap_or(0)
}

/// The number of a communicator that the program uses in this call; one that is not known yet is learned.
#[inline]
pub(super) fn number_in_use(writer: &Writer, address: *const c_void) -> u16 {
    match entered(writer, address) {
        Some(number) => number,
        None if address.is_null() => 0,
        None => learn(writer, address),
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

/// Enters a communicator that NCCL has made. One for which the file has no room has number 0, and is not asked about again.
fn insert(writer: &Writer, number: u16, address: u64) {
    if address <= BUSY {
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

/// Finds out which communicator the program has passed in the call that this thread is in.
#[cold]
#[inline(never)]
fn learn(writer: &Writer, address: *const c_void) -> u16 {
    let (rank, size) = real::rank_and_size(address);
    // One that is not ready, or none at all: what the program gets from its call is NCCL's answer to that.
    if rank < 0 || size < 0 {
        return 0;
    }
    let mut candidates = (1..=layout::COMMUNICATORS as u16).filter(|number| may_be(writer, *number, rank, size));
    let only = candidates.next().filter(|_| candidates.next().is_none());
    // Another thread may be learning another address at this moment.
    let only = only.filter(|only| writer.claim_address(*only, address as u64));
    let number = only.unwrap_or_else(|| writer.communicator(&about(0, rank, size)));
    writer.set_rank(number, rank, size);
    insert(writer, number, address as u64);
    number
}

/// Whether a communicator that is announced, and whose address nobody has seen, can be one of this rank and size.
fn may_be(writer: &Writer, number: u16, rank: i32, size: i32) -> bool {
    let Some(known) = writer.known(number) else { return false };
    let known = known.communicator();
    let is_waiting = known.by == INTERCEPTOR && known.address == 0 && known.ended == 0;
    if !is_waiting {
        return false;
    }
    let agrees = |of: &Communicator<'_>| (of.rank < 0 || of.rank == rank) && (of.size < 0 || of.size == size);
    // The plugin may know the rank and the size of the same one.
    let of_plugin =
        (1..=layout::COMMUNICATORS as u16).filter(|_| known.hash != 0).filter_map(|other| writer.known(other));
    let mut same = of_plugin.filter(|other| {
        let other = other.communicator();
        other.by == PLUGIN && other.hash == known.hash
    });
    agrees(&known) && same.all(|other| agrees(&other.communicator()))
}

/// What is known of a communicator before it is made.
fn about(hash: u64, rank: i32, size: i32) -> Communicator<'static> {
    Communicator { by: INTERCEPTOR, hash, rank, size, nodes: -1, made: clock::now(), ..Communicator::default() }
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

/// NCCL is about to return from making one: its address is entered if NCCL has set it. `is_complete`: no group is open and NCCL is done, so that
/// it can be asked for the rank.
///
/// # Safety
///
/// The place is an argument of the call that the thread is in, and NCCL has written there.
pub(super) unsafe fn made(writer: &Writer, number: u16, place: *const *const c_void, is_complete: bool) {
    if place.is_null() {
        return;
    }
    // SAFETY: by the caller. A thread of NCCL's may be writing the address at this moment.
    let address = unsafe { AtomicPtr::from_ptr(place.cast_mut().cast::<*mut c_void>()) }.load(Ordering::Acquire);
    if address.is_null() {
        return;
    }
    insert(writer, number, address as u64);
    if is_complete && number != 0 {
        let (rank, size) = real::rank_and_size(address);
        // What the arguments said stays if NCCL says nothing.
        if rank >= 0 && size >= 0 {
            writer.set_rank(number, rank, size);
        }
    }
}

/// Makes all known that one process has of a communicator for each of its GPUs.
///
/// # Safety
///
/// The places are an argument of the call that the thread is in, and NCCL has written so many addresses there.
pub(super) unsafe fn made_all(writer: &Writer, places: *const *const c_void, count: i32) {
    for rank in 0..if places.is_null() { 0 } else { count } {
        // SAFETY: by the caller.
        let address = unsafe { *places.add(usize::try_from(rank).unwrap_or(0)) };
        insert(writer, announce(writer, None, rank, count), address as u64);
    }
}

/// No communicator.
pub(super) const NONE: *const c_void = null();
