//! Tar: headers of 512 bytes, each before the bytes of its member.
//!
//! The crate `tar` parses a header. Its iterator would lend the source to one thread only; a trace is read by several in turn. So the
//! archive is walked here: a header, the records before it (long names, `pax`), the member.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tar::{EntryType, Header, PaxExtensions};

use super::listing::{self, Listing, kept_name};
use super::packed::PackedFailure;
use super::source::Source;
use super::sparse::{Map, Sparse};
use super::{Container, Kind};
use crate::damage::Damage;
use crate::error::Error;

const BLOCK: u64 = 512;

/// The mark of POSIX and GNU headers, and its offset.
const MAGIC: (usize, &[u8]) = (257, b"ustar");

pub(super) static CONTAINER: Container = Container {
    name: "tar",
    sniff: |head| head.get(MAGIC.0..).is_some_and(|rest| rest.starts_with(MAGIC.1)),
    kind: Kind::Archive(list),
};

/// All files of an archive, and where it breaks off.
fn list(_: &str, source: Source) -> Result<Listing, Error> {
    let archive = if let Source::File(region) = &source { Some(region.clone()) } else { None };
    let can_seek = archive.is_some();
    let walk = Arc::new(Mutex::new(Walk { source, at: 0, left: 0, padding: 0 }));
    let mut is_over = false;
    let entries = std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let next = lock(&walk).next();
        is_over = !matches!(next, Ok(Some(_)));
        Some(Ok(match next {
            Ok(None) => return None,
            Err(Stop::Failed(error)) => return Some(Err(error)),
            Err(Stop::Broken(offset)) => listing::Entry::Damaged(Damage::ArchiveBroken, offset),
            Ok(Some(entry)) if entry.holes == Some(None) => listing::Entry::Refused {
                name: entry.name,
                what: "this is stored with holes (a sparse file), and the map of these is damaged",
                advice: "Unpack the archive and name the file",
            },
            Ok(Some(Entry { name, offset, size, holes })) => {
                let (walk, archive) = (Arc::clone(&walk), archive.clone());
                let stored = move || match &archive {
                    Some(archive) => Source::File(archive.part(offset, size)),
                    None => Source::Stream(Box::new(Current { walk: Arc::clone(&walk), offset, size })),
                };
                let open = move || match &holes {
                    Some(Some(map)) => Source::Stream(Box::new(Sparse::new(stored(), map.clone()))),
                    _ => stored(),
                };
                listing::Entry::File(listing::File { name, open: Box::new(open) })
            }
        }))
    });
    Ok(Listing { can_seek, entries: Box::new(entries) })
}

/// Longer names and `pax` records are damage.
const MAX_RECORD: u64 = 1 << 20;

struct Entry {
    name: String,
    /// The offset of its bytes.
    offset: u64,
    size: u64,
    holes: Holes,
}

/// Where the holes that are not stored are; `None`: all bytes are stored; the inner `None`: the map is damaged.
type Holes = Option<Option<Map>>;

enum Stop {
    /// At this offset the archive ends without the mark, or has bytes that are not a header.
    Broken(u64),
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Failed(error)
    }
}

struct Walk {
    source: Source,
    at: u64,
    /// How many bytes of the current file have not been read.
    left: u64,
    /// How many bytes are between it and the next header.
    padding: u64,
}

/// What the records before a file's header say about it.
#[derive(Default)]
struct Records {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    holes: Holes,
}

impl Walk {
    /// The next file, after the rest of the current one. Directories, links and devices are skipped.
    fn next(&mut self) -> Result<Option<Entry>, Stop> {
        self.find_next().map_err(|stop| match stop {
            Stop::Failed(error) if PackedFailure::find_in(&error).is_some() => Stop::Broken(self.at),
            other => other,
        })
    }

    fn find_next(&mut self) -> Result<Option<Entry>, Stop> {
        let mut records = Records::default();
        loop {
            let over = self.left.saturating_add(self.padding);
            self.skip(over)?;
            (self.left, self.padding) = (0, 0);
            let Some((offset, block)) = self.find_header()? else { return Ok(None) };
            let (kind, size) = read_header(&block).ok_or(Stop::Broken(offset))?;
            self.set_size(size);
            match kind {
                EntryType::GNULongName => {
                    let name = self.record()?.ok_or(Stop::Broken(offset))?;
                    records.name = Some(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
                }
                EntryType::XHeader => records.read(&self.record()?.ok_or(Stop::Broken(offset))?),
                // Not needed: the target of a link, and defaults for all files.
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                kind => {
                    let records = std::mem::take(&mut records);
                    let size = if has_bytes(kind) { records.size.unwrap_or(size) } else { size };
                    self.set_size(size);
                    let stored_name = || Header::from_byte_slice(&block).path_bytes().into_owned();
                    let name = records.name.unwrap_or_else(stored_name);
                    let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse);
                    // Old archives have directories as files with such names.
                    if !is_file || name.ends_with(b"/") {
                        continue;
                    }
                    let map = match kind {
                        EntryType::GNUSparse => Some(self.map_of(&block)?),
                        _ => records.holes,
                    };
                    let holes = map.map(|map| map.filter(|map| map.fits(size)));
                    let name = kept_name(&name);
                    return Ok(Some(Entry { name, offset: self.at, size, holes }));
                }
            }
        }
    }

    /// The map of a header of GNU's, with the blocks that follow it; `None` if it is damaged.
    fn map_of(&mut self, block: &[u8]) -> io::Result<Option<Map>> {
        let Some((mut map, mut goes_on)) = Map::of_header(Header::from_byte_slice(block)) else { return Ok(None) };
        while goes_on {
            let mut block = Vec::with_capacity(BLOCK as usize);
            self.at += self.source.by_ref().take(BLOCK).read_to_end(&mut block)? as u64;
            match map.extend(&block) {
                Some(more) => goes_on = more,
                None => return Ok(None),
            }
        }
        Ok(Some(map))
    }

    /// The next block that is not zeros, where a header should be, and its offset; `None` at the end. Two blocks of zeros are the end mark,
    /// but one may be a gap, and another archive may follow the mark. So the end is where nothing else follows; reading up to there also
    /// verifies the checksum around the archive.
    fn find_header(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let mut has_zeros = false;
        loop {
            let (offset, mut block) = (self.at, Vec::with_capacity(BLOCK as usize));
            self.at += self.source.by_ref().take(BLOCK).read_to_end(&mut block)? as u64;
            let (is_whole, is_zero) = (block.len() == BLOCK as usize, block.iter().all(|byte| *byte == 0));
            if !is_zero || !is_whole && !has_zeros {
                return Ok(Some((offset, block)));
            }
            if !is_whole {
                return Ok(None);
            }
            has_zeros = true;
        }
    }

    /// Skips this many bytes, or as many as there are.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.at += match &mut self.source {
            Source::File(region) => {
                let from = region.position();
                let to = from.saturating_add(bytes).min(region.length()?.max(from));
                region.seek(SeekFrom::Start(to))? - from
            }
            Source::Stream(stream) => io::copy(&mut stream.take(bytes), &mut io::sink())?,
        };
        Ok(())
    }

    fn set_size(&mut self, size: u64) {
        (self.left, self.padding) = (size, size.wrapping_neg() % BLOCK);
    }

    /// The whole current member, a name or record; `None` if it is too long or cut off.
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

impl Records {
    fn read(&mut self, record: &[u8]) {
        for field in PaxExtensions::new(record).flatten() {
            match (field.key_bytes(), field.value_bytes()) {
                (b"path" | b"GNU.sparse.name", name) => self.name = Some(name.to_vec()),
                (b"size", size) => self.size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok()),
                (key, value) if key.starts_with(b"GNU.sparse") => {
                    let map = self.holes.get_or_insert_with(|| Some(Map::default()));
                    if map.as_mut().and_then(|map| map.record(key, value)).is_none() {
                        *map = None;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Links and directories have no bytes, whatever size their header has.
fn has_bytes(kind: EntryType) -> bool {
    !matches!(kind, EntryType::Link | EntryType::Symlink | EntryType::Directory)
}

/// A header's type, and how many bytes follow it; `None` if the block is not a header.
fn read_header(block: &[u8]) -> Option<(EntryType, u64)> {
    if block.len() < BLOCK as usize {
        return None;
    }
    let header = Header::from_byte_slice(block);
    // The checksum counts its own field as blanks.
    const SUM: std::ops::Range<usize> = 148..156;
    let byte = |(at, byte): (usize, &u8)| if SUM.contains(&at) { u32::from(b' ') } else { u32::from(*byte) };
    let sum: u32 = block.iter().enumerate().map(byte).sum();
    let is_whole = header.cksum().is_ok_and(|written| written == sum);
    let kind = header.entry_type();
    let size = if has_bytes(kind) { header.entry_size().ok()? } else { 0 };
    is_whole.then_some((kind, size))
}

/// The bytes of the current file of a stream; none after the walk has gone on.
struct Current {
    walk: Arc<Mutex<Walk>>,
    offset: u64,
    size: u64,
}

/// After a panic nothing is read any more.
fn lock(walk: &Mutex<Walk>) -> MutexGuard<'_, Walk> {
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
            return Err(PackedFailure::in_archive(walk.at - self.offset).into());
        }
        walk.at += n as u64;
        walk.left -= n as u64;
        Ok(n)
    }
}
