//! Compressed streams of any number of parts, read as one text.
//!
//! A gzip file consists of members, a zstd file of frames; parallel compressors (pigz, bgzip, pzstd) and `cat a.gz b.gz` write several. The
//! libraries' own readers fail on any bytes after the last one; here these are distinguished from corrupt data, and the text before is kept.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use crate::damage::Damage;

/// Compressed bytes are read in blocks of this size.
pub(super) const BLOCK: usize = 256 * 1024;

/// Why a compressed stream ended early. Travels inside an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedFailure {
    pub cause: PackedCause,
    /// How many compressed bytes were consumed before it.
    pub offset: u64,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedCause {
    /// The file ends in the middle of a part.
    CutOff,
    /// The data are invalid, so that what follows cannot be decompressed.
    Corrupt,
    /// All data were decompressed, and those of a part do not match their checksum or length.
    Checksum,
    /// Bytes that are not a part follow a whole part.
    TrailingBytes,
}

impl fmt::Display for PackedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {} of the compressed file)", self.message, self.offset)
    }
}

impl Error for PackedFailure {}

impl PackedFailure {
    pub fn find_in(error: &io::Error) -> Option<&PackedFailure> {
        error.get_ref()?.downcast_ref()
    }

    /// As damage of the trace within, and its byte.
    pub(in super::super) fn damage(&self) -> (Damage, Option<u64>) {
        match self.cause {
            PackedCause::CutOff => (Damage::PackedCutOff, Some(self.offset)),
            PackedCause::Corrupt => (Damage::PackedCorrupt, Some(self.offset)),
            PackedCause::Checksum => (Damage::PackedChecksum, Some(self.offset)),
            // Other formats have this damage, too, at a byte of their text.
            PackedCause::TrailingBytes => (Damage::TrailingBytes, None),
        }
    }

    /// An archive ends within a file, after so many of its bytes.
    pub(super) fn in_archive(offset: u64) -> Self {
        PackedFailure { cause: PackedCause::CutOff, offset, message: "the archive ends within this file".to_owned() }
    }
}

impl From<PackedFailure> for io::Error {
    fn from(failure: PackedFailure) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, failure)
    }
}

pub trait Unpack: Read + Sized {
    type Input: Read;
    const NAME: &'static str;
    /// How many bytes of text to decompress at a time: up to this many may be lost before corrupt data.
    const STEP: usize;

    /// Whether a part begins like this, which may be cut off within its mark.
    fn may_begin(head: &[u8]) -> bool;

    fn start(source: Source<Self::Input>) -> io::Result<Self>;

    /// Whether an error of its library says that a whole part does not match its checksum or length.
    fn is_checksum(error: &io::Error) -> bool;

    fn source(&self) -> &Source<Self::Input>;

    fn explain(error: &io::Error) -> String {
        error.to_string()
    }

    /// The source after a part that does not match its checksum; `None` if text of the part was lost, so that its end is unknown.
    fn resume(self) -> io::Result<Option<Source<Self::Input>>>;

    /// The source, after the part.
    fn into_source(self) -> Source<Self::Input>;
}

pub struct Parts<D: Unpack> {
    state: State<D>,
    failure: Option<PackedFailure>,
    /// The first part that does not match its checksum. The parts after it are read all the same, and then this is the failure.
    doubt: Option<PackedFailure>,
}

enum State<D: Unpack> {
    Within(D),
    Between(Source<D::Input>),
    Over,
}

impl<D: Unpack> Parts<D> {
    pub fn new(source: D::Input) -> Self {
        let source = Source { source: BufReader::with_capacity(BLOCK, source), used: 0 };
        Parts { state: State::Between(source), failure: None, doubt: None }
    }

    /// `Ok(false)` at the end.
    fn next_part(&mut self) -> io::Result<bool> {
        let mut source = match std::mem::replace(&mut self.state, State::Over) {
            State::Within(decoder) => decoder.into_source(),
            State::Between(source) => source,
            State::Over => return Ok(false),
        };
        // Tapes and some object stores pad the last block with zeros; gzip skips them too.
        let head = loop {
            let zeros = match source.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(head) if head[0] != 0 => break head,
                Ok(head) => head.iter().take_while(|b| **b == 0).count(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
                // Another read fails again: this is not the end.
                Err(e) => {
                    self.state = State::Between(source);
                    return Err(e);
                }
            };
            source.consume(zeros);
        };
        if !D::may_begin(head) {
            let message = format!("the {0} data is followed by bytes that are not {0}", D::NAME);
            return Err(self.fail(PackedCause::TrailingBytes, source.used, message));
        }
        self.state = State::Within(D::start(source)?);
        Ok(true)
    }

    /// Goes on after a part that does not match its checksum. `Ok(false)` if that is impossible.
    fn resume(&mut self) -> io::Result<bool> {
        let State::Within(decoder) = std::mem::replace(&mut self.state, State::Over) else { return Ok(false) };
        let Some(source) = decoder.resume()? else { return Ok(false) };
        self.state = State::Between(source);
        Ok(true)
    }

    fn end(&mut self) -> io::Result<usize> {
        match self.doubt.take() {
            Some(doubt) => Err(self.fail(doubt.cause, doubt.offset, doubt.message)),
            None => Ok(0),
        }
    }

    fn fail(&mut self, cause: PackedCause, offset: u64, message: String) -> io::Error {
        let failure = match (cause, self.doubt.take()) {
            (PackedCause::TrailingBytes | PackedCause::Checksum, Some(doubt)) => doubt,
            (PackedCause::CutOff, Some(_)) => PackedFailure { cause: PackedCause::Corrupt, offset, message },
            _ => PackedFailure { cause, offset, message },
        };
        self.failure = Some(failure.clone());
        failure.into()
    }
}

impl<D: Unpack> Read for Parts<D> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone().into());
        }
        loop {
            let State::Within(decoder) = &mut self.state else {
                if self.next_part()? {
                    continue;
                }
                return self.end();
            };
            let step = buf.len().min(D::STEP);
            match decoder.read(&mut buf[..step]) {
                Ok(0) if !buf.is_empty() => {
                    if !self.next_part()? {
                        return self.end();
                    }
                }
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The source may be compressed itself, and has reported its own failure.
                Err(e) if !is_of_contents(&e) || PackedFailure::find_in(&e).is_some() => return Err(e),
                Err(e) => {
                    let cause = match e.kind() {
                        io::ErrorKind::UnexpectedEof => PackedCause::CutOff,
                        _ if D::is_checksum(&e) => PackedCause::Checksum,
                        _ => PackedCause::Corrupt,
                    };
                    let (offset, message) = (decoder.source().used, D::explain(&e));
                    if cause != PackedCause::Checksum {
                        return Err(self.fail(cause, offset, message));
                    }
                    if !self.resume()? {
                        return Err(self.fail(PackedCause::Corrupt, offset, message));
                    }
                    self.doubt.get_or_insert(PackedFailure { cause, offset, message });
                }
            }
        }
    }
}

/// Whether an error is about the compressed data, not about reading them.
fn is_of_contents(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    error.raw_os_error().is_none() && matches!(error.kind(), UnexpectedEof | InvalidData | InvalidInput | Other)
}

/// Compressed bytes, and how many of them the decoder has consumed, for messages.
pub struct Source<R> {
    source: BufReader<R>,
    used: u64,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buf)?;
        self.used += n as u64;
        Ok(n)
    }
}

impl<R: Read> BufRead for Source<R> {
    /// The last byte comes alone: what checks it has given all text before it by then, and loses none to the failure.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let block = self.source.fill_buf()?;
        Ok(&block[..block.len().saturating_sub(1).max(1).min(block.len())])
    }

    fn consume(&mut self, bytes: usize) {
        self.used += bytes as u64;
        self.source.consume(bytes);
    }
}

/// What the tests of the formats have in common.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// The text of all parts, and why it ends early.
    pub(in super::super) fn read(mut parts: Parts<impl Unpack>) -> (String, Option<PackedCause>) {
        let mut text = Vec::new();
        let end = parts.read_to_end(&mut text);
        (String::from_utf8(text).unwrap(), end.err().map(|e| PackedFailure::find_in(&e).unwrap().cause))
    }
}
