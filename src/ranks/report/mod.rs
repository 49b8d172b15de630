//! The answer about many ranks: which ranks waited for which, at which stack, in which group and step, how reliable that is, and why the late ranks
//! were late.

mod sums;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::sums::Sums;
use super::cause::LateRank;
use super::job::{Job, JobError, Refused};
use super::reduction::RankReduction;
use super::timeline::{Axis, Spans};
use crate::analysis::losses::Losses;
use crate::operations::clocks::{ClockMode, Clocks, ComparedClocks, Residual, Unfit};
use crate::operations::matching::{Counts, GroupName, Matches};
use crate::time::{Ns, Window};

/// The ranks of a job compared.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct RankReport {
    /// What is wrong with the traces.
    pub damage: Losses,
    /// The number of measured collectives of several ranks, each counted once.
    pub collectives: u64,
    /// The number of these at which one rank was late.
    pub late: u64,
    /// The number at which no rank was late: the last two arrived together.
    pub together: u64,
    /// The number at which this is unknown, because the kernel of a present rank is missing.
    pub doubtful: u64,
    /// The total time of the collective kernels of all ranks.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// The total time of the kernels of the measured collectives.
    #[serde(rename = "measured_ns")]
    pub measured: Ns,
    /// How much of the measured time was waiting for another rank.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// The rest of the measured time.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// By rank.
    pub ranks: Vec<RankWaits>,
    /// By stack of the launch, most waiting first.
    pub stacks: Vec<StackWaits>,
    /// By process group.
    pub groups: Vec<GroupWaits>,
    /// By step, in order. If the traces have no steps: by equal spans of time, named by their ends (`2.5-5.0 ms`).
    pub steps: Vec<StepWaits>,
    /// Whether `steps` holds spans of time instead.
    #[serde(skip)]
    pub has_spans: bool,
    /// Which ranks waited for which, most waiting first.
    pub pairs: Vec<Pair>,
    /// Collectives by size, with their bandwidths.
    pub sizes: Vec<SizeRow>,
    /// Why ranks were late, starting with the rank that others waited for most.
    pub late_ranks: Vec<LateRank>,
    /// How the clocks compare.
    pub clock: ClockReport,
    /// How the kernels are matched.
    pub matches: Counts,
    /// Matched kernels without a measurable wait, by collective: broadcasts, sends and the like between ranks whose clocks are not aligned, and
    /// exchanges of parts of different sizes.
    #[serde(rename = "unmeasured_kernels")]
    pub unmeasured: BTreeMap<String, u64>,
    /// The number of ranks in the job, if known.
    pub world_size: Option<u32>,
    /// Ranks without a trace here.
    pub missing_ranks: Vec<u32>,
    /// Traces that were left out.
    pub refused: Vec<Refused>,
    /// Ranks with a trace here but no collective in the window.
    pub silent_ranks: Vec<u32>,
}

/// How long a rank waited, and how long others waited for it.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct RankWaits {
    /// The rank.
    pub rank: u32,
    /// Its trace.
    pub trace: String,
    /// The number of collective kernels it ran.
    pub kernels: u64,
    /// Their total time.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// The part of that time in which no compute kernel ran beside them.
    #[serde(rename = "exposed_ns")]
    pub exposed: Ns,
    /// How long it waited for others.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// How long others waited for it.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// How much later it came than the second to last rank, where it was late.
    #[serde(rename = "added_ns")]
    pub added: Ns,
    /// The number of collectives at which it was late.
    pub late_count: u64,
    /// How long its measured kernels ran without waiting.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// Its waits judged by the lengths of kernels alone, without any clock.
    pub by_lengths: ByLengths,
    /// How far its clock is ahead of the lowest rank that it is aligned with; `None` without clocks.
    #[serde(rename = "offset_ns")]
    pub offset: Option<Ns>,
    /// How much faster its clock runs, in ns per ms; 0 unless that is clear.
    #[serde(rename = "drift_ns_per_ms")]
    pub drift: f64,
    /// The possible error of the offset.
    #[serde(rename = "uncertainty_ns")]
    pub uncertainty: Option<Ns>,
    /// The limits within which the offset must be.
    #[serde(rename = "possible_offset_ns")]
    pub possible: (Option<Ns>, Option<Ns>),
    /// The share of [`RankWaits::wall`] in which nothing was queued on its GPU; `None` if that is 0.
    pub queue_empty_share: Option<f64>,
    /// The window on its own clock.
    pub window: Window,
    /// From the first start to the last end of the work launched in the window; `None` if the window itself is measured: for the whole trace, for a
    /// window on kernels, and if nothing was launched.
    pub gpu_span: Option<Window>,
    /// The length of this span, or of the window, summed over its GPUs; 0 without GPUs.
    #[serde(rename = "wall_ns")]
    pub wall: Ns,
}

/// Waiting as judged by the lengths of kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ByLengths {
    /// As in [`RankWaits`].
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// Where it was late.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// Where it was late.
    #[serde(rename = "added_ns")]
    pub added: Ns,
    /// The number of collectives at which it was late.
    pub late_count: u64,
}

/// The collectives launched from a stack, over all ranks.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct StackWaits {
    /// The frame that best shows where the stack comes from.
    pub headline: Option<String>,
    /// The headline and the next most telling frames.
    #[serde(skip)]
    pub telling: Vec<String>,
    /// From the outermost caller to the launch.
    pub frames: Vec<String>,
    /// The frames of the capture of its graph.
    pub captured: Option<Vec<String>>,
    /// The frames of the forward pass.
    pub forward: Option<Vec<String>>,
    /// The thread, unless it is the main thread.
    pub thread: Option<String>,
    /// The number of kernels by collective.
    pub collectives: BTreeMap<String, u64>,
    /// The number of kernels on all ranks.
    pub count: u64,
    /// How long they ran.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// How long they waited.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// How long others waited for kernels of this stack.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// How much later the late kernels came than the second to last.
    #[serde(rename = "added_ns")]
    pub added: Ns,
    /// The number of late kernels.
    pub late_count: u64,
    /// How long the measured kernels ran without waiting.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// The ranks that were waited for, longest first.
    pub late_ranks: Vec<(u32, Ns)>,
    /// The bus bandwidth of the transfer alone, and of the whole kernels, in GB/s.
    pub bandwidth: Option<TransferBandwidth>,
}

/// Bus bandwidths in GB/s (10⁹ bytes).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TransferBandwidth {
    /// Over the time without waiting.
    #[serde(rename = "transfer_gb_per_s")]
    pub transfer: f64,
    /// Over the whole kernels.
    #[serde(rename = "kernel_gb_per_s")]
    pub kernel: f64,
}

/// A process group.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct GroupWaits {
    /// Its name and ranks.
    #[serde(flatten)]
    pub group: GroupName,
    /// Its ranks with a trace here.
    pub ranks_here: Vec<u32>,
    /// Its ranks without one.
    pub ranks_missing: Vec<u32>,
    /// The number of collectives, each counted once.
    pub collectives: u64,
    /// How long the measured collectives waited, over its ranks.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// How long they ran without waiting.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// Whether waiting was measured with clocks.
    pub by_clocks: bool,
    /// The ranks that were waited for, longest first.
    pub late_ranks: Vec<(u32, Ns)>,
}

/// A step.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct StepWaits {
    /// Its index among the steps of that rank, or among the spans of time.
    #[serde(skip)]
    pub number: u32,
    /// Its name on the lowest rank that has it.
    pub name: String,
    /// How long each rank waited, in the order of [`RankReport::ranks`].
    #[serde(rename = "waited_ns")]
    pub waited: Vec<Ns>,
    /// How long others waited for each rank.
    #[serde(rename = "caused_ns")]
    pub caused: Vec<Ns>,
    /// How long each rank's measured collectives ran without a compute kernel beside them.
    #[serde(rename = "exposed_ns")]
    pub exposed: Vec<Ns>,
}

/// A rank that waited for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pair {
    /// The waiting rank.
    pub rank: u32,
    /// The rank that came last.
    pub waited_for: u32,
    /// The total time.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
}

/// Collectives of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SizeRow {
    /// Their name.
    pub collective: String,
    /// The size as nccl-tests counts it, in bytes.
    pub bytes: u64,
    /// The number of ranks in their groups.
    pub ranks: u64,
    /// The number of collectives.
    pub count: u64,
    /// The median time of the transfer.
    #[serde(rename = "median_transfer_ns")]
    pub median_transfer: Ns,
    /// The bandwidths of the median transfer and of the mean kernel.
    pub bandwidth: TransferBandwidth,
}

/// How the clocks compare.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct ClockReport {
    /// How they are compared: `align`, `trust`, or `none`; `refused` if aligning failed for all ranks.
    pub method: &'static str,
    /// The number of collectives used.
    pub anchors: u64,
    /// The number of sets of ranks that are aligned separately: no synchronising collective connects one set with another.
    pub sets: u64,
    /// How far apart the ends of a collective are after alignment; `None` without clocks.
    #[serde(flatten)]
    pub residual: ResidualFields,
    /// Ranks whose clocks differ by more than a constant.
    pub unsteady_ranks: Vec<u32>,
    /// Why ranks are not aligned.
    pub refused: Vec<String>,
}

/// The residual as separate fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ResidualFields {
    /// See [`Residual::median`].
    pub residual_median_ns: Option<Ns>,
    /// See [`Residual::p95`].
    pub residual_p95_ns: Option<Ns>,
    /// See [`Residual::max`].
    pub residual_max_ns: Option<Ns>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RanksError {
    /// The reductions do not form a job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The traces do not match each other.
    #[error("these traces do not fit together: {0}. Are they from the same run and the same steps?")]
    Unfit(#[from] Unfit),
}

/// A job with its matches and clocks: the basis of reports and other forms.
#[derive(Debug)]
#[non_exhaustive]
pub struct Compared {
    /// The ranks.
    pub job: Job,
    /// Their collectives, matched.
    pub matches: Matches,
    /// Their clocks.
    pub clocks: Clocks,
}

impl Compared {
    /// Compares the ranks of these reductions, in any order.
    ///
    /// # Errors
    /// If the reductions do not form a job, or the traces do not match each other.
    pub fn from_reductions(reductions: Vec<RankReduction>, mode: ClockMode) -> Result<Self, RanksError> {
        let mut job = Job::from_reductions(reductions)?;
        loop {
            let ranks = job.rank_rows();
            let mut matches = Matches::find(&ranks);
            match Clocks::compare(&ranks, &mut matches, mode)? {
                ComparedClocks::Possible(clocks) => return Ok(Compared { job, matches, clocks }),
                ComparedClocks::Misfit { rank, why } => job.refuse(rank, why),
            }
        }
    }

    /// How the clocks compare.
    pub fn clock(&self) -> ClockReport {
        clock_report(&self.job, &self.clocks)
    }

    /// The answer.
    pub fn report(&self) -> RankReport {
        let axis = Axis::new(&self.job, &self.clocks);
        let mut sums = Sums::new(&self.job);
        sums.spans = Spans::for_job(&self.job, &axis).map(|spans| (spans, axis));
        for (number, group) in self.matches.groups.iter().enumerate() {
            sums.add_group(self, number, group);
        }
        sums.fill_spans();
        sums.report(self)
    }
}

fn clock_report(job: &Job, clocks: &Clocks) -> ClockReport {
    let any = clocks.ranks.iter().any(|clock| clock.component.is_some());
    let method = match clocks.mode {
        ClockMode::None => "none",
        _ if !any => "refused",
        ClockMode::Align => "align",
        ClockMode::Trust => "trust",
    };
    let unsteady: BTreeSet<u32> =
        job.ranks.iter().zip(&clocks.ranks).filter(|(_, clock)| clock.is_unsteady).map(|(rank, _)| *rank).collect();
    let field = |get: fn(&Residual) -> Ns| clocks.residual.as_ref().map(get);
    let sets: BTreeSet<usize> = clocks.ranks.iter().filter_map(|clock| clock.component).collect();
    ClockReport {
        method,
        anchors: clocks.anchors,
        sets: sets.len() as u64,
        residual: ResidualFields {
            residual_median_ns: field(|residual| residual.median),
            residual_p95_ns: field(|residual| residual.p95),
            residual_max_ns: field(|residual| residual.max),
        },
        unsteady_ranks: unsteady.into_iter().collect(),
        refused: clocks.refused.clone(),
    }
}
