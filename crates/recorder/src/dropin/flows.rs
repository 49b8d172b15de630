//! `ncclWriteAggregatedFlow`: the flows of a communicator in the form of the flow extractor, where it writes them, whole or not at all.
//!
//! The extractor's folder is `output/<name of NCCL_TOPO_FILE up to the first dot>` in the working directory. All communicators in which a process has
//! the same rank have the same file, as there: the last one asked for stays.

use core::ffi::CStr;

use nccl_stacks_recorder_format::layout::COMMUNICATORS_AT;
use nccl_stacks_recorder_format::{Writer, realtime_and_monotonic};
use nccl_stacks_recorder_text::flow::{self, Flow, Link, Of};

use super::file::File;
use super::memory::Zeros;
use crate::process::Path;
use crate::{environment, log};

/// The folder without a topology.
const UNKNOWN: &str = "unknown_topo";

/// The longest name that the extractor takes from the path of a topology.
const LONGEST: usize = 127;

/// Writes the file of a communicator; returns whether that succeeded.
#[cold]
pub(crate) fn write_flows(writer: &Writer, communicator: u16) -> bool {
    match write(writer, communicator) {
        Ok(left_out) => {
            if left_out > 0 {
                log::line(format_args!("ncclWriteAggregatedFlow: {left_out} operations have no known algorithm"));
            }
            true
        }
        Err(why) => {
            match why {
                Why::NoOperations => log::line(format_args!("ncclWriteAggregatedFlow: no operation is recorded")),
                Why::Error(error) => log::line(format_args!("ncclWriteAggregatedFlow: cannot write: error {error}")),
            }
            false
        }
    }
}

/// Why there is no file.
enum Why {
    NoOperations,
    /// An errno.
    Error(i32),
}

fn write(writer: &Writer, communicator: u16) -> Result<u64, Why> {
    let of = Of::find(writer, communicator).ok_or(Why::Error(libc::EINVAL))?;
    let mut links = Zeros::<Link>::new(flow::links(writer)).ok_or(Why::Error(libc::ENOMEM))?;
    let mut pairs = Zeros::<u32>::new(of.pairs()).ok_or(Why::Error(libc::ENOMEM))?;
    let mut header = [0; COMMUNICATORS_AT];
    let pid = writer.header(&mut header).map_err(|_| Why::Error(libc::EINVAL))?.pid;
    let (realtime, monotonic) = realtime_and_monotonic();
    let offset = realtime.saturating_sub(monotonic);
    let mut flow = Flow::new(writer, pid, of, links.as_mut(), pairs.as_mut(), offset);
    if !flow.has_operations() {
        return Err(Why::NoOperations);
    }
    let topology = topology(environment::variable(c"NCCL_TOPO_FILE"));
    let rank = of.rank;
    make_folder(format_args!("output"))?;
    make_folder(format_args!("output/{topology}"))?;
    let path = path(format_args!("output/{topology}/flow_rank{rank}.json"))?;
    let part = self::path(format_args!("output/{topology}/flow_rank{rank}.json.{pid}-{communicator}"))?;
    let (path, part) = (path.as_c_str().unwrap_or_default(), part.as_c_str().unwrap_or_default());
    // Other threads may have overwritten all operations in the meantime.
    let written = File::write_whole(path, part, |file| flow.write(file)?.ok_or(core::fmt::Error));
    written.map(|written| written.left_out).map_err(Why::Error)
}

fn path(what: core::fmt::Arguments<'_>) -> Result<Path, Why> {
    Path::new(what).ok_or(Why::Error(libc::ENAMETOOLONG))
}

/// Makes a folder. One that exists is fine, and creating a file in it shows whether there is one.
fn make_folder(what: core::fmt::Arguments<'_>) -> Result<(), Why> {
    let folder = path(what)?;
    // SAFETY: the path ends with a zero.
    unsafe { libc::mkdir(folder.as_c_str().unwrap_or_default().as_ptr(), 0o755) };
    Ok(())
}

/// The name of the topology: the last part of the path up to its first dot.
fn topology(path: Option<&'static CStr>) -> &'static str {
    let path = path.map(CStr::to_bytes).unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty());
    let Some(name) = name else { return UNKNOWN };
    let end = name.iter().take(LONGEST).take_while(|byte| **byte != b'.').count();
    name.get(..end).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or(UNKNOWN)
}
