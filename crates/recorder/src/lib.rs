//! The recorder: the library that a job loads to have its NCCL calls and events recorded.
//!
//! It is both a profiler plugin that NCCL loads, and an interceptor that the dynamic linker puts in front of NCCL:
//!
//! ```text
//! LD_PRELOAD=libnccl_stacks_recorder.so NCCL_PROFILER_PLUGIN=STATIC_PLUGIN python train.py
//! ```
//!
//! It does the least possible inside the job. An event is a record of 64 bytes in mapped memory ([the format](nccl_stacks_recorder_format));
//! everything else happens offline. There is no standard library, no allocator and no lock on a hot path, and no panic: indexing and arithmetic are
//! checked. The job goes on whatever fails. Without its file, the recorder does nothing, and logs one line if asked to.

#![no_std]

mod clock;
mod dropin;
mod environment;
mod intercept;
mod lifecycle;
mod log;
mod plugin;
mod process;
mod symbols;
mod texts;
mod thread;

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no preconditions.
    unsafe { libc::abort() }
}
