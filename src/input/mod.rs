//! Bytes to events: opening a trace, telling its format by its first bytes, and reading it as a stream.
//!
//! What a file is called does not matter: browsers unpack downloads without renaming them, and tools write gzip into
//! files that end in `.json`. [`open`] looks at the first bytes only. Memory never holds more than a block of the text and
//! the event that is being read.

pub mod gzip;
pub mod json;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// An opened trace: its bytes as stored, and what is known of it.
pub struct Input {
    /// The name for messages: the path, or `<stdin>`.
    pub name: String,
    /// The file's size in bytes, if it is a regular file.
    pub size: Option<u64>,
    /// Counts the bytes taken from the file so far, for progress.
    pub taken: Arc<AtomicU64>,
    /// The text, decompressed.
    pub text: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

/// How many bytes are looked at to tell the format: enough for tar's mark at 257.
const SNIFF: usize = 512;

/// A format by its first bytes.
struct Format {
    offset: usize,
    magic: &'static [u8],
    read_as: Reading,
}

enum Reading {
    Gzip,
    Not { what: &'static str, advice: &'static str },
}

/// Formats with a mark. What has none of these marks is taken for JSON text, which the JSON reader checks.
const FORMATS: &[Format] = &[
    Format { offset: 0, magic: b"\x1f\x8b", read_as: Reading::Gzip },
    Format {
        offset: 0,
        magic: b"\x28\xb5\x2f\xfd",
        read_as: Reading::Not { what: "this is zstd data", advice: "Decompress it first: zstd -d" },
    },
    Format {
        offset: 0,
        magic: b"PK\x03\x04",
        read_as: Reading::Not { what: "this is a zip archive", advice: "Unpack it and name one of its files" },
    },
    Format {
        offset: 257,
        magic: b"ustar",
        read_as: Reading::Not { what: "this is a tar archive", advice: "Unpack it and name one of its files" },
    },
    Format {
        offset: 0,
        magic: b"SQLite format 3\0",
        read_as: Reading::Not {
            what: "this is an SQLite database (an Nsight Systems export?)",
            advice: "Record with the PyTorch profiler instead",
        },
    },
];

/// Opens a trace, `-` for standard input, and finds out how it is compressed.
///
/// # Errors
/// A missing file, a directory, an empty file, an unreadable one, and containers that are not read yet.
pub fn open(path: &Path) -> Result<Input, Error> {
    if path.as_os_str() == "-" {
        return from_reader("<stdin>".to_owned(), None, Box::new(io::stdin()));
    }
    let name = path.display().to_string();
    let read_error = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::NoSuchFile { path: path.to_owned() },
        _ => Error::Read { name: name.clone(), source },
    };
    let metadata = std::fs::metadata(path).map_err(read_error)?;
    if metadata.is_dir() {
        return Err(Error::IsDirectory { path: path.to_owned() });
    }
    let file = File::open(path).map_err(read_error)?;
    let size = metadata.is_file().then_some(metadata.len());
    from_reader(name, size, Box::new(file))
}

/// The same for any source of bytes, for tests and for those who have the trace in memory. `size` is the number of
/// bytes it holds, if known.
///
/// # Errors
/// As [`open`], less what concerns paths.
pub fn from_reader(name: String, size: Option<u64>, source: Box<dyn Read + Send>) -> Result<Input, Error> {
    let taken = Arc::new(AtomicU64::new(0));
    let mut counted = Counted { source, taken: Arc::clone(&taken) };
    let mut head = Vec::with_capacity(SNIFF);
    counted
        .by_ref()
        .take(SNIFF as u64)
        .read_to_end(&mut head)
        .map_err(|source| Error::Read { name: name.clone(), source })?;
    if head.is_empty() {
        return Err(Error::Empty { name });
    }
    // A protobuf message of packets begins with the number of its field, 10, which is a newline in text.
    let first_visible = head.iter().find(|byte| !byte.is_ascii_whitespace());
    if head[0] == 0x0a && !matches!(first_visible, Some(b'{' | b'[')) {
        let advice = "Record with the PyTorch profiler, which writes JSON";
        return Err(Error::Unsupported { name, what: "this looks like Perfetto's protobuf format", advice });
    }
    let format = FORMATS.iter().find(|f| head.get(f.offset..).is_some_and(|rest| rest.starts_with(f.magic)));
    let text: Box<dyn Read + Send> = match format.map(|f| &f.read_as) {
        None => Box::new(io::Cursor::new(head).chain(counted)),
        Some(Reading::Gzip) => Box::new(gzip::Members::new(io::Cursor::new(head).chain(counted))),
        Some(Reading::Not { what, advice }) => return Err(Error::Unsupported { name, what, advice }),
    };
    Ok(Input { name, size, taken, text })
}

/// Counts what passes through.
struct Counted {
    source: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buf)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
