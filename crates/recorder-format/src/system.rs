//! System calls: files and their space, protection from interruptions, and the clocks.

use core::ffi::{CStr, c_int};
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::layout::{RINGS, RINGS_AT, RingSizes};
use crate::memory::Words;

/// The permissions of a file while it is recorded, and those added when it is closed. The process's umask applies.
const RECORDED: libc::mode_t = 0o444;
const CLOSED: libc::mode_t = 0o200;

/// How often reserving is repeated when signals interrupt it.
const INTERRUPTIONS: u32 = 1000;

/// Both clocks, ns, read one after the other.
pub fn realtime_and_monotonic() -> (i64, i64) {
    let read = |clock| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a valid timespec to write to.
        unsafe { libc::clock_gettime(clock, &raw mut now) };
        now.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec)
    };
    // The mean of two readings around it, so that an interruption between the readings has little effect.
    let [before, realtime, after] = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].map(read);
    (realtime, before + (after - before) / 2)
}

fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

unsafe extern "C" {
    pub(crate) fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// While it lives, its thread cannot be cancelled, and runs no signal handlers except for its own faults.
///
/// Opening, reserving and closing are cancellation points: a thread cancelled there would leave others waiting. A handler that calls NCCL there
/// would wait for its own thread, and a fast timer would interrupt reserving for ever.
pub struct NotCancelled {
    cancel: c_int,
    signals: libc::sigset_t,
    /// Makes it `!Send`: it belongs to the thread that made it.
    of_thread: PhantomData<*mut ()>,
}

impl NotCancelled {
    /// It costs two system calls, so it is only for rare operations.
    #[allow(clippy::new_without_default, reason = "it changes its thread: no value of nothing")]
    pub fn new() -> NotCancelled {
        let mut cancel = 0;
        // SAFETY: zeros are a valid signal set, and both places may be written.
        let signals = unsafe {
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancel);
            let (mut most, mut before) = (core::mem::zeroed::<libc::sigset_t>(), core::mem::zeroed::<libc::sigset_t>());
            libc::sigfillset(&raw mut most);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
                libc::sigdelset(&raw mut most, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const most, &raw mut before);
            before
        };
        NotCancelled { cancel, signals, of_thread: PhantomData }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        // SAFETY: restores the thread's own earlier state.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, core::ptr::null_mut());
            pthread_setcancelstate(self.cancel, &raw mut self.cancel);
        }
    }
}

/// Repeats a call while signals interrupt it. The call returns its errno, or 0.
fn uninterrupted(mut call: impl FnMut() -> i32) -> Result<(), i32> {
    let mut error = call();
    for _ in 0..INTERRUPTIONS {
        if error != libc::EINTR {
            break;
        }
        error = call();
    }
    if error == 0 { Ok(()) } else { Err(error) }
}

/// The open file. A job may close descriptors that are not its own, as daemons do when they start, and then open another file under the number. So
/// every use first checks that the descriptor still is this file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    fd: i32,
    identity: (u64, u64),
}

impl File {
    /// For memory without a file.
    pub(crate) const NONE: File = File { fd: -1, identity: (0, 0) };

    fn new(fd: i32) -> File {
        File { fd, identity: stat(fd).map_or((0, 0), |stat| identity(&stat)) }
    }

    fn stat(&self) -> Option<libc::stat> {
        stat(self.fd).filter(|stat| identity(stat) == self.identity)
    }

    /// Reserves a part of the file; fails with an errno if there is no room, or if the descriptor belongs to another file.
    pub(crate) fn reserve(&self, from: u64, length: u64) -> Result<(), i32> {
        self.stat().ok_or(libc::EBADF)?;
        reserve(self.fd, from, length)
    }

    /// Makes the file writable for its owner, after the last store into it.
    pub(crate) fn allow_writing(&self) {
        if let Some(stat) = self.stat() {
            // SAFETY: `fchmod` accesses no memory of ours.
            unsafe { libc::fchmod(self.fd, stat.st_mode & 0o7777 | CLOSED) };
        }
    }
}

fn identity(stat: &libc::stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Calls `fstat` by its number, because older C libraries have no function with this name.
fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: zeros are a valid `stat`, which the call overwrites.
    unsafe {
        let mut stat = core::mem::zeroed::<libc::stat>();
        (libc::syscall(libc::SYS_fstat, fd, &raw mut stat) == 0).then_some(stat)
    }
}

fn reserve(fd: i32, from: u64, length: u64) -> Result<(), i32> {
    let (from, length) = (from as libc::off_t, length as libc::off_t);
    // SAFETY: `fallocate` accesses no memory of ours.
    let reserved = uninterrupted(|| unsafe { if libc::fallocate(fd, 0, from, length) == 0 { 0 } else { errno() } });
    match reserved {
        // The file system has no `fallocate`: glibc writes a byte into each block instead.
        // SAFETY: as above.
        Err(libc::EOPNOTSUPP | libc::ENOSYS) => uninterrupted(|| unsafe { libc::posix_fallocate(fd, from, length) }),
        done => done,
    }
}

/// Faults in the pages of a mapping ahead of their use. Older kernels cannot; there, each first access waits for its page.
pub(crate) fn populate(words: &Words, from: u64, length: u64) {
    // SAFETY: the caller passes a part of the mapping.
    unsafe { libc::madvise(words.address(from as usize), length as usize, libc::MADV_POPULATE_WRITE) };
}

pub(crate) fn give_way() {
    // SAFETY: `sched_yield` has no preconditions.
    unsafe { libc::sched_yield() };
}

/// Creates and maps a file, which must not exist. On an error, given as an errno, no file is left.
pub(crate) fn create(path: &CStr, sizes: RingSizes) -> Result<(Words, File), i32> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: `path` ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr(), flags, RECORDED) };
    if fd < 0 {
        return Err(errno());
    }
    match map(fd, sizes) {
        Ok(words) => Ok((words, File::new(fd))),
        Err(error) => {
            // SAFETY: the file is ours, and not mapped.
            unsafe {
                libc::close(fd);
                libc::unlink(path.as_ptr());
            }
            Err(error)
        }
    }
}

fn map(fd: i32, sizes: RingSizes) -> Result<Words, i32> {
    let length = sizes.at(RINGS);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: calls on our own descriptor; `limit` may be written; the mapping is new memory, and is never unmapped.
    unsafe {
        // Beyond this limit the system would kill the process instead of returning an error.
        if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) == 0 && limit.rlim_cur < length {
            return Err(libc::EFBIG);
        }
        if libc::ftruncate(fd, length as libc::off_t) != 0 {
            return Err(errno());
        }
        reserve(fd, 0, RINGS_AT as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = libc::mmap(core::ptr::null_mut(), length as usize, protection, libc::MAP_SHARED, fd, 0);
        match NonNull::new(base.cast()) {
            Some(start) if base != libc::MAP_FAILED => Ok(Words::new(start)),
            _ => Err(errno()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signal_interrupts_is_repeated() {
        let mut errors = [libc::EINTR, libc::EINTR, 0].into_iter();
        assert_eq!(uninterrupted(|| errors.next().unwrap()), Ok(()));
        let mut errors = [libc::EINTR, libc::ENOSPC].into_iter();
        assert_eq!(uninterrupted(|| errors.next().unwrap()), Err(libc::ENOSPC));
        let mut calls = 0;
        let again = || {
            calls += 1;
            libc::EINTR
        };
        assert_eq!((uninterrupted(again), calls), (Err(libc::EINTR), 1001));
    }
}
