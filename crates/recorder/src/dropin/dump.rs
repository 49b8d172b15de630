//! `NCCL_PROFILE_DUMP_FILE`: the dump of a communicator in the form of NCCL's example profiler plugin, written when it ends, whole or not at all.

use core::ffi::CStr;

use nccl_stacks_recorder_format::Writer;
use nccl_stacks_recorder_text::dump as text;

use super::file::File;
use super::memory::Zeros;
use crate::process::Path;
use crate::{environment, log};

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
    let mut links = Zeros::new(text::links(writer)).ok_or(libc::ENOMEM)?;
    let written = File::write_whole(path, part, |file| text::write(writer, communicator, links.as_mut(), file))?;
    if written.left_out > 0 {
        log::line(format_args!(
            "a dump lacks {} channels and steps: the rings have overwritten their operations",
            written.left_out
        ));
    }
    Ok(())
}
