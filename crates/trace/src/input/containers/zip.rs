//! Zip: the crate `rawzip` reads the directory at its end; the members are decompressed and checked here, each by several threads in turn.
//!
//! The directory is needed: GitHub's artifacts and macOS's Finder write no lengths before the members. So a zip that was cut off is refused,
//! and so is one whose directory does not account for every byte: a hidden member, or bytes of two members, would make an answer of other
//! files than the user sees.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ReaderAt, ZipLocator};

use super::limit::{LimitReached, failure};
use super::listing::{Entry, File, Listing, kept_name};
use super::packed::{BLOCK, PackedCause, PackedFailure};
use super::source::{Bytes, Region, Source};
use super::zstd::Frames;
use super::{Container, Kind};
use crate::damage::Damage;
use crate::error::Error;

/// The header of a first member, or the end record of an archive without members.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// The most bytes between two members: the checksum and the lengths of the first, with their mark.
const DESCRIPTOR: u64 = 24;

pub(super) static CONTAINER: Container = Container {
    name: "zip",
    sniff: |head| MAGIC.iter().any(|magic| head.starts_with(magic)),
    kind: Kind::Archive(list),
};

fn list(name: &str, source: Source) -> Result<Listing, Error> {
    let failed = |error| failure(name, error);
    let (region, cut) = match source {
        Source::File(region) => (region, None),
        Source::Stream(stream) => Region::from_stream(stream).map_err(|error| match LimitReached::find_in(&error) {
            Some(_) => failed(error),
            None => failed(io::Error::new(error.kind(), format!("it cannot be copied to a temporary file: {error}"))),
        })?,
    };
    let bytes = region.length().map_err(failed)?;
    let (members, end) = directory(&region, bytes).map_err(|error| match error.into_kind() {
        ErrorKind::IO(error) if error.raw_os_error().is_some() => failed(error),
        ErrorKind::InvalidInput { msg: message } => Error::BrokenZip { name: name.to_owned(), bytes, message },
        kind => Error::BrokenZip { name: name.to_owned(), bytes, message: kind.to_string() },
    })?;
    // Damage to the compression around the archive has cut off what followed it.
    let broken = if cut.is_some() { Some(bytes) } else { after(&region, end).map_err(failed)? };
    let broken = broken.map(|at| Entry::Damaged(Damage::ArchiveBroken, at));
    let files = members.into_iter().filter(|member| !member.name.ends_with('/'));
    let files = files.map(move |member| match member.refusal() {
        Some((what, advice)) => Entry::Refused { name: member.name, what, advice },
        None => {
            let (name, region) = (member.name.clone(), region.clone());
            Entry::File(File { name, open: Box::new(move || Source::Stream(member.open(&region))) })
        }
    });
    Ok(Listing { can_seek: true, entries: Box::new(broken.into_iter().chain(files).map(Ok)) })
}

/// The members that the directory lists, and the offset of the zip's end.
fn directory(region: &Region, bytes: u64) -> Result<(Vec<Member>, u64), rawzip::Error> {
    let refused = |msg| Err(ErrorKind::InvalidInput { msg }.into());
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let archive = ZipLocator::new().locate_in_reader(region, &mut buffer, bytes).map_err(|(_, error)| error)?;
    let (mut members, mut places, mut start) = (Vec::new(), Vec::new(), archive.eocd_offset());
    let mut records = archive.entries(&mut buffer);
    while let Some(record) = records.next_entry()? {
        let (name, header) = (kept_name(record.file_path().as_bytes()), record.local_header_offset());
        let Ok(found) = archive.get_entry(record.wayfinder()) else {
            return refused(format!("{name} is not at byte {header}"));
        };
        let stored = found.compressed_data_range();
        let (method, is_encrypted) = (record.compression_method(), record.flags().is_encrypted());
        start = start.min(record.central_directory_offset());
        places.push((header, stored.1));
        let (crc, length) = (record.crc32(), record.uncompressed_size_hint());
        members.push(Member { name, stored, method, is_encrypted, crc, length });
    }
    places.push((start, start));
    places.sort_unstable();
    let mut end = 0;
    for (from, to) in places {
        if from < end {
            return refused(format!("two files have byte {from}"));
        }
        if from - end > DESCRIPTOR {
            return refused(format!("no file has byte {end}"));
        }
        end = to;
    }
    Ok((members, archive.end_offset()))
}

/// The offset of bytes after the zip's end, if there are any but zeros: these pad the last block of a tape.
fn after(region: &Region, end: u64) -> io::Result<Option<u64>> {
    let (mut rest, mut bytes) = (region.clone(), Vec::new());
    rest.seek(SeekFrom::Start(end))?;
    // The end record was found in the last MiB.
    rest.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(bytes.iter().any(|byte| *byte != 0).then_some(end))
}

impl ReaderAt for Region {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut region = self.clone();
        region.seek(SeekFrom::Start(offset))?;
        region.read(buf)
    }
}

#[derive(Debug)]
struct Member {
    name: String,
    /// The offsets of its stored bytes.
    stored: (u64, u64),
    method: CompressionMethod,
    is_encrypted: bool,
    /// The CRC-32 and the length of its contents.
    crc: u32,
    length: u64,
}

impl Member {
    /// Why it cannot be read, and what to do; `None` if it can.
    fn refusal(&self) -> Option<(&'static str, &'static str)> {
        const UNPACK: &str = "Unpack the archive and name the trace";
        Some(match self.method {
            _ if self.is_encrypted => ("this is encrypted", "Unpack the archive with its password and name the trace"),
            CompressionMethod::STORE | CompressionMethod::DEFLATE | CompressionMethod::ZSTD => return None,
            CompressionMethod::DEFLATE64 => ("this is compressed with Deflate64", UNPACK),
            CompressionMethod::BZIP2 => ("this is compressed with bzip2", UNPACK),
            CompressionMethod::LZMA => ("this is compressed with LZMA", UNPACK),
            CompressionMethod::XZ => ("this is compressed with xz", UNPACK),
            _ => ("this is compressed with an unsupported method", UNPACK),
        })
    }

    fn open(&self, archive: &Region) -> Bytes {
        let (from, to) = self.stored;
        let stored = archive.part(from, to - from);
        let contents: Bytes = match self.method {
            _ if from == to && self.length == 0 => Box::new(io::empty()),
            CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(BufReader::with_capacity(BLOCK, stored))),
            CompressionMethod::ZSTD => Box::new(Frames::new(stored)),
            _ => Box::new(stored),
        };
        Box::new(Checked { contents, crc: Crc::new(), length: 0, wanted: (self.crc, self.length) })
    }
}

struct Checked {
    contents: Bytes,
    crc: Crc,
    length: u64,
    wanted: (u32, u64),
}

impl Read for Checked {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let failure = |cause, message: String| Err(PackedFailure { cause, offset: self.length, message }.into());
        match self.contents.read(buf) {
            Ok(0) if !buf.is_empty() && self.wanted != (self.crc.sum(), self.length) => {
                failure(PackedCause::Checksum, "the contents do not match their checksum or length".to_owned())
            }
            Ok(n) => {
                self.crc.update(&buf[..n]);
                self.length += n as u64;
                Ok(n)
            }
            Err(error) if PackedFailure::find_in(&error).is_some() || error.raw_os_error().is_some() => Err(error),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => Err(error),
                io::ErrorKind::UnexpectedEof => failure(PackedCause::CutOff, error.to_string()),
                _ => failure(PackedCause::Corrupt, error.to_string()),
            },
        }
    }
}
