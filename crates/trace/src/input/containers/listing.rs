//! What an archive format reports: the files of an archive, with their names as they are kept, and its damage; and the findings, which are
//! what is in an archive besides traces.

use std::io;

use super::source::Source;
use crate::damage::{Damage, DamageReport};
use crate::error::Error;

pub(super) struct Listing {
    /// Whether a file can be opened more than once and in any order. Otherwise a file can be read until the next is found.
    pub(super) can_seek: bool,
    /// In the order in which they are stored.
    pub(super) entries: Box<dyn Iterator<Item = io::Result<Entry>> + Send>,
}

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

/// How many names of each kind are kept: more than are shown, and few enough that a million files do not fill memory.
const KEPT: usize = 100;

#[derive(Debug, Default)]
pub struct Findings {
    /// The first files that are not traces; `damage` counts all.
    pub no_traces: Vec<String>,
    /// The first files that could not be read at all, with the reason if it is the format.
    pub unreadable: Vec<String>,
    /// The first damage to archives in the archive that has an offset.
    pub inner: Vec<InnerDamage>,
    /// The error for the first file that this program cannot read, if there is no trace.
    pub refusal: Option<Error>,
    /// The damage to the archive, including the files above.
    pub damage: DamageReport,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerDamage {
    pub archive: String,
    pub kind: Damage,
    /// The offset in the inner archive.
    pub offset: u64,
}

impl Findings {
    pub(crate) fn no_trace(&mut self, name: String) {
        self.damage.count(Damage::NoTraceInFile, None);
        keep(&mut self.no_traces, [name]);
    }

    /// Nothing of it could be read.
    pub(crate) fn unreadable(&mut self, name: String) {
        self.damage.count(Damage::FileUnreadable, None);
        keep(&mut self.unreadable, [name]);
    }

    /// A file that this program cannot read, as listed and as the error if there is no trace.
    pub(super) fn refuse(&mut self, listed: String, error: Error) {
        self.unreadable(listed);
        self.refusal.get_or_insert(error);
    }

    /// Adds the findings of an archive in the archive, or of one of several inputs.
    pub fn take(&mut self, folder: &str, of_inner: Findings) {
        let within = |name: String| format!("{folder}/{name}");
        keep(&mut self.no_traces, of_inner.no_traces.into_iter().map(within));
        keep(&mut self.unreadable, of_inner.unreadable.into_iter().map(within));
        let places = of_inner.damage.iter().filter_map(|(d, tally)| Some((d.kind, tally.first_offset?)));
        keep(&mut self.inner, places.map(|(kind, offset)| InnerDamage { archive: folder.to_owned(), kind, offset }));
        let further = of_inner.inner.into_iter();
        keep(&mut self.inner, further.map(|damage| InnerDamage { archive: within(damage.archive), ..damage }));
        self.damage.add_counts(&of_inner.damage);
        self.refusal = self.refusal.take().or(of_inner.refusal);
    }

    pub(super) fn sort(&mut self) {
        self.no_traces.sort();
        self.unreadable.sort();
    }
}

fn keep<T>(kept: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    let room = KEPT.saturating_sub(kept.len());
    kept.extend(more.into_iter().take(room));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_are_known() {
        for name in [".DS_Store", "a/.git/x", "__MACOSX/._trace.json", "a/__MACOSX/b", "a/._trace.json", "a\\.x"] {
            assert!(is_hidden(name), "{name}");
        }
        for name in ["./trace.json", "../a/b.json", "a/b.c/d.json", "MACOSX/a", ".runs/a.json", "a/.b/c.json", "a.json"]
        {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        let (name, ends) = ("ä".repeat(256) + &"z".repeat(256), "ä".repeat(43) + &"z".repeat(257));
        assert_eq!(kept_name(name.as_bytes()), name);
        assert_eq!(kept_name((name + "z").as_bytes()), format!("{}…{ends}", "ä".repeat(100)));
    }

    #[test]
    fn names_are_kept_as_far_as_they_are_shown() {
        let (mut outer, mut inner) = (Findings::default(), Findings::default());
        for number in 0..70 {
            outer.no_trace(format!("{number}.txt"));
            inner.no_trace(format!("{number}.txt"));
        }
        inner.damage.count(Damage::ArchiveBroken, Some(70));
        outer.take("in.zip", inner);
        assert_eq!((outer.no_traces.len(), outer.damage.get(Damage::NoTraceInFile).count), (100, 140));
        assert_eq!((&outer.no_traces[69][..], &outer.no_traces[99][..]), ("69.txt", "in.zip/29.txt"));
        let broken = InnerDamage { archive: "in.zip".to_owned(), kind: Damage::ArchiveBroken, offset: 70 };
        assert_eq!(outer.inner, [broken]);
        let tally = outer.damage.get(Damage::ArchiveBroken);
        assert_eq!((tally.count, tally.first_offset), (1, None));
    }
}
