//! The answer about many ranks: who waited for whom, at which stack, in which group and step, how far that can be trusted, and why the late
//! ranks were late.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::cause::{Causes, LateAt, LateRank};
use super::clock::{ClockMode, Clocks, Residual, Unfit, median_of};
use super::job::{Job, JobError, Refused};
use super::matching::{Column, Counts, GroupName, Matches, Unit};
use super::part::{PartStack, RankPart, Row, Tie};
use super::timeline::{Axis, Spans};
use super::waiting::{Measured, by_lengths, measure};
use crate::nccl::collectives::Collective;
use crate::time::{Ns, Window};

/// The ranks of a job beside each other.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct RankReport {
    /// How many collectives of several ranks were measured, each counted once.
    pub collectives: u64,
    /// At how many of them one rank was late.
    pub late: u64,
    /// At how many nobody was: the last two came together.
    pub together: u64,
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
    /// The share of the window in which nothing was queued on its GPU; `None` for an empty window.
    pub queue_empty_share: Option<f64>,
    /// The window on its own clock.
    pub window: Window,
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
    /// Its name on the lowest rank that has it.
    pub name: String,
    /// By rank, in the order of [`RankReport::ranks`]: what it waited.
    #[serde(rename = "waited_ns")]
    pub waited: Vec<Ns>,
    /// What others waited for it.
    #[serde(rename = "caused_ns")]
    pub caused: Vec<Ns>,
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
    pub fn of(parts: Vec<RankPart>, mode: ClockMode) -> Result<Self, RanksError> {
        let mut job = Job::of(parts)?;
        loop {
            let mut matches = Matches::of(&job);
            let (clocks, again) = Clocks::of(&mut job, &mut matches, mode)?;
            if !again {
                return Ok(Compared { job, matches, clocks });
            }
        }
    }

    /// How the clocks compare.
    pub fn clock(&self) -> ClockReport {
        clock_report(&self.job, &self.clocks)
    }

    /// The answer.
    pub fn report(&self) -> RankReport {
        let axis = Axis::of(&self.job, &self.clocks);
        let mut sums = Sums::new(&self.job);
        sums.spans = Spans::of(&self.job, &axis).map(|spans| (spans, axis));
        for (number, unit) in self.matches.units.iter().enumerate() {
            sums.unit(self, number, unit);
        }
        sums.fill_spans();
        sums.report(self)
    }
}

/// Sums over the collectives of a job.
struct Sums<'c> {
    report: RankReport,
    stacks: BTreeMap<PartStack, StackSums>,
    pairs: BTreeMap<(usize, usize), Ns>,
    /// By step: its name; by rank waited and caused.
    steps: BTreeMap<u32, StepWaits>,
    sizes: BTreeMap<(String, u64, u64), Sizes>,
    late: BTreeMap<usize, Vec<LateAt>>,
    /// Instead of steps, if there are none.
    spans: Option<(Spans, Axis<'c>)>,
}

#[derive(Default)]
struct StackSums {
    waits: StackWaits,
    late: BTreeMap<u32, Ns>,
    moved: f64,
    moved_in: Ns,
    moved_in_transfer: Ns,
}

#[derive(Default)]
struct Sizes {
    transfers: Vec<Ns>,
    kernels: Vec<Ns>,
}

/// For so many ranks it is looked for causes: those for which others waited most.
const EXPLAINED: usize = 16;

impl Sums<'_> {
    fn new(job: &Job) -> Self {
        let of_rank = |(rank, part): (&u32, &RankPart)| {
            let wall = part.window.duration().as_f64() * f64::from(part.gpus);
            RankWaits {
                rank: *rank,
                trace: part.trace.clone(),
                kernels: part.rows.len() as u64,
                gpu: part.rows.iter().map(|row| row.dur).sum(),
                exposed: part.rows.iter().map(|row| row.exposed).sum(),
                queue_empty_share: (wall > 0.0).then(|| part.queue_empty.as_f64() / wall),
                window: part.window,
                ..RankWaits::default()
            }
        };
        let ranks: Vec<RankWaits> = job.ranks.iter().zip(&job.parts).map(of_rank).collect();
        let report = RankReport {
            gpu: ranks.iter().map(|rank| rank.gpu).sum(),
            ranks,
            world_size: job.world_size,
            missing_ranks: job.missing.clone(),
            refused: job.refused.clone(),
            silent_ranks: job
                .ranks
                .iter()
                .zip(&job.parts)
                .filter(|(_, part)| part.rows.is_empty())
                .map(|(rank, _)| *rank)
                .collect(),
            ..RankReport::default()
        };
        Sums {
            report,
            stacks: BTreeMap::new(),
            pairs: BTreeMap::new(),
            steps: BTreeMap::new(),
            sizes: BTreeMap::new(),
            late: BTreeMap::new(),
            spans: None,
        }
    }

    fn unit(&mut self, compared: &Compared, number: usize, unit: &Unit) {
        let Compared { job, clocks, .. } = compared;
        let mut group = GroupWaits {
            group: unit.group.clone(),
            ranks_here: unit.members.iter().map(|part| job.ranks[*part]).collect(),
            ranks_missing: unit.absent.clone(),
            collectives: unit.columns.len() as u64,
            waited: Ns::ZERO,
            transfer: Ns::ZERO,
            by_clocks: clocks.cover(unit) && unit.members.len() > 1,
            late_ranks: Vec::new(),
        };
        let mut late: BTreeMap<u32, Ns> = BTreeMap::new();
        for (at, column) in unit.columns.iter().enumerate() {
            self.count(job, unit, column);
            self.lengths(job, unit, column);
            let Some(measured) = measure(job, clocks, unit, column) else { continue };
            self.add(job, (number, at), unit, column, &measured);
            let waited: Ns = measured.waits.iter().map(|(_, wait)| *wait).sum();
            let ran: Ns =
                measured.waits.iter().filter_map(|(member, _)| Some(unit.row(job, column, *member)?.dur)).sum();
            group.waited += waited;
            group.transfer += ran - waited;
            *late.entry(job.ranks[unit.members[measured.last]]).or_default() += waited;
        }
        group.late_ranks = most_first(late);
        self.report.groups.push(group);
    }

    /// Counts the kernels of a collective for their stacks, measured or not.
    fn count(&mut self, job: &Job, unit: &Unit, column: &Column) {
        for member in 0..unit.members.len() {
            let Some(row) = unit.row(job, column, member) else { continue };
            let part = &job.parts[unit.members[member]];
            let sums = self.stack(part, row);
            sums.waits.count += 1;
            sums.waits.gpu += row.dur;
            let kind = part.kind(row);
            let name = kind.collective.as_deref().unwrap_or_else(|| part.text(kind.kernel));
            match sums.waits.collectives.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    sums.waits.collectives.insert(name.to_owned(), 1);
                }
            }
        }
    }

    fn stack(&mut self, part: &RankPart, row: &Row) -> &mut StackSums {
        static NONE: PartStack =
            PartStack { telling: Vec::new(), frames: Vec::new(), captured: None, forward: None, thread: None };
        let key = row.stack.map_or(&NONE, |stack| &part.stacks[stack as usize]);
        if !self.stacks.contains_key(key) {
            self.stacks.insert(key.clone(), StackSums::default());
        }
        self.stacks.get_mut(key).expect("it was put there")
    }

    /// Waiting by the lengths of kernels.
    fn lengths(&mut self, job: &Job, unit: &Unit, column: &Column) {
        let Some(measured) = by_lengths(job, unit, column) else { return };
        let waited: Ns = measured.waits.iter().map(|(_, wait)| *wait).sum();
        for (member, wait) in &measured.waits {
            self.report.ranks[unit.members[*member]].by_lengths.waited += *wait;
        }
        if let Some(late) = measured.late {
            let rank = &mut self.report.ranks[unit.members[late]].by_lengths;
            rank.caused += waited;
            rank.added += measured.added;
            rank.late_count += 1;
        }
    }

    fn add(&mut self, job: &Job, at: (usize, usize), unit: &Unit, column: &Column, measured: &Measured) {
        let waited: Ns = measured.waits.iter().map(|(_, wait)| *wait).sum();
        let last = unit.members[measured.last];
        self.report.collectives += 1;
        self.report.waited += waited;
        let is_late = measured.late.is_some();
        *(if is_late { &mut self.report.late } else { &mut self.report.together }) += 1;
        // By clocks there is always a last; by lengths of nearly equal kernels there is none.
        if measured.by_clocks || is_late {
            self.report.ranks[last].caused += waited;
        }
        if is_late {
            self.report.ranks[last].added += measured.added;
            self.report.ranks[last].late_count += 1;
            let row = column.rows[measured.last].unwrap_or_default();
            let late = LateAt { unit: at.0, column: at.1, rank: last, row, caused: waited, added: measured.added };
            self.late.entry(last).or_default().push(late);
        }
        let first = measured.waits.first().map_or(0, |(member, _)| *member);
        let row = unit.row(job, column, first);
        let (step, name) = self.step_of(job, unit.members[first], row);
        for (member, wait) in &measured.waits {
            let rank = unit.members[*member];
            let Some(row) = unit.row(job, column, *member) else { continue };
            let transfer = row.dur - *wait;
            self.report.measured += row.dur;
            self.report.transfer += transfer;
            let of_rank = &mut self.report.ranks[rank];
            of_rank.waited += *wait;
            of_rank.transfer += transfer;
            if *wait > Ns::ZERO && rank != last {
                *self.pairs.entry((rank, last)).or_default() += *wait;
            }
            let part = &job.parts[rank];
            let bytes = moved(part, row, unit);
            let stack = self.stack(part, row);
            stack.waits.waited += *wait;
            stack.waits.transfer += transfer;
            if let Some((bytes, ..)) = bytes.filter(|_| transfer > Ns::ZERO) {
                stack.moved += bytes;
                stack.moved_in += row.dur;
                stack.moved_in_transfer += transfer;
            }
            *stack.late.entry(job.ranks[last]).or_default() += *wait;
            if rank == last {
                stack.waits.caused += waited;
                stack.waits.late_count += u64::from(is_late);
                stack.waits.added += if is_late { measured.added } else { Ns::ZERO };
            }
        }
        self.step(step, name, unit, measured, waited);
        self.size(job, unit, column);
    }

    /// The step of a row and its name.
    fn step_of(&self, job: &Job, rank: usize, row: Option<&Row>) -> (Option<u32>, Option<String>) {
        let step = match &self.spans {
            Some((spans, axis)) => row.map(|row| spans.at(axis.at(rank, row.start))),
            None => row.and_then(|row| row.step),
        };
        let name = |step: u32| match &self.spans {
            Some((spans, _)) => spans.name(step),
            None => job.parts[rank].steps[step as usize].name.clone(),
        };
        (step, step.map(name))
    }

    /// Adds the spans in which nobody waited.
    fn fill_spans(&mut self) {
        let Some((spans, _)) = &self.spans else { return };
        self.report.has_spans = true;
        let none = vec![Ns::ZERO; self.report.ranks.len()];
        for at in 0..spans.count {
            let empty = || StepWaits { name: spans.name(at), waited: none.clone(), caused: none.clone() };
            self.steps.entry(at).or_insert_with(empty);
        }
    }

    fn step(&mut self, step: Option<u32>, name: Option<String>, unit: &Unit, measured: &Measured, waited: Ns) {
        let (Some(step), Some(name)) = (step, name) else { return };
        let ranks = self.report.ranks.len();
        let empty = || StepWaits { name, waited: vec![Ns::ZERO; ranks], caused: vec![Ns::ZERO; ranks] };
        let of_step = self.steps.entry(step).or_insert_with(empty);
        measured.waits.iter().for_each(|(member, wait)| of_step.waited[unit.members[*member]] += *wait);
        of_step.caused[unit.members[measured.last]] += waited;
    }

    fn size(&mut self, job: &Job, unit: &Unit, column: &Column) {
        let rows: Vec<(usize, &Row)> = (0..unit.members.len())
            .filter_map(|member| Some((unit.members[member], unit.row(job, column, member)?)))
            .collect();
        let Some((rank, row)) = rows.first() else { return };
        let part = &job.parts[*rank];
        let (Some((_, bytes, ranks)), Some(collective)) = (moved(part, row, unit), &part.kind(row).collective) else {
            return;
        };
        let Some(transfer) = rows.iter().map(|(_, row)| row.dur).min().filter(|transfer| *transfer > Ns::ZERO) else {
            return;
        };
        let sizes = self.sizes.entry((collective.clone(), bytes, ranks)).or_default();
        sizes.transfers.push(transfer);
        sizes.kernels.extend(rows.iter().map(|(_, row)| row.dur));
    }

    fn report(mut self, compared: &Compared) -> RankReport {
        let Compared { job, matches, clocks } = compared;
        let mut report = std::mem::take(&mut self.report);
        report.matches = matches.counts();
        report.steps = std::mem::take(&mut self.steps).into_values().collect();
        let pair = |((rank, last), waited): ((usize, usize), Ns)| Pair {
            rank: job.ranks[rank],
            waited_for: job.ranks[last],
            waited,
        };
        report.pairs = std::mem::take(&mut self.pairs).into_iter().map(pair).collect();
        report.pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.waited), pair.rank, pair.waited_for));
        report.sizes = std::mem::take(&mut self.sizes).into_iter().map(size_row).collect();
        report.stacks = std::mem::take(&mut self.stacks).into_iter().map(stack_row).collect();
        report.stacks.sort_by(|a, b| (b.waited, b.gpu).cmp(&(a.waited, a.gpu)).then_with(|| a.frames.cmp(&b.frames)));
        report.clock = compared.clock();
        for (rank, clock) in report.ranks.iter_mut().zip(&clocks.ranks) {
            rank.offset = clock.component.map(|_| clock.offset);
            rank.drift = clock.slope * 1e6;
            rank.uncertainty = clock.component.map(|_| clock.uncertainty);
            let (least, most) = clock.possible;
            rank.possible = (most.map(|most| clock.offset - most), least.map(|least| clock.offset - least));
        }
        report.late_ranks = Causes::new(job, matches, clocks).of_ranks(self.late, EXPLAINED);
        report
    }
}

/// What a kernel moved over the bus, its size, and the number of ranks of its group.
fn moved(part: &RankPart, row: &Row, unit: &Unit) -> Option<(f64, u64, u64)> {
    let kind = part.kind(row);
    let collective = Collective::of_record(kind.collective.as_deref()?)?;
    let of_group = row.group.and_then(|group| part.groups[group as usize].size);
    let ranks = of_group.or_else(|| Some(unit.group.ranks.as_ref()?.len() as u64))?;
    let bytes = kind.bytes.filter(|bytes| *bytes > 0 && kind.tie() != Tie::Unknown)?;
    Some((bytes as f64 * collective.bus_factor(ranks), bytes, ranks))
}

fn most_first(late: BTreeMap<u32, Ns>) -> Vec<(u32, Ns)> {
    let mut late: Vec<(u32, Ns)> = late.into_iter().filter(|(_, waited)| *waited > Ns::ZERO).collect();
    late.sort_by_key(|(rank, waited)| (std::cmp::Reverse(*waited), *rank));
    late
}

fn stack_row((stack, sums): (PartStack, StackSums)) -> StackWaits {
    let StackSums { waits, late, moved, moved_in, moved_in_transfer } = sums;
    let bandwidth =
        TransferBandwidth { transfer: moved / moved_in_transfer.as_f64(), kernel: moved / moved_in.as_f64() };
    StackWaits {
        headline: stack.telling.first().cloned(),
        telling: stack.telling,
        frames: stack.frames,
        captured: stack.captured,
        forward: stack.forward,
        thread: stack.thread,
        late_ranks: most_first(late),
        bandwidth: (moved_in_transfer > Ns::ZERO).then_some(bandwidth),
        ..waits
    }
}

fn size_row(((collective, bytes, ranks), sizes): ((String, u64, u64), Sizes)) -> SizeRow {
    let factor = Collective::of_record(&collective).map_or(1.0, |collective| collective.bus_factor(ranks));
    let median_transfer = median_of(sizes.transfers.iter().map(|time| time.as_f64()));
    let mean = sizes.kernels.iter().map(|time| time.as_f64()).sum::<f64>() / sizes.kernels.len().max(1) as f64;
    let moved = bytes as f64 * factor;
    SizeRow {
        collective,
        bytes,
        ranks,
        count: sizes.transfers.len() as u64,
        median_transfer: Ns::rounded(median_transfer),
        bandwidth: TransferBandwidth { transfer: moved / median_transfer, kernel: moved / mean },
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
    ClockReport {
        method,
        anchors: clocks.anchors,
        residual: ResidualFields {
            residual_median_ns: field(|residual| residual.median),
            residual_p95_ns: field(|residual| residual.p95),
            residual_max_ns: field(|residual| residual.max),
        },
        unsteady_ranks: unsteady.into_iter().collect(),
        refused: clocks.refused.clone(),
    }
}
