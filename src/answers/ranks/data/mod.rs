//! The answer about many ranks: which ranks waited for which, at which stack, in which group and step, how reliable that is, and why the late ranks
//! were late.

mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Serialize;

use super::absent::WaitsForAbsent;
use super::common_span::common_spans;
use super::critical::CriticalPath;
use super::data::sums::Sums;
use super::hidden::{ExposedFor, StackExposure};
use super::job::{Job, JobError, Refused};
use super::pipeline::Pipeline;
use super::reduction::{RankReduction, Row};
use super::timeline::{Axis, Spans};
use super::{hidden, pipeline};
use crate::answers::cost::Outliers;
use crate::answers::damage::Losses;
use crate::answers::stacks::origin::Frames;
use crate::operations::clocks::{ClockMode, Clocks, ComparedClocks, Residual, Unfit};
use crate::operations::matching::{Counts, GroupName, Matches};
use crate::replay::alike::Alike;
use crate::replay::assemble::Drafts;
use crate::replay::findings;
use crate::replay::findings::Reruns;
use crate::replay::job::{JobGraph, give_back};
use crate::replay::peers::Peers;
use crate::replay::question::{Question, both};
use crate::replay::rank::RankGraph;
use crate::replay::transplant::RerunError;
use crate::time::{Ns, Window};

/// The ranks of a job compared.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_ns: Ns,
    /// The total time of the kernels of the measured collectives.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub measured_ns: Ns,
    /// How much of the measured time was waiting for another rank.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// The rest of the measured time.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub transfer_ns: Ns,
    /// By rank, ascending.
    pub ranks: Vec<RankWaits>,
    /// By stack of the launch, most waiting first.
    pub stacks: Vec<StackWaits>,
    /// By rank and stack of its part: the position among these; that of rows without a stack is last.
    #[serde(skip)]
    pub(crate) stack_of: Vec<Vec<Option<usize>>>,
    /// By process group.
    pub groups: Vec<GroupWaits>,
    /// By step, in order. If the traces have no steps: by equal spans of time, named by their ends (`2.5-5.0 ms`). Empty if there are neither.
    pub steps: Vec<StepWaits>,
    /// Whether `steps` holds spans of time instead.
    #[serde(skip)]
    pub has_spans: bool,
    /// Which ranks waited for which, most waiting first.
    pub pairs: Vec<Pair>,
    /// Collectives by size, with their bandwidths.
    pub sizes: Vec<SizeRow>,
    /// What the job would take if ranks did as their peers; `None` if nothing was recorded that has causes: of NCCL's own records, of parts, and of a
    /// single rank.
    pub reruns: Option<Reruns>,
    /// What reruns would need, if there is too little memory for them.
    pub too_large: Option<TooLarge>,
    /// What the job's length consists of; `None` where there are no reruns.
    pub critical_path: Option<CriticalPath>,
    /// The stages of its pipeline; `None` without sends and receives between stages, and without clocks.
    pub pipeline: Option<Pipeline>,
    /// How the clocks compare.
    pub clock: ClockReport,
    /// How the kernels are matched.
    pub matches: Counts,
    /// The time of matched kernels without a measurable wait, in ns, by collective: broadcasts, sends and the like between ranks whose clocks are
    /// not aligned, and exchanges of parts of different sizes. Kernels of which it is unknown what they do are named after their family.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, u64>", extend("additionalProperties" = {"type": "integer", "minimum": 1})))]
    pub unmeasured_ns: BTreeMap<String, Ns>,
    /// The number of ranks in the job, if a header names it.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub world_size: Option<u32>,
    /// Ranks of the job without a trace here, as far as headers and groups name them.
    pub missing_ranks: Vec<u32>,
    /// How long collectives wait for ranks that are not here; `None` if none is missing.
    pub absent: Option<WaitsForAbsent>,
    /// Traces that were left out.
    pub refused: Vec<Refused>,
    /// Ranks with a trace here but no collective in the window.
    pub silent_ranks: Vec<u32>,
}

impl RankReport {
    /// The position of the stack of a rank's row.
    pub(super) fn stack_of(&self, rank: usize, row: &Row) -> Option<usize> {
        let of_rank = &self.stack_of[rank];
        of_rank[row.stack.map_or(of_rank.len() - 1, |stack| stack as usize)]
    }
}

/// What reruns of a job would need that has too little memory for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TooLarge {
    /// How many launches, waits and kernels all ranks have.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub nodes: u64,
    /// About how much memory their reruns need.
    pub needs_bytes: u64,
    /// How much there was.
    pub available_bytes: u64,
}

/// How long a rank waited, and how long others waited for it.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankWaits {
    /// The rank.
    pub rank: u32,
    /// Its trace.
    pub trace: String,
    /// The host on which that was recorded, if its header or the name of its file says so.
    pub host: Option<String>,
    /// The number of collective kernels it ran.
    pub kernels: u64,
    /// Their total time.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_ns: Ns,
    /// The part of that time in which no compute kernel ran beside them.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub exposed_ns: Ns,
    /// How long its measured kernels waited for others.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// How long others waited for it where it came last.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub caused_ns: Ns,
    /// The number of collectives at which it was late.
    pub late_count: u64,
    /// How long its measured kernels ran without waiting.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub transfer_ns: Ns,
    /// How long its collectives ran where the trace of another rank had ended or not begun. They are not measured.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub left_out_ns: Ns,
    /// Its waits judged by the lengths of kernels alone, without any clock; only for collectives at which every rank waits for every other.
    pub by_lengths: ByLengths,
    /// How far its clock is ahead of the lowest rank that it is aligned with; `None` if it is aligned with none.
    #[cfg_attr(test, schemars(with = "Option<i64>"))]
    pub offset_ns: Option<Ns>,
    /// How much faster its clock runs, in ns per ms; 0 unless that is clear.
    #[cfg_attr(test, schemars(extend("minimum" = null)))]
    pub drift_ns_per_ms: f64,
    /// The possible error of the offset; `None` without one.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub uncertainty_ns: Option<Ns>,
    /// The lowest and the highest possible offset, in ns; null without a limit.
    #[cfg_attr(test, schemars(with = "(Option<i64>, Option<i64>)"))]
    pub possible_offset_ns: (Option<Ns>, Option<Ns>),
    /// The share of `wall_ns` in which nothing was queued on its GPU; `None` if that is 0.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub queue_empty_share: Option<f64>,
    /// The window on its own clock.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Window"))]
    pub window: Window,
    /// From the first start to the last end of the work launched in the window; `None` if the window itself is measured: for the whole trace, for a
    /// window on kernels, and if nothing was launched.
    #[cfg_attr(test, schemars(with = "Option<crate::operations::written::Window>"))]
    pub gpu_span: Option<Window>,
    /// The length of this span, or of the window, summed over its GPUs; 0 without GPUs.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub wall_ns: Ns,
}

/// Waiting as judged by the lengths of kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ByLengths {
    /// How long it waited.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// How long others waited for it where it was late.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub caused_ns: Ns,
    /// The number of collectives at which it was late.
    pub late_count: u64,
}

/// The collectives launched from a stack, over all ranks.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackWaits {
    /// The frame that best shows where the stack comes from; `None` if none does.
    pub headline: Option<String>,
    /// The headline and the next most telling frames.
    #[serde(skip)]
    pub telling: Vec<String>,
    /// From the outermost caller to the launch; empty if the launches are not in the traces.
    pub frames: Vec<String>,
    /// The frames of the capture of its graph; `None` if there is none.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub captured: Option<Vec<String>>,
    /// The frames of the forward pass; `None` if there are none.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub forward: Option<Vec<String>>,
    /// The thread, unless it is the main thread.
    pub thread: Option<String>,
    /// The number of kernels by collective.
    pub collectives: BTreeMap<String, u64>,
    /// The number of kernels on all ranks.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// How long they ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_ns: Ns,
    /// How long the measured ones waited.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// How long no compute kernel ran beside them.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub exposed_ns: Ns,
    /// Why not, the reason with most of that first; empty if nothing is exposed or known.
    pub exposed_for: Vec<ExposedFor>,
    /// How much earlier the job ends if they take no time once all members have arrived; `None` where that was not asked, and where reruns are too wrong.
    pub without_transfer_saves_ns: Option<i64>,
    /// How long others waited for kernels of this stack.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub caused_ns: Ns,
    /// The number of late kernels.
    pub late_count: u64,
    /// How long the measured ones ran without waiting.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub transfer_ns: Ns,
    /// The ranks that were waited for, each with that time in ns, longest first.
    #[cfg_attr(test, schemars(with = "Vec<(u32, u64)>"))]
    pub late_ranks: Vec<(u32, Ns)>,
    /// Bus bandwidths; `None` if no size is known.
    pub bandwidth: Option<TransferBandwidth>,
    /// What ranks send and receive in all-to-alls with parts of different sizes; empty if there are none.
    pub loads: Vec<RankLoad>,
    /// The few collectives with most of the transfer, if there are such.
    #[serde(skip)]
    pub(crate) long: Option<LongTransfers>,
}

/// A few collectives whose transfers take longer than those of all others together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongTransfers {
    pub of: Outliers,
    /// The number of measured collectives of the stack, these included.
    pub all: u64,
    /// The number of the step, or span of time, that all of these are in.
    pub step: Option<u32>,
}

/// What a rank sends and receives in all. In the all-to-alls of experts it receives what it then computes, and sends it back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankLoad {
    /// Its number.
    pub rank: u32,
    /// The number of its all-to-alls.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
    /// What it sends, itself included.
    pub sent_bytes: u64,
    /// What it receives.
    pub received_bytes: u64,
}

impl RankWaits {
    /// What is measured of its kernels; `None` if nothing could be.
    pub fn known<T>(&self, value: T) -> Option<T> {
        (self.waited_ns + self.transfer_ns > Ns::ZERO).then_some(value)
    }
}

impl StackWaits {
    pub fn naming(&self) -> Frames<'_> {
        (&self.telling, &self.frames)
    }

    /// What is measured of its kernels; `None` if nothing could be.
    pub fn known<T>(&self, value: T) -> Option<T> {
        (self.waited_ns + self.transfer_ns > Ns::ZERO).then_some(value)
    }

    /// How many times the mean a rank receives, and sends, in an all-to-all: a trace may have more of them than another. `None` without loads.
    pub fn load(&self, rank: u32) -> Option<[f64; 2]> {
        let of_rank = self.loads.iter().find(|load| load.rank == rank)?;
        let of_mean = |of: fn(&RankLoad) -> u64| {
            let each = |load: &RankLoad| of(load) as f64 / load.kernels.max(1) as f64;
            let all: f64 = self.loads.iter().map(each).sum();
            each(of_rank) * self.loads.len() as f64 / all.max(1.0)
        };
        Some([of_mean(|load| load.received_bytes), of_mean(|load| load.sent_bytes)])
    }
}

/// Bus bandwidths as nccl-tests defines them, in GB/s (10⁹ bytes).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TransferBandwidth {
    /// Over the time without waiting, in GB/s.
    pub transfer_gb_per_s: f64,
    /// Over the whole kernels, including waiting, in GB/s.
    pub kernel_gb_per_s: f64,
}

/// A process group, or two ranks that send and receive.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupWaits {
    /// Its name and ranks.
    #[serde(flatten)]
    pub group: GroupName,
    /// Its ranks with a trace here.
    pub ranks_here: Vec<u32>,
    /// Its ranks without one.
    pub ranks_missing: Vec<u32>,
    /// The number of collectives, each counted once.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub collectives: u64,
    /// How long the measured collectives waited, over its ranks.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// How long they ran without waiting.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub transfer_ns: Ns,
    /// For an inferred group: how many times farther than its ranks' the ends of other ranks' kernels are; `None` if no others ran the same.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub gap: Option<f64>,
    /// Whether waiting was measured with clocks; otherwise by the lengths of kernels.
    pub by_clocks: bool,
    /// The ranks that were waited for, each with that time in ns, longest first.
    #[cfg_attr(test, schemars(with = "Vec<(u32, u64)>"))]
    pub late_ranks: Vec<(u32, Ns)>,
}

/// A step, or a span of time.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepWaits {
    /// Its index among the steps of that rank, or among the spans of time.
    #[serde(skip)]
    pub number: u32,
    /// Its name on the lowest rank that has it; a span is named by its ends.
    pub name: String,
    /// How long it is on each rank, in ns, in the order of `ranks`; null where a rank has no such step, and of spans.
    #[cfg_attr(test, schemars(with = "Vec<Option<u64>>"))]
    pub length_ns: Vec<Option<Ns>>,
    /// How long any kernel that was launched in it ran on each rank's GPUs, in ns, in the order of `ranks`; 0 of spans, and where it is not recorded.
    #[cfg_attr(test, schemars(with = "Vec<u64>"))]
    pub busy_ns: Vec<Ns>,
    /// The same of kernels that are no collectives.
    #[cfg_attr(test, schemars(with = "Vec<u64>"))]
    pub compute_ns: Vec<Ns>,
    /// How long each rank waited, in ns, in the order of `ranks`.
    #[cfg_attr(test, schemars(with = "Vec<u64>"))]
    pub waited_ns: Vec<Ns>,
    /// How long others waited for each rank, in ns, in the order of `ranks`.
    #[cfg_attr(test, schemars(with = "Vec<u64>"))]
    pub caused_ns: Vec<Ns>,
    /// How long each rank's measured collectives ran without a compute kernel beside them, in ns, in the order of `ranks`.
    #[cfg_attr(test, schemars(with = "Vec<u64>"))]
    pub exposed_ns: Vec<Ns>,
}

/// A rank that waited for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pair {
    /// The waiting rank.
    pub rank: u32,
    /// The rank that came last.
    pub waited_for: u32,
    /// The total time.
    #[cfg_attr(test, schemars(with = "u64", range(min = 1)))]
    pub waited_ns: Ns,
}

/// Collectives of one kind, size and number of ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SizeRow {
    /// Their name.
    pub collective: String,
    /// The size as nccl-tests counts it, in bytes.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub bytes: u64,
    /// The number of ranks in their groups.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub ranks: u64,
    /// The number of collectives, each counted once.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The median time of the transfer, which is the shortest kernel of each.
    #[cfg_attr(test, schemars(with = "u64", range(min = 1)))]
    pub median_transfer_ns: Ns,
    /// The bandwidths of the median transfer and of the mean kernel.
    pub bandwidth: TransferBandwidth,
}

/// How the clocks compare.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClockReport {
    /// How they are compared. `align`: by the ends of collectives. `trust`: as they are. `none`: not at all, as asked for. `refused`: aligning failed
    /// for all ranks. For the last two, waiting is measured by the lengths of kernels.
    #[cfg_attr(test, schemars(extend("enum" = ["align", "trust", "none", "refused"])))]
    pub method: &'static str,
    /// The number of collectives used to align or check them.
    pub anchors: u64,
    /// The number of sets of ranks that are aligned separately: no synchronising collective connects one set with another.
    pub sets: u64,
    /// How far apart the ends of a collective are after alignment; `None` without clocks.
    #[serde(flatten)]
    pub residual: Residual,
    /// Ranks whose clocks differ by more than a constant.
    pub unsteady_ranks: Vec<u32>,
    /// Why ranks are not aligned, a sentence each.
    pub refused: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("these traces do not fit together: {0}. Are they from the same run and the same steps?")]
    Unfit(#[from] Unfit),
}

/// A job with its matches and clocks: the basis of reports and other forms.
#[derive(Debug)]
pub struct Compared {
    pub job: Job,
    pub matches: Matches,
    pub clocks: Clocks,
    /// How long they wait for ranks that are not here; `None` if none is missing.
    pub absent: Option<WaitsForAbsent>,
    /// What reruns would need, if there is too little memory for them.
    pub too_large: Option<TooLarge>,
    pub(super) known: Known,
}

/// What several answers about a job need, once one of them was asked: from then on the job is not changed.
#[derive(Debug, Default)]
pub(super) struct Known {
    measured: OnceLock<RankReport>,
    /// Of reruns.
    pub(super) error: OnceLock<Option<RerunError>>,
    graph: OnceLock<JobGraph>,
    /// Until peers are asked for.
    alike: Mutex<Option<Alike>>,
    peers: OnceLock<Peers>,
}

/// The peers of a job's ranks, which are found when they are first asked for.
struct AskedPeers<'a> {
    known: &'a Known,
    graph: &'a JobGraph,
    ranks: &'a [&'a RankGraph],
    matches: &'a Matches,
}

impl Deref for AskedPeers<'_> {
    type Target = Peers;

    fn deref(&self) -> &Peers {
        let AskedPeers { known, graph, ranks, matches } = self;
        known.peers.get_or_init(|| {
            let alike = known.alike.lock().unwrap_or_else(PoisonError::into_inner).take();
            Peers::of(alike.unwrap_or_else(|| Alike::find(ranks, matches)), graph, ranks)
        })
    }
}

impl Compared {
    /// Compares the ranks of these reductions, in any order.
    /// Errors: if the reductions do not form a job, or the traces do not match each other.
    pub fn from_reductions(reductions: Vec<RankReduction>, mode: ClockMode) -> Result<Self, RanksError> {
        let mut job = Job::from_reductions(reductions)?;
        job.refuse_other_steps();
        loop {
            let ranks = job.rank_rows();
            let mut matches = Matches::find(&ranks);
            match Clocks::compare(&ranks, &mut matches, mode)? {
                ComparedClocks::Possible(clocks) => {
                    let start =
                        |rank: usize, row: u32| clocks.ranks[rank].aligned(ranks[rank].rows[row as usize].start);
                    matches.count_once(start);
                    job.spans = common_spans(&job, &matches);
                    job.trim(&matches);
                    let absent = WaitsForAbsent::find(&job, &matches, &clocks);
                    return Ok(Compared { job, matches, clocks, absent, too_large: None, known: Known::default() });
                }
                ComparedClocks::Misfit { rank, why } => job.refuse(rank, why),
            }
        }
    }

    #[must_use]
    pub fn with_clocks(self, clocks: Clocks) -> Self {
        Compared { clocks, known: Known::default(), ..self }
    }

    pub fn clock(&self) -> ClockReport {
        let Compared { job, clocks, .. } = self;
        let any = clocks.ranks.iter().any(|clock| clock.component.is_some());
        let method = match clocks.mode {
            ClockMode::None => "none",
            _ if !any => "refused",
            ClockMode::Align => "align",
            ClockMode::Trust => "trust",
        };
        let unsteady: BTreeSet<u32> =
            job.ranks.iter().zip(&clocks.ranks).filter(|(_, clock)| clock.is_unsteady).map(|(rank, _)| *rank).collect();
        let sets: BTreeSet<usize> = clocks.ranks.iter().filter_map(|clock| clock.component).collect();
        ClockReport {
            method,
            anchors: clocks.anchors,
            sets: sets.len() as u64,
            residual: clocks.residual,
            unsteady_ranks: unsteady.into_iter().collect(),
            refused: clocks.refused.clone(),
        }
    }

    pub fn report(&self) -> RankReport {
        let Compared { job, matches, clocks, .. } = self;
        let mut pipeline = pipeline::find(job, matches, clocks);
        let (report, asked) = self.asked(|question, report| {
            pipeline.iter_mut().for_each(|pipeline| pipeline.balance(question, &job.ranks));
            question.both(
                || {
                    let found = findings::find(question, &self.job.ranks);
                    self.known.error.get_or_init(|| found.error);
                    found
                },
                || {
                    let reductions = &self.job.reductions;
                    let stack_of = |rank: usize, row: u32| report.stack_of(rank, &reductions[rank].rows[row as usize]);
                    let found = hidden::of_stacks(question, reductions, report.stacks.len(), &stack_of);
                    for (stack, StackExposure { exposed, reasons, saves }) in report.stacks.iter_mut().zip(found) {
                        (stack.exposed_ns, stack.exposed_for) = (exposed, reasons);
                        stack.without_transfer_saves_ns = saves;
                    }
                    CriticalPath::find(question, &self.job.reductions, &self.job.ranks, self.absent.as_ref())
                },
            )
        });
        let (reruns, critical_path): (Option<Reruns>, Option<CriticalPath>) = asked.unzip();
        // Between the slices of streams it would be idle time.
        let critical_path = critical_path.filter(|_| self.job.reductions.iter().any(|of| of.graph.has_threads()));
        let mut report = RankReport { reruns, critical_path, pipeline, ..report };
        if report.reruns.as_ref().is_some_and(Reruns::are_useless) {
            let lines = report.critical_path.iter_mut().flat_map(|path| &mut path.lines);
            lines.for_each(|line| line.without_it_saves_ns = None);
            report.stacks.iter_mut().for_each(|stack| stack.without_transfer_saves_ns = None);
            report.pipeline.iter_mut().for_each(|pipeline| pipeline.balanced_saves_ns = None);
        }
        report
    }

    /// The answer without reruns, and what reruns say; `None` if nothing was recorded that has causes.
    pub(super) fn asked<T>(&self, ask: impl FnOnce(&Question<'_>, &mut RankReport) -> T) -> (RankReport, Option<T>) {
        let Compared { job, matches, clocks, known, .. } = self;
        let ranks: Vec<&RankGraph> = job.reductions.iter().map(|reduction| &reduction.graph).collect();
        if ranks.iter().all(|graph| graph.is_empty()) {
            return (self.measured(), None);
        }
        let graph = known.graph.get_or_init(|| {
            let drafts = Drafts::of(&ranks, matches, clocks);
            let measured = || known.measured.get_or_init(|| self.measured());
            let ((_, alike), graph) = both(|| (measured(), Alike::find(&ranks, matches)), || drafts.join());
            *known.alike.lock().unwrap_or_else(PoisonError::into_inner) = Some(alike);
            graph
        });
        let mut report = known.measured.get_or_init(|| self.measured()).clone();
        // Not all that is asked compares peers, and may be found at the same time.
        let peers = AskedPeers { known, graph, ranks: &ranks, matches };
        let mut question = Question::new(graph, &ranks, &peers);
        question.bound = self.absent.as_ref().map(|absent| absent.bound(job, &ranks, graph));
        let said = ask(&question, &mut report);
        give_back();
        (report, Some(said))
    }

    /// The answer without reruns.
    pub fn measured(&self) -> RankReport {
        let axis = Axis::new(&self.job, &self.clocks);
        let mut sums = Sums::new(&self.job);
        sums.spans = Spans::for_job(&self.job, &axis).map(|spans| (spans, axis));
        self.matches.groups.iter().for_each(|group| sums.add_group(self, group));
        sums.fill_spans();
        sums.fill_steps(&self.job);
        sums.report(self)
    }
}
