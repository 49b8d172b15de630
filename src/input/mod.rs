//! Bytes to events: opening a trace, telling its format by its first bytes, and reading it as a stream.
//!
//! What a file is called does not matter: browsers unpack downloads without renaming them, and tools write gzip into
//! files that end in `.json`. [`open`] looks at the first bytes only, [`Input::into_contents`] at the first that were compressed, as many
//! times over as they are. Memory never holds more of the text than a few chunks for each thread, and the event that is being read.

pub mod archive;
pub mod bgzip;
pub mod gzip;
pub mod json;
pub mod limit;
pub mod packed;
pub mod proto;
mod region;
pub mod zstd;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use archive::Archive;
use limit::{Budget, LimitReached, Limited, Limits};
use region::Region;

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
    source: Source,
}

/// Where bytes come from.
enum Source {
    /// A file, or a part of one.
    File(Region),
    /// What can be read once only.
    Stream(Box<dyn Read + Send>),
}

impl Source {
    /// The first bytes, and the same source, which has them still.
    fn peek(self) -> (Vec<u8>, Self) {
        let mut head = Vec::with_capacity(SNIFF);
        match self {
            Source::File(region) => {
                // What fails here fails again when it is read.
                let _ = region.clone().take(SNIFF as u64).read_to_end(&mut head);
                (head, Source::File(region))
            }
            Source::Stream(mut rest) => {
                let failure = rest.by_ref().take(SNIFF as u64).read_to_end(&mut head).err();
                let begun = Begun { head: io::Cursor::new(head.clone()), failure, rest };
                (head, Source::Stream(Box::new(begun)))
            }
        }
    }

    /// The same as something that is no text yet, paid for by a budget.
    fn within(self, budget: &Budget) -> Self {
        match self {
            Source::Stream(stream) => Source::Stream(Box::new(Limited::new(stream, budget.of_layers()))),
            file => file,
        }
    }

    fn into_reader(self) -> Box<dyn Read + Send> {
        match self {
            Source::File(region) => Box::new(region),
            Source::Stream(stream) => stream,
        }
    }
}

/// How a text is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    /// Gzip whose members say how long they are.
    Bgzip,
    Zstd,
}

/// Something that was compressed more often was not meant to be read.
const MAX_LAYERS: usize = 4;

/// A trace's text, by the format it has.
pub enum Contents {
    /// JSON, or what the reader of JSON will say is none.
    Json(Box<dyn Read + Send>),
    /// Perfetto's protobuf: a list of packets.
    Packets(proto::Stream),
    /// Several files, of which some may be traces.
    Archive(Box<Archive>),
}

impl Input {
    /// The text, decompressed, and what it is. More threads than one help with decompressing only where the file allows it.
    ///
    /// # Errors
    /// Archives that cannot be read, and what is compressed too many times over.
    pub fn into_contents(self, threads: usize) -> Result<Contents, Error> {
        contents(&self.name, self.source, &Budget::new(self.limits, self.taken), threads, 0)
    }

    /// The text of one trace: the input's own, or that of the file of an archive which stands at this place.
    ///
    /// # Errors
    /// As [`Input::into_contents`], and those of looking for the file; an archive if no place in one is known.
    pub fn into_trace(self, place: Option<usize>) -> Result<Contents, Error> {
        let name = self.name.clone();
        let mut archive = match self.into_contents(1)? {
            Contents::Archive(archive) => archive,
            text => return Ok(text),
        };
        let Some(place) = place else { return Err(Error::ArchiveOnce { name }) };
        while let Some(member) = archive.next(1)? {
            if member.place == place {
                return Ok(member.contents);
            }
        }
        Err(Error::Changed { name })
    }
}

/// What is told if reading fails.
pub(crate) fn failure(name: &str, source: io::Error) -> Error {
    let name = name.to_owned();
    match LimitReached::of(&source) {
        Some(reached) => Error::TooMuchText { name, what: reached.to_string() },
        None => Error::Read { name, source },
    }
}

/// What a source holds, within so many archives. All texts of one budget end with an error where they become more than it allows.
fn contents(name: &str, mut source: Source, budget: &Budget, threads: usize, depth: usize) -> Result<Contents, Error> {
    let mut layers = 0;
    let text = |source: Source| Box::new(Limited::new(source.into_reader(), budget.clone()));
    loop {
        let (head, whole) = source.peek();
        source = match packing_of(&head) {
            Some(Reading::Packed(packing)) => {
                layers += 1;
                if layers > MAX_LAYERS {
                    let (what, advice) = ("this is compressed more than four times over", "Decompress it by hand");
                    return Err(Error::Unsupported { name: name.to_owned(), what, advice });
                }
                let packing = if bgzip::member_length(&head).is_some() { Packing::Bgzip } else { *packing };
                Source::Stream(unpack(whole.within(budget).into_reader(), packing, threads))
            }
            Some(Reading::Zip) => {
                return Ok(Contents::Archive(Box::new(Archive::zip(name, depth, whole.within(budget), budget)?)));
            }
            Some(Reading::Tar) => {
                return Ok(Contents::Archive(Box::new(Archive::tar(name, depth, whole.within(budget), budget)?)));
            }
            _ if proto::begins(&head) => return Ok(Contents::Packets(proto::Stream::new(text(whole), budget.clone()))),
            _ => return Ok(Contents::Json(text(whole))),
        }
    }
}

fn unpack(bytes: Box<dyn Read + Send>, packing: Packing, threads: usize) -> Box<dyn Read + Send> {
    match packing {
        // Two threads have enough to do with parsing; there a third and fourth would be in the way.
        Packing::Bgzip => Box::new(bgzip::Groups::new(bytes, if threads > 2 { threads / 2 } else { 0 })),
        Packing::Gzip => Box::new(gzip::Members::new(bytes, 0)),
        Packing::Zstd => Box::new(zstd::Frames::new(bytes, 0)),
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
    Packed(Packing),
    Zip,
    Tar,
    Not { what: &'static str, advice: &'static str },
}

impl Reading {
    /// Whether a trace may be in it.
    fn is_container(&self) -> bool {
        !matches!(self, Reading::Not { .. })
    }
}

/// Formats with a mark. What has none of these marks is text or packets, which is told apart once it is decompressed.
const FORMATS: &[Format] = &[
    Format { offset: 0, magic: gzip::MAGIC, read_as: Reading::Packed(Packing::Gzip) },
    Format { offset: 0, magic: zstd::MAGIC, read_as: Reading::Packed(Packing::Zstd) },
    // One of sixteen bytes before it.
    Format { offset: 1, magic: zstd::SKIPPABLE, read_as: Reading::Packed(Packing::Zstd) },
    Format { offset: 0, magic: b"PK\x03\x04", read_as: Reading::Zip },
    // One without files.
    Format { offset: 0, magic: b"PK\x05\x06", read_as: Reading::Zip },
    Format { offset: 257, magic: b"ustar", read_as: Reading::Tar },
    Format {
        offset: 0,
        magic: b"SQLite format 3\0",
        read_as: Reading::Not {
            what: "this is an SQLite database (an Nsight Systems export?)",
            advice: "Record with the PyTorch profiler instead",
        },
    },
];

/// The format with a mark that a text begins with, if it has one.
fn packing_of(head: &[u8]) -> Option<&'static Reading> {
    let begins = |format: &&Format| head.get(format.offset..).is_some_and(|rest| rest.starts_with(format.magic));
    FORMATS.iter().find(begins).map(|format| &format.read_as)
}

/// Opens a trace, `-` for standard input.
///
/// # Errors
/// A missing file, a directory, an empty file, an unreadable one, and formats that are not read.
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
    if !metadata.is_file() {
        return from_reader(name, None, Box::new(file));
    }
    let taken = Arc::new(AtomicU64::new(0));
    let region = Region::of_file(file, Arc::clone(&taken));
    let mut head = Vec::with_capacity(SNIFF);
    region.clone().take(SNIFF as u64).read_to_end(&mut head).map_err(read_error)?;
    check(&name, &head)?;
    Ok(Input { name, size: Some(metadata.len()), taken, limits: Limits::default(), source: Source::File(region) })
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
    check(&name, &head)?;
    let source = Source::Stream(Box::new(io::Cursor::new(head).chain(counted)));
    Ok(Input { name, size, taken, limits: Limits::default(), source })
}

/// Refuses what is no trace by its first bytes.
fn check(name: &str, head: &[u8]) -> Result<(), Error> {
    match packing_of(head) {
        _ if head.is_empty() => Err(Error::Empty { name: name.to_owned() }),
        Some(Reading::Not { what, advice }) => Err(Error::Unsupported { name: name.to_owned(), what, advice }),
        _ => Ok(()),
    }
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
