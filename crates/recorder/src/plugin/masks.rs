//! The events that NCCL is asked to report.
//!
//! NCCL adds the ancestors of requested events by itself. The default shows with a few records per operation where time goes: collectives and sends
//! with the chosen algorithm, the work of proxies for each channel and peer, and when the GPU began and ended each channel. Without channels there are
//! no completion times at all, because `stopEvent` of a collective means that it was enqueued. Left out are proxy steps, with a record for every chunk
//! and phase; proxy threads, which report even when idle; transfers of network plugins, for which NCCL also reports the steps; copy engines, whose
//! events NCCL times with host callbacks; and kernel phases.

use super::abi::event;
use crate::environment;

/// The default for `NCCL_PROFILE_EVENT_MASK`.
const DEFAULT: u64 = event::COLL | event::P2P | event::PROXY_OP | event::KERNEL_CH;

pub(super) const fn known(version: u32) -> u64 {
    match version {
        0..=4 => event::GROUP_API - 1,
        5 => event::CE_COLL - 1,
        6 => event::KERNEL_PHASE - 1,
        _ => 2 * event::KERNEL_PHASE - 1,
    }
}

const _: () = assert!(known(4) == 255 && known(5) == 4095 && known(6) == 32767 && known(7) == 65535);
const _: () = assert!(event::GROUP | event::COLL | event::P2P | event::PROXY_OP == 15);

/// The events that a plugin of this version asks for.
pub(super) fn wanted(version: u32) -> u64 {
    environment::number(c"NCCL_PROFILE_EVENT_MASK").unwrap_or(DEFAULT) & known(version)
}
