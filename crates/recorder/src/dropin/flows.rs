//! `ncclWriteAggregatedFlow`: the flows of a communicator in the form of the flow extractor, where it writes them, whole or not at all: in
//! `output/<name of NCCL_TOPO_FILE up to the first dot>` in the working directory. Communicators in which a process has the same rank have the same
//! file, as there: the last one asked for stays.

use core::ffi::CStr;

use nccl_stacks_recorder_format::layout::COMMUNICATORS_AT;
use nccl_stacks_recorder_format::{Writer, realtime_and_monotonic};
use nccl_stacks_recorder_text::flow::{self, Flow, Link, Of};

use super::file::{File, Zeros, make_folder};
use crate::process::Path;
use crate::{environment, log};

/// The folder without a topology.
const UNKNOWN: &str = "unknown_topo";
/// The longest name that the extractor takes from the path of a topology.
const LONGEST: usize = 127;
/// The error if no operation is recorded.
const NO_OPERATIONS: i32 = libc::ENODATA;

/// Writes the file of a communicator; returns whether that succeeded.
#[cold]
pub(crate) fn write_flows(writer: &Writer, communicator: u16) -> bool {
    let written = write(writer, communicator);
    let name = "ncclWriteAggregatedFlow";
    match written {
        Ok(0) => {}
        Ok(left_out) => log::line(format_args!("{name}: {left_out} operations have no known algorithm")),
        Err(NO_OPERATIONS) => log::line(format_args!("{name}: no operation is recorded")),
        Err(error) => log::line(format_args!("{name}: cannot write: error {error}")),
    }
    written.is_ok()
}

/// Returns how many operations the file lacks. Fails with an errno.
fn write(writer: &Writer, communicator: u16) -> Result<usize, i32> {
    let of = Of::find(writer, communicator).ok_or(libc::EINVAL)?;
    let mut links = Zeros::<Link>::new(flow::links(writer)).ok_or(libc::ENOMEM)?;
    let mut pairs = Zeros::<u32>::new(of.pairs()).ok_or(libc::ENOMEM)?;
    let mut header = [0; COMMUNICATORS_AT];
    let pid = writer.header(&mut header).map_err(|_| libc::EINVAL)?.pid;
    let (realtime, monotonic) = realtime_and_monotonic();
    let offset = realtime.saturating_sub(monotonic);
    let mut flow = Flow::new(writer, pid, of, links.as_mut(), pairs.as_mut(), offset);
    if !flow.has_operations() {
        return Err(NO_OPERATIONS);
    }
    let topology = topology(environment::variable(c"NCCL_TOPO_FILE"));
    let rank = of.rank;
    // Creating the file shows whether there is a folder.
    for folder in [path(format_args!("output"))?, path(format_args!("output/{topology}"))?] {
        let _ = make_folder(folder.as_c_str());
    }
    let whole = path(format_args!("output/{topology}/flow_rank{rank}.json"))?;
    let part = path(format_args!("output/{topology}/flow_rank{rank}.json.{pid}-{communicator}"))?;
    // Other threads may have overwritten all operations in the meantime.
    File::write_whole(whole.as_c_str(), part.as_c_str(), &mut |file| flow.write(file))
}

fn path(what: core::fmt::Arguments<'_>) -> Result<Path, i32> {
    Path::new(what).ok_or(libc::ENAMETOOLONG)
}

/// The name of the topology: the last part of the path up to its first dot.
fn topology(path: Option<&'static CStr>) -> &'static str {
    let path = path.map(CStr::to_bytes).unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty());
    let Some(name) = name else { return UNKNOWN };
    let end = name.iter().take(LONGEST).take_while(|byte| **byte != b'.').count();
    name.get(..end).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or(UNKNOWN)
}
