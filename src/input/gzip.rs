//! Gzip with any number of members, read as one stream.
//!
//! Tools that compress in parallel (pigz, bgzip) and plain `cat a.gz b.gz` write several members one after the other, all of
//! which count. The library's own multi-member reader fails on whatever follows the last member; here that is told
//! apart from corrupt data, so that what was whole before it is kept and the rest is named.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

/// Compressed bytes are read in pieces of this size.
const BLOCK: usize = 256 * 1024;

/// Why a gzip stream ended early. Travels inside an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GzipFailure {
    /// What is wrong.
    pub cause: GzipCause,
    /// How many compressed bytes had been used.
    pub offset: u64,
    /// What the decompressor says.
    pub message: String,
}

/// The ways in which a gzip stream ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GzipCause {
    /// The file ends in the middle of a member.
    CutOff,
    /// The data contradict themselves or their checksum.
    Corrupt,
    /// After a whole member follows something that is no gzip.
    TrailingBytes,
}

impl fmt::Display for GzipFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {} of the compressed file)", self.message, self.offset)
    }
}

impl Error for GzipFailure {}

impl GzipFailure {
    /// The failure inside an error that [`Members`] returned, if it is one.
    pub fn of(error: &io::Error) -> Option<&GzipFailure> {
        error.get_ref()?.downcast_ref()
    }
}

/// Reads the text of all members.
pub struct Members<R> {
    /// `None` only while a member is being exchanged for the next, and after the end.
    decoder: Option<GzDecoder<Tracked<R>>>,
    failure: Option<GzipFailure>,
}

impl<R: Read> Members<R> {
    /// Starts at the first member.
    pub fn new(source: R) -> Self {
        let source = Tracked { source: BufReader::with_capacity(BLOCK, source), used: 0 };
        Members { decoder: Some(GzDecoder::new(source)), failure: None }
    }

    /// After a member's end: on to the next, or to the end. `Ok(true)` if there is a next one.
    fn next_member(&mut self) -> io::Result<bool> {
        let Some(decoder) = self.decoder.take() else { return Ok(false) };
        let mut source = decoder.into_inner();
        // Zero padding up to a block's end is what tapes and some object stores leave behind; gzip passes over it too.
        loop {
            let head = source.fill_buf()?;
            if head.is_empty() {
                return Ok(false);
            }
            let zeros = head.iter().take_while(|b| **b == 0).count();
            if zeros == 0 {
                break;
            }
            source.consume(zeros);
        }
        let head = source.fill_buf()?;
        if !head.starts_with(&[0x1f, 0x8b]) && head != [0x1f] {
            let message = "after the end of the gzip data follow bytes that are no gzip".to_owned();
            let failure = GzipFailure { cause: GzipCause::TrailingBytes, offset: source.used, message };
            self.failure = Some(failure.clone());
            return Err(io::Error::new(io::ErrorKind::InvalidData, failure));
        }
        self.decoder = Some(GzDecoder::new(source));
        Ok(true)
    }
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = &self.failure {
            return Err(io::Error::new(io::ErrorKind::InvalidData, failure.clone()));
        }
        while let Some(decoder) = &mut self.decoder {
            match decoder.read(buf) {
                Ok(0) if !buf.is_empty() => {
                    if !self.next_member()? {
                        return Ok(0);
                    }
                }
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let cause = match e.kind() {
                        io::ErrorKind::UnexpectedEof => GzipCause::CutOff,
                        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => GzipCause::Corrupt,
                        _ => return Err(e),
                    };
                    let offset = decoder.get_ref().used;
                    let failure = GzipFailure { cause, offset, message: e.to_string() };
                    self.failure = Some(failure.clone());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, failure));
                }
            }
        }
        Ok(0)
    }
}

/// Counts the compressed bytes that the decoder has used, for messages.
struct Tracked<R> {
    source: BufReader<R>,
    used: u64,
}

impl<R: Read> Read for Tracked<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buf)?;
        self.used += n as u64;
        Ok(n)
    }
}

impl<R: Read> BufRead for Tracked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.used += amount as u64;
        self.source.consume(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (String, Option<GzipCause>) {
        let mut text = Vec::new();
        let end = Members::new(bytes).read_to_end(&mut text);
        let cause = end.err().map(|e| GzipFailure::of(&e).unwrap().cause);
        (String::from_utf8(text).unwrap(), cause)
    }

    #[test]
    fn members_follow_each_other() {
        assert_eq!(read(&[member("one "), member("two")].concat()), ("one two".to_owned(), None));
        assert_eq!(read(&[member("one "), member(""), member("two")].concat()), ("one two".to_owned(), None));
    }

    #[test]
    fn what_was_whole_comes_before_the_failure() {
        let whole = member("the whole text");
        assert_eq!(
            read(&[&whole[..], b"junk"].concat()),
            ("the whole text".to_owned(), Some(GzipCause::TrailingBytes))
        );
        assert_eq!(read(&[&whole[..], &[0; 512]].concat()), ("the whole text".to_owned(), None));
        let padded = [&whole[..], &[0; 300_000], b"junk"].concat();
        assert_eq!(read(&padded), ("the whole text".to_owned(), Some(GzipCause::TrailingBytes)));
        let two = [&whole[..], &[0; 300_000], &member(", twice")[..]].concat();
        assert_eq!(read(&two), ("the whole text, twice".to_owned(), None));
        assert_eq!(read(&whole[..whole.len() - 4]).1, Some(GzipCause::CutOff));
        let mut wrong_sum = whole.clone();
        let at = whole.len() - 8;
        wrong_sum[at] ^= 1;
        assert_eq!(read(&wrong_sum), ("the whole text".to_owned(), Some(GzipCause::Corrupt)));
    }
}
