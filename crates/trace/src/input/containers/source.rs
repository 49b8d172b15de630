//! The stored bytes of a file: on the disk, where they can be read in any order, or a stream, which can be read once.

use std::io::{self, Read};

use super::limit::{Budget, Limited};
use super::packed::PackedFailure;
use super::region::Region;

/// A stream of bytes that may move to another thread.
pub(in crate::input) type Bytes = Box<dyn Read + Send>;

/// How many bytes decide the format: enough for tar's mark at offset 257.
pub(in crate::input) const SNIFF: usize = 512;

/// Where bytes come from.
pub(in crate::input) enum Source {
    /// A file, or a part of one.
    File(Region),
    /// Bytes that can be read only once.
    Stream(Bytes),
}

/// The first bytes of a file, at most [`SNIFF`]: they are read once, for all that recognise files.
pub(in crate::input) struct Head {
    pub(in crate::input) bytes: Vec<u8>,
    /// Whether damage to an archive or to compressed data ended them early.
    pub(in crate::input) is_cut: bool,
}

impl Source {
    /// The first bytes, and the source with these bytes still to be read. Damage is reported again where the source is read.
    ///
    /// # Errors
    /// Those of the disk, and too much text.
    pub(in crate::input) fn head(self) -> io::Result<(Head, Self)> {
        Ok(match self {
            Source::File(region) => (Head::read(&mut region.clone())?, Source::File(region)),
            Source::Stream(mut rest) => {
                let head = Head::read(&mut rest)?;
                let whole = io::Cursor::new(head.bytes.clone()).chain(rest);
                (head, Source::Stream(Box::new(whole)))
            }
        })
    }

    /// Charges a stream to the budget of bytes that are not text yet.
    pub(in crate::input) fn within(self, budget: &Budget) -> Self {
        match self {
            Source::Stream(stream) => Source::Stream(Box::new(Limited::new(stream, budget.of_layers()))),
            file => file,
        }
    }

    pub(in crate::input) fn into_bytes(self) -> Bytes {
        match self {
            Source::File(region) => Box::new(region),
            Source::Stream(stream) => stream,
        }
    }
}

impl Head {
    fn read(file: &mut impl Read) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(SNIFF);
        match file.take(SNIFF as u64).read_to_end(&mut bytes) {
            Err(error) if PackedFailure::find_in(&error).is_none() => Err(error),
            read => Ok(Head { bytes, is_cut: read.is_err() }),
        }
    }
}
