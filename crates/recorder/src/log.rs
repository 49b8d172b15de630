//! Log lines on stderr, only if `NCCL_STACKS_LOG` asks for them: a job's output is not ours.

use core::fmt::{self, Write as _};

use nccl_stacks_recorder_format::NotCancelled;

use crate::environment;

/// A line under construction, cut off at its maximum length.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.length;
        let taken = text.len().min(room);
        if let (Some(to), Some(from)) =
            (self.bytes.get_mut(self.length..self.length + taken), text.as_bytes().get(..taken))
        {
            to.copy_from_slice(from);
            self.length += taken;
        }
        Ok(())
    }
}

/// Writes a line with one system call.
#[cold]
pub(crate) fn line(what: fmt::Arguments<'_>) {
    if environment::variable(c"NCCL_STACKS_LOG").is_none() || environment::is_off(c"NCCL_STACKS_LOG") {
        return;
    }
    // SAFETY: `getpid` has no preconditions.
    let pid = unsafe { libc::getpid() };
    plain(format_args!("nccl-stacks recorder [{pid}]: {what}"));
}

/// Writes a line without the usual prefix.
#[cold]
pub(crate) fn plain(what: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 512], length: 0 };
    let _ = line.write_fmt(what);
    let length = line.length;
    if let Some(end) = line.bytes.get_mut(length) {
        *end = b'\n';
    }
    let _whole = NotCancelled::new();
    // SAFETY: the buffer has this many bytes. Errors are ignored.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), length + 1) };
}
