//! What an archive format reports: the files of an archive, and its damage.

use std::io;

use super::limit::Budget;
use super::source::Source;
use crate::damage::Damage;

/// The contents of an archive.
pub(super) struct Listing {
    /// Whether a file can be opened more than once and in any order. Otherwise a file can be read until the next is found.
    pub(super) can_seek: bool,
    /// The limits of the files' text.
    pub(super) budget: Budget,
    /// In the order in which they are stored.
    pub(super) entries: Box<dyn Iterator<Item = io::Result<Entry>> + Send>,
}

/// One finding in an archive.
pub(super) enum Entry {
    File(File),
    /// A file that this program cannot read.
    Refused {
        name: String,
        what: &'static str,
        advice: &'static str,
    },
    /// A file without readable bytes.
    Unreadable(String),
    /// Damage to the archive itself, at this offset.
    Damaged(Damage, u64),
}

/// A file of an archive.
pub(super) struct File {
    pub(super) name: String,
    /// Starts to read its decompressed contents.
    pub(super) open: Box<dyn Fn() -> Source + Send>,
}
