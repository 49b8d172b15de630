//! Values that NCCL keeps for us and passes back: the handle of an event is the number of its first record as a pointer, the context of a communicator
//! its number in the file.
//!
//! NCCL passes back handles of events that stopped long ago, repeatedly when a graph is replayed, and after a fork those that the parent got. So both
//! kinds have the fork count beside the number, which counts as 0 if that differs. That a parent is of another process only the event says. Nothing is
//! stored per handle, except each communicator's last group, because every collective names it.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Handle, layout};

use super::abi::Opaque;
use crate::process;

/// The bits of a handle that are the record's number. The other bits are the fork count.
pub(super) const NUMBER: u64 = (1 << 56) - 1;

/// Notes in handles: facts about an event that are needed when only its handle is passed.
pub(super) mod note {
    pub(in crate::plugin) const NOTHING: u8 = 0;
    /// NCCL reports its end as a state, just before `stopEvent`.
    pub(in crate::plugin) const ENDS_BY_STATE: u8 = 1;
    /// Its parent and context belong to another process.
    pub(in crate::plugin) const FOREIGN: u8 = 2;
}

/// The number of a record of this process; 0 for null, and for handles from before a fork.
#[inline]
pub(super) fn own(handle: Opaque) -> u64 {
    let number = handle.addr() as u64;
    if number >> 56 == process::generation() & 0xff { number & NUMBER } else { 0 }
}

/// The handle that NCCL gets for a record: its number with the fork count. Without a record the number is 0.
#[inline]
pub(super) fn pointer(handle: Option<Handle>) -> Opaque {
    let number = handle.map_or(0, |handle| handle.number() | (process::generation() & 0xff) << 56);
    ptr::without_provenance_mut(number as usize)
}

/// The high half of a context. No process can have such an address.
const CONTEXT: u64 = 0x4e43_5354 << 32;

/// The context of a communicator: the fork count and its number. Never null.
pub(super) fn context(number: u16) -> Opaque {
    ptr::without_provenance_mut((CONTEXT | (process::generation() & 0xffff) << 16 | u64::from(number)) as usize)
}

/// The communicator of a context; 0 if it is null, from before a fork, or not ours.
#[inline]
pub(super) fn communicator(context: Opaque) -> u16 {
    let context = context.addr() as u64;
    if context >> 16 == (CONTEXT >> 16 | process::generation() & 0xffff) { context as u16 } else { 0 }
}

/// The last group of each communicator, so that most collectives need not record their group.
static GROUPS: [AtomicU64; layout::COMMUNICATORS + 1] = [const { AtomicU64::new(0) }; layout::COMMUNICATORS + 1];

/// The last group of a known communicator; 0 for none.
pub(super) fn last_group(communicator: u16) -> u64 {
    let last = GROUPS.get(usize::from(communicator)).filter(|_| communicator != 0);
    own(ptr::without_provenance_mut(last.map_or(0, |last| last.load(Ordering::Relaxed)) as usize))
}

#[inline]
pub(super) fn set_last_group(communicator: u16, group: Option<Handle>) {
    if let Some(last) = GROUPS.get(usize::from(communicator)) {
        last.store(pointer(group).addr() as u64, Ordering::Relaxed);
    }
}
