//! NCCL's own records: what jobs leave where nobody ran a profiler. Read from their files into operations.
//!
//! In go files of PyTorch's flight recorder, NCCL's RAS, Inspector, profiler plugins and debug logs, and of the recorder. Out come
//! [`Records`]: one [`Operation`](operation::Operation) for each collective and rank, and what belongs to it: channels, proxies, links,
//! warnings, and which of a rank's calls are missing.
//!
//! ```
//! # fn main() -> Result<(), nccl_stacks_trace::error::Error> {
//! let text = r#"{"version": "2.10", "pg_config": {}, "entries": [{"record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"],
//!   "collective_seq_id": 1, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"], "state": "started"}]}"#;
//! let input = nccl_stacks_trace::input::from_reader("dump_0.json".to_owned(), None, Box::new(text.as_bytes()))?;
//! let records = nccl_stacks_records::read(input, Default::default())?;
//!
//! assert_eq!(records.operations.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Each source has its reader, which is a file or folder with a `reader::Reader` and a line in `READERS`. All of
//! them fill the same tables, so that questions are asked of what was recorded and not of a format. Damaged records are counted and skipped,
//! and keys that a reader does not know are accepted: all of these formats grow.

// A comment says what a name does not: a unit, what `None` means, why. Names are for the rest.
#![allow(missing_docs, reason = "no other program documents against this crate")]

mod debug_log;
mod file;
mod flight_recorder;
pub mod flow;
mod inspector;
mod joined;
mod lines;
mod megatrace;
mod nodes;
mod objects;
mod older;
pub mod operation;
mod pickle;
mod plugin_dump;
mod ras;
mod ras_text;
mod reader;
mod recorder;
mod runs;
mod shipped;
mod tables;
mod text;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use file::{RecordFile, Remark, RingSpan};
pub use reader::Keep;
pub use runs::{RecordedRun, runs};
pub use tables::{
    Awaited, FlowOp, FlowStep, Group, KernelChannel, Measure, ProfilerEvent, ProxyOp, ProxyStep, RankStatus, Records,
    Splits, Warning,
};

use flate2::Crc;

use crate::operation::Source;
use nccl_stacks_trace::error::Error;
use nccl_stacks_trace::input::files::{File, Files};
use nccl_stacks_trace::input::{self, Input};
use nccl_stacks_trace::parallel::in_order;
use reader::{Reader, Reading, SNIFF};

const BLOCK: usize = 256 * 1024;

/// The registry of all sources. The first that recognises a file reads it.
static READERS: &[Reader] = &[
    recorder::READER,
    flight_recorder::READER,
    ras::READER,
    inspector::READER,
    plugin_dump::READER,
    flow::READER,
    megatrace::READER,
    debug_log::READER,
];

/// All sources of records, in the order of answers.
pub fn sources() -> Vec<Source> {
    // A job's log is read by one reader, whatever is in it.
    let of_readers = READERS.iter().map(|reader| reader.source);
    let mut sources: Vec<Source> = of_readers.chain([Source::WATCHDOG]).collect();
    sources.sort_unstable();
    sources
}

/// Keys of which a trace has one at its beginning.
const TRACE_KEYS: &[&[u8]] = &[b"\"traceEvents\"", b"\"schemaVersion\"", b"\"deviceProperties\""];

/// What wrote a file, by its first decompressed bytes; `None` if it is none of the known sources.
pub fn source_of(head: &[u8]) -> Option<Source> {
    let (_, head) = shipped::around(head, is_known);
    recognise(&head).map(|reader| reader.source)
}

/// The source of a file that has no text, by its name: a recorder that could not create its recording. `None` for any other file.
pub fn source_of_name(path: &Path) -> Option<Source> {
    recorder::read_name(&path.to_string_lossy())?.source
}

fn recognise(head: &[u8]) -> Option<&'static Reader> {
    // Most files that are asked about are traces, whose parsing as anything else would be for nothing.
    if is_trace(head) {
        return None;
    }
    READERS.iter().find(|reader| (reader.sniff)(&head[..head.len().min(SNIFF)]))
}

fn is_known(head: &[u8]) -> bool {
    recognise(head).is_some()
}

/// The reader of a file that may have holes, so that no more than its first bytes should be read to recognise it.
fn with_holes(input: &Input) -> Option<&'static Reader> {
    READERS.iter().find(|reader| reader.leaves_holes && (reader.sniff)(input.head()))
}

fn is_trace(head: &[u8]) -> bool {
    TRACE_KEYS.iter().any(|key| memchr::memmem::find(head, key).is_some())
}

/// What wrote the first file of an input that is of a known source; `None` if none is, and of an archive that has a trace, too. A log that does not begin as one
/// of NCCL is read to its end, as [`read`] does: what it says of ranks comes hours after its beginning.
pub fn source_of_input(input: Input) -> Result<Option<Source>, Error> {
    if let Some(reader) = with_holes(&input) {
        return Ok(Some(reader.source));
    }
    let mut files = Files::new(input)?;
    let mut found = None;
    loop {
        let mut file = match files.next() {
            Ok(Some(file)) => file,
            // Of an archive that breaks off the files before that are read.
            Err(error) if found.is_none() => return Err(error),
            _ => return Ok(found),
        };
        let mut head = Vec::new();
        // An error here occurs again when the file is read.
        let _ = file.bytes.by_ref().take(SNIFF as u64).read_to_end(&mut head);
        // An archive of traces is not read to its end for that.
        if is_trace(&head) {
            return Ok(None);
        }
        found = found.or_else(|| source_of(&head)).or_else(|| {
            let (_, seen) = shipped::around(&head, is_known);
            let bytes = is_log(&seen).then(|| Box::new(std::io::Cursor::new(head).chain(file.bytes)))?;
            let log = read_file(File { name: file.name, bytes }, Keep::Ends(1), recognise);
            log.files.first()?.source
        });
    }
}

/// Reads bytes as the records of a source, without looking at how they begin; a source without a reader has no records. The bytes are not
/// decompressed.
pub fn read_as(source: Source, name: &str, bytes: Box<dyn Read + Send>, keep: Keep) -> Records {
    let reader = READERS.iter().find(|reader| reader.source == source);
    let mut records = read_file(File { name: name.to_owned(), bytes }, keep, |_| reader);
    complete(&mut records);
    records
}

/// Reads all files of an input. Files of no known source are among [`Records::files`] without a source.
pub fn read(input: Input, keep: Keep) -> Result<Records, Error> {
    Ok(merge(read_files(input, keep)?))
}

/// Adds what follows only from all files together: what a rank's steps are takes the files of the others.
fn complete(records: &mut Records) {
    recorder::places::fill(records);
    flow::stages::fill(records);
    debug_log::making::tell_apart(records);
    debug_log::making::judge(records);
    older::judge(records);
}

/// The records of each file of an input, kept apart so that a file which is also outside its archive is found. Of an archive that breaks
/// off, the files before the break are read.
fn read_files(input: Input, keep: Keep) -> Result<Vec<Records>, Error> {
    let mut all: Vec<Records> = Vec::new();
    let name = input.name.clone();
    let mut files = Files::new(input)?;
    let failure = loop {
        match files.next() {
            Ok(Some(file)) => all.push(read_file(file, keep, recognise)),
            Ok(None) => break None,
            Err(error) if all.is_empty() => return Err(error),
            Err(error) => break Some(error.to_string()),
        }
    };
    let lost: Vec<String> = files.left_out().into_iter().chain(failure).collect();
    if lost.is_empty() {
        return Ok(all);
    }
    // Notes on files that are no records are not shown.
    let known = all.iter().rposition(|records| records.files.iter().any(|file| file.source.is_some()));
    let at = known.unwrap_or_else(|| {
        all.push(Records::none_of(RecordFile::new(name)));
        all.len() - 1
    });
    if let Some(file) = all[at].files.last_mut() {
        file.skip_several("parts of an archive that cannot be read", lost.len() as u64, None);
        lost.into_iter().for_each(|line| file.note(line));
    }
    Ok(all)
}

fn read_file(file: File, keep: Keep, recognise: impl Fn(&[u8]) -> Option<&'static Reader>) -> Records {
    let mut records = Records::default();
    let mut of_file = RecordFile::new(file.name);
    let mut bytes = Counted { bytes: file.bytes, count: 0, checksum: Crc::new(), failure: None };
    let mut head = Vec::new();
    // Bytes read before a failure count.
    bytes.failure = bytes.by_ref().take(SNIFF as u64).read_to_end(&mut head).err();
    // A job leaves many small files, of which nothing follows the head.
    let block = if head.len() < SNIFF { 1 } else { BLOCK };
    let mut bytes = BufReader::with_capacity(block, bytes);
    let (around, seen) = shipped::around(&head, is_known);
    let known = recognise(&seen);
    // The watchdog and NCCL's warnings come hours after the beginning of a job's log.
    let reader = known.or_else(|| is_log(&seen).then_some(&debug_log::READER));
    of_file.source = reader.map(|reader| reader.source);
    let failure = reader.and_then(|reader| {
        let mut whole = shipped::within(around, Box::new(std::io::Cursor::new(&head).chain(&mut bytes)));
        let bytes = &mut *whole as &mut dyn BufRead;
        let mut reading = Reading { bytes, disk: None, file: &mut of_file, records: &mut records, keep };
        (reader.read)(&mut reading).err()
    });
    if let Some(failure) = failure.or_else(|| bytes.get_mut().failure.take()) {
        of_file.end_is_unread(bytes.get_ref().count, &failure);
    }
    // A reader that does not read everything has counted what it has read.
    if of_file.bytes == 0 {
        of_file.bytes = bytes.get_ref().count;
        of_file.checksum = bytes.get_ref().checksum.sum();
    }
    if known.is_none() && of_file.records == 0 {
        (of_file.source, of_file.notes, of_file.skipped) = Default::default();
    }
    records.files.push(of_file);
    records
}

/// Whether a file may be the log of a program: lines of text that is not JSON.
fn is_log(head: &[u8]) -> bool {
    let is_other = match head.trim_ascii_start() {
        // A list of events; lines of PyTorch's watchdog begin with `[E` or `[rank0]`, and those of MPI with `[1,0]`.
        [b'[', rest @ ..] => rest.trim_ascii_start().first().is_none_or(|byte| matches!(byte, b'{' | b']' | b',')),
        text => text.first().is_none_or(|byte| matches!(byte, b'{' | b'<')),
    };
    !is_other && input::is_utf8(head) && !head.contains(&0) && !is_trace(head)
}

/// Reads all files of several inputs, as many at once as there are threads. The order of the answer is that of the paths. An input that
/// cannot be read is among [`Records::files`], with the reason as a note.
pub fn read_all(paths: &[PathBuf], keep: Keep, threads: usize) -> Records {
    merge(read_each(paths, keep, threads, &Taken::default()))
}

/// How many bytes of the files have been read, for progress.
#[derive(Debug, Default)]
pub struct Taken(Mutex<Vec<Arc<AtomicU64>>>);

impl Taken {
    pub fn bytes(&self) -> u64 {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|taken| taken.load(Ordering::Relaxed)).sum()
    }

    fn count(&self, of_file: Arc<AtomicU64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(of_file);
    }
}

/// The same, with the records of each file apart, so that those of several runs can be told apart. [`merge`] makes one of them. `taken` counts
/// while they are read.
pub fn read_each(paths: &[PathBuf], keep: Keep, threads: usize, taken: &Taken) -> Vec<Records> {
    let read = in_order(paths.len(), threads, |at| read_path(&paths[at], keep, taken));
    // Where others had too many files open: one after the other they may all be read.
    let again = |path: &Path, error| if is_out_of_files(&error) { read_path(path, keep, taken) } else { Err(error) };
    let whole = |(of_files, path): (Result<_, _>, &PathBuf)| {
        of_files.or_else(|error| again(path, error)).unwrap_or_else(|error| unread(path, &error))
    };
    let mut of_files: Vec<Records> = read.into_iter().zip(paths).flat_map(whole).collect();
    runs::forget_local_ranks(&mut of_files);
    runs::leave_out_older(&mut of_files);
    of_files
}

fn read_path(path: &Path, keep: Keep, taken: &Taken) -> Result<Vec<Records>, Error> {
    // Such a file is empty, which is an error of any other.
    if let Some(failed) = recorder::read_name(&path.to_string_lossy()) {
        return Ok(vec![Records::none_of(failed)]);
    }
    let input = input::open(path)?;
    // Only a file of the disk has a size.
    match input.size.and_then(|size| Some((size, with_holes(&input)?))) {
        Some((size, reader)) => {
            let records = read_parts(path, reader, keep)?;
            taken.count(Arc::new(size.into()));
            Ok(vec![records])
        }
        None => {
            taken.count(Arc::clone(&input.taken));
            read_files(input, keep)
        }
    }
}

fn read_parts(path: &Path, reader: &Reader, keep: Keep) -> Result<Records, Error> {
    let file = std::fs::File::open(path).map_err(|source| Error::Read { name: path.display().to_string(), source })?;
    let mut records = Records::default();
    let mut of_file = RecordFile { source: Some(reader.source), ..RecordFile::new(path.display().to_string()) };
    let bytes = &mut std::io::empty() as &mut dyn BufRead;
    let mut reading = Reading { bytes, disk: Some(&file), file: &mut of_file, records: &mut records, keep };
    if let Err(failure) = (reader.read)(&mut reading) {
        of_file.end_is_unread(of_file.bytes, &failure);
    }
    records.files.push(of_file);
    Ok(records)
}

fn unread(path: &Path, error: &Error) -> Vec<Records> {
    let mut file = RecordFile::new(path.display().to_string());
    file.note(error.to_string());
    vec![Records::none_of(file)]
}

fn is_out_of_files(error: &Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error, Error::Read { source, .. } if matches!(source.raw_os_error(), Some(EMFILE | ENFILE)))
}

pub fn merge(of_files: impl IntoIterator<Item = Records>) -> Records {
    let mut all = Records::default();
    of_files.into_iter().for_each(|of_file| all.append(of_file));
    complete(&mut all);
    all
}

struct Counted {
    bytes: Box<dyn Read + Send>,
    count: u64,
    checksum: Crc,
    /// The error that has ended the reading already, for the next read.
    failure: Option<std::io::Error>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // A caller that reads through a buffer takes an interruption for a failure.
        let n = loop {
            match self.bytes.read(buf) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.count += n as u64;
        self.checksum.update(&buf[..n]);
        Ok(n)
    }
}
