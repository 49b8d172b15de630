//! Bytes to events: opening a trace, recognising its format by its first bytes, and reading it as a stream.
//!
//! `containers` removes layers of compression and goes through archives; `formats` is the registry of the formats, each a folder with a
//! `reader::TraceReader`. Memory holds a few chunks of the text for each thread and the event that is being read, never the whole text.

pub mod containers;
pub mod files;
mod formats;
pub mod json;
pub mod nsys;
mod others;
pub mod proto;
mod reader;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use containers::Opener;
use containers::limit::Limits;
pub use containers::limit::{self, failure};
pub use containers::source::is_utf8;
use containers::source::{Bytes, Head, Region, Source};
pub use formats::{Trace, formats};
pub use reader::{Reading, Summary};

pub type Contents = containers::Contents<Trace>;
pub type Archive = containers::Archive<Trace>;

/// The stored bytes of a trace, and what is known about them.
pub struct Input {
    /// The name for messages: the path, or `<stdin>`.
    pub name: String,
    /// In bytes; `None` if it is no regular file.
    pub size: Option<u64>,
    /// How many bytes of the file have been read, for progress.
    pub taken: Arc<AtomicU64>,
    pub limits: Limits,
    head: Head,
    source: Source,
}

impl Input {
    fn new(name: String, size: Option<u64>, taken: Arc<AtomicU64>, source: Source) -> Result<Self, Error> {
        let (head, source) = source.head().map_err(|source| Error::Read { name: name.clone(), source })?;
        if head.bytes.is_empty() {
            return Err(Error::Empty { name });
        }
        Ok(Input { name, size, taken, limits: Limits::default(), head, source })
    }

    /// Its first bytes as they are stored, some hundred.
    pub fn head(&self) -> &[u8] {
        &self.head.bytes
    }

    pub fn into_contents(self) -> Result<Contents, Error> {
        Opener::new(&formats::OPENING, self.limits, self.taken).open(&self.name, self.head, self.source)
    }

    /// The trace, or the one in the archive with this [`place`](containers::Member::place). An archive is refused if `place` is `None`.
    pub fn into_trace(self, place: Option<usize>) -> Result<Trace, Error> {
        let name = self.name.clone();
        let mut archive = match self.into_contents()? {
            Contents::Archive(archive) => archive,
            Contents::File(trace) => return Ok(trace),
        };
        let Some(place) = place else { return Err(Error::ArchiveOnce { name }) };
        while let Some(member) = archive.next()? {
            if member.place == place {
                return Ok(member.file);
            }
        }
        Err(Error::Changed { name })
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

/// Opens a trace, `-` for standard input.
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
    let taken = Arc::default();
    let region = Region::from_file(file, Arc::clone(&taken)).at_path(path);
    Input::new(name, Some(metadata.len()), taken, Source::File(region))
}

/// The same for any source of bytes. `size` is in bytes, if known.
pub fn from_reader(name: String, size: Option<u64>, source: Box<dyn Read + Send>) -> Result<Input, Error> {
    let taken = Arc::default();
    let counted = Counted { source, taken: Arc::clone(&taken) };
    Input::new(name, size, taken, Source::Stream(Box::new(counted)))
}

struct Counted {
    source: Bytes,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buf)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Contents {
    pub fn what(&self) -> &'static str {
        match self {
            Contents::File(trace) => trace.format().what,
            Contents::Archive(archive) => archive.next_part().map_or("an archive", |part| part.format().what),
        }
    }
}

impl Archive {
    /// Whether a file looks like a trace by its first bytes. What follows the first such file is not read.
    pub fn has_likely_trace(mut self) -> Result<bool, Error> {
        while let Some(member) = self.next()? {
            if member.file.looks_like_one() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The files that look like traces by their first bytes, for a caller that has to know them before it reads one.
    pub fn likely_traces(mut self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        while let Some(member) = self.next()? {
            names.extend(member.file.looks_like_one().then_some(member.name));
        }
        Ok(names)
    }
}
