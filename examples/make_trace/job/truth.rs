//! The truth about a simulated job: the clocks, the injected faults, and who waited for whom by the true times.

use serde::Serialize;

use super::layout::Layout;
use super::path::PathTime;
use super::simulation::Outcome;
use super::{Job, Late};

/// What is known about a job because it was simulated.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Truth {
    pub(crate) seed: u64,
    /// The number of ranks.
    pub(crate) ranks: u32,
    pub(crate) tp: u32,
    pub(crate) pp: u32,
    pub(crate) dp: u32,
    /// By rank.
    pub(crate) per_rank: Vec<RankTruth>,
    /// The injected fault.
    pub(crate) late: Option<Late>,
    /// The kernels that ran and that no trace has, by rank and in order.
    pub(crate) lost: Vec<Lost>,
    /// By rank.
    pub(crate) totals: Vec<Totals>,
    /// From the first to the last event of all traces, by the true times. It is for tests alone.
    #[serde(skip)]
    pub(crate) length_ns: i64,
    /// The critical path, by rank and kind, if it is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) path: Vec<PathTime>,
}

/// The clock of a rank, and whether there is a trace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RankTruth {
    pub(crate) rank: u32,
    /// What its clock shows at the start of the job, minus the true time.
    pub(crate) offset_ns: i64,
    /// How much faster its clock runs.
    pub(crate) drift_ppm: f64,
    pub(crate) missing: bool,
}

/// A collective whose kernel on one rank is in no trace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lost {
    pub(crate) rank: u32,
    /// PyTorch's name of the collective: `allreduce`.
    pub(crate) collective: String,
    /// The name of the process group.
    pub(crate) group_name: String,
    pub(crate) group_description: String,
    /// The ranks of the process group.
    pub(crate) group: Vec<u32>,
    /// The collective's number in its group, from 1.
    pub(crate) seq: u32,
}

/// The sums over a rank's communication. A rank waits from the start of its own kernel to the start of the last member's, which causes the others'
/// waiting. Sends and receives are counted separately, because waiting for the previous stage is normal in a pipeline.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub(crate) rank: u32,
    /// In collectives.
    pub(crate) waited_ns: i64,
    /// The waiting of other members of collectives.
    pub(crate) caused_ns: i64,
    /// How many collectives waited for this rank.
    pub(crate) late_count: u64,
    pub(crate) waited_for_peers_ns: i64,
    pub(crate) caused_for_peers_ns: i64,
}

impl Totals {
    pub(super) fn of_all(layout: &Layout) -> Vec<Self> {
        (0..layout.ranks()).map(|rank| Self { rank, ..Self::default() }).collect()
    }
}

/// Adds a collective, or a send with its receive, from the members' starts.
pub(super) fn count(totals: &mut [Totals], starts: &[(u32, i64)], is_collective: bool) {
    // If several start last at the same time, the first of them.
    let Some(&(last, latest)) = starts.iter().rev().max_by_key(|(_, start)| *start) else { return };
    let mut caused = 0;
    for &(rank, start) in starts {
        let total = &mut totals[rank as usize];
        *(if is_collective { &mut total.waited_ns } else { &mut total.waited_for_peers_ns }) += latest - start;
        caused += latest - start;
    }
    let total = &mut totals[last as usize];
    if is_collective {
        total.caused_ns += caused;
        total.late_count += u64::from(caused > 0);
    } else {
        total.caused_for_peers_ns += caused;
    }
}

impl Truth {
    pub(super) fn new(job: &Job, layout: &Layout, per_rank: Vec<RankTruth>, lost: Vec<Lost>, outcome: Outcome) -> Self {
        let (&Job { seed, tp, pp, dp, .. }, late) = (job, job.late.clone());
        let Outcome { totals, path, length_ns, .. } = outcome;
        Self { seed, ranks: layout.ranks(), tp, pp, dp, per_rank, late, lost, totals, length_ns, path }
    }
}
