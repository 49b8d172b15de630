//! The dump of a communicator in the form of NCCL's example profiler plugin: begin and end events of a Chrome trace.
//!
//! In that form an event belongs to the events that are open around it, so the records, which are in order of time, have to be written in the order
//! of a tree. [`Link`]s form the tree: two numbers for each slot of the rings, in memory that the caller provides. Everything else is read from
//! the rings.
//!
//! Some output of the plugin is wrong, and differs here: this is strict JSON, calls and launches begin when they began, and kernel channels
//! have their own numbers and the stop times of their GPU. Unknown values are left out: an event that was not stopped has no end, and such a
//! channel no `StopGpuClk`. Events that the plugin does not have, such as kernel phases, are left out, too.

mod events;
mod proxies;

use core::fmt::{self, Write};

use nccl_stacks_recorder_format::{Kind, Record, Writer, layout};

use self::events::Events;
use crate::merge::{Cursors, Merge};
use crate::tree::Tree;

pub use crate::tree::{Link, links};

/// What registers the communicators that are dumped.
const PLUGIN: u32 = 1;

/// Counts of what was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Begins of events.
    pub events: u64,
    /// Channels and steps that are left out because the ring has overwritten their parents.
    pub left_out: u64,
}

/// The two numbers in the name of a dump, `PREFIX_<hash>_<rank>.json`; `None` if the communicator is unknown.
pub fn name(writer: &Writer, number: u16) -> Option<(u64, i32)> {
    let entry = writer.known(number)?;
    let known = entry.communicator();
    Some((known.hash, known.rank))
}

/// Writes the records of a communicator. `links` must be new, and as many as [`links`] returns.
#[inline(never)]
pub fn write(writer: &Writer, number: u16, links: &mut [Link], out: &mut dyn Write) -> Result<Written, fmt::Error> {
    let mut bytes = [0; layout::COMMUNICATORS_AT];
    let (Ok(header), Some(entry)) = (writer.header(&mut bytes), writer.known(number)) else { return Err(fmt::Error) };
    let tree = Tree::build(writer, header.pid, links);
    let known = entry.communicator();
    let about = events::About { pid: header.pid, epoch: header.start.monotonic, number, known };
    let mut events = Events::new(writer, &tree, about, out);
    events.open()?;
    // Records without parents come first: after an operation without an end they would be taken for its children. Proxies' work for other
    // processes has no communicator here, and goes into the first dump.
    let is_first = (1..number).all(|before| writer.known(before).is_none_or(|known| known.communicator().by != PLUGIN));
    let is_own = |record: &Record| match record.kind {
        Kind::ProxyOp if record.communicator == 0 => is_first,
        _ => about.has(record),
    };
    for (handle, record) in Merge::new(writer, &mut Cursors::new()).filter(|(_, record)| is_own(record)) {
        match record.kind {
            Kind::ProxyOp if !tree.has_parent(&record) => events.proxy_op((handle, record))?,
            Kind::ProxyControl => events.control((handle, record))?,
            Kind::KernelChannel | Kind::ProxyStep if !tree.has_parent(&record) => events.leave_out(),
            _ => {}
        }
    }
    for (handle, record) in Merge::new(writer, &mut Cursors::new()) {
        let (is_own, placed) = (about.has(&record), (handle, record));
        let is_root = is_own && !tree.has_parent(&record);
        match record.kind {
            // A group may have calls of several communicators, and is dumped with the first of them.
            Kind::GroupApi if is_own || events.has(handle, &[Kind::CollApi, Kind::P2pApi]) => {
                events.group_api(placed)?
            }
            // In NCCL versions with API calls, these groups are empty.
            Kind::Group if events.has(handle, &[Kind::Coll, Kind::P2p]) => events.group(placed)?,
            Kind::CollApi | Kind::P2pApi if is_root => events.call(placed)?,
            Kind::KernelLaunch if is_root => events.launch(placed, 0)?,
            Kind::Coll | Kind::P2p if is_root => events.operation(placed)?,
            Kind::CeColl if is_root => events.copies(placed)?,
            _ => {}
        }
    }
    events.close()
}
