//! What a reader of records is: a test of a file's first bytes, and the reading of the file.
//!
//! File names decide nothing: flight recorder dumps have no ending, and logs are renamed by those who collect them.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, BufRead};

use foldhash::fast::RandomState;

use super::file::RecordFile;
use super::tables::Records;
use crate::operation::Source;

/// How many bytes decide the source. Logs begin with other lines, and dumps with long headers.
pub(super) const SNIFF: usize = 64 * 1024;

/// Reads the files of one source of records. It is chosen once for a file.
pub(super) struct Reader {
    pub(super) source: Source,
    /// Whether a file begins so, by its first bytes: at most [`SNIFF`] of them.
    pub(super) sniff: fn(&[u8]) -> bool,
    /// Reads a whole file. What is damaged is counted in its report and skipped; what was read before an error counts.
    pub(super) read: fn(&mut Reading<'_>) -> io::Result<()>,
    /// Whether most of a file may be holes, so that it is read in parts where it is on the disk.
    pub(super) leaves_holes: bool,
}

pub(super) struct Reading<'a> {
    /// Its decompressed bytes, from the first on.
    pub(super) bytes: &'a mut dyn BufRead,
    /// The same file, if it [may have holes](Reader::leaves_holes) and is on the disk as it is.
    pub(super) disk: Option<&'a std::fs::File>,
    /// Its name, the counts of what was read, and what is wrong with it.
    pub(super) file: &'a mut RecordFile,
    pub(super) records: &'a mut Records,
    /// How many operations of each rank and communicator are kept; the counts are of all.
    pub(super) keep: Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    #[default]
    All,
    /// Of logs of a line per call only the last of each rank and communicator: what hangs is among them.
    Last(usize),
    /// Of all sources with a record per call only the last of each rank and communicator, and of those no groups: for what needs nothing else.
    Ends(usize),
}

impl Keep {
    /// How many a log of a line per call keeps of each rank and communicator; `None` for all.
    pub(super) fn of_logs(self) -> Option<usize> {
        match self {
            Keep::All => None,
            Keep::Last(last) | Keep::Ends(last) => Some(last),
        }
    }

    /// How many any other source with a record per call keeps of each; `None` for all.
    pub(super) fn of_others(self) -> Option<usize> {
        self.of_logs().filter(|_| !matches!(self, Keep::Last(_)))
    }
}

/// By row: whether it is among the last so many of its kind; all are without a limit.
pub(super) fn last_of_each<K: Eq + Hash>(
    last: Option<usize>,
    kinds: impl ExactSizeIterator<Item = K> + DoubleEndedIterator,
) -> Vec<bool> {
    let Some(last) = last else { return vec![true; kinds.len()] };
    let mut left: HashMap<K, usize, RandomState> = HashMap::default();
    let is_kept = |kind| {
        let left = left.entry(kind).or_insert(last);
        let is_kept = *left > 0;
        *left = left.saturating_sub(1);
        is_kept
    };
    let mut kept: Vec<bool> = kinds.rev().map(is_kept).collect();
    kept.reverse();
    kept
}
