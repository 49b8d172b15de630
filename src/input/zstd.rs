//! Zstandard, of any number of frames.

use std::io::{self, Read};

use zstd::stream::read::Decoder;

use super::packed::{Parts, Source, Unpack};

/// Reads the text of all frames.
pub type Frames<R> = Parts<Decoder<'static, Source<R>>>;

/// What every frame begins with.
pub(super) const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Frames that hold no text (pzstd writes sizes into them) begin with one of sixteen bytes, and this.
pub(super) const SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

impl<R: Read> Unpack for Decoder<'static, Source<R>> {
    type Input = R;

    const FORMAT: &'static str = "zstd";

    fn may_begin(head: &[u8]) -> bool {
        let head = &head[..head.len().min(4)];
        match head {
            [0x50..=0x5f, rest @ ..] => SKIPPABLE.starts_with(rest),
            _ => MAGIC.starts_with(head),
        }
    }

    fn start(source: Source<R>) -> io::Result<Self> {
        Ok(Decoder::with_buffer(source)?.single_frame())
    }

    fn source(&self) -> &Source<R> {
        self.get_ref()
    }

    fn into_source(self) -> Source<R> {
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::packed::{PackedCause, PackedFailure};

    fn frame(text: &str) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (String, Option<PackedCause>) {
        let mut text = Vec::new();
        let end = Frames::new(bytes, 0).read_to_end(&mut text);
        let cause = end.err().map(|e| PackedFailure::of(&e).unwrap().cause);
        (String::from_utf8(text).unwrap(), cause)
    }

    #[test]
    fn frames_follow_each_other() {
        let skipped = [&[0x5e][..], SKIPPABLE, &[3, 0, 0, 0], b"xyz"].concat();
        assert_eq!(read(&[frame("one "), frame("two")].concat()), ("one two".to_owned(), None));
        assert_eq!(read(&[frame("one "), skipped.clone(), frame("two")].concat()), ("one two".to_owned(), None));
        assert_eq!(read(&[skipped, frame("one")].concat()), ("one".to_owned(), None));
    }

    #[test]
    fn what_was_whole_comes_before_the_failure() {
        let whole = frame("the whole text");
        assert_eq!(
            read(&[&whole[..], b"junk"].concat()),
            ("the whole text".to_owned(), Some(PackedCause::TrailingBytes))
        );
        assert_eq!(read(&[&whole[..], &[0; 512]].concat()), ("the whole text".to_owned(), None));
        assert_eq!(read(&whole[..whole.len() - 5]).1, Some(PackedCause::CutOff));
        assert_eq!(read(&[&whole[..], &whole[..3]].concat()), ("the whole text".to_owned(), Some(PackedCause::CutOff)));
        let mut wrong_sum = whole.clone();
        *wrong_sum.last_mut().unwrap() ^= 1;
        assert_eq!(read(&wrong_sum).1, Some(PackedCause::Corrupt));
    }
}
