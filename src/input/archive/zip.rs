//! Zip: members, each behind a header of its own, and a directory of all at the end.
//!
//! The directory is read by the crate `zip`. The members are decompressed here, because the crate lends its source to one of them at
//! a time and to one thread only, while a trace is read by several in turn. Where the directory is missing, as in a download that was
//! cut off, the members' own headers are gone through instead, as far as they go; and where two members have one name, of which the
//! crate knows the later one alone. These headers may not say how long a member is; then the end of its compressed data tells.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use zip::ZipArchive;

use crate::input::packed::{PackedCause, PackedFailure};
use crate::input::region::Region;
use crate::input::zstd::Frames;

/// Compressed bytes are read in pieces of this size.
const BLOCK: usize = 256 * 1024;

/// What the header of a member begins with.
const LOCAL: [u8; 4] = *b"PK\x03\x04";

/// Flags: what is behind it is encrypted; how long it is stands behind it.
const ENCRYPTED: u16 = 1;
const LENGTH_BEHIND: u16 = 8;

/// This size stands in a further field.
const ELSEWHERE: u32 = u32::MAX;

/// Ways in which members are compressed, as far as they can be read.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ZSTD: u16 = 93;

/// A file in a zip.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Where its bytes begin, as they are stored.
    start: u64,
    /// How many these are.
    stored: u64,
    method: u16,
    flags: u16,
    /// Checksum and length of its contents, if they are known.
    sums: Option<(u32, u64)>,
}

/// What an archive holds.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) entries: Vec<Entry>,
    /// Where the archive breaks off, if it has no directory.
    pub(super) broken: Option<u64>,
}

impl Directory {
    /// Reads it.
    pub(super) fn read(archive: &Region) -> io::Result<Self> {
        match listed(archive)? {
            Listed::All(entries) => Ok(Directory { entries, broken: None }),
            Listed::NotAll => Ok(Directory { entries: in_sequence(archive)?.0, broken: None }),
            Listed::Broken => {
                let (entries, end) = in_sequence(archive)?;
                Ok(Directory { entries, broken: Some(end) })
            }
        }
    }
}

impl Entry {
    /// Why it cannot be read, and what to do.
    pub(super) fn refusal(&self) -> Option<(&'static str, &'static str)> {
        const UNPACK: &str = "Unpack the archive and name the trace";
        Some(match self.method {
            _ if self.flags & ENCRYPTED != 0 => {
                ("this file of the archive is encrypted", "Unpack the archive with its password and name the trace")
            }
            STORED | DEFLATED | ZSTD => return None,
            9 => ("this file of the archive is compressed with Deflate64", UNPACK),
            12 => ("this file of the archive is compressed with bzip2", UNPACK),
            14 => ("this file of the archive is compressed with LZMA", UNPACK),
            95 => ("this file of the archive is compressed with xz", UNPACK),
            _ => ("this file of the archive is compressed in a rare way", UNPACK),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sums.is_some_and(|(_, length)| length == 0)
    }

    /// Its bytes as they are in the archive, if they are its contents.
    pub(super) fn plain(&self, archive: &Region) -> Option<Region> {
        (self.method == STORED).then(|| archive.part(self.start, self.stored))
    }

    /// Its contents, decompressed and checked.
    pub(super) fn open(&self, archive: &Region) -> Box<dyn Read + Send> {
        let stored = archive.part(self.start, self.stored);
        let contents: Box<dyn Read + Send> = match self.method {
            DEFLATED => Box::new(DeflateDecoder::new(BufReader::with_capacity(BLOCK, stored))),
            ZSTD => Box::new(Frames::new(stored, 0)),
            _ => Box::new(stored),
        };
        Box::new(Checked { contents, crc: Crc::new(), length: 0, sums: self.sums })
    }
}

/// Contents that are compared with what is known of them when they end.
struct Checked {
    contents: Box<dyn Read + Send>,
    crc: Crc,
    length: u64,
    sums: Option<(u32, u64)>,
}

impl Read for Checked {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let failure = |cause, message: String| PackedFailure { cause, offset: self.length, message }.into();
        match self.contents.read(buf) {
            Ok(0) if !buf.is_empty() => match self.sums {
                Some(sums) if sums != (self.crc.sum(), self.length) => {
                    Err(failure(PackedCause::Corrupt, "the contents have another checksum or length".to_owned()))
                }
                _ => Ok(0),
            },
            Ok(n) => {
                self.crc.update(&buf[..n]);
                self.length += n as u64;
                Ok(n)
            }
            Err(error) if PackedFailure::of(&error).is_some() || error.raw_os_error().is_some() => Err(error),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(failure(PackedCause::CutOff, error.to_string()))
            }
            Err(error) => Err(failure(PackedCause::Corrupt, error.to_string())),
        }
    }
}

/// The files that the directory names.
enum Listed {
    All(Vec<Entry>),
    /// Several have one name.
    NotAll,
    /// There is no directory, or it is not whole.
    Broken,
}

fn listed(archive: &Region) -> io::Result<Listed> {
    let Ok(directory) = ZipArchive::new(BufReader::new(archive.clone())) else { return Ok(Listed::Broken) };
    if directory.has_duplicate_names() {
        return Ok(Listed::NotAll);
    }
    let mut entries = Vec::new();
    for number in 0..directory.len() {
        let Ok(file) = directory.by_index_data(number) else { return Ok(Listed::Broken) };
        let Some(Header { entry, .. }) = Header::read(archive, file.header_start())? else {
            return Ok(Listed::Broken);
        };
        let name = file.name().map_or(entry.name, |name| name.into_owned());
        let sums = Some((file.crc32(), file.size()));
        entries.push(Entry { name, stored: file.compressed_size(), sums, ..entry });
    }
    Ok(Listed::All(entries))
}

/// A member's own header.
struct Header {
    entry: Entry,
    /// Whether it says how long the member is.
    has_length: bool,
}

impl Header {
    /// The header at a place, if there is a whole one.
    fn read(archive: &Region, at: u64) -> io::Result<Option<Self>> {
        let mut source = archive.clone();
        source.seek(SeekFrom::Start(at))?;
        let Some(fixed) = exactly(&mut source, 30)? else { return Ok(None) };
        let short = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        if fixed[..4] != LOCAL {
            return Ok(None);
        }
        let (name_length, extra_length) = (usize::from(short(26)), usize::from(short(28)));
        let Some(texts) = exactly(&mut source, name_length + extra_length)? else { return Ok(None) };
        let (name, extra) = texts.split_at(name_length);
        let (flags, method, crc) = (short(6), short(8), long(14));
        let sizes = long_sizes(extra).filter(|_| long(18) == ELSEWHERE || long(22) == ELSEWHERE);
        let (length, stored) = sizes.unwrap_or((long(22).into(), long(18).into()));
        let has_length = flags & LENGTH_BEHIND == 0;
        let entry = Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            start: at + 30 + texts.len() as u64,
            stored,
            method,
            flags,
            sums: has_length.then_some((crc, length)),
        };
        Ok(Some(Header { entry, has_length }))
    }
}

/// So many bytes, if there are as many.
fn exactly(source: &mut Region, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(length);
    match source.by_ref().take(length as u64).read_to_end(&mut bytes) {
        Err(error) if PackedFailure::of(&error).is_none() => Err(error),
        _ => Ok((bytes.len() == length).then_some(bytes)),
    }
}

/// Length and stored length from the field that has them if they are too large for the header.
fn long_sizes(mut extra: &[u8]) -> Option<(u64, u64)> {
    const SIZES: [u8; 2] = [1, 0];
    loop {
        let (head, rest) = extra.split_at_checked(4)?;
        let (field, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([head[2], head[3]])))?;
        if head[..2] == SIZES {
            let number = |at: usize| Some(u64::from_le_bytes(field.get(at..at + 8)?.try_into().ok()?));
            return Some((number(0)?, number(8)?));
        }
        extra = rest;
    }
}

/// The files that the members' own headers name, one behind the other, and where these end.
fn in_sequence(archive: &Region) -> io::Result<(Vec<Entry>, u64)> {
    let end = archive.length()?;
    let (mut entries, mut at) = (Vec::new(), 0);
    while let Some(Header { mut entry, has_length }) = Header::read(archive, at)? {
        at = entry.start.saturating_add(entry.stored);
        if !has_length {
            entry.stored = stored_length(archive, &entry)?.unwrap_or(u64::MAX - entry.start);
            at = behind_lengths(archive, entry.start.saturating_add(entry.stored), end)?;
        }
        entries.push(entry);
    }
    Ok((entries, at.min(end)))
}

/// How many bytes the compressed data of a member are, found by decompressing them; `None` if they have no end.
fn stored_length(archive: &Region, entry: &Entry) -> io::Result<Option<u64>> {
    if entry.method != DEFLATED || entry.flags & ENCRYPTED != 0 {
        return Ok(None);
    }
    let rest = archive.part(entry.start, u64::MAX - entry.start);
    let mut contents = DeflateDecoder::new(BufReader::with_capacity(BLOCK, rest));
    match io::copy(&mut contents, &mut io::sink()) {
        Ok(_) => Ok(Some(contents.total_in())),
        Err(error) if error.raw_os_error().is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Where the next header is, behind the checksum and the lengths that follow such data: with or without a mark, of four bytes each or
/// of eight.
fn behind_lengths(archive: &Region, at: u64, end: u64) -> io::Result<u64> {
    for length in [16, 12, 24, 20] {
        let mut source = archive.clone();
        let next = source.seek(SeekFrom::Start(at.saturating_add(length)))?;
        if next == end || exactly(&mut source, 2)?.is_some_and(|mark| mark == b"PK") {
            return Ok(next);
        }
    }
    Ok(at)
}
