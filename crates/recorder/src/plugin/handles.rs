//! What NCCL keeps for us and gives back: handles of events, and contexts of communicators.
//!
//! NCCL gives back what was stopped long ago, and after a fork what the parent was given. So both have the count of forks beside the number, and
//! who asks for the number gets 0 if the count is another one. That a parent is of another process altogether cannot be seen here: the event
//! says so. Nothing is kept for a handle; only each communicator's last group is known, for every collective names it.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Handle, layout};

use super::abi::Opaque;
use crate::process;

/// The bits of a handle that are the record's number. The others count forks: a parent's handles name nothing in a child's file.
pub(super) const NUMBER: u64 = (1 << 56) - 1;

/// Notes in handles: what has to be known of an event when only its handle is given.
pub(super) mod note {
    pub(in crate::plugin) const NOTHING: u8 = 0;
    /// NCCL reports its end as a state, just before `stopEvent`.
    pub(in crate::plugin) const ENDS_BY_STATE: u8 = 1;
    /// Its parent and context are of another process.
    pub(in crate::plugin) const FOREIGN: u8 = 2;
}

/// The number of a record of ours; 0 for null, and for what a process has that this one was forked from.
#[inline]
pub(super) fn own(handle: Opaque) -> u64 {
    let number = handle.addr() as u64;
    if number >> 56 == process::generation() & 0xff { number & NUMBER } else { 0 }
}

/// What NCCL gets for a record: its number with the count of forks. Without a record the number is 0, which is no record's.
#[inline]
pub(super) fn pointer(handle: Option<Handle>) -> Opaque {
    let number = handle.map_or(0, |handle| handle.number() | (process::generation() & 0xff) << 56);
    ptr::without_provenance_mut(number as usize)
}

/// What a context has in its high half; not an address that a process can have.
const CONTEXT: u64 = 0x4e43_5354 << 32;

/// The context of a communicator: the count of forks and its number. Never null.
pub(super) fn context(number: u16) -> Opaque {
    ptr::without_provenance_mut((CONTEXT | (process::generation() & 0xffff) << 16 | u64::from(number)) as usize)
}

/// The communicator of a context; 0 if it is null, or of a process from which this one was forked, or none of ours.
#[inline]
pub(super) fn communicator(context: Opaque) -> u16 {
    let context = context.addr() as u64;
    if context >> 16 == (CONTEXT >> 16 | process::generation() & 0xffff) { context as u16 } else { 0 }
}

/// The last group of each communicator, by which most collectives need not say theirs.
static GROUPS: [AtomicU64; layout::COMMUNICATORS + 1] = [const { AtomicU64::new(0) }; layout::COMMUNICATORS + 1];

/// The last group of a communicator that is known; 0 for none.
pub(super) fn last_group(communicator: u16) -> u64 {
    let last = GROUPS.get(usize::from(communicator)).filter(|_| communicator != 0);
    own(ptr::without_provenance_mut(last.map_or(0, |last| last.load(Ordering::Relaxed)) as usize))
}

/// From now on a communicator's last group is this one.
#[inline]
pub(super) fn set_last_group(communicator: u16, group: Option<Handle>) {
    if let Some(last) = GROUPS.get(usize::from(communicator)) {
        last.store(pointer(group).addr() as u64, Ordering::Relaxed);
    }
}
