//! Gzip, of any number of members.
//!
//! `flate2`'s own reader drops the text of the call that meets corrupt data, which is up to as much as was asked for. So the
//! decompressor is called here: it reports how much it has written. The members of bgzip are read like any others.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

use super::packed::{Parts, Source, Unpack};
use super::{Container, Kind};

/// Reads the text of all members.
pub type Members<R> = Parts<Member<R>>;

/// The mark of a member.
const MAGIC: &[u8] = &[0x1f, 0x8b];

pub(super) static CONTAINER: Container = Container {
    name: "gzip",
    sniff: |head| head.starts_with(MAGIC),
    kind: Kind::Layer(|bytes| Box::new(Members::new(bytes))),
};

/// What zlib says of a member whose text does not match its checksum or its length.
const WRONG_SUMS: [&str; 2] = ["incorrect data check", "incorrect length check"];

/// How many bytes the length takes.
const LENGTH: u64 = 4;

/// The logarithm of the window: the largest that the format allows.
const WINDOW_BITS: u8 = 15;

/// Reads the text of a member.
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
        Ok(Member {
            source,
            decompress: Decompress::new_gzip(WINDOW_BITS),
            is_over: false,
            is_before_length: false,
            failure: None,
        })
    }

    fn is_checksum(error: &io::Error) -> bool {
        WRONG_SUMS.contains(&error.to_string().as_str())
    }

    fn source(&self) -> &Source<R> {
        &self.source
    }

    fn resume(mut self) -> io::Result<Option<Source<R>>> {
        if self.is_before_length {
            io::copy(&mut self.source.by_ref().take(LENGTH), &mut io::sink())?;
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
                Err(e) => {
                    let message = e.message().unwrap_or("the data is inconsistent").to_owned();
                    io::Error::new(io::ErrorKind::InvalidData, message)
                }
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
    use crate::input::containers::packed::{PackedCause, PackedFailure};
    use std::io::Write;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (String, Option<PackedCause>) {
        let mut text = Vec::new();
        let end = Members::new(bytes).read_to_end(&mut text);
        let cause = end.err().map(|e| PackedFailure::find_in(&e).unwrap().cause);
        (String::from_utf8(text).unwrap(), cause)
    }

    #[test]
    fn members_follow_each_other() {
        assert_eq!(read(&[member("one "), member("two")].concat()), ("one two".to_owned(), None));
        assert_eq!(read(&[member("one "), member(""), member("two")].concat()), ("one two".to_owned(), None));
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
        let whole = member("the whole text");
        assert_eq!(
            read(&[&whole[..], b"junk"].concat()),
            ("the whole text".to_owned(), Some(PackedCause::TrailingBytes))
        );
        assert_eq!(read(&[&whole[..], &[0; 512]].concat()), ("the whole text".to_owned(), None));
        let padded = [&whole[..], &[0; 300_000], b"junk"].concat();
        assert_eq!(read(&padded), ("the whole text".to_owned(), Some(PackedCause::TrailingBytes)));
        let two = [&whole[..], &[0; 300_000], &member(", twice")[..]].concat();
        assert_eq!(read(&two), ("the whole text, twice".to_owned(), None));
        assert_eq!(read(&whole[..whole.len() - 4]).1, Some(PackedCause::CutOff));
        let mut wrong_sum = whole.clone();
        let at = whole.len() - 8;
        wrong_sum[at] ^= 1;
        assert_eq!(read(&wrong_sum), ("the whole text".to_owned(), Some(PackedCause::Checksum)));
        let second = member(", twice");
        let both = ("the whole text, twice".to_owned(), Some(PackedCause::Checksum));
        assert_eq!(read(&[&wrong_sum[..], &second].concat()), both);
        let mut wrong_length = whole.clone();
        wrong_length[at + 4] ^= 1;
        assert_eq!(read(&[&wrong_length[..], &second].concat()), both);
        assert_eq!(read(&[&wrong_sum[..], &second, b"junk"].concat()), both);
        // Of what is cut off, too, any byte may be wrong.
        let cut = [&wrong_sum[..], &second[..second.len() - 9]].concat();
        assert_eq!(read(&cut).1, Some(PackedCause::Corrupt));
    }

    /// Text with few repetitions, so that there are many blocks and symbols.
    fn prose(bytes: usize) -> String {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(&format!("{{\"ph\":\"X\",\"ts\":{},\"dur\":{}}},", next(), next() % 90));
        }
        text
    }

    /// One symbol is at most this many bytes of text, and is lost with its byte.
    const SYMBOL: usize = 258;

    /// The text of the first bytes of a member.
    fn text_of(bytes: &[u8]) -> Vec<u8> {
        let (mut decoder, mut text, mut byte) = (flate2::bufread::GzDecoder::new(bytes), Vec::new(), [0]);
        while let Ok(1) = decoder.read(&mut byte) {
            text.push(byte[0]);
        }
        text
    }

    /// Wherever a byte is wrong, all text of the bytes before it is read, however much is asked for at a time. Text after it may be
    /// wrong until the decompressor notices.
    #[test]
    fn all_text_before_corrupt_data_is_read() {
        let whole = member(&prose(400_000));
        let mut found_at_once = 0;
        for at in (20..whole.len()).step_by(whole.len() / 60) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            let before = text_of(&whole[..at]);
            for size in [700, 64 * 1024, 4 << 20] {
                let (mut members, mut buf, mut text) = (Members::new(&bytes[..]), vec![0; size], Vec::new());
                let failure = loop {
                    match members.read(&mut buf) {
                        Ok(n) => text.extend_from_slice(&buf[..n]),
                        Err(e) => break PackedFailure::find_in(&e).unwrap().clone(),
                    }
                };
                assert!(
                    failure.cause != PackedCause::TrailingBytes && failure.offset as usize >= at.min(whole.len() - 8)
                );
                let sure = before.len().saturating_sub(SYMBOL);
                assert!(text.len() >= sure && text[..sure] == before[..sure], "byte {at}: {} of {sure}", text.len());
                found_at_once += usize::from(text.len() < before.len() + 5_000);
            }
        }
        assert!(found_at_once > 3, "nothing is tested of what is found while text is given: {found_at_once}");
    }
}
