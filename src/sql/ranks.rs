//! What a comparison of ranks is for SQL: plain rows, which the caller computes.

use std::fmt;
use std::sync::Arc;

use crate::id::{RankId, SliceId, TraceId};
use crate::store::Store;
use crate::time::Ns;

/// Compares the ranks of a store, or says in a sentence why they cannot be compared.
pub struct Compare(Box<By>);

type By = dyn Fn(&Store) -> Result<RankRows, String> + Send + Sync;

impl Compare {
    /// By a function.
    pub fn new(by: impl Fn(&Store) -> Result<RankRows, String> + Send + Sync + 'static) -> Self {
        Compare(Box::new(by))
    }

    pub(super) fn rows(&self, store: &Store) -> Result<RankRows, String> {
        (self.0)(store)
    }
}

impl fmt::Debug for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compare")
    }
}

/// The rows of `rank` and of `collective_match`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankRows {
    /// In the order of the ranks' numbers.
    pub ranks: Vec<RankRow>,
    /// In the order of their kernels.
    pub matches: Vec<MatchRow>,
}

/// A rank of the job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankRow {
    /// The rank.
    pub rank: RankId,
    /// Its trace.
    pub machine: TraceId,
    /// The name of its trace.
    pub trace: String,
    /// How far its clock is ahead of that of the lowest rank that it is aligned with.
    pub offset: Option<Ns>,
    /// How far the offset may be wrong.
    pub uncertainty: Option<Ns>,
    /// How much faster its clock is.
    pub drift_ns_per_ms: f64,
    /// How long it waited for others.
    pub waited: Ns,
    /// How long others waited for it.
    pub caused: Ns,
    /// How much later it came than the last but one, where it was late.
    pub added: Ns,
    /// How often it was late.
    pub late_count: u64,
    /// How long its measured kernels ran without waiting.
    pub transfer: Ns,
    /// For which share of its trace nothing was queued on its GPU.
    pub queue_empty_share: Option<f64>,
}

/// A collective of a rank, and what it is matched with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatchRow {
    /// Its kernel.
    pub kernel: SliceId,
    /// Its rank.
    pub rank: RankId,
    /// The number of the collective, equal on all ranks.
    pub number: u32,
    /// The group, as far as it is known.
    pub communicator: Option<Arc<str>>,
    /// The place of the collective among those of its group.
    pub place: u32,
    /// How it is matched.
    pub status: &'static str,
    /// How long it waited; `None` if that is not known.
    pub waited: Option<Ns>,
    /// The rest of its duration.
    pub transfer: Option<Ns>,
    /// Its start on the clock of the lowest rank that its rank is aligned with.
    pub aligned_start: Option<Ns>,
    /// Whether this rank was late.
    pub is_late: Option<bool>,
    /// The rank that came last.
    pub late_rank: Option<RankId>,
    /// If this rank was late: how much later it came than the last but one.
    pub added: Option<Ns>,
}
