//! The stored bytes of a trace: a file, which can be read in any order, or a stream, which can be read once.

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

impl Source {
    /// The first bytes, and the source as it was before they were read.
    pub(in crate::input) fn peek(self) -> (Vec<u8>, Self) {
        match self {
            Source::File(region) => {
                let mut bytes = Vec::with_capacity(SNIFF);
                // An error here occurs again when the file is read.
                let _ = region.clone().take(SNIFF as u64).read_to_end(&mut bytes);
                (bytes, Source::File(region))
            }
            Source::Stream(mut rest) => {
                let mut bytes = Vec::with_capacity(SNIFF);
                let failure = rest.by_ref().take(SNIFF as u64).read_to_end(&mut bytes).err();
                (bytes.clone(), Head { bytes, failure }.before(rest))
            }
        }
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

/// The first bytes of a file in an archive; fewer if they cannot be read.
pub(in crate::input) struct Head {
    pub(in crate::input) bytes: Vec<u8>,
    /// The error that ended them early.
    pub(in crate::input) failure: Option<io::Error>,
}

impl Head {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// Those of the disk; damage to the archive or the compression is kept in `failure`.
    pub(in crate::input) fn read(mut file: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(SNIFF);
        match file.by_ref().take(SNIFF as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(Head { bytes, failure: None }),
            Err(error) if PackedFailure::find_in(&error).is_some() => Ok(Head { bytes, failure: Some(error) }),
            Err(error) => Err(error),
        }
    }

    /// The head and the rest of its file as one stream.
    pub(in crate::input) fn before(self, rest: Bytes) -> Source {
        let Head { bytes, failure } = self;
        Source::Stream(Box::new(Begun { head: io::Cursor::new(bytes), failure, rest }))
    }
}

/// A stream whose head was read before.
struct Begun {
    head: io::Cursor<Vec<u8>>,
    failure: Option<io::Error>,
    rest: Bytes,
}

impl Read for Begun {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buf)? {
            0 => self.failure.take().map_or_else(|| self.rest.read(buf), Err),
            n => Ok(n),
        }
    }
}
