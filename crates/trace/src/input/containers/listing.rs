//! What an archive format reports: the files of an archive, with their names as they are kept, and its damage.

use std::io;

use super::source::Source;
use crate::damage::Damage;

/// The contents of an archive.
pub(super) struct Listing {
    /// Whether a file can be opened more than once and in any order. Otherwise a file can be read until the next is found.
    pub(super) can_seek: bool,
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
    /// Damage to the archive itself, at this offset.
    Damaged(Damage, u64),
}

pub(super) struct File {
    pub(super) name: String,
    /// Starts to read its decompressed contents.
    pub(super) open: Box<dyn Fn() -> Source + Send>,
}

/// No disk that programs record to has longer names, in characters; a longer one was made to fill memory and the screen.
const LONGEST: usize = 512;

/// How many characters are kept of a longer one.
const BEGINNING: usize = 100;
const END: usize = 300;

/// Folders that archivers, notebooks and git make.
const HIDDEN_FOLDERS: &[&str] = &["__MACOSX", ".ipynb_checkpoints", ".git"];

/// Whether a file is skipped for its name. A folder whose name begins with a dot is not enough: traces may be kept in one.
pub(super) fn is_hidden(name: &str) -> bool {
    let (folders, file) = name.rsplit_once(['/', '\\']).unwrap_or_default();
    let file = if file.is_empty() { name } else { file };
    file.starts_with('.') || folders.split(['/', '\\']).any(|folder| HIDDEN_FOLDERS.contains(&folder))
}

/// A name as it is kept: a long one without its middle.
pub(super) fn kept_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let length = name.chars().count();
    if length <= LONGEST {
        return name.into_owned();
    }
    let beginning = name.chars().take(BEGINNING);
    beginning.chain(['…']).chain(name.chars().skip(length - END)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_are_known() {
        for name in [".DS_Store", "a/.git/x", "__MACOSX/._trace.json", "a/__MACOSX/b", "a/._trace.json", "a\\.x"] {
            assert!(is_hidden(name), "{name}");
        }
        let shown =
            ["trace.json", "./trace.json", "../a/b.json", "a/b.c/d.json", "MACOSX/a", ".runs/a.json", "a/.b/c.json"];
        for name in shown {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("{}{}", "ä".repeat(256), "z".repeat(256));
        assert_eq!(kept_name(name.as_bytes()), name);
        let name = format!("{}{}", "ä".repeat(256), "z".repeat(257));
        assert_eq!(kept_name(name.as_bytes()), format!("{}…{}{}", "ä".repeat(100), "ä".repeat(43), "z".repeat(257)));
    }
}
