//! What a single group shows of a hang.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Outcome};
use crate::operation::{Operation, State};
use crate::time::Ns;

/// The limit on evidence kept for a group. In a damaged log each rank may have its own count, each with the same peers: memory would grow with the
/// square of the ranks.
const MOST_EVIDENCE: usize = 100;

/// What a single group shows.
#[derive(Default)]
pub(super) struct Finding {
    /// The ranks by progress, least first; each level waits for all before it.
    pub(super) levels: Vec<Vec<u32>>,
    /// Other pairs of a waiting rank and the rank it waits for.
    pub(super) waits: BTreeSet<(u32, u32)>,
    /// Pairs of rank sets: all of the first wait for all of the second.
    pub(super) crowds: Vec<(Vec<u32>, Vec<u32>)>,
    pub(super) collective: Option<String>,
    pub(super) sequence: Option<i64>,
    pub(super) missing: BTreeSet<u32>,
    pub(super) stuck: BTreeSet<u32>,
    pub(super) odd: BTreeSet<u32>,
    pub(super) waiting: BTreeSet<u32>,
    /// Ranks whose last operations may or may not be complete.
    pub(super) unknown: BTreeSet<u32>,
    /// Ranks at fault, whether or not they wait elsewhere.
    pub(super) proved: BTreeSet<u32>,
    pub(super) evidence: Vec<Evidence>,
    /// What ranks called differently, where that proves no hang.
    pub(super) differs: Vec<Evidence>,
    /// How much evidence was beyond the limit.
    pub(super) left_out: usize,
    /// Ranks on which the incomplete operation has ended, where that says nothing of who is at fault.
    pub(super) ended: BTreeSet<u32>,
    /// The operation that ranks wait in, and the operation of a rank at fault in its place.
    pub(super) awaited: Option<usize>,
    pub(super) theirs: Option<usize>,
    /// Sends and receives whose other side has no records: that, the rank that waits, and its operation.
    pub(super) unmet: Vec<(u32, u32, usize)>,
    /// By rank: the oldest incomplete operation.
    pub(super) oldest: BTreeMap<u32, usize>,
    /// By rank: the number of its oldest incomplete collective, where its full ring has lost that.
    pub(super) before_ring: BTreeMap<u32, i64>,
    /// Of a source with counts: whether these moved between its last two answers, and how far these are apart.
    pub(super) moved: Option<(bool, Option<Ns>)>,
    /// The outcome for this group alone.
    pub(super) outcome: Option<Outcome>,
}

impl Finding {
    /// Adds evidence that lists ranks. Beyond the limit, evidence is only counted.
    pub(super) fn prove(&mut self, evidence: impl FnOnce() -> Evidence) {
        match self.evidence.len() < MOST_EVIDENCE {
            true => self.evidence.push(evidence()),
            false => self.left_out += 1,
        }
    }
}

/// Whether an operation was enqueued and has not ended.
pub(super) fn is_open(operation: &Operation) -> bool {
    matches!(operation.state, State::Scheduled | State::Started)
}
