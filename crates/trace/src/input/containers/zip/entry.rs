//! A member of a zip: how it is compressed, and its checked contents.
//!
//! The crate `zip` would lend its source to one member at a time and to one thread only; a trace is read by several in turn.

use std::io::{self, BufReader, Read};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use crate::input::containers::packed::{BLOCK, PackedCause, PackedFailure};
use crate::input::containers::region::Region;
use crate::input::containers::zstd::Frames;

/// Flag: its bytes are encrypted.
pub(super) const ENCRYPTED: u16 = 1;

/// The compression methods that can be read.
const STORED: u16 = 0;
pub(super) const DEFLATED: u16 = 8;
const ZSTD: u16 = 93;

/// A file in a zip.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    /// The offset of its stored bytes.
    pub(super) start: u64,
    /// Their number.
    pub(super) stored: u64,
    pub(super) method: u16,
    pub(super) flags: u16,
    /// The CRC-32 and the length of its contents, if they are known.
    pub(super) sums: Option<(u32, u64)>,
}

impl Entry {
    /// Why it cannot be read, and what to do; `None` if it can.
    pub(super) fn refusal(&self) -> Option<(&'static str, &'static str)> {
        const UNPACK: &str = "Unpack the archive and name the trace";
        Some(match self.method {
            _ if self.flags & ENCRYPTED != 0 => {
                ("this is encrypted", "Unpack the archive with its password and name the trace")
            }
            STORED | DEFLATED | ZSTD => return None,
            9 => ("this is compressed with Deflate64", UNPACK),
            12 => ("this is compressed with bzip2", UNPACK),
            14 => ("this is compressed with LZMA", UNPACK),
            95 => ("this is compressed with xz", UNPACK),
            _ => ("this is compressed with an unsupported method", UNPACK),
        })
    }

    /// Its contents, decompressed and checked.
    pub(super) fn open(&self, archive: &Region) -> Box<dyn Read + Send> {
        let stored = archive.part(self.start, self.stored);
        let contents: Box<dyn Read + Send> = match self.method {
            _ if self.stored == 0 && self.sums.is_some_and(|(_, length)| length == 0) => Box::new(io::empty()),
            DEFLATED => Box::new(DeflateDecoder::new(BufReader::with_capacity(BLOCK, stored))),
            ZSTD => Box::new(Frames::new(stored)),
            _ => Box::new(stored),
        };
        Box::new(Checked { contents, crc: Crc::new(), length: 0, sums: self.sums })
    }
}

/// Contents whose checksum and length are compared at their end.
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
                    Err(failure(PackedCause::Checksum, "the contents do not match their checksum or length".to_owned()))
                }
                _ => Ok(0),
            },
            Ok(n) => {
                self.crc.update(&buf[..n]);
                self.length += n as u64;
                Ok(n)
            }
            Err(error) if PackedFailure::find_in(&error).is_some() || error.raw_os_error().is_some() => Err(error),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(failure(PackedCause::CutOff, error.to_string()))
            }
            Err(error) => Err(failure(PackedCause::Corrupt, error.to_string())),
        }
    }
}
