//! What an answer cannot know because of damage. Every machine-readable answer includes it, so that no number is trusted more than its file.

pub mod lines;
mod words;

pub(crate) use words::sentences;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::damage::{Cost, Damage, DamageReport, Description, Tally};
use crate::store::Store;
use crate::store::traces::Trace;
use crate::time::Window;

/// What is wrong with a trace, or with all traces of an archive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Losses {
    /// The size of the (decompressed) text in bytes; of the text that was damaged, if the trace was written from that.
    pub text_bytes: u64,
    /// How many of them are lost; `None` if that is [unknown](Self::unknown) for any trace.
    pub lost_bytes: Option<u64>,
    /// The lost share, 0 to 1; `None` if it is [unknown](Self::unknown) for any trace.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub lost_share: Option<f64>,
    /// The traces for which the extent of the loss or damage is unknown.
    #[serde(default)]
    pub unknown: Vec<UnknownLoss>,
    /// The kinds of damage, by trace. Normal conditions are not included.
    pub kinds: Vec<Loss>,
}

/// A trace for which the extent of the loss or damage is unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnknownLoss {
    /// Its name.
    pub trace: String,
    /// Why.
    pub cause: Cause,
    /// The size of its text in bytes.
    pub text_bytes: u64,
    /// The first byte of the text that looks wrong; `None` if none does, or if the trace is merely cut off.
    pub implausible_from: Option<u64>,
    /// For a trace that ends early: the longest time in which kernels survived one after the other; `None` if there is none. An answer on the whole
    /// trace is about this window.
    #[cfg_attr(test, schemars(with = "Option<crate::operations::written::Window>"))]
    pub survived: Option<Window>,
}

/// Why the extent of the loss is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The trace is cut off, or unreadable from some byte on.
    CutOff,
    /// The compression is corrupt: the trace ends early, and any byte before may be wrong.
    Corrupt,
    /// The checksum does not match: any byte may be wrong.
    Checksum,
}

/// One kind of damage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loss {
    /// The trace: its file, or its name in the archive; `None` for the archive itself.
    pub trace: Option<String>,
    /// The name in the `stats` table.
    pub kind: Cow<'static, str>,
    /// Its description.
    pub what: Cow<'static, str>,
    /// The cost. `lost`: something is missing. `doubtful`: any byte may be wrong. `recovered`: the file breaks its format, but its meaning is
    /// clear. `moved`: all is there, but not where its author meant it. `--strict` fails on the first three.
    #[cfg_attr(test, schemars(extend("enum" = ["lost", "doubtful", "recovered", "moved"])))]
    pub cost: Cow<'static, str>,
    /// The number of occurrences.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The byte offsets of the first three occurrences, where known: in the text, or in the file for damaged compression.
    #[cfg_attr(test, schemars(length(max = 3)))]
    pub offsets: Vec<u64>,
    /// The number of text bytes lost; 0 if unknown.
    pub bytes: u64,
}

impl Losses {
    /// Adds the losses of another trace.
    pub fn add(&mut self, other: Losses) {
        self.text_bytes = self.text_bytes.saturating_add(other.text_bytes);
        let bytes = self.kinds.iter().chain(&other.kinds).map(|kind| kind.bytes);
        let lost = bytes.fold(0, u64::saturating_add).min(self.text_bytes);
        self.unknown.extend(other.unknown);
        self.kinds.extend(other.kinds);
        self.set_lost(lost);
    }

    pub fn count(store: &Store) -> Self {
        let (mut losses, mut lost) = (Losses::default(), 0);
        for trace in &store.traces {
            let text_bytes = trace.damage.damaged_bytes(trace.text_bytes);
            lost = u64::saturating_add(lost, trace.damage.lost_bytes().min(text_bytes));
            losses.text_bytes = losses.text_bytes.saturating_add(text_bytes);
            losses.unknown.extend(unknown(trace));
            let name = Some(name(trace)).filter(|name| !name.is_empty());
            losses.kinds.extend(kinds(name, trace.damage.iter().filter(|(d, _)| !d.kind.is_of_archive())));
        }
        losses.kinds.extend(kinds(None, store.damage.iter().filter(|(d, _)| d.kind.is_of_archive())));
        losses.set_lost(lost);
        losses
    }

    fn set_lost(&mut self, lost: u64) {
        let is_known = self.unknown.is_empty();
        self.lost_bytes = is_known.then_some(lost);
        self.lost_share = is_known.then_some(lost as f64 / self.text_bytes.max(1) as f64);
    }

    /// Whether this window is the surviving span of a trace that ends early.
    pub fn limits(&self, window: Window) -> bool {
        self.unknown.iter().any(|trace| trace.survived == Some(window))
    }

    /// Whether the extent of the loss or damage is unknown.
    pub fn is_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }
}

/// A trace's name in its archive, or the path of its file.
fn name(trace: &Trace) -> &str {
    trace.name.as_deref().unwrap_or(&trace.file)
}

fn unknown(trace: &Trace) -> Option<UnknownLoss> {
    let damage = &trace.damage;
    let cause = match (damage.is_doubtful(), damage.is_cut_off()) {
        (true, false) => Cause::Checksum,
        (true, true) if damage.get(Damage::PackedCorrupt).count == 0 => Cause::Checksum,
        (true, true) => Cause::Corrupt,
        (false, true) => Cause::CutOff,
        (false, false) => return None,
    };
    Some(UnknownLoss {
        trace: name(trace).to_owned(),
        cause,
        text_bytes: trace.text_bytes,
        implausible_from: implausible_from(damage, cause),
        survived: trace.survived,
    })
}

/// A text that is cut off has no implausible byte: it just ends.
fn implausible_from(damage: &DamageReport, cause: Cause) -> Option<u64> {
    damage.first_implausible().filter(|_| cause != Cause::CutOff)
}

fn kinds<'a>(
    trace: Option<&'a str>,
    tallies: impl Iterator<Item = (&'static Description, Tally)> + 'a,
) -> impl Iterator<Item = Loss> + 'a {
    tallies.filter(|(_, tally)| tally.count > 0).filter_map(move |(description, tally)| {
        let cost = match description.cost {
            Cost::Lost => "lost",
            Cost::Doubtful => "doubtful",
            Cost::Recovered => "recovered",
            Cost::Moved => "moved",
            // Also lists the files of an archive that are not traces.
            Cost::None if description.kind == Damage::NoTraceInFile => "moved",
            Cost::None => return None,
        };
        Some(Loss {
            trace: trace.map(str::to_owned),
            kind: description.name.into(),
            what: description.phrase.into(),
            cost: cost.into(),
            count: tally.count,
            offsets: tally.offsets().collect(),
            bytes: tally.bytes,
        })
    })
}
