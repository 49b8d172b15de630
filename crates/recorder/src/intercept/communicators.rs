//! The numbers of NCCL's communicators in the file.
//!
//! A table of fixed size maps addresses to numbers. A lookup is usually one load; nothing waits. An address is entered when NCCL has set it, and
//! removed before its memory is freed, because the next communicator may get the same memory.
//!
//! NCCL sets the address of a split communicator only when it is complete: at the end of the surrounding group, or later on a thread of its own. The
//! caller may reuse the place by then, so a place is only read within the call that passed it. Other addresses are learned when the program first
//! passes them in a call: NCCL is asked for rank and size, and if exactly one registered communicator without an address matches, it is that one.
//! If several match, the address gets a new number, and the reader of the file finds out by what the plugin recorded within the calls.

use core::ffi::c_void;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Communicator, NotCancelled, Writer, layout};

use super::identity::{self, UniqueId};
use super::real;
use crate::{clock, process};

/// More than twice the number of communicators in a file, so that probe sequences are short.
const SLOTS: usize = 2048;
const EMPTY: u64 = 0;
const REMOVED: u64 = 1;
const BUSY: u64 = 2;

const PLUGIN: u32 = 1;
const INTERCEPTOR: u32 = 2;

/// An address and its value: the number, with the process's generation above it.
struct Slot {
    key: AtomicU64,
    value: AtomicU64,
}

static TABLE: [Slot; SLOTS] = [const { Slot { key: AtomicU64::new(EMPTY), value: AtomicU64::new(0) } }; SLOTS];

/// The slots that may hold an address, the likeliest first.
fn slots(address: u64) -> impl Iterator<Item = &'static Slot> {
    // Allocations are aligned to at least 16 bytes.
    let first = ((address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize;
    (0..SLOTS).filter_map(move |step| TABLE.get(first.wrapping_add(step) % SLOTS))
}

fn value_of(number: u16) -> u64 {
    process::generation() << 16 | u64::from(number)
}

/// The number in a value; 0 if the value belongs to the process from which this one was forked.
fn number_of(value: u64) -> u16 {
    if value >> 16 == process::generation() { value as u16 } else { 0 }
}

#[inline]
fn find(address: u64) -> Option<(&'static Slot, u64)> {
    for slot in slots(address) {
        match slot.key.load(Ordering::Acquire) {
            EMPTY => return None,
            key if key == address => {
                let value = slot.value.load(Ordering::Acquire);
                // If the key has changed, the slot was reused for another address.
                return (slot.key.load(Ordering::Acquire) == address).then_some((slot, value));
            }
            _ => {}
        }
    }
    None
}

/// The number of a communicator, from 1; 0 if it is unknown, `None` if its address was never looked up.
#[inline]
fn entered(writer: &Writer, address: *const c_void) -> Option<u16> {
    let (_, value) = find(address as u64)?;
    // The entry of a communicator that ended without being destroyed may have been reused.
    Some(number_of(value)).map(|number| if writer.address(number) == address as u64 { number } else { 0 })
}

/// The number of a communicator that ends, from 1; 0 if unknown.
pub(super) fn number(writer: &Writer, address: *const c_void) -> u16 {
    entered(writer, address).unwrap_or(0)
}

/// The number of the communicator that the program uses in this call. An unknown communicator is learned.
#[inline]
pub(super) fn number_in_use(writer: &Writer, address: *const c_void) -> u16 {
    match entered(writer, address) {
        Some(number) => number,
        None if address.is_null() => 0,
        None => learn(writer, address),
    }
}

/// Takes a slot if it is free, or if its entry belongs to the parent of this process.
fn take(slot: &Slot, address: u64, value: u64) -> bool {
    let key = slot.key.load(Ordering::Acquire);
    let is_old = key > BUSY && slot.value.load(Ordering::Acquire) >> 16 != process::generation();
    let is_free = key == EMPTY || key == REMOVED || is_old;
    let is_taken = is_free && slot.key.compare_exchange(key, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if is_taken {
        slot.value.store(value, Ordering::Release);
        slot.key.store(address, Ordering::Release);
    }
    is_taken
}

/// Enters a communicator that NCCL has made. If the file has no room for it, its number is 0, and it is not looked up again.
fn insert(writer: &Writer, number: u16, address: u64) {
    if address <= BUSY {
        return;
    }
    writer.set_address(number, address);
    if let Some((slot, _)) = find(address) {
        // The previous communicator ended without a call that was seen here.
        slot.value.store(value_of(number), Ordering::Release);
        return;
    }
    slots(address).any(|slot| take(slot, address, value_of(number)));
}

/// Removes a communicator whose memory NCCL will free. Two threads may have entered it at once, so all slots are searched.
pub(super) fn remove(address: *const c_void) {
    for slot in slots(address as u64) {
        match slot.key.load(Ordering::Acquire) {
            EMPTY => return,
            key if key == address as u64 && key > BUSY => slot.key.store(REMOVED, Ordering::Release),
            _ => {}
        }
    }
}

/// Finds out which communicator the program has passed in this call. One thread at a time does; another's stays unknown until its next call.
#[cold]
#[inline(never)]
fn learn(writer: &Writer, address: *const c_void) -> u16 {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let _whole = NotCancelled::new();
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return 0;
    }
    // Another thread may have learned it in the meantime.
    let number = entered(writer, address).unwrap_or_else(|| learned(writer, address));
    IS_TAKEN.store(false, Ordering::Release);
    number
}

fn learned(writer: &Writer, address: *const c_void) -> u16 {
    let (rank, size) = real::rank_and_size(address);
    // It is not ready, or not a communicator; the program gets NCCL's answer to that from its own call.
    if rank < 0 || size < 0 {
        return 0;
    }
    let mut candidates = (1..=layout::COMMUNICATORS as u16).filter(|number| may_be(writer, *number, rank, size));
    // If the file had no room for some communicators, it may be one of those.
    let only = candidates.next().filter(|_| candidates.next().is_none() && writer.lost_communicators() == 0);
    let number = only.unwrap_or_else(|| writer.communicator(&about(0, rank, size)));
    writer.set_rank(number, rank, size);
    insert(writer, number, address as u64);
    number
}

/// Whether a registered communicator without a known address can have this rank and size.
fn may_be(writer: &Writer, number: u16, rank: i32, size: i32) -> bool {
    let Some(known) = writer.known(number) else { return false };
    let known = known.communicator();
    let is_waiting = known.by == INTERCEPTOR && known.address == 0 && known.ended == 0;
    let agrees = |of: &Communicator<'_>| (of.rank < 0 || of.rank == rank) && (of.size < 0 || of.size == size);
    // The plugin may know the rank and size of the same communicator.
    let mut others = (1..=layout::COMMUNICATORS as u16).filter(|_| known.hash != 0).filter_map(|at| writer.known(at));
    let fits = |other: Communicator<'_>| other.by != PLUGIN || other.hash != known.hash || agrees(&other);
    is_waiting && agrees(&known) && others.all(|other| fits(other.communicator()))
}

/// What is known of a communicator before it is made.
fn about(hash: u64, rank: i32, size: i32) -> Communicator<'static> {
    Communicator { by: INTERCEPTOR, hash, rank, size, nodes: -1, made: clock::now(), ..Communicator::default() }
}

/// Registers a communicator that is made from an id. A rank that never returns from that call is waiting for others.
pub(super) fn announce(writer: &Writer, id: Option<&UniqueId>, rank: i32, size: i32) -> u16 {
    let Some(id) = id else { return writer.communicator(&about(0, rank, size)) };
    let hash = identity::nccl(id, real::version());
    writer.communicator(&Communicator { group_hash: identity::megatrace(id), ..about(hash, rank, size) })
}

/// How a communicator is derived from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `ncclCommSplit`, with colour and key. Colour -1 makes none.
    Split(i32, i32),
    Shrink,
    /// `ncclCommGrow`, with the new size, and the rank of a process that joins, or -1.
    Grow(i32, i32),
}

/// Registers a communicator that is derived from another one.
pub(super) fn announce_child(writer: &Writer, parent: u16, parent_at: *const c_void, way: Way) -> u16 {
    // NCCL counts splits and growths, from 1, and hashes that count. It does not count shrinks.
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
            // Its hash depends on data that only NCCL has.
            count(true);
            let is_joining = parent_at.is_null();
            about(0, if is_joining { rank } else { real::rank_and_size(parent_at).0 }, size)
        }
    };
    writer.communicator(&Communicator { parent, ..child })
}

/// Called before NCCL's function returns from making a communicator. Enters its address if NCCL has set it. `is_complete`: no group is open and
/// NCCL is done, so that it can be asked for the rank.
///
/// # Safety
///
/// `place` is an argument of the thread's current call, and NCCL has written to it.
pub(super) unsafe fn made(writer: &Writer, number: u16, place: *const *const c_void, is_complete: bool) {
    if place.is_null() {
        return;
    }
    // SAFETY: the caller promises it. A thread of NCCL may be writing the address at this moment.
    let address = unsafe { AtomicPtr::from_ptr(place.cast_mut().cast::<*mut c_void>()) }.load(Ordering::Acquire);
    if address.is_null() {
        return;
    }
    insert(writer, number, address as u64);
    if is_complete && number != 0 {
        let (rank, size) = real::rank_and_size(address);
        // If NCCL gives no answer, the call's arguments stay.
        if rank >= 0 && size >= 0 {
            writer.set_rank(number, rank, size);
        }
    }
}

/// Registers the communicators that one process makes for all its GPUs.
///
/// # Safety
///
/// `places` is an argument of the thread's current call, and NCCL has written `count` addresses there.
pub(super) unsafe fn made_all(writer: &Writer, places: *const *const c_void, count: i32) {
    for rank in 0..if places.is_null() { 0 } else { count } {
        // SAFETY: the caller promises it.
        let address = unsafe { *places.add(usize::try_from(rank).unwrap_or(0)) };
        insert(writer, announce(writer, None, rank, count), address as u64);
    }
}

pub(super) const NONE: *const c_void = null();
