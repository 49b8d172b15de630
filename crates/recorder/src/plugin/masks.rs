//! Which events NCCL shall report.
//!
//! NCCL reports the ancestors of what is asked for by itself. The default is what says where time goes at a low rate: collectives and sends
//! with the algorithm that was chosen, what the proxies do for each channel and peer, and when the GPU began and ended each channel: without
//! the last one there is no completion at all, for `stopEvent` of a collective says that it was enqueued. Each is a few records per
//! operation. Left out are steps of proxies, a record for every chunk and phase; what a proxy's thread does, which is reported even when it
//! does nothing; transfers of network plugins, which make NCCL report the steps, too; copy engines, whose events NCCL has to time with
//! host callbacks of its own; and phases of kernels.

use super::abi::event;
use crate::environment;

/// What is reported if `NCCL_PROFILE_EVENT_MASK` does not say.
const DEFAULT: u64 = event::COLL | event::P2P | event::PROXY_OP | event::KERNEL_CH;

/// All events of a version.
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

/// What a plugin of this version asks for.
pub(super) fn wanted(version: u32) -> u64 {
    environment::number(c"NCCL_PROFILE_EVENT_MASK").unwrap_or(DEFAULT) & known(version)
}
