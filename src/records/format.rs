//! What a source of records is: a test of a file's first bytes, and a reader.
//!
//! File names decide nothing: flight recorder dumps have no ending, and logs are renamed by those who collect them.

use std::io::{self, BufRead};

use super::file::RecordFile;
use super::tables::Records;
use crate::operation::Source;

/// How many bytes decide the source. Logs begin with other lines, and dumps with long headers.
pub(super) const SNIFF: usize = 64 * 1024;

/// A source of records.
pub(super) struct Format {
    pub(super) source: Source,
    /// Whether a file begins so, by its first bytes: at most [`SNIFF`] of them.
    pub(super) sniff: fn(&[u8]) -> bool,
    /// Reads a whole file. What is damaged is counted in the file's report and skipped; only errors of reading end it.
    pub(super) read: fn(&mut Reading<'_>) -> io::Result<()>,
}

/// A file that is being read.
pub(super) struct Reading<'a> {
    /// Its decompressed bytes, from the first on.
    pub(super) bytes: &'a mut dyn BufRead,
    /// Its name, the counts of what was read, and what is wrong with it.
    pub(super) file: &'a mut RecordFile,
    /// Where the records go.
    pub(super) records: &'a mut Records,
    /// How many operations of each rank and communicator are kept; the counts are of all.
    pub(super) keep: Keep,
}

/// Which operations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// All of them.
    #[default]
    All,
    /// Of logs of a line per call only the last of each rank and communicator: what hangs is among them.
    Last(usize),
}
