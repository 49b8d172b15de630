//! Gzip, of any number of members.

use std::io::{self, Read};

use flate2::bufread::GzDecoder;

use super::packed::{Parts, Source, Unpack};

/// Reads the text of all members.
pub type Members<R> = Parts<GzDecoder<Source<R>>>;

/// What every member begins with.
pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

impl<R: Read> Unpack for GzDecoder<Source<R>> {
    type Input = R;

    const FORMAT: &'static str = "gzip";

    fn may_begin(head: &[u8]) -> bool {
        head.starts_with(MAGIC) || head == &MAGIC[..1]
    }

    fn start(source: Source<R>) -> io::Result<Self> {
        Ok(GzDecoder::new(source))
    }

    fn source(&self) -> &Source<R> {
        self.get_ref()
    }

    fn into_source(self) -> Source<R> {
        self.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::packed::{PackedCause, PackedFailure};
    use std::io::Write;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (String, Option<PackedCause>) {
        let mut text = Vec::new();
        let end = Members::new(bytes, 0).read_to_end(&mut text);
        let cause = end.err().map(|e| PackedFailure::of(&e).unwrap().cause);
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
        Members::new(Interrupted(&bytes, false), 0).read_to_string(&mut text).unwrap();
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
        assert_eq!(read(&wrong_sum), ("the whole text".to_owned(), Some(PackedCause::Corrupt)));
    }
}
