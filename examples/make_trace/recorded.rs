//! The small job with all kinds of NCCL's own records.

use std::io;

use super::job::{Inspector, Job, Megatrace, Offsets, Recording};
use super::recipes::zip;

/// Its files: two traces, each rank's records in `records/`, and the kernel of each record.
pub(crate) fn all() -> io::Result<Vec<(String, Vec<u8>)>> {
    let job =
        Job { tp: 2, steps: 2, layers: 1, small: true, offsets: Offsets::Random { max_ns: 300_000 }, ..Job::default() };
    let recording = Recording {
        max_offset_ns: 700_000,
        inspector: Inspector::Mixed,
        megatrace: Megatrace::L4,
        ..Recording::default()
    };
    let (mut files, mut traces, mut truth) = (Vec::new(), Vec::new(), String::new());
    job.each_recorded(&recording, |rank, trace, records| {
        traces.extend(trace.map(|trace| (rank, trace)));
        let folder = |file: super::job::RecordFile| (format!("records/job/records/{}", file.name), file.bytes);
        files.extend(records.files.into_iter().map(folder));
        truth.extend(records.truth.iter().map(|truth| truth.line() + "\n"));
    });
    for (rank, trace) in traces {
        files.push((format!("records/job/rank{rank}.json.gz"), zip(&[&trace])?));
    }
    files.push(("records/job/records_truth.txt".to_owned(), truth.into_bytes()));
    Ok(files)
}
