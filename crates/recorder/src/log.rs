//! Log lines on stderr, only if `NCCL_STACKS_LOG` asks for them: a job's output is not ours.

use core::ffi::CStr;
use core::fmt::{self, Write as _};

use nccl_stacks_recorder_format::NotCancelled;

use crate::environment;

/// A text under construction, with a zero at its end. What does not fit is cut off, and is an error.
pub(crate) struct Text<const ROOM: usize> {
    bytes: [u8; ROOM],
    length: usize,
}

impl<const ROOM: usize> Text<ROOM> {
    pub(crate) const EMPTY: Text<ROOM> = Text { bytes: [0; ROOM], length: 0 };

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl<const ROOM: usize> fmt::Write for Text<ROOM> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte stays 0.
        let room = self.bytes.get_mut(self.length..ROOM.saturating_sub(1)).unwrap_or_default();
        let taken = text.len().min(room.len());
        room.get_mut(..taken).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes().get(..taken).ok_or(fmt::Error)?);
        self.length = self.length.saturating_add(taken);
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
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

/// Without the usual prefix.
#[cold]
pub(crate) fn plain(what: fmt::Arguments<'_>) {
    let mut line = Text::<512>::EMPTY;
    let _ = line.write_fmt(what);
    let length = line.length;
    if let Some(end) = line.bytes.get_mut(length) {
        *end = b'\n';
    }
    let _whole = NotCancelled::new();
    // SAFETY: the buffer has this many bytes. Errors are ignored.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), length + 1) };
}
