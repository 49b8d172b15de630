//! Bytes to events: opening a trace, telling its format by its first bytes, and reading it as a stream.
//!
//! What a file is called does not matter: browsers unpack downloads without renaming them, and tools write gzip into
//! files that end in `.json`. [`open`] looks at the first bytes only, [`Input::into_contents`] at the first that were compressed.
//! Memory never holds more of the text than a few chunks for each thread, and the event that is being read.

pub mod bgzip;
pub mod gzip;
pub mod json;
pub mod limit;
pub mod packed;
pub mod proto;
pub mod zstd;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use limit::{Limited, Limits};

/// An opened trace: its bytes as stored, and what is known of it.
pub struct Input {
    /// The name for messages: the path, or `<stdin>`.
    pub name: String,
    /// The file's size in bytes, if it is a regular file.
    pub size: Option<u64>,
    /// Counts the bytes taken from the file so far, for progress.
    pub taken: Arc<AtomicU64>,
    /// How much text it may have.
    pub limits: Limits,
    /// How the text is packed.
    packing: Packing,
    /// All of the file's bytes.
    bytes: Box<dyn Read + Send>,
}

/// How a text is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    /// Gzip whose members say how long they are.
    Bgzip,
    Zstd,
}

impl Input {
    /// The text, decompressed; ends with an error where its limits are reached. More threads than one help only where the file
    /// allows it.
    pub fn into_text(self, threads: usize) -> Box<dyn Read + Send> {
        let (limits, taken) = (self.limits, Arc::clone(&self.taken));
        Box::new(Limited::new(self.unpacked(threads), limits, taken))
    }

    fn unpacked(self, threads: usize) -> Box<dyn Read + Send> {
        match self.packing {
            Packing::None => self.bytes,
            // Two threads have enough to do with parsing; there a third and fourth would be in the way.
            Packing::Bgzip => Box::new(bgzip::Groups::new(self.bytes, if threads > 2 { threads / 2 } else { 0 })),
            Packing::Gzip => Box::new(gzip::Members::new(self.bytes, 0)),
            Packing::Zstd => Box::new(zstd::Frames::new(self.bytes, 0)),
        }
    }
}

/// A trace's text, by the format it has.
pub enum Contents {
    /// JSON, or what the reader of JSON will say is none.
    Json(Box<dyn Read + Send>),
    /// Perfetto's protobuf: a list of packets.
    Packets(Box<dyn Read + Send>),
}

impl Input {
    /// The text, decompressed, and what it is.
    pub fn into_contents(self, threads: usize) -> Contents {
        let mut text = self.into_text(threads);
        let mut head = Vec::with_capacity(SNIFF);
        let failure = text.by_ref().take(SNIFF as u64).read_to_end(&mut head).err();
        let is_packets = proto::begins(&head);
        let text = Box::new(Begun { head: io::Cursor::new(head), failure, rest: text });
        if is_packets { Contents::Packets(text) } else { Contents::Json(text) }
    }
}

/// A text whose beginning has been looked at.
struct Begun {
    head: io::Cursor<Vec<u8>>,
    /// What reading the beginning failed with.
    failure: Option<io::Error>,
    rest: Box<dyn Read + Send>,
}

impl Read for Begun {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buf)? {
            0 => self.failure.take().map_or_else(|| self.rest.read(buf), Err),
            n => Ok(n),
        }
    }
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
    As(Packing),
    Not { what: &'static str, advice: &'static str },
}

/// Formats with a mark. What has none of these marks is text or packets, which is told apart once it is decompressed.
const FORMATS: &[Format] = &[
    Format { offset: 0, magic: gzip::MAGIC, read_as: Reading::As(Packing::Gzip) },
    Format { offset: 0, magic: zstd::MAGIC, read_as: Reading::As(Packing::Zstd) },
    // One of sixteen bytes before it.
    Format { offset: 1, magic: zstd::SKIPPABLE, read_as: Reading::As(Packing::Zstd) },
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
    let format = FORMATS.iter().find(|f| head.get(f.offset..).is_some_and(|rest| rest.starts_with(f.magic)));
    let packing = match format.map(|f| &f.read_as) {
        None => Packing::None,
        Some(Reading::As(Packing::Gzip)) if bgzip::member_length(&head).is_some() => Packing::Bgzip,
        Some(Reading::As(packing)) => *packing,
        Some(Reading::Not { what, advice }) => return Err(Error::Unsupported { name, what, advice }),
    };
    let limits = Limits::default();
    Ok(Input { name, size, taken, limits, packing, bytes: Box::new(io::Cursor::new(head).chain(counted)) })
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
