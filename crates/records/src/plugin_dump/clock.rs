//! Puts the times of a dump onto one clock.
//!
//! The plugin's own times count from its first communicator of the process. A channel has its start on that clock and on its GPU's, which
//! counts from the epoch. The median difference of a rank is added to all of its times: so they are on the clock of its GPU, within
//! the time that the CPU takes to see a channel start. Starts and ends of operations are the GPU's own.
//!
//! The clocks of several GPUs may be seconds apart, even in one process. Without a channel times stay as they are.

use std::collections::BTreeMap;

use crate::file::RecordFile;
use crate::operation::State;
use crate::tables::{KernelChannel, Records};
use nccl_stacks_trace::statistics::middle;
use nccl_stacks_trace::time::Ns;

/// Clocks of GPUs that are further apart than this are worth a note.
const APART: Ns = Ns(1_000_000);

/// A GPU, as far as a dump knows one: a rank of a communicator.
type Rank = (Option<usize>, Option<u32>);

/// What is added to the times of each rank, and to those of none.
struct Shifts {
    by_rank: BTreeMap<Rank, Ns>,
    others: Ns,
}

pub(super) fn anchor(records: &mut Records, file: &mut RecordFile) {
    let shifts = Shifts::new(records);
    shifts.note(file, !records.operations.is_empty());
    let ranks: Vec<Rank> =
        records.operations.iter().map(|operation| (operation.communicator, operation.place)).collect();
    let of = |operation: Option<usize>| shifts.shift(operation.and_then(|at| ranks.get(at)));
    let shift = |time: &mut Option<Ns>, by: Ns| *time = time.map(|time| time + by);
    for (operation, rank) in records.operations.iter_mut().zip(&ranks) {
        let by = shifts.shift(Some(rank));
        shift(&mut operation.enqueued, by);
        shift(&mut operation.launched, by);
    }
    for channel in &mut records.channels {
        let by = of(channel.operation);
        shift(&mut channel.start, by);
        shift(&mut channel.end, by);
    }
    let by_proxy: Vec<Ns> = records.proxy_ops.iter().map(|op| of(op.operation)).collect();
    for (op, by) in records.proxy_ops.iter_mut().zip(&by_proxy) {
        [&mut op.queued, &mut op.start, &mut op.end].into_iter().for_each(|time| shift(time, *by));
    }
    for step in &mut records.proxy_steps {
        let by = by_proxy.get(step.proxy_op).copied().unwrap_or_default();
        shift(&mut step.start, by);
        shift(&mut step.end, by);
    }
    let partial = set_operations(records);
    if partial > 0 {
        file.note(format!(
            "{partial} of its operations used more channels than are in the file: when they ended is not known."
        ));
    }
}

impl Shifts {
    fn new(records: &Records) -> Self {
        let mut differences: BTreeMap<Rank, Vec<Ns>> = BTreeMap::new();
        for channel in &records.channels {
            let Some(operation) = channel.operation.and_then(|at| records.operations.get(at)) else { continue };
            let rank = (operation.communicator, operation.place);
            let difference = channel.gpu_start.zip(channel.start).map(|(gpu, cpu)| gpu - cpu);
            differences.entry(rank).or_default().extend(difference);
        }
        let all = differences.values().flatten().copied().collect();
        let by_rank = differences.into_iter().filter_map(|(rank, of)| Some((rank, usual(of)?))).collect();
        Shifts { by_rank, others: usual(all).unwrap_or_default() }
    }

    fn shift(&self, rank: Option<&Rank>) -> Ns {
        rank.and_then(|rank| self.by_rank.get(rank)).copied().unwrap_or(self.others)
    }

    fn note(&self, file: &mut RecordFile, has_operations: bool) {
        let first = self.by_rank.values().min().copied();
        let last = self.by_rank.values().max().copied();
        let Some((first, last)) = first.zip(last) else {
            if has_operations {
                file.note(
                    "Its times count from the process's first communicator: no channel ties them to a GPU's clock.",
                );
            }
            return;
        };
        if last - first > APART {
            let seconds = (last - first).as_f64() / 1e9;
            let ranks = self.by_rank.len();
            file.note(format!(
                "The GPU clocks of its {ranks} ranks are up to {seconds:.3} s apart: times of different ranks do not compare."
            ));
        }
    }
}

/// The upper one in the middle: a difference that was measured.
fn usual(mut differences: Vec<Ns>) -> Option<Ns> {
    middle(&mut differences, Ns::cmp).map(|middle| middle.upper)
}

/// Start, end and state of operations, from their channels. An operation with a channel whose stop is not known has no end, and neither
/// has one of which channels are not in the file; the number of these is returned.
fn set_operations(records: &mut Records) -> u64 {
    let mut partial = 0;
    let mut by_operation: BTreeMap<usize, Vec<&KernelChannel>> = BTreeMap::new();
    for channel in &records.channels {
        if let Some(at) = channel.operation {
            by_operation.entry(at).or_default().push(channel);
        }
    }
    for (at, channels) in by_operation {
        let Some(operation) = records.operations.get_mut(at) else { continue };
        let is_on_gpu = channels.iter().any(|channel| channel.gpu_start.is_some());
        let times = |channel: &&KernelChannel| match is_on_gpu {
            true => (channel.gpu_start, channel.gpu_stop),
            false => (channel.start, channel.end),
        };
        operation.start = channels.iter().filter_map(|channel| times(channel).0).min();
        let is_partial = operation.channels.is_some_and(|of| of as usize > channels.len());
        partial += u64::from(is_partial);
        let ends: Option<Vec<Ns>> = channels.iter().map(|channel| times(channel).1).collect();
        let end = ends.filter(|_| !is_partial).and_then(|ends| ends.into_iter().max());
        operation.end = end.filter(|end| Some(*end) >= operation.start);
        // Dumps are written when communicators end, and stops of 0 are an error of the plugin: they say nothing.
        operation.state = match (operation.start, operation.end) {
            (Some(_), Some(_)) => State::Completed,
            _ => State::Unknown,
        };
    }
    partial
}
