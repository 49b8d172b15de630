//! The result of a comparison of ranks in SQL: plain rows, which the caller computes.

use std::fmt;
use std::sync::Arc;

use crate::id::{RankId, SliceId, TraceId};
use crate::store::Store;
use crate::time::Ns;

/// Compares the ranks of a store, or returns a sentence with the reason why they cannot be compared.
pub struct Compare(Box<By>);

type By = dyn Fn(&Store) -> Result<RankRows, String> + Send + Sync;

impl Compare {
    /// Compares with a function.
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

/// The rows of `rank`, `collective_match` and `critical_path`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankRows {
    /// In order of rank numbers.
    pub ranks: Vec<RankRow>,
    /// In order of their kernels.
    pub matches: Vec<MatchRow>,
    /// In the order of time.
    pub path: Vec<PathRow>,
    /// Why a single trace has nothing but a path: nothing says which rank it is.
    pub incomparable: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankRow {
    pub rank: RankId,
    pub machine: TraceId,
    pub trace: String,
    /// How far its clock is ahead of the clock of the lowest rank with which it is aligned.
    pub offset: Option<Ns>,
    /// The maximum error of the offset.
    pub uncertainty: Option<Ns>,
    /// How much faster its clock is.
    pub drift_ns_per_ms: f64,
    /// The time that it waited for others.
    pub waited: Ns,
    /// The time that others waited for it.
    pub caused: Ns,
    pub late_count: u64,
    /// The time that its measured kernels ran without waiting.
    pub transfer: Ns,
    /// The share of its trace during which nothing was queued on its GPU.
    pub queue_empty_share: Option<f64>,
}

/// A collective on one rank, and how it is matched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatchRow {
    pub kernel: SliceId,
    pub rank: RankId,
    /// The number of the collective, equal on all ranks.
    pub number: u32,
    /// The group, as far as known.
    pub communicator: Option<Arc<str>>,
    /// The index of the collective among those of its group.
    pub place: u32,
    pub status: &'static str,
    /// How long it waited; `None` if unknown.
    pub waited: Option<Ns>,
    /// The rest of its duration.
    pub transfer: Option<Ns>,
    /// Its start on the clock of the lowest rank with which its rank is aligned.
    pub aligned_start: Option<Ns>,
    /// Whether this rank was late.
    pub is_late: Option<bool>,
    /// The rank that came last.
    pub late_rank: Option<RankId>,
}

/// A piece of the critical path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathRow {
    pub rank: RankId,
    /// The kernel, copy or call; of a latency the launch, of idle time what starts after it. `None` where a thread is woken, or leaves a collective of
    /// CPUs.
    pub slice: Option<SliceId>,
    pub kind: &'static str,
    /// Its start, on the clock of its trace.
    pub start: Ns,
    pub dur: Ns,
}
