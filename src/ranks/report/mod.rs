//! The answer about many ranks: who waited for whom, at which stack, in which group and step, how far that can be trusted, and why the late
//! ranks were late.

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

/// The ranks of a job beside each other.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct RankReport {
    /// What is wrong with the traces.
    pub damage: Losses,
    /// How many collectives of several ranks were measured, each counted once.
    pub collectives: u64,
    /// At how many of them one rank was late.
    pub late: u64,
    /// At how many no rank was late: the last two came together.
    pub together: u64,
    /// At how many it is unknown, because a rank that is here lacks its kernel.
    pub doubtful: u64,
    /// How long the kernels of all ranks' collectives ran.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// How long those of the measured collectives ran.
    #[serde(rename = "measured_ns")]
    pub measured: Ns,
    /// How much of that was waiting for another rank.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// The rest of it.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// By rank.
    pub ranks: Vec<RankWaits>,
    /// By stack of the launch, the one with the most waiting first.
    pub stacks: Vec<StackWaits>,
    /// By process group.
    pub groups: Vec<GroupWaits>,
    /// By step, in order. If the traces have no steps: by equal spans of time, named by their ends (`2.5-5.0 ms`).
    pub steps: Vec<StepWaits>,
    /// Whether these are spans of time instead.
    #[serde(skip)]
    pub has_spans: bool,
    /// Who waited for whom, the most first.
    pub pairs: Vec<Pair>,
    /// Collectives by size, with their bandwidths.
    pub sizes: Vec<SizeRow>,
    /// Why ranks were late, the one for which others waited most first.
    pub late_ranks: Vec<LateRank>,
    /// How the clocks compare.
    pub clock: ClockReport,
    /// How the kernels are matched.
    pub matches: Counts,
    /// Matched kernels at which nothing says who waited, by collective: broadcasts, sends and the like of ranks whose clocks are not
    /// aligned, and what exchanges parts of different sizes.
    #[serde(rename = "unmeasured_kernels")]
    pub unmeasured: BTreeMap<String, u64>,
    /// How many ranks the job has, if that is known.
    pub world_size: Option<u32>,
    /// Ranks that are not here.
    pub missing_ranks: Vec<u32>,
    /// Traces that were left out.
    pub refused: Vec<Refused>,
    /// Ranks that are here, and have no collective in the window.
    pub silent_ranks: Vec<u32>,
}

/// What a rank waited, and what others waited for it.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct RankWaits {
    /// The rank.
    pub rank: u32,
    /// Its trace.
    pub trace: String,
    /// How many collective kernels it ran.
    pub kernels: u64,
    /// How long these ran.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// How long of that no compute kernel ran beside them.
    #[serde(rename = "exposed_ns")]
    pub exposed: Ns,
    /// How long it waited for others.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// What others waited for it.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// How much later it came than the last but one, where it was late.
    #[serde(rename = "added_ns")]
    pub added: Ns,
    /// How often it was late.
    pub late_count: u64,
    /// How long its measured kernels ran without waiting.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// The same by the lengths of kernels alone, without any clock.
    pub by_lengths: ByLengths,
    /// How far its clock is ahead of that of the lowest rank that it is aligned with; `None` without clocks.
    #[serde(rename = "offset_ns")]
    pub offset: Option<Ns>,
    /// How much faster it is, in ns per ms; 0 unless that is clear.
    #[serde(rename = "drift_ns_per_ms")]
    pub drift: f64,
    /// How far the offset may be wrong.
    #[serde(rename = "uncertainty_ns")]
    pub uncertainty: Option<Ns>,
    /// Between which limits the offset can be at all.
    #[serde(rename = "possible_offset_ns")]
    pub possible: (Option<Ns>, Option<Ns>),
    /// The share of [`RankWaits::wall`] in which nothing was queued on its GPU; `None` if that has no length.
    pub queue_empty_share: Option<f64>,
    /// The window on its own clock.
    pub window: Window,
    /// From the first start to the last end of what was launched in the window; `None` if the window itself is measured: for the whole trace, for a
    /// window on kernels, and where nothing was launched.
    pub gpu_span: Option<Window>,
    /// How long this span is on each of its GPUs, or the window, added up; 0 without GPUs.
    #[serde(rename = "wall_ns")]
    pub wall: Ns,
}

/// Waiting as the lengths of kernels show it.
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
    /// How often it was.
    pub late_count: u64,
}

/// The collectives that were launched from a stack, over all ranks.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct StackWaits {
    /// The frame that shows best where it comes from.
    pub headline: Option<String>,
    /// That frame and those that tell next.
    #[serde(skip)]
    pub telling: Vec<String>,
    /// From the outermost caller to the launch.
    pub frames: Vec<String>,
    /// The frames of the capture of its graph.
    pub captured: Option<Vec<String>>,
    /// The frames of the forward pass.
    pub forward: Option<Vec<String>>,
    /// The thread, if it is not the main one.
    pub thread: Option<String>,
    /// Its collectives.
    pub collectives: BTreeMap<String, u64>,
    /// How many kernels of all ranks.
    pub count: u64,
    /// How long they ran.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// How long they waited.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// What others waited for kernels of this stack.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// How much the late ones added.
    #[serde(rename = "added_ns")]
    pub added: Ns,
    /// How often one was late.
    pub late_count: u64,
    /// How long the measured ones ran without waiting.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// For which ranks was waited, the most first.
    pub late_ranks: Vec<(u32, Ns)>,
    /// The bus bandwidth of the transfer alone, and of the whole kernels, in GB/s.
    pub bandwidth: Option<TransferBandwidth>,
}

/// Bus bandwidths in GB/s, of 10⁹ bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TransferBandwidth {
    /// Of the time without waiting.
    #[serde(rename = "transfer_gb_per_s")]
    pub transfer: f64,
    /// Of the whole kernels.
    #[serde(rename = "kernel_gb_per_s")]
    pub kernel: f64,
}

/// A process group.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct GroupWaits {
    /// What it is.
    #[serde(flatten)]
    pub group: GroupName,
    /// Its ranks that are here.
    pub ranks_here: Vec<u32>,
    /// Its ranks that are not.
    pub ranks_missing: Vec<u32>,
    /// How many collectives, each counted once.
    pub collectives: u64,
    /// How long the measured ones waited, over its ranks.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// How long they ran without waiting.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// Whether waiting is known from clocks.
    pub by_clocks: bool,
    /// For which ranks was waited, the most first.
    pub late_ranks: Vec<(u32, Ns)>,
}

/// A step.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct StepWaits {
    /// Its number among the steps of that rank, or among the spans of time.
    #[serde(skip)]
    pub number: u32,
    /// Its name on the lowest rank that has it.
    pub name: String,
    /// By rank, in the order of [`RankReport::ranks`]: what it waited.
    #[serde(rename = "waited_ns")]
    pub waited: Vec<Ns>,
    /// What others waited for it.
    #[serde(rename = "caused_ns")]
    pub caused: Vec<Ns>,
    /// How long its measured collectives ran without a compute kernel beside them.
    #[serde(rename = "exposed_ns")]
    pub exposed: Vec<Ns>,
}

/// A rank that waited for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pair {
    /// Who waited.
    pub rank: u32,
    /// Who came last.
    pub waited_for: u32,
    /// How long, in all.
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
    /// How many ranks their groups have.
    pub ranks: u64,
    /// How many.
    pub count: u64,
    /// How long the transfer takes in the median.
    #[serde(rename = "median_transfer_ns")]
    pub median_transfer: Ns,
    /// Bandwidths: of the median transfer, and of the mean kernel.
    pub bandwidth: TransferBandwidth,
}

/// How the clocks compare.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct ClockReport {
    /// How they are compared: `align`, `trust`, or `none`; `refused` if aligning failed for all ranks.
    pub method: &'static str,
    /// From how many collectives.
    pub anchors: u64,
    /// How many sets of ranks are aligned, each for itself: no collective that synchronises connects one with another.
    pub sets: u64,
    /// How far the ends of a collective are apart once aligned; `None` without clocks.
    #[serde(flatten)]
    pub residual: ResidualFields,
    /// Ranks whose clocks do not differ by a constant.
    pub unsteady_ranks: Vec<u32>,
    /// Why ranks are not aligned.
    pub refused: Vec<String>,
}

/// The residual, in fields of its own.
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
    /// The parts are of no job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The traces do not fit together.
    #[error("these traces do not fit together: {0}. Are they of the same run, and of the same steps?")]
    Unfit(#[from] Unfit),
}

/// A job with its matches and clocks, from which reports and other forms are made.
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
    /// Compares the ranks of some parts, in any order.
    ///
    /// # Errors
    /// Parts that are of no job, and traces that do not fit together.
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
