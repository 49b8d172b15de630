//! The profiler plugin: the functions that NCCL calls.
//!
//! NCCL looks for `ncclProfiler_v7`, `_v6` and so on and takes the first that exists, so one library serves NCCL 2.27 and later. Events and
//! communicators have [numbers as handles](handles), for which nothing has to exist when they are passed back. All functions return 0: a job must not
//! fail because of its observer.

mod abi;
mod events;
mod given;
mod handles;
mod masks;

use core::ffi::c_int;

use nccl_stacks_recorder_format::Communicator;

use self::abi::{Opaque, Text};
use self::handles::{communicator, context};
use crate::{clock, lifecycle, log, process, texts};

/// The arguments of `init`.
struct Init {
    version: u32,
    hash: u64,
    name: Text,
    nodes: c_int,
    size: c_int,
    rank: c_int,
}

/// Registers a communicator. Without a file, there is no context, and no events are requested.
unsafe fn init(about: &Init, to: *mut Opaque, mask: *mut c_int) -> c_int {
    // NCCL may have been reloaded since the last communicator.
    texts::forget();
    let (made, wanted) = match lifecycle::writer() {
        None => (core::ptr::null_mut(), 0),
        Some(writer) => {
            let wanted = masks::wanted(about.version);
            writer.set_plugin(about.version, wanted);
            let number = writer.communicator(&Communicator {
                name: texts::bytes(&about.name, nccl_stacks_recorder_format::layout::communicator::NAME_LENGTH),
                by: 1,
                hash: about.hash,
                rank: about.rank,
                size: about.size,
                nodes: about.nodes,
                made: clock::now(),
                ..Communicator::default()
            });
            // The number may have belonged to another communicator.
            handles::set_last_group(number, None);
            log::line(format_args!("profiler plugin v{}: communicator {number}, events {wanted:#x}", about.version));
            (context(number), wanted)
        }
    };
    // SAFETY: NCCL passes places to write to, or null.
    unsafe {
        if let Some(to) = to.as_mut() {
            *to = made;
        }
        if let Some(mask) = mask.as_mut() {
            *mask = wanted as c_int;
        }
    }
    0
}

unsafe extern "C" fn init_v4(
    to: *mut Opaque,
    mask: *mut c_int,
    name: Text,
    hash: u64,
    nodes: c_int,
    size: c_int,
    rank: c_int,
    _logger: Opaque,
) -> c_int {
    // SAFETY: the arguments are NCCL's.
    unsafe { init(&Init { version: 4, hash, name, nodes, size, rank }, to, mask) }
}

unsafe extern "C" fn init_v5<const VERSION: u32>(
    to: *mut Opaque,
    hash: u64,
    mask: *mut c_int,
    name: Text,
    nodes: c_int,
    size: c_int,
    rank: c_int,
    _logger: Opaque,
) -> c_int {
    // SAFETY: the arguments are NCCL's.
    unsafe { init(&Init { version: VERSION, hash, name, nodes, size, rank }, to, mask) }
}

unsafe extern "C" fn finalize(context: Opaque) -> c_int {
    if let (number @ 1.., Some(writer)) = (communicator(context), process::opened()) {
        // From here on, another communicator may get the number.
        writer.ended(number, clock::now());
    }
    0
}

macro_rules! export {
    ($name:ident, $module:ident, $version:literal, $init:expr) => {
        #[unsafe(no_mangle)]
        #[used]
        #[allow(non_upper_case_globals, reason = "the name is NCCL's")]
        static $name: abi::$module::Table = abi::Table {
            name: c"nccl-stacks".as_ptr(),
            init: $init,
            start_event: events::start::<$version, _, _>,
            stop_event: events::stop,
            record_event_state: events::state,
            finalize,
        };
    };
}

export!(ncclProfiler_v4, v4, 4, init_v4);
export!(ncclProfiler_v5, v5, 5, init_v5::<5>);
export!(ncclProfiler_v6, v6, 6, init_v5::<6>);
export!(ncclProfiler_v7, v7, 7, init_v5::<7>);
