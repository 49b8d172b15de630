//! `NCCL_PROFILE_DUMP_FILE`: the dump of a communicator in the form of NCCL's example profiler plugin, written when it ends, whole or not at all.

use core::ffi::CStr;

use nccl_stacks_recorder_format::Writer;
use nccl_stacks_recorder_text::dump::{self as text, Link};

use super::file::{File, error};
use crate::process::Path;
use crate::{environment, log};

/// Memory for the links between records. It is mapped and unmapped here, because the job's allocator is not ours.
struct Links {
    start: *mut Link,
    count: usize,
}

impl Links {
    fn new(count: usize) -> Option<Links> {
        let length = count.checked_mul(size_of::<Link>())?;
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping of new memory.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), length, protection, kind | libc::MAP_NORESERVE, -1, 0) };
        (start != libc::MAP_FAILED).then_some(Links { start: start.cast(), count })
    }

    fn as_mut(&mut self) -> &mut [Link] {
        // SAFETY: this many links are mapped, zeros are valid links, and nobody else uses them.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.count) }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // SAFETY: this is the mapping, and no reference to it is left.
        unsafe { libc::munmap(self.start.cast(), self.count.saturating_mul(size_of::<Link>())) };
    }
}

/// Writes the dump of a communicator, if a dump is asked for.
#[cold]
#[allow(dead_code, reason = "for the profiler plugin's finalize")]
pub(crate) fn dump(writer: &Writer, communicator: u16) {
    let Some(prefix) = environment::variable(c"NCCL_PROFILE_DUMP_FILE") else { return };
    let (Ok(prefix), Some((hash, rank))) = (prefix.to_str(), text::name(writer, communicator)) else { return };
    // SAFETY: `getpid` has no preconditions.
    let pid = unsafe { libc::getpid() };
    let path = Path::new(format_args!("{prefix}_{hash}_{rank}.json"));
    let part = Path::new(format_args!("{prefix}_{hash}_{rank}.json.{pid}-{communicator}"));
    let (Some(path), Some(part)) = (&path, &part) else { return };
    let (Some(path), Some(part)) = (path.as_c_str(), part.as_c_str()) else { return };
    if let Err(error) = write(writer, communicator, path, part) {
        log::line(format_args!("NCCL_PROFILE_DUMP_FILE: cannot write {prefix}_{hash}_{rank}.json: error {error}"));
    }
}

fn write(writer: &Writer, communicator: u16, path: &CStr, part: &CStr) -> Result<(), i32> {
    let mut links = Links::new(text::links(writer)).ok_or(libc::ENOMEM)?;
    // Removes what an earlier process with the same id has left, or a planted link.
    // SAFETY: the path ends with a zero.
    unsafe { libc::unlink(part.as_ptr()) };
    let formatted = File::write(part, libc::O_EXCL, |file| text::write(writer, communicator, links.as_mut(), file));
    let renamed = formatted.and_then(|written| {
        // SAFETY: both paths end with a zero.
        if unsafe { libc::rename(part.as_ptr(), path.as_ptr()) } == 0 { Ok(written) } else { Err(error()) }
    });
    match renamed {
        Ok(written) if written.left_out > 0 => {
            log::line(format_args!(
                "a dump lacks {} channels and steps: the rings have overwritten their operations",
                written.left_out
            ));
        }
        Ok(_) => {}
        // SAFETY: the path ends with a zero.
        Err(_) => unsafe {
            libc::unlink(part.as_ptr());
        },
    }
    renamed.map(|_| ())
}
