//! What is in an archive besides traces, and its damage.

use crate::damage::{Damage, DamageReport};
use crate::error::Error;

/// How many names of each kind are kept: more than are shown, and few enough that a million files do not fill memory.
const KEPT: usize = 100;

/// What is in an archive besides traces.
#[derive(Debug, Default)]
pub struct Findings {
    /// The names of the first files that are not traces. `damage` counts all of them.
    pub no_traces: Vec<String>,
    /// The names of the first files of which nothing could be read, with the reason if it is the file's format.
    pub unreadable: Vec<String>,
    /// The first damage to archives in the archive that has an offset.
    pub inner: Vec<InnerDamage>,
    /// The error for the first file that this program cannot read, if there is no trace.
    pub refusal: Option<Error>,
    /// The damage to the archive, including the files above.
    pub damage: DamageReport,
}

/// Damage to an archive in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerDamage {
    /// The name of the inner archive in the outer one.
    pub archive: String,
    pub kind: Damage,
    /// The offset in the inner archive.
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

    /// A file that this program cannot read, as it is listed and as the error if there is no trace.
    pub(super) fn refuse(&mut self, listed: String, error: Error) {
        self.unreadable(listed);
        self.refusal.get_or_insert(error);
    }

    /// A file in a known format that is none of traces.
    pub(super) fn other_format(&mut self, listed: String, error: Error) {
        self.no_trace(listed);
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
