//! What an output needs of the system without an allocator: a text file, whose buffer is part of its struct, and mapped memory.

use core::ffi::CStr;
use core::fmt;

use nccl_stacks_recorder_format::NotCancelled;
use nccl_stacks_recorder_text::flow::Link;

/// The size of the buffer: a few pages, which still fit on a thread's stack.
const BUFFER: usize = 16 * 1024;

/// What fills a file, and counts something.
pub(super) type Write<'a> = &'a mut dyn FnMut(&mut File) -> Result<usize, fmt::Error>;

pub(super) struct File {
    fd: i32,
    buffer: [u8; BUFFER],
    length: usize,
}

impl File {
    /// Lets `write` fill a file that is opened with these flags, too. Returns what it has counted; fails with an errno. The names of these files can
    /// be guessed, so links are not followed.
    #[inline(never)]
    pub(super) fn write(path: &CStr, flags: i32, write: Write<'_>) -> Result<usize, i32> {
        let _whole = NotCancelled::new();
        let flags = flags | libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
        if fd < 0 {
            return Err(error());
        }
        let mut file = File { fd, buffer: [0; BUFFER], length: 0 };
        let written = write(&mut file).map_err(|_| libc::EIO);
        let flushed = written.and_then(|count| file.flush().map(|()| count));
        // SAFETY: the descriptor is ours, and not used any more. An error of `close` counts as a write error.
        let closed = unsafe { libc::close(fd) };
        flushed.and_then(|count| if closed == 0 { Ok(count) } else { Err(error()) })
    }

    /// Lets `write` fill a file that appears under its path whole or not at all: it is written as `part`, and renamed. Fails with an errno.
    pub(super) fn write_whole(path: &CStr, part: &CStr, write: Write<'_>) -> Result<usize, i32> {
        // Removes what an earlier process with the same id has left, or a planted link.
        // SAFETY: the path ends with a zero.
        unsafe { libc::unlink(part.as_ptr()) };
        let renamed = File::write(part, libc::O_EXCL, write).and_then(|written| {
            // SAFETY: both paths end with a zero.
            if unsafe { libc::rename(part.as_ptr(), path.as_ptr()) } == 0 { Ok(written) } else { Err(error()) }
        });
        if renamed.is_err() {
            // SAFETY: the path ends with a zero.
            unsafe { libc::unlink(part.as_ptr()) };
        }
        renamed
    }

    #[inline(never)]
    fn flush(&mut self) -> Result<(), i32> {
        let mut written = 0;
        while let Some(rest) = self.buffer.get(written..self.length).filter(|rest| !rest.is_empty()) {
            // SAFETY: the buffer has this many bytes.
            let done = unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(done) {
                Ok(done) => written = written.saturating_add(done),
                Err(_) if error() == libc::EINTR => {}
                Err(_) => return Err(error()),
            }
        }
        self.length = 0;
        Ok(())
    }
}

impl fmt::Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let room = self.buffer.get_mut(self.length..).unwrap_or_default();
            let taken = rest.len().min(room.len());
            let (now, later) = rest.split_at_checked(taken).ok_or(fmt::Error)?;
            room.get_mut(..taken).ok_or(fmt::Error)?.copy_from_slice(now);
            self.length = self.length.saturating_add(taken);
            rest = later;
            if self.length >= BUFFER {
                self.flush().map_err(|_| fmt::Error)?;
            }
        }
        Ok(())
    }
}

/// Makes a folder. One that exists is fine: another rank may make it at the same time.
pub(super) fn make_folder(path: &CStr) -> Result<(), i32> {
    // SAFETY: the path ends with a zero.
    let made = unsafe { libc::mkdir(path.as_ptr(), 0o755) };
    if made == 0 || error() == libc::EEXIST { Ok(()) } else { Err(error()) }
}

pub(super) fn error() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Values that are valid if all of their bytes are 0.
///
/// # Safety
///
/// Zeros are a valid value, and nothing has to be dropped.
pub(super) unsafe trait Zero: Copy {}

// SAFETY: a number, and numbers of which 0 is none.
unsafe impl Zero for u32 {}
// SAFETY: as above.
unsafe impl Zero for Link {}

/// Memory for the time of one piece of work, mapped and unmapped here, because the job's allocator is not ours.
pub(super) struct Zeros<T: Zero> {
    start: *mut T,
    count: usize,
}

impl<T: Zero> Zeros<T> {
    /// `None` if there is no memory.
    pub(super) fn new(count: usize) -> Option<Zeros<T>> {
        // A mapping cannot be empty.
        let length = count.max(1).checked_mul(size_of::<T>())?;
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping of new memory.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), length, protection, kind | libc::MAP_NORESERVE, -1, 0) };
        (start != libc::MAP_FAILED).then_some(Zeros { start: start.cast(), count })
    }

    pub(super) fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: this many are mapped, zeros are valid, and nobody else uses them.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.count) }
    }
}

impl<T: Zero> Drop for Zeros<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping, and no reference to it is left.
        unsafe { libc::munmap(self.start.cast(), self.count.max(1).saturating_mul(size_of::<T>())) };
    }
}
