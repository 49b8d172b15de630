//! The clock of records.

/// The monotonic clock, ns. The C library reads it without a system call.
#[inline]
pub(crate) fn now() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec)
}

/// A number that is unique among the running threads.
#[inline]
pub(crate) fn thread() -> u64 {
    // SAFETY: `pthread_self` has no preconditions. The C library's thread handle is the address of the thread's structure.
    unsafe { libc::pthread_self() as u64 >> 6 }
}

/// Sleeps for some ms. A signal may end it early.
pub(crate) fn sleep(milliseconds: u64) {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000 * 1_000_000);
    let time = libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: rest.cast_signed() };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}
