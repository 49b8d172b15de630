//! Gzip, of any number of members.
//!
//! `flate2`'s own reader drops the text of the call that meets corrupt data, up to as much as was asked for. So the decompressor is called
//! here: it reports how much it has written.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

use super::packed::{Parts, Source, Unpack};
use super::{Container, Kind};

pub type Members<R> = Parts<Member<R>>;

const MAGIC: &[u8] = &[0x1f, 0x8b];

pub(super) static CONTAINER: Container = Container {
    name: "gzip",
    sniff: |head| head.starts_with(MAGIC),
    kind: Kind::Layer(|bytes| Box::new(Members::new(bytes))),
};

/// What zlib says of a member whose text does not match its checksum or its length.
const WRONG_SUMS: [&str; 2] = ["incorrect data check", "incorrect length check"];

const LENGTH_BYTES: u64 = 4;

/// The logarithm of the window: the largest that the format allows.
const WINDOW_BITS: u8 = 15;

pub struct Member<R> {
    source: Source<R>,
    decompress: Decompress,
    is_over: bool,
    /// Whether its checksum was wrong, after which its length follows.
    is_before_length: bool,
    /// The failure after the text that has been read.
    failure: Option<io::Error>,
}

impl<R: Read> Unpack for Member<R> {
    type Input = R;
    const NAME: &'static str = "gzip";
    const STEP: usize = usize::MAX;

    fn may_begin(head: &[u8]) -> bool {
        head.starts_with(MAGIC) || head == &MAGIC[..1]
    }

    fn start(source: Source<R>) -> io::Result<Self> {
        let decompress = Decompress::new_gzip(WINDOW_BITS);
        Ok(Member { source, decompress, is_over: false, is_before_length: false, failure: None })
    }

    fn is_checksum(error: &io::Error) -> bool {
        WRONG_SUMS.contains(&error.to_string().as_str())
    }

    fn source(&self) -> &Source<R> {
        &self.source
    }

    fn resume(mut self) -> io::Result<Option<Source<R>>> {
        if self.is_before_length {
            io::copy(&mut self.source.by_ref().take(LENGTH_BYTES), &mut io::sink())?;
        }
        Ok(Some(self.source))
    }

    fn into_source(self) -> Source<R> {
        self.source
    }
}

impl<R: Read> Read for Member<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while !self.is_over && !buf.is_empty() {
            let block = self.source.fill_buf()?;
            let has_ended = block.is_empty();
            let (read, written) = (self.decompress.total_in(), self.decompress.total_out());
            let flush = if has_ended { FlushDecompress::Finish } else { FlushDecompress::None };
            let outcome = self.decompress.decompress(block, buf, flush);
            self.source.consume((self.decompress.total_in() - read) as usize);
            let n = (self.decompress.total_out() - written) as usize;
            self.is_before_length = outcome.as_ref().is_err_and(|e| e.message() == Some(WRONG_SUMS[0]));
            let failure = match outcome {
                Ok(Status::StreamEnd) => {
                    self.is_over = true;
                    return Ok(n);
                }
                Ok(_) if n > 0 => return Ok(n),
                Ok(_) if has_ended => io::ErrorKind::UnexpectedEof.into(),
                Ok(_) => continue,
                Err(e) => io::Error::new(io::ErrorKind::InvalidData, e.message().unwrap_or("the data is inconsistent")),
            };
            if n == 0 {
                return Err(failure);
            }
            self.failure = Some(failure);
            return Ok(n);
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::containers::packed::{PackedCause, testing};
    use std::io::Write;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (String, Option<PackedCause>) {
        testing::read(Members::new(bytes))
    }

    /// Is interrupted before every read, as by a signal.
    struct Interrupted<'a>(&'a [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut buf[..1]) }
        }
    }

    #[test]
    fn interruptions_lose_nothing() {
        let bytes = [member("one "), member("two")].concat();
        let mut text = String::new();
        Members::new(Interrupted(&bytes, false)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
    }

    #[test]
    fn what_was_whole_comes_before_the_failure() {
        let (one, whole, second) = (member("one "), member("the whole text"), member(", twice"));
        let wrong = |from_end: usize| {
            let mut bytes = whole.clone();
            bytes[whole.len() - from_end] ^= 1;
            bytes
        };
        let (wrong_sum, wrong_length, zeros) = (wrong(8), wrong(4), [0; 300_000]);
        let (once, twice) = ("the whole text", "the whole text, twice");
        for (parts, text, cause) in [
            (&[&one[..], &whole][..], "one the whole text", None),
            (&[&one, &member(""), &whole], "one the whole text", None),
            (&[&whole, b"junk"], once, Some(PackedCause::TrailingBytes)),
            (&[&whole, &[0; 512]], once, None),
            (&[&whole, &zeros, b"junk"], once, Some(PackedCause::TrailingBytes)),
            (&[&whole, &zeros, &second], twice, None),
            (&[&wrong_sum], once, Some(PackedCause::Checksum)),
            (&[&wrong_sum, &second], twice, Some(PackedCause::Checksum)),
            (&[&wrong_length, &second], twice, Some(PackedCause::Checksum)),
            (&[&wrong_sum, &second, b"junk"], twice, Some(PackedCause::Checksum)),
        ] {
            assert_eq!(read(&parts.concat()), (text.to_owned(), cause));
        }
        assert_eq!(read(&whole[..whole.len() - 4]).1, Some(PackedCause::CutOff));
        // Of what is cut off, too, any byte may be wrong.
        let cut = [&wrong_sum[..], &second[..second.len() - 9]].concat();
        assert_eq!(read(&cut).1, Some(PackedCause::Corrupt));
    }
}
