//! Zstandard, of any number of frames.

use std::io::{self, BufRead, Read};

use zstd::stream::read::Decoder;

use super::packed::{Parts, Source, Unpack};
use super::{Container, Kind};

pub type Frames<R> = Parts<Decoder<'static, Source<R>>>;

const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The mark of a frame without text (pzstd writes sizes into them), after its first byte, which is one of sixteen.
const SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

pub(super) static CONTAINER: Container = Container {
    name: "zstd",
    sniff: |head| head.starts_with(MAGIC) || head.get(1..).is_some_and(|rest| rest.starts_with(SKIPPABLE)),
    kind: Kind::Layer(|bytes| Box::new(Frames::new(bytes))),
};

impl<R: Read> Unpack for Decoder<'static, Source<R>> {
    type Input = R;
    const NAME: &'static str = "zstd";
    // The library drops the text of the call that meets corrupt data. It decompresses whole blocks, of at most 128 KiB, so small
    // steps cost nothing.
    const STEP: usize = 16 * 1024;

    fn may_begin(head: &[u8]) -> bool {
        match &head[..head.len().min(4)] {
            [0x50..=0x5f, rest @ ..] => SKIPPABLE.starts_with(rest),
            head => MAGIC.starts_with(head),
        }
    }

    fn start(source: Source<R>) -> io::Result<Self> {
        Ok(Decoder::with_buffer(source)?.single_frame())
    }

    fn explain(error: &io::Error) -> String {
        let message = error.to_string();
        // The library allows 128 MiB; real frames hardly ever ask for 2 GiB.
        if message.contains("too much memory") {
            return "a frame asks for a window of more than 128 MiB; pack it again without --long".to_owned();
        }
        message
    }

    fn is_checksum(error: &io::Error) -> bool {
        error.to_string().contains("doesn't match checksum")
    }

    fn source(&self) -> &Source<R> {
        self.get_ref()
    }

    // The library does not consume what the failing call was given: the checksum's last byte, if that comes alone, as the last of a block.
    fn resume(self) -> io::Result<Option<Source<R>>> {
        let mut source = self.finish();
        let is_end = source.fill_buf()?.len() == 1;
        source.consume(usize::from(is_end));
        Ok(is_end.then_some(source))
    }

    fn into_source(self) -> Source<R> {
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::containers::packed::{PackedCause, testing};

    fn frame(text: &str) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (String, Option<PackedCause>) {
        testing::read(Frames::new(bytes))
    }

    #[test]
    fn what_was_whole_comes_before_the_failure() {
        let skipped = [&[0x5e][..], SKIPPABLE, &[3, 0, 0, 0], b"xyz"].concat();
        let (one, two) = (frame("one "), frame("two"));
        let mut wrong_sum = two.clone();
        *wrong_sum.last_mut().unwrap() ^= 1;
        for (parts, text, cause) in [
            (&[&one[..], &two][..], "one two", None),
            (&[&one, &skipped, &two], "one two", None),
            (&[&skipped, &two], "two", None),
            (&[&two, b"junk"], "two", Some(PackedCause::TrailingBytes)),
            (&[&two, &[0; 512]], "two", None),
            (&[&two, &two[..3]], "two", Some(PackedCause::CutOff)),
            (&[&wrong_sum], "two", Some(PackedCause::Checksum)),
        ] {
            assert_eq!(read(&parts.concat()), (text.to_owned(), cause));
        }
        assert_eq!(read(&two[..two.len() - 5]).1, Some(PackedCause::CutOff));
        // Where the next frame begins is not known then.
        assert_eq!(read(&[wrong_sum, one].concat()).1, Some(PackedCause::Corrupt));
    }

    /// A frame may ask for any window; the library allows 128 MiB.
    #[test]
    fn a_window_that_fills_the_machine_is_refused() {
        let mut bytes = frame("text");
        // The frame's descriptor says that no size is given and a window is: 2 to the 10 + 31.
        bytes[4] &= !0x20 & 0x3f;
        bytes[5] = 31 << 3;
        let error = Frames::new(&bytes[..]).read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("more than 128 MiB; pack it again"), "{error}");
    }
}
