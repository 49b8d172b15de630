//! What an archive format reports: the files of an archive, and its damage.

use std::io;

use crate::damage::Damage;
use crate::input::limit::Budget;
use crate::input::source::Source;

/// The contents of an archive.
pub(in crate::input) struct Listing {
    /// Whether a file can be opened more than once and in any order. Otherwise a file can be read until the next is found.
    pub(in crate::input) can_seek: bool,
    /// The limits of the files' text.
    pub(in crate::input) budget: Budget,
    /// In the order in which they are stored.
    pub(in crate::input) entries: Box<dyn Iterator<Item = io::Result<Entry>> + Send>,
}

/// One finding in an archive.
pub(in crate::input) enum Entry {
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
pub(in crate::input) struct File {
    pub(in crate::input) name: String,
    /// Starts to read its decompressed contents.
    pub(in crate::input) open: Box<dyn Fn() -> Source + Send>,
}
