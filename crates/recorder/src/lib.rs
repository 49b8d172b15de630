//! The recorder: what a job loads to have its NCCL calls and events recorded.
//!
//! One library is both, a profiler plugin that NCCL loads and an interceptor that the dynamic linker puts before NCCL:
//!
//! ```text
//! LD_PRELOAD=libnccl_stacks_recorder.so NCCL_PROFILER_PLUGIN=STATIC_PLUGIN python train.py
//! ```
//!
//! It does the least that is possible inside the job. An event is a record of 64 bytes in mapped memory
//! ([the format](nccl_stacks_recorder_format)); everything else happens offline. So there is no standard library here, no allocator, and no lock:
//! what is not there cannot be called on a hot path. A panic ends in [`panic`](core::panic), which aborts; nothing here indexes or adds
//! without a check, so that there is none.
//!
//! Whatever fails, the job goes on: without memory for its file the recorder does nothing, and says so in one line if asked to.

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
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
