//! Sums over the collectives of a job, from which the report is made.

use std::collections::BTreeMap;

use super::{
    Compared, GroupWaits, LongTransfers, Pair, RankLoad, RankReport, RankWaits, SizeRow, StackWaits, StepWaits,
    TransferBandwidth,
};
use crate::answers::cost::Outliers;
use crate::answers::damage::Losses;
use crate::answers::ranks::job::{Job, Matched};
use crate::answers::ranks::reduction::{Kind, RankReduction, ReducedStack, Row, Tie};
use crate::answers::ranks::timeline::{Axis, Spans};
use crate::answers::ranks::waiting::{Measured, by_lengths, measure};
use crate::attribution::selection::family_of;
use crate::names::collectives::{Collective, element_bytes};
use crate::numbers::Numbers;
use crate::operation::Split;
use crate::operations::matching::MatchedGroup;
use crate::statistics::median;
use crate::time::Ns;

#[derive(Default)]
pub(super) struct Sums<'c> {
    report: RankReport,
    /// The stacks of all ranks, each once, with the sums of those that have rows.
    stacks: Vec<(&'c ReducedStack, Option<StackSums>)>,
    /// By rank: the positions of its stacks, and that of rows without one.
    stack_of: Vec<Vec<u32>>,
    pairs: BTreeMap<(usize, usize), Ns>,
    /// By step: its name, and each rank's waited and caused times.
    steps: BTreeMap<u32, StepWaits>,
    sizes: BTreeMap<(String, u64, u64), Sizes>,
    /// Spans of time, for jobs without steps.
    pub(super) spans: Option<(Spans, Axis<'c>)>,
}

#[derive(Default)]
struct StackSums {
    waits: StackWaits,
    late: BTreeMap<u32, Ns>,
    loads: BTreeMap<u32, RankLoad>,
    is_uneven: bool,
    moved: f64,
    moved_in: Ns,
    moved_in_transfer: Ns,
    transfers: Vec<Transfer>,
}

/// The transfer of a collective on the first of its ranks that called it there.
#[derive(Clone, Copy)]
struct Transfer {
    /// The number of the collective among the measured ones.
    of: u64,
    start: Ns,
    time: Ns,
    step: Option<u32>,
}

#[derive(Default)]
struct Sizes {
    transfers: Vec<Ns>,
    kernels: Vec<Ns>,
}

/// The stack of rows without one.
static NO_STACK: ReducedStack =
    ReducedStack { telling: Vec::new(), frames: Vec::new(), captured: None, forward: None, thread: None };

impl<'c> Sums<'c> {
    pub(super) fn new(job: &'c Job) -> Self {
        let of_rank = |(rank, reduction): (&u32, &RankReduction)| RankWaits {
            rank: *rank,
            trace: reduction.trace.clone(),
            host: reduction.host.clone(),
            kernels: reduction.rows.len() as u64,
            gpu_ns: reduction.rows.iter().map(|row| row.dur).sum(),
            exposed_ns: reduction.rows.iter().map(|row| row.exposed).sum(),
            queue_empty_share: reduction.queue_empty.share_of(reduction.wall),
            window: reduction.window,
            gpu_span: reduction.gpu_span,
            wall_ns: reduction.wall,
            ..RankWaits::default()
        };
        let ranks: Vec<RankWaits> = job.ranks.iter().zip(&job.reductions).map(of_rank).collect();
        let silent = job.ranks.iter().zip(&job.reductions).filter(|(_, reduction)| reduction.rows.is_empty());
        let mut damage = Losses::default();
        job.reductions.iter().for_each(|reduction| damage.add(reduction.damage.clone()));
        let report = RankReport {
            damage,
            gpu_ns: ranks.iter().map(|rank| rank.gpu_ns).sum(),
            ranks,
            world_size: job.world_size,
            missing_ranks: job.missing.clone(),
            refused: job.refused.clone(),
            silent_ranks: silent.map(|(rank, _)| *rank).collect(),
            ..RankReport::default()
        };
        let mut stacks: Numbers<&ReducedStack> = Numbers::default();
        let numbers = |reduction: &'c RankReduction| {
            reduction.stacks.iter().chain([&NO_STACK]).map(|stack| stacks.number(stack)).collect()
        };
        let stack_of = job.reductions.iter().map(numbers).collect();
        Sums {
            report,
            stacks: stacks.list.into_iter().map(|stack| (stack, None)).collect(),
            stack_of,
            ..Sums::default()
        }
    }

    pub(super) fn add_group(&mut self, compared: &Compared, group: &MatchedGroup) {
        let Compared { job, clocks, .. } = compared;
        let mut waits = GroupWaits {
            group: group.name.clone(),
            ranks_here: group.members.iter().map(|reduction| job.ranks[*reduction]).collect(),
            ranks_missing: group.absent.clone(),
            collectives: group.collectives.len() as u64,
            gap: group.gap,
            by_clocks: clocks.cover(group) && group.members.len() > 1,
            ..GroupWaits::default()
        };
        let mut late: BTreeMap<u32, Ns> = BTreeMap::new();
        for of in job.collectives(group) {
            self.count(of);
            self.lengths(of);
            let Some(measured) = measure(of, clocks) else {
                self.not_measured(of);
                continue;
            };
            self.add(of, &measured);
            let waited = measured.waited();
            let ran: Ns = measured.waits.iter().filter_map(|(member, _)| Some(of.row(*member)?.dur)).sum();
            waits.waited_ns += waited;
            waits.transfer_ns += ran - waited;
            *late.entry(job.ranks[of.rank(measured.last)]).or_default() += waited;
        }
        waits.late_ranks = most_first(late);
        self.report.groups.push(waits);
    }

    /// Counts the kernels of a collective by stack, measured or not.
    fn count(&mut self, of: Matched<'_>) {
        for (member, row) in of.counted_rows() {
            let rank = of.rank(member);
            let reduction = &of.job.reductions[rank];
            let sums = self.stack(rank, row);
            sums.waits.count += 1;
            sums.waits.gpu_ns += row.dur;
            let kind = reduction.kind(row);
            if let Some((sent, received)) = exchanged(kind) {
                let load = sums.loads.entry(of.job.ranks[rank]).or_default();
                load.kernels += 1;
                (load.sent_bytes, load.received_bytes) = (load.sent_bytes + sent, load.received_bytes + received);
                sums.is_uneven |= kind.split != Split::Even;
            }
            let name = reduction.collective(row);
            match sums.waits.collectives.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    sums.waits.collectives.insert(name.to_owned(), 1);
                }
            }
        }
    }

    /// The sums of the stack of a rank's row.
    fn stack(&mut self, rank: usize, row: &Row) -> &mut StackSums {
        let of_rank = &self.stack_of[rank];
        let at = of_rank[row.stack.map_or(of_rank.len() - 1, |stack| stack as usize)];
        self.stacks[at as usize].1.get_or_insert_default()
    }

    fn not_measured(&mut self, of: Matched<'_>) {
        if of.collective.fault.is_some() {
            return;
        }
        let is_left_out = !of.is_in_common();
        for (member, row) in of.counted_rows() {
            let rank = of.rank(member);
            if is_left_out {
                self.report.ranks[rank].left_out_ns += row.dur;
            } else if of.collective.present() > 1 && row.dur > Ns::ZERO {
                let name = of.job.reductions[rank].collective(row);
                let name = family_of(name).map_or(name, |family| family.name);
                *self.report.unmeasured_ns.entry(name.to_owned()).or_default() += row.dur;
            }
        }
    }

    /// Adds waiting as judged by the lengths of kernels.
    fn lengths(&mut self, of: Matched<'_>) {
        let Some(measured) = by_lengths(of) else { return };
        let waited = measured.waited();
        for (member, wait) in &measured.waits {
            self.report.ranks[of.rank(*member)].by_lengths.waited_ns += *wait;
        }
        if let Some(late) = measured.late {
            let rank = &mut self.report.ranks[of.rank(late)].by_lengths;
            rank.caused_ns += waited;
            rank.late_count += 1;
        }
    }

    fn add(&mut self, of: Matched<'_>, measured: &Measured) {
        let job = of.job;
        let waited = measured.waited();
        let last = of.rank(measured.last);
        self.report.collectives += 1;
        self.report.waited_ns += waited;
        let is_late = measured.late.is_some();
        let RankReport { late, together, doubtful, .. } = &mut self.report;
        *(match (is_late, measured.is_doubtful) {
            (true, _) => late,
            (false, true) => doubtful,
            (false, false) => together,
        }) += 1;
        // Clocks always show which rank came last; kernels of nearly equal length do not.
        if measured.by_clocks || is_late {
            self.report.ranks[last].caused_ns += waited;
        }
        if is_late {
            self.report.ranks[last].late_count += 1;
        }
        let first = measured.waits.first().map_or(0, |(member, _)| *member);
        let step = of.row(first).and_then(|row| self.step_of(job, of.rank(first), row));
        for (member, wait) in &measured.waits {
            let rank = of.rank(*member);
            let Some(row) = of.row(*member) else { continue };
            let transfer = row.dur - *wait;
            self.report.measured_ns += row.dur;
            self.report.transfer_ns += transfer;
            let of_rank = &mut self.report.ranks[rank];
            of_rank.waited_ns += *wait;
            of_rank.transfer_ns += transfer;
            if *wait > Ns::ZERO && rank != last {
                *self.pairs.entry((rank, last)).or_default() += *wait;
            }
            let reduction = &job.reductions[rank];
            let bytes = moved(reduction, row, of.group);
            let number = self.report.collectives;
            let stack = self.stack(rank, row);
            if stack.transfers.last().is_none_or(|last| last.of != number) {
                let step = step.as_ref().map(|(step, _)| *step);
                stack.transfers.push(Transfer { of: number, start: row.start, time: transfer, step });
            }
            stack.waits.waited_ns += *wait;
            stack.waits.transfer_ns += transfer;
            if let Some((bytes, ..)) = bytes.filter(|_| transfer > Ns::ZERO) {
                stack.moved += bytes;
                stack.moved_in += row.dur;
                stack.moved_in_transfer += transfer;
            }
            *stack.late.entry(job.ranks[last]).or_default() += *wait;
            if rank == last {
                stack.waits.caused_ns += waited;
                stack.waits.late_count += u64::from(is_late);
            }
        }
        step.into_iter().for_each(|step| self.step(step, of, measured));
        self.size(of);
    }

    fn step_of(&self, job: &Job, rank: usize, row: &Row) -> Option<(u32, String)> {
        match &self.spans {
            Some((spans, axis)) => {
                let step = spans.at(axis.at(rank, row.start));
                Some((step, spans.name(step)))
            }
            None => row.step.map(|step| (step, job.reductions[rank].steps[step as usize].name.clone())),
        }
    }

    /// Adds the spans in which no rank waited.
    pub(super) fn fill_spans(&mut self) {
        let Some((spans, _)) = &self.spans else { return };
        self.report.has_spans = true;
        let ranks = self.report.ranks.len();
        for at in 0..spans.count {
            let empty = || StepWaits::nothing(at, spans.name(at), ranks);
            self.steps.entry(at).or_insert_with(empty);
        }
    }

    /// Adds the steps in which no collective is measured, and how long all are and what runs in them.
    pub(super) fn fill_steps(&mut self, job: &Job) {
        if self.report.has_spans || self.steps.is_empty() {
            return;
        }
        let ranks = self.report.ranks.len();
        for (rank, reduction) in job.reductions.iter().enumerate() {
            for (number, step) in (0..).zip(&reduction.steps) {
                let empty = || StepWaits::nothing(number, step.name.clone(), ranks);
                let waits = self.steps.entry(number).or_insert_with(empty);
                waits.length_ns[rank] = Some(step.window.duration());
                (waits.busy_ns[rank], waits.compute_ns[rank]) = (step.busy, step.compute);
            }
        }
    }

    fn step(&mut self, (step, name): (u32, String), of: Matched<'_>, measured: &Measured) {
        let ranks = self.report.ranks.len();
        let of_step = self.steps.entry(step).or_insert_with(|| StepWaits::nothing(step, name, ranks));
        for (member, wait) in &measured.waits {
            of_step.waited_ns[of.rank(*member)] += *wait;
            of_step.exposed_ns[of.rank(*member)] += of.row(*member).map_or(Ns::ZERO, |row| row.exposed);
        }
        of_step.caused_ns[of.rank(measured.last)] += measured.waited();
    }

    fn size(&mut self, of: Matched<'_>) {
        let Some((member, row)) = of.rows().next() else { return };
        let reduction = &of.job.reductions[of.rank(member)];
        let moved = moved(reduction, row, of.group).zip(reduction.kind(row).collective.clone());
        let times = || of.rows().map(|(_, row)| row.dur);
        let shortest = times().min().filter(|transfer| *transfer > Ns::ZERO);
        if let Some((((_, bytes, ranks), collective), transfer)) = moved.zip(shortest) {
            let sizes = self.sizes.entry((collective, bytes, ranks)).or_default();
            sizes.transfers.push(transfer);
            sizes.kernels.extend(times());
        }
    }

    pub(super) fn report(self, compared: &Compared) -> RankReport {
        let Compared { job, matches, clocks, absent, too_large, .. } = compared;
        let mut report = self.report;
        report.absent.clone_from(absent);
        report.too_large = *too_large;
        report.matches = matches.counts();
        report.steps = self.steps.into_values().collect();
        let pair = |((rank, last), waited): ((usize, usize), Ns)| Pair {
            rank: job.ranks[rank],
            waited_for: job.ranks[last],
            waited_ns: waited,
        };
        report.pairs = self.pairs.into_iter().map(pair).collect();
        report.pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.waited_ns), pair.rank, pair.waited_for));
        report.sizes = self.sizes.into_iter().map(size_row).collect();
        let of_stacks = self.stacks.into_iter().enumerate();
        let rows = of_stacks.filter_map(|(number, (stack, sums))| Some((number, stack, stack_row(stack, sums?))));
        let mut rows: Vec<(usize, &ReducedStack, StackWaits)> = rows.collect();
        rows.sort_by(|(_, one, a), (_, other, b)| {
            let by_time = (b.waited_ns, b.gpu_ns).cmp(&(a.waited_ns, a.gpu_ns));
            by_time.then_with(|| a.frames.cmp(&b.frames)).then_with(|| one.cmp(other))
        });
        let places: BTreeMap<usize, usize> = rows.iter().enumerate().map(|(at, (number, ..))| (*number, at)).collect();
        let place = |number: u32| places.get(&(number as usize)).copied();
        report.stack_of = self.stack_of.into_iter().map(|of_rank| of_rank.into_iter().map(place).collect()).collect();
        report.stacks = rows.into_iter().map(|(.., stack)| stack).collect();
        report.clock = compared.clock();
        for (rank, clock) in report.ranks.iter_mut().zip(&clocks.ranks) {
            rank.offset_ns = clock.component.map(|_| clock.offset);
            rank.drift_ns_per_ms = clock.slope * 1e6;
            rank.uncertainty_ns = clock.component.map(|_| clock.uncertainty);
            let (least, most) = clock.possible;
            rank.possible_offset_ns = (most.map(|most| clock.offset - most), least.map(|least| clock.offset - least));
        }
        report
    }
}

impl StepWaits {
    fn nothing(number: u32, name: String, ranks: usize) -> Self {
        let none = vec![Ns::ZERO; ranks];
        StepWaits {
            number,
            name,
            length_ns: vec![None; ranks],
            busy_ns: none.clone(),
            compute_ns: none.clone(),
            waited_ns: none.clone(),
            caused_ns: none.clone(),
            exposed_ns: none,
        }
    }
}

/// What a kernel moved over the bus, its size, and the number of ranks in its group.
fn moved(reduction: &RankReduction, row: &Row, group: &MatchedGroup) -> Option<(f64, u64, u64)> {
    let kind = reduction.kind(row);
    let collective = Collective::of_record(kind.collective.as_deref()?)?;
    let of_group = row.group.and_then(|group| reduction.groups[group as usize].size);
    let ranks = of_group.or_else(|| Some(group.name.ranks.as_ref()?.len() as u64))?;
    let bytes = kind.bytes.filter(|bytes| *bytes > 0 && !matches!(kind.tie(), Tie::Uneven | Tie::Unknown))?;
    Some((bytes as f64 * collective.bus_factor(ranks), bytes, ranks))
}

fn most_first(late: BTreeMap<u32, Ns>) -> Vec<(u32, Ns)> {
    let mut late: Vec<(u32, Ns)> = late.into_iter().filter(|(_, waited)| *waited > Ns::ZERO).collect();
    late.sort_by_key(|(rank, waited)| (std::cmp::Reverse(*waited), *rank));
    late
}

/// What a rank sends and receives in an all-to-all, in bytes.
fn exchanged(kind: &Kind) -> Option<(u64, u64)> {
    let is_one = kind.collective.as_deref() == Some(Collective::AllToAll.name());
    let each = element_bytes(kind.dtype.as_deref().filter(|_| is_one)?)?;
    Some((kind.in_elements?.checked_mul(each)?, kind.out_elements?.checked_mul(each)?))
}

/// The few transfers that make most of the time, if there are such.
fn long(mut transfers: Vec<Transfer>) -> Option<LongTransfers> {
    let of = Outliers::find(&transfers.iter().map(|of| (of.start, of.time)).collect::<Vec<_>>())?;
    transfers.sort_by_key(|of| std::cmp::Reverse(of.time));
    let step = transfers[0].step.filter(|step| transfers[..of.count as usize].iter().all(|of| of.step == Some(*step)));
    Some(LongTransfers { of, all: transfers.len() as u64, step })
}

fn stack_row(stack: &ReducedStack, sums: StackSums) -> StackWaits {
    let StackSums { waits, late, loads, is_uneven, moved, moved_in, moved_in_transfer, transfers } = sums;
    let bandwidth = TransferBandwidth {
        transfer_gb_per_s: moved / moved_in_transfer.as_f64(),
        kernel_gb_per_s: moved / moved_in.as_f64(),
    };
    StackWaits {
        headline: stack.telling.first().cloned(),
        telling: stack.telling.clone(),
        frames: stack.frames.clone(),
        captured: stack.captured.clone(),
        forward: stack.forward.clone(),
        thread: stack.thread.clone(),
        late_ranks: most_first(late),
        loads: loads.into_iter().filter(|_| is_uneven).map(|(rank, load)| RankLoad { rank, ..load }).collect(),
        bandwidth: (moved_in_transfer > Ns::ZERO).then_some(bandwidth),
        long: long(transfers),
        ..waits
    }
}

fn size_row(((collective, bytes, ranks), sizes): ((String, u64, u64), Sizes)) -> SizeRow {
    let factor = Collective::of_record(&collective).map_or(1.0, |collective| collective.bus_factor(ranks));
    let median_transfer = median(sizes.transfers.iter().map(|time| time.as_f64()));
    let mean = sizes.kernels.iter().map(|time| time.as_f64()).sum::<f64>() / sizes.kernels.len().max(1) as f64;
    let moved = bytes as f64 * factor;
    SizeRow {
        collective,
        bytes,
        ranks,
        count: sizes.transfers.len() as u64,
        median_transfer_ns: Ns::rounded(median_transfer),
        bandwidth: TransferBandwidth { transfer_gb_per_s: moved / median_transfer, kernel_gb_per_s: moved / mean },
    }
}
