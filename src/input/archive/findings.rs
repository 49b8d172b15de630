//! What is in an archive besides traces.

use crate::damage::{Damage, DamageReport};
use crate::error::Error;

/// So many names of each kind are kept: enough to be shown, and no archive of a million files fills memory with them.
const KEPT: usize = 100;

/// What is in an archive besides traces.
#[derive(Debug, Default)]
pub struct Findings {
    /// Files that are no traces, by name: the first of them. How many there are is counted in the damage.
    pub no_traces: Vec<String>,
    /// Files of which nothing could be read, by name, and why if it is for what they are: the first of them, too.
    pub unreadable: Vec<String>,
    /// What was wrong with archives in the archive, where its place is known: of the first of them.
    pub inner: Vec<InnerDamage>,
    /// What to say of the first file that this program cannot read if there is no other.
    pub refusal: Option<Error>,
    /// What was wrong with the archive; the files above are counted there, too.
    pub damage: DamageReport,
}

/// What was wrong with an archive in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerDamage {
    /// Its name in the outer one.
    pub archive: String,
    /// What was wrong.
    pub kind: Damage,
    /// Where: its own byte, not the outer one's.
    pub offset: u64,
}

impl Findings {
    pub(super) fn no_trace(&mut self, name: String) {
        self.damage.count(Damage::NoTraceInFile, None);
        keep(&mut self.no_traces, [name]);
    }

    pub(super) fn unreadable(&mut self, name: String) {
        self.damage.count(Damage::FileUnreadable, None);
        keep(&mut self.unreadable, [name]);
    }

    /// A file that this program cannot read, of the archive with this name.
    pub(super) fn refuse(&mut self, archive: &str, name: String, what: &'static str, advice: &'static str) {
        let full = format!("{archive}/{name}");
        self.unreadable(format!("{name} ({what})"));
        self.refusal.get_or_insert(Error::Unsupported { name: full, what, advice });
    }

    /// What was wrong at a place of an archive in the archive.
    pub(super) fn damaged_within(&mut self, archive: String, kind: Damage, offset: u64) {
        self.damage.count(kind, None);
        keep(&mut self.inner, [InnerDamage { archive, kind, offset }]);
    }

    /// Takes what was found in an archive in the archive.
    pub(super) fn take(&mut self, folder: &str, of_inner: Findings) {
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
