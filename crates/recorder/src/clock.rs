//! The time of records.

/// Now, ns of the monotonic clock. The C library reads it without entering the system.
#[inline]
pub(crate) fn now() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec)
}

/// A number that differs between the threads that run at the same time.
#[inline]
pub(crate) fn thread() -> u64 {
    // SAFETY: has no condition. The C library's handle of a thread is the address of its structure.
    unsafe { libc::pthread_self() as u64 >> 6 }
}

/// Sleeps, ms. A signal may end it early.
pub(crate) fn sleep(milliseconds: u64) {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000 * 1_000_000);
    let time = libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: rest.cast_signed() };
    // SAFETY: a time that may be read.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}
