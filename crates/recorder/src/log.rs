//! A line on stderr, if `NCCL_STACKS_LOG` asks for it. A job's output is not ours.

use core::fmt::{self, Write as _};

use nccl_stacks_recorder_format::NotCancelled;

use crate::environment;

/// A line in the making, cut off at its length.
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

/// Writes a line with one call of the system.
#[cold]
pub(crate) fn line(what: fmt::Arguments<'_>) {
    if environment::variable(c"NCCL_STACKS_LOG").is_none() || environment::is_off(c"NCCL_STACKS_LOG") {
        return;
    }
    // SAFETY: has no condition.
    let pid = unsafe { libc::getpid() };
    plain(format_args!("nccl-stacks recorder [{pid}]: {what}"));
}

/// Writes a line that is all its own.
#[cold]
pub(crate) fn plain(what: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 512], length: 0 };
    let _ = line.write_fmt(what);
    let length = line.length;
    if let Some(end) = line.bytes.get_mut(length) {
        *end = b'\n';
    }
    let _whole = NotCancelled::new();
    // SAFETY: so many bytes are there. What cannot be written is not worth more.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), length + 1) };
}
