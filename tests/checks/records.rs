//! NCCL's own records. The first byte says which source the bytes after it are read as.
//!
//! Any bytes are read without a panic. What is read refers to what is there, and damage has an offset inside of the file.

use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_as};

/// All sources with a reader.
pub const SOURCES: [Source; 8] = [
    Source::FlightRecorder,
    Source::Ras,
    Source::Inspector,
    Source::Comma,
    Source::PluginDump,
    Source::Megatrace,
    Source::DebugLog,
    Source::Flow,
];

pub fn check(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let source = SOURCES[usize::from(*first) % SOURCES.len()];
    let keep = if *first < 128 { Keep::All } else { Keep::Last(2) };
    let read = || read_as(source, "fuzz", Box::new(std::io::Cursor::new(rest.to_vec())), keep);
    let records = read();
    is_sound(&records, rest.len());
    // The same twice is one file, and a note.
    let mut both = read();
    let before = both.operations.len();
    both.append(records);
    assert!(rest.is_empty() || both.operations.len() == before, "a file that is there twice counts twice");
    is_sound(&both, rest.len());
}

/// Whether all positions are those of something.
fn is_sound(records: &Records, len: usize) {
    let inside = |at: Option<usize>, of: usize| assert!(at.is_none_or(|at| at < of), "{at:?} of {of}");
    assert_eq!(records.file_of.len(), records.operations.len());
    records.file_of.iter().for_each(|file| assert!((*file as usize) < records.files.len()));
    for operation in &records.operations {
        inside(operation.communicator, records.communicators.len());
        inside(operation.recorded_path.map(|path| path as usize), records.paths.len());
    }
    records.rank_status.iter().for_each(|status| inside(status.communicator, records.communicators.len()));
    records.calls.iter().for_each(|calls| inside(calls.communicator, records.communicators.len()));
    records.channels.iter().for_each(|channel| inside(channel.operation, records.operations.len()));
    records.proxy_ops.iter().for_each(|of| inside(of.operation, records.operations.len()));
    records.proxy_steps.iter().for_each(|step| assert!(step.proxy_op < records.proxy_ops.len()));
    for file in &records.files {
        for remark in file.skipped.iter().chain(&file.repaired) {
            assert!(remark.count > 0 && !remark.what.is_empty());
            assert!(remark.first_offset.is_none_or(|offset| offset <= len as u64), "{remark:?} of {len} bytes");
        }
    }
}
