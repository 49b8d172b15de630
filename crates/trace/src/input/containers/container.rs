//! What a container is: a layer of compression over a file of any format, or an archive of files.
//!
//! File names decide nothing: browsers unpack downloads without renaming them, and tools write gzip into files that end in `.json`.

use std::io;

use super::limit::Budget;
use super::listing::Listing;
use super::source::{Bytes, Source};

/// A container: how it is recognised and how it is opened.
#[derive(Debug)]
pub struct Container {
    /// Its name for people: `gzip`.
    pub name: &'static str,
    /// Whether a file begins with its mark. It gets the first bytes, at most [`SNIFF`](super::source::SNIFF).
    pub(super) sniff: fn(&[u8]) -> bool,
    pub(super) kind: Kind,
}

/// How a container is opened.
#[derive(Debug)]
pub(super) enum Kind {
    /// Decompresses a stream.
    Layer(fn(Bytes) -> Bytes),
    /// Lists the files of an archive. The budget pays for what has to be decompressed for that.
    Archive(fn(Source, &Budget) -> io::Result<Listing>),
}

impl Container {
    /// Whether it holds several files. The others are layers of compression.
    pub fn is_archive(&self) -> bool {
        matches!(self.kind, Kind::Archive(_))
    }
}
