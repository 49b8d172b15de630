//! NCCL's own records: every source, on real samples with known truths, on made ones, and on what is wrong.

pub(crate) mod cases;
mod census;
mod conversions;
mod damaged;
mod debug_log;
mod entries;
mod flows;
pub(crate) mod hang;
mod hang_dumps;
mod hang_logs;
mod inspector;
mod joins;
mod megatrace;
mod pickles;
mod plugin_dump;
mod profiler_events;
mod ras_text;
mod recorder;
mod recorder_communicators;
mod recorder_groups;
mod recorder_verdicts;
mod runs;
mod sentences;
mod tables;
mod watchdog;

use std::path::Path;

use nccl_stacks::input;
use nccl_stacks::records::{self, Keep, Records};

/// What a file holds, or a folder or an archive.
pub(crate) fn read(path: impl AsRef<Path>) -> Records {
    records::read(input::open(path.as_ref()).unwrap(), Keep::All).unwrap()
}

/// What a file with this text holds.
fn read_text(text: &str) -> Records {
    let (_folder, path) = crate::support::program::scratch("records", text.as_bytes());
    read(path)
}
