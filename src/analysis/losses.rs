//! What an answer cannot know because of damage: told with every answer for programs, so that a number is not trusted more than the
//! file it comes from.

use serde::Serialize;

use crate::damage::{Cost, Damage, Description, Tally};
use crate::store::Store;

/// What is wrong with a trace, or with all those of an archive.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Losses {
    /// How many bytes of (decompressed) text there are.
    pub text_bytes: u64,
    /// How many of them are lost.
    pub lost_bytes: u64,
    /// The share that is lost, with what could not even be decompressed: 0 to 1.
    pub lost_share: f64,
    /// What is wrong, by trace and kind. What is normal is not here.
    pub kinds: Vec<Loss>,
}

/// One kind of damage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// Of an archive: which trace it is of; `None` if it is the archive's.
    pub trace: Option<String>,
    /// Its name, which is that in the table `stats`.
    pub kind: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// `lost`, `mended` or `moved`.
    pub cost: &'static str,
    /// How often it was met.
    pub count: u64,
    /// The byte offsets of the first three, where they have any: in the text; of what is wrong with its compression in the file.
    pub offsets: Vec<u64>,
    /// How many bytes of the text were lost by it, where that is known.
    pub bytes: u64,
}

impl Losses {
    /// Those of a store.
    pub fn of(store: &Store) -> Self {
        let mut losses = Losses::default();
        let mut kept = 0.0;
        for trace in &store.traces {
            let lost = trace.damage.lost_bytes().min(trace.text_bytes);
            losses.text_bytes += trace.text_bytes;
            losses.lost_bytes += lost;
            // What was not decompressed would have become text at the same rate.
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
            // Of what is in an archive besides traces a person may want to know.
            Cost::None if description.kind == Damage::NoTraceInFile => "moved",
            Cost::None => return None,
        };
        Some(Loss {
            trace: trace.clone(),
            kind: description.name,
            what: description.phrase,
            cost,
            count: tally.count,
            offsets: tally.offsets().collect(),
            bytes: tally.bytes,
        })
    })
}
