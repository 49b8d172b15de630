//! A line on stderr, if `NCCL_STACKS_LOG` asks for it. A job's output is not ours.

use core::fmt::{self, Write as _};

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
    let mut line = Line { bytes: [0; 512], length: 0 };
    // SAFETY: has no condition.
    let _ = write!(line, "nccl-stacks recorder [{}]: {what}", unsafe { libc::getpid() });
    let length = line.length;
    if let Some(end) = line.bytes.get_mut(length) {
        *end = b'\n';
    }
    // SAFETY: so many bytes are there. What cannot be written is not worth more.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), length + 1) };
}
