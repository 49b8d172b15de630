//! Tar: headers of 512 bytes, each before the bytes of its member.
//!
//! What stands in a header is read by the crate `tar`. Its own way through an archive lends the source to one member at a time and
//! to one thread only, while a trace is read by several in turn; so the way is gone here, which is a dozen lines: a header, what
//! belongs to it (long names, `pax`), and over the member to the next one.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tar::{EntryType, Header, PaxExtensions};

use super::names;
use crate::input::packed::{PackedCause, PackedFailure};
use crate::input::region::Region;

const BLOCK: u64 = 512;

/// Names and `pax` records are no longer than this.
const MAX_RECORD: u64 = 1 << 20;

/// A file in a tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Where its bytes begin.
    pub(super) offset: u64,
    pub(super) size: u64,
    /// It has holes that are not stored: its bytes are not those of the file.
    pub(super) is_sparse: bool,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    File(Entry),
    End,
    /// The archive ends without its end mark, or goes on with what is no header, before its end mark or behind it.
    Broken {
        offset: u64,
    },
}

/// A source that can be read on from further behind.
pub(super) trait Skip: Read {
    /// Passes over so many bytes, or as many as there are, which it returns.
    fn skip(&mut self, bytes: u64) -> io::Result<u64>;
}

impl Skip for Region {
    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let from = self.position();
        let to = from.saturating_add(bytes).min(self.length()?.max(from));
        Ok(self.seek(SeekFrom::Start(to))? - from)
    }
}

impl Skip for Box<dyn Read + Send> {
    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        io::copy(&mut self.take(bytes), &mut io::sink())
    }
}

/// A way through an archive.
#[derive(Debug)]
pub(super) struct Walk<R> {
    source: R,
    at: u64,
    /// How much of the current file has not been read.
    left: u64,
    /// What is between that and the next header.
    padding: u64,
}

/// What is at the place of a header.
enum Found {
    Header { block: Vec<u8>, kind: EntryType, size: u64 },
    End,
    Nothing,
}

/// What the headers before a file's own say of it.
#[derive(Default)]
struct Told {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

impl<R: Skip> Walk<R> {
    pub(super) fn new(source: R) -> Self {
        Walk { source, at: 0, left: 0, padding: 0 }
    }

    /// The next file, over what is left of this one. Directories, links and devices are passed over.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        let next = self.find_next();
        match next {
            Err(error) if PackedFailure::of(&error).is_some() => Ok(Next::Broken { offset: self.at }),
            other => other,
        }
    }

    fn find_next(&mut self) -> io::Result<Next> {
        let mut told = Told::default();
        loop {
            let over = self.left.saturating_add(self.padding);
            self.at += self.source.skip(over)?;
            (self.left, self.padding) = (0, 0);
            let (offset, found) = self.find_header()?;
            let (block, kind, size) = match found {
                Found::Header { block, kind, size } => (block, kind, size),
                Found::End => return Ok(Next::End),
                Found::Nothing => return Ok(Next::Broken { offset }),
            };
            self.set_size(size);
            match kind {
                EntryType::GNULongName => {
                    let Some(name) = self.record()? else { return Ok(Next::Broken { offset }) };
                    told.name = Some(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
                }
                EntryType::XHeader => {
                    let Some(record) = self.record()? else { return Ok(Next::Broken { offset }) };
                    told.read(&record);
                }
                // What these say is of no use here: the target of a link, and defaults for all files.
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                kind => {
                    let told = std::mem::take(&mut told);
                    let size = if has_bytes(kind) { told.size.unwrap_or(size) } else { size };
                    self.set_size(size);
                    let name = told.name.unwrap_or_else(|| Header::from_byte_slice(&block).path_bytes().into_owned());
                    // Before there was a type for directories they were files with such names.
                    if !matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse)
                        || name.ends_with(b"/")
                    {
                        continue;
                    }
                    let is_sparse = told.is_sparse || kind == EntryType::GNUSparse;
                    let name = names::kept(&name);
                    return Ok(Next::File(Entry { name, offset: self.at, size, is_sparse }));
                }
            }
        }
    }

    /// The next header and its place, over zeros. Two blocks of these are the archive's end mark; but one may be a gap, and behind the
    /// end mark of one archive there may be another. So the end is where nothing else follows. Reading up to there also has the
    /// checksum of what the archive is packed in compared.
    fn find_header(&mut self) -> io::Result<(u64, Found)> {
        let mut has_zeros = false;
        loop {
            let (offset, mut block) = (self.at, Vec::with_capacity(BLOCK as usize));
            self.at += self.source.by_ref().take(BLOCK).read_to_end(&mut block)? as u64;
            let (is_whole, is_zero) = (block.len() == BLOCK as usize, block.iter().all(|byte| *byte == 0));
            if !is_zero || !is_whole && !has_zeros {
                let header = if is_whole { read_header(&block) } else { None };
                return Ok((offset, header.map_or(Found::Nothing, |(kind, size)| Found::Header { block, kind, size })));
            }
            if !is_whole {
                return Ok((offset, Found::End));
            }
            has_zeros = true;
        }
    }

    fn set_size(&mut self, size: u64) {
        (self.left, self.padding) = (size, size.wrapping_neg() % BLOCK);
    }

    /// The current member as a whole; `None` if it is longer than names and records are, or cut off.
    fn record(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (size, mut record) = (self.left, Vec::new());
        if size > MAX_RECORD {
            return Ok(None);
        }
        self.source.by_ref().take(size).read_to_end(&mut record)?;
        self.at += record.len() as u64;
        self.left -= record.len() as u64;
        Ok((self.left == 0).then_some(record))
    }
}

impl Told {
    fn read(&mut self, record: &[u8]) {
        for field in PaxExtensions::new(record).flatten() {
            match (field.key_bytes(), field.value_bytes()) {
                (b"path" | b"GNU.sparse.name", name) => self.name = Some(name.to_vec()),
                (b"size", size) => self.size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok()),
                (key, _) => self.is_sparse |= key.starts_with(b"GNU.sparse"),
            }
        }
    }
}

/// Links and folders have no bytes, whatever size is written for them.
fn has_bytes(kind: EntryType) -> bool {
    !matches!(kind, EntryType::Link | EntryType::Symlink | EntryType::Directory)
}

/// Of what kind a header is, and how many bytes follow it; `None` for what is no header.
fn read_header(block: &[u8]) -> Option<(EntryType, u64)> {
    let header = Header::from_byte_slice(block);
    // The sum is taken as if its own field were blank.
    const SUM: std::ops::Range<usize> = 148..156;
    let byte = |(at, byte): (usize, &u8)| if SUM.contains(&at) { u32::from(b' ') } else { u32::from(*byte) };
    let sum: u32 = block.iter().enumerate().map(byte).sum();
    let is_whole = header.cksum().is_ok_and(|told| told == sum);
    let kind = header.entry_type();
    let size = if has_bytes(kind) { header.entry_size().ok()? } else { 0 };
    is_whole.then_some((kind, size))
}

/// An archive that is read as it comes.
pub(super) type Stream = Arc<Mutex<Walk<Box<dyn Read + Send>>>>;

/// The bytes of the file at which such an archive stands. There are none any more when it has gone on.
pub(super) struct Current {
    walk: Stream,
    offset: u64,
    size: u64,
}

impl Current {
    pub(super) fn new(walk: &Stream, entry: &Entry) -> Self {
        Current { walk: Arc::clone(walk), offset: entry.offset, size: entry.size }
    }
}

/// What a panicking thread leaves behind is not read any more.
pub(super) fn lock(walk: &Stream) -> MutexGuard<'_, Walk<Box<dyn Read + Send>>> {
    walk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for Current {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut walk = lock(&self.walk);
        let is_at_end = walk.left == 0 || walk.at < self.offset || walk.at >= self.offset.saturating_add(self.size);
        if buf.is_empty() || is_at_end {
            return Ok(0);
        }
        let room = usize::try_from(walk.left).map_or(buf.len(), |left| left.min(buf.len()));
        let n = walk.source.read(&mut buf[..room])?;
        if n == 0 {
            let (cause, offset) = (PackedCause::CutOff, walk.at - self.offset);
            return Err(PackedFailure { cause, offset, message: "the archive ends within this file".to_owned() }.into());
        }
        walk.at += n as u64;
        walk.left -= n as u64;
        Ok(n)
    }
}
