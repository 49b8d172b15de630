//! Puts the times of a dump onto one clock.
//!
//! The plugin's own times count from its first communicator of the process. A channel has its start on that clock and on its GPU's, which
//! counts from the epoch. The median difference of a rank is added to all of its times: so they are on the clock of its GPU, within
//! the time that the CPU takes to see a channel start. Starts and ends of operations are the GPU's own.
//!
//! The clocks of several GPUs may be seconds apart, even in one process. Without a channel times stay as they are.

use std::collections::BTreeMap;

use crate::file::RecordFile;
use crate::joined::{APART, spans, usual};
use crate::operation::State;
use crate::tables::Records;
use nccl_stacks_trace::time::Ns;

/// A GPU, as far as a dump knows one: a rank of a communicator.
type Rank = (Option<usize>, Option<u32>);

pub(super) fn anchor(records: &mut Records, file: &mut RecordFile) {
    let ranks: Vec<Rank> = records.operations.iter().map(|row| (row.communicator, row.place)).collect();
    let mut differences: BTreeMap<Rank, Vec<Ns>> = BTreeMap::new();
    for channel in &records.channels {
        if let Some(rank) = channel.operation.and_then(|at| ranks.get(at)) {
            let difference = channel.gpu_start.zip(channel.start).map(|(gpu, cpu)| gpu - cpu);
            differences.entry(*rank).or_default().extend(difference);
        }
    }
    // What is added to the times of a rank without a channel, and to those of none.
    let others = usual(differences.values().flatten().copied().collect()).unwrap_or_default();
    let by_rank: BTreeMap<Rank, Ns> =
        differences.into_iter().filter_map(|(rank, of)| Some((rank, usual(of)?))).collect();
    note(&by_rank, !ranks.is_empty(), file);
    let by_operation: Vec<Ns> = ranks.iter().map(|rank| by_rank.get(rank).copied().unwrap_or(others)).collect();
    let of = |operation: Option<usize>| operation.and_then(|at| by_operation.get(at).copied()).unwrap_or(others);
    for (row, by) in records.operations.iter_mut().zip(&by_operation) {
        shift([&mut row.enqueued, &mut row.launched], *by);
    }
    for row in &mut records.channels {
        shift([&mut row.start, &mut row.end], of(row.operation));
    }
    for row in &mut records.proxy_ops {
        shift([&mut row.queued, &mut row.start, &mut row.end], of(row.operation));
    }
    for row in &mut records.proxy_steps {
        let proxy = records.proxy_ops.get(row.proxy_op);
        shift([&mut row.start, &mut row.end], proxy.map_or(Ns::ZERO, |proxy| of(proxy.operation)));
    }
    let partial = set_operations(records);
    if partial > 0 {
        file.note(format!(
            "{partial} of its operations used more channels than are in the file: when they ended is not known."
        ));
    }
}

fn shift<const N: usize>(times: [&mut Option<Ns>; N], by: Ns) {
    times.into_iter().flatten().for_each(|time| *time += by);
}

fn note(by_rank: &BTreeMap<Rank, Ns>, has_operations: bool, file: &mut RecordFile) {
    match by_rank.values().min().zip(by_rank.values().max()) {
        Some((first, last)) if *last - *first > APART => {
            let seconds = (*last - *first).as_f64() / 1e9;
            let ranks = by_rank.len();
            file.note(format!(
                "The GPU clocks of its {ranks} ranks are up to {seconds:.3} s apart: times of different ranks do not compare."
            ));
        }
        None if has_operations => {
            file.note("Its times count from the process's first communicator: no channel ties them to a GPU's clock.");
        }
        _ => {}
    }
}

/// Start, end and state of operations, from their channels. An operation with a channel whose stop is not known has no end, and neither
/// has one of which channels are not in the file; the number of these is returned.
fn set_operations(records: &mut Records) -> u64 {
    let of_operations = || records.channels.iter().filter_map(|channel| Some((channel.operation?, channel)));
    let spans = spans(records.operations.len(), of_operations);
    let mut partial = 0;
    for (row, span) in records.operations.iter_mut().zip(spans).filter(|(_, span)| span.channels > 0) {
        let is_partial = row.channels.is_some_and(|of| of > span.channels);
        partial += u64::from(is_partial);
        row.start = span.start;
        row.end = span.end.filter(|end| !is_partial && Some(*end) >= row.start);
        // Dumps are written when communicators end, and stops of 0 are an error of the plugin: they say nothing.
        row.state = match (row.start, row.end) {
            (Some(_), Some(_)) => State::Completed,
            _ => State::Unknown,
        };
    }
    partial
}
