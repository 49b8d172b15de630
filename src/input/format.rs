//! What a format is: a test of a file's first bytes, and a reader.
//!
//! File names decide nothing: browsers unpack downloads without renaming them, and tools write gzip into files that end in
//! `.json`. Each format file exports one [`Format`]; the table of all is in `input/mod.rs`.

use std::io;

use super::archive::listing::Listing;
use super::limit::Budget;
use super::source::{Bytes, Source};

/// A format: how it is recognised and how it is read.
pub(super) struct Format {
    /// Compares the first bytes of a file, at most [`SNIFF`](super::source::SNIFF), with the format.
    pub(super) sniff: fn(&[u8]) -> Fit,
    pub(super) reader: Reader,
}

/// How well a file's first bytes fit a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// They are the format's mark.
    Sure,
    /// The format has no mark, or a damaged one. The first such format of the table is taken if none is sure.
    Maybe,
    No,
}

/// How a format is read.
pub(super) enum Reader {
    /// A layer of compression, over any other format.
    Layer(fn(Bytes) -> Bytes),
    /// An archive: files of any format. The budget pays for what has to be decompressed to list them.
    Archive(fn(Source, &Budget) -> io::Result<Listing>),
    /// A trace.
    Trace(Text),
    /// A database, which may have the traces of several processes.
    Database,
}

/// The formats of a trace's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// JSON, which several threads parse in chunks.
    Json,
    /// Perfetto's protobuf, which one thread reads in file order.
    Packets,
}

/// The order in which the files of an archive are read: that of trace_processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Packets,
    Packed,
    Json,
}

/// All formats, in the order in which they are tried.
#[derive(Clone, Copy)]
pub(super) struct Formats(pub(super) &'static [Format]);

impl Formats {
    /// The format of a file that begins with these bytes.
    pub(super) fn of(self, head: &[u8]) -> Option<&'static Format> {
        let first = |wanted| self.0.iter().find(|format| (format.sniff)(head) == wanted);
        first(Fit::Sure).or_else(|| first(Fit::Maybe))
    }

    /// The rank of a file in an archive; `None` if it is certainly not a trace.
    pub(super) fn rank(self, head: &[u8]) -> Option<Rank> {
        Some(match self.of(head)?.reader {
            Reader::Trace(Text::Packets) => Rank::Packets,
            Reader::Layer(_) | Reader::Archive(_) | Reader::Database => Rank::Packed,
            Reader::Trace(Text::Json) => Rank::Json,
        })
    }
}

impl Fit {
    /// For a format that always begins with a mark.
    pub(super) fn sure_if(has_mark: bool) -> Self {
        if has_mark { Fit::Sure } else { Fit::No }
    }
}
