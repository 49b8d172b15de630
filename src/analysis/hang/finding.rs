//! What a group by itself shows of a hang.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Outcome};
use crate::operation::{Operation, State};

/// So much evidence of a group that lists ranks is kept. In a damaged log each rank may have a count of its own, and each such count has the
/// same peers: memory would grow with the square of the ranks.
const MOST_EVIDENCE: usize = 100;

/// What a group by itself shows.
#[derive(Default)]
pub(super) struct Finding {
    /// The ranks by how far they got, those who got least first; each waits for all before it.
    pub(super) levels: Vec<Vec<u32>>,
    /// Who waits for whom beside that.
    pub(super) waits: BTreeSet<(u32, u32)>,
    /// The same of many: all of the first wait for all of the second.
    pub(super) crowds: Vec<(Vec<u32>, Vec<u32>)>,
    pub(super) collective: Option<String>,
    pub(super) sequence: Option<i64>,
    pub(super) missing: BTreeSet<u32>,
    pub(super) stuck: BTreeSet<u32>,
    pub(super) odd: BTreeSet<u32>,
    pub(super) waiting: BTreeSet<u32>,
    /// Ranks of which nothing says whether what they enqueued is complete.
    pub(super) unknown: BTreeSet<u32>,
    /// Ranks that are at fault, whether or not they wait elsewhere.
    pub(super) proved: BTreeSet<u32>,
    pub(super) evidence: Vec<Evidence>,
    /// How much more there was than is kept.
    pub(super) left_out: usize,
    /// The operation that ranks wait in, and that of a rank at fault in its place.
    pub(super) awaited: Option<usize>,
    pub(super) theirs: Option<usize>,
    /// By rank: the oldest incomplete operation.
    pub(super) oldest: BTreeMap<u32, usize>,
    /// What this alone shows.
    pub(super) outcome: Option<Outcome>,
}

impl Finding {
    /// Adds evidence that lists ranks. Beyond the limit it is counted and not made.
    pub(super) fn prove(&mut self, evidence: impl FnOnce() -> Evidence) {
        match self.evidence.len() < MOST_EVIDENCE {
            true => self.evidence.push(evidence()),
            false => self.left_out += 1,
        }
    }
}

/// Whether it was enqueued and has not ended.
pub(super) fn is_open(operation: &Operation) -> bool {
    matches!(operation.state, State::Scheduled | State::Started)
}
