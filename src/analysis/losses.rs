//! What an answer cannot know because of damage. Every answer for programs includes it, so that a number is not trusted more than its
//! file.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::damage::{Cost, Damage, Description, Tally};
use crate::store::Store;

/// What is wrong with a trace, or with all those of an archive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Losses {
    /// How many bytes of (decompressed) text there are.
    pub text_bytes: u64,
    /// How many of them are lost.
    pub lost_bytes: u64,
    /// The share that is lost, including what could not be decompressed: 0 to 1.
    pub lost_share: f64,
    /// The kinds of damage, by trace. What is normal is not included.
    pub kinds: Vec<Loss>,
}

/// One kind of damage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Loss {
    /// The trace of an archive; `None` for the archive itself and for a file that is a trace.
    pub trace: Option<String>,
    /// Its name in the table `stats`.
    pub kind: Cow<'static, str>,
    /// Its description.
    pub what: Cow<'static, str>,
    /// Its cost: `lost`, `moved`, or the word that JSON has for what was recovered.
    pub cost: Cow<'static, str>,
    /// How often it occurred.
    pub count: u64,
    /// The byte offsets of the first three, where known: in the text, or in the file for damage of its compression.
    pub offsets: Vec<u64>,
    /// How many bytes of the text it cost, where known.
    pub bytes: u64,
}

impl Losses {
    /// Adds those of another trace.
    pub fn add(&mut self, other: Losses) {
        let kept = |losses: &Losses| (1.0 - losses.lost_share) * losses.text_bytes as f64;
        let kept = kept(self) + kept(&other);
        self.text_bytes += other.text_bytes;
        self.lost_bytes += other.lost_bytes;
        let is_whole = self.lost_share == 0.0 && other.lost_share == 0.0;
        self.lost_share = if is_whole { 0.0 } else { 1.0 - kept / self.text_bytes.max(1) as f64 };
        self.kinds.extend(other.kinds);
    }

    /// Those of a store.
    pub fn of(store: &Store) -> Self {
        let mut losses = Losses::default();
        let mut kept = 0.0;
        for trace in &store.traces {
            let lost = trace.damage.lost_bytes().min(trace.text_bytes);
            losses.text_bytes += trace.text_bytes;
            losses.lost_bytes += lost;
            // What was not decompressed would have become text at the same ratio.
            kept += (1.0 - trace.unread) * (trace.text_bytes - lost) as f64;
            losses.kinds.extend(kinds(&trace.name, trace.damage.iter().filter(|(d, _)| !d.kind.is_of_archive())));
        }
        losses.kinds.extend(kinds(&None, store.damage.iter().filter(|(d, _)| d.kind.is_of_archive())));
        losses.lost_share = if losses.text_bytes == 0 { 0.0 } else { 1.0 - kept / losses.text_bytes as f64 };
        losses
    }
}

fn kinds<'a>(
    trace: &'a Option<String>,
    tallies: impl Iterator<Item = (&'static Description, Tally)> + 'a,
) -> impl Iterator<Item = Loss> + 'a {
    tallies.filter(|(_, tally)| tally.count > 0).filter_map(move |(description, tally)| {
        let cost = match description.cost {
            Cost::Lost => "lost",
            Cost::Recovered => "mended",
            Cost::Moved => "moved",
            // Files of an archive that are no traces are listed too.
            Cost::None if description.kind == Damage::NoTraceInFile => "moved",
            Cost::None => return None,
        };
        Some(Loss {
            trace: trace.clone(),
            kind: description.name.into(),
            what: description.phrase.into(),
            cost: cost.into(),
            count: tally.count,
            offsets: tally.offsets().collect(),
            bytes: tally.bytes,
        })
    })
}
