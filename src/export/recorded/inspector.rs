//! NCCL Inspector's lines, format v4.0: one operation each, with its execution time and bandwidths.
//!
//! The time is the source's own measurement, or the time of the slowest channel by the GPU's clock, as in Inspector, or by the CPU's, or the time
//! of the operation; `coll_timing_source` says which. `coll_sn` counts each function of a communicator separately: it is NCCL's own number, or the
//! operation's index if the source counts differently. Values that Inspector writes and the source does not have are `null`. Algorithm, protocol
//! and channels are additional keys; channel times are as in Inspector's verbose records.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Coverage, collective_of, function, nccl_number, size_of, sources};
use crate::names::collectives::Collective;
use crate::operation::Operation;
use crate::records::{KernelChannel, Measure, RankStatus, Records};
use crate::time::Ns;

/// Writes a line for each operation whose execution time and size are known. Each rank of a communicator is taken from one source.
pub fn write(records: &Records, out: &mut dyn Write) -> io::Result<Coverage> {
    let mut channels: HashMap<usize, Vec<&KernelChannel>> = HashMap::new();
    for channel in &records.channels {
        channel.operation.into_iter().for_each(|at| channels.entry(at).or_default().push(channel));
    }
    let measures: HashMap<usize, &Measure> = records.measures.iter().map(|row| (row.operation, row)).collect();
    let lines: Vec<(&Operation, Option<Value>)> = (0..)
        .zip(records.operations.iter().zip(numbers(records)))
        .map(|(at, (operation, number))| {
            let own = channels.get(&at).map_or(&[][..], Vec::as_slice);
            (operation, line(records, operation, number, own, measures.get(&at).copied()))
        })
        .collect();
    let hash = |of: &Operation| records.communicator_of(of).and_then(|of| of.hash);
    let key = |of: &Operation| (hash(of), of.communicator.filter(|_| hash(of).is_none()), of.rank_or_place());
    let usable = lines.iter().filter(|(_, line)| line.is_some());
    let sources = sources(usable.map(|(operation, _)| (key(operation), operation.source)));
    let mut coverage = Coverage::default();
    for (operation, line) in lines {
        if line.is_some() && sources.get(&key(operation)) != Some(&operation.source) {
            coverage.elsewhere += 1;
            continue;
        }
        coverage.count(line.is_some());
        if let Some(line) = line {
            writeln!(out, "{line}")?;
        }
    }
    Ok(coverage)
}

/// By operation: its number among those of its function in the communicator. Sends and receives have one only if the source numbers them so.
fn numbers(records: &Records) -> Vec<Option<i64>> {
    let key = |of: &Operation| (of.source, of.communicator, of.rank_or_place(), of.collective.clone());
    let numbered: HashSet<_> = records.operations.iter().filter(|of| nccl_number(of).is_some()).map(key).collect();
    let mut next: HashMap<_, i64> = HashMap::new();
    let number = |operation: &Operation| {
        let is_collective = collective_of(operation).is_some_and(|of| !of.is_point_to_point());
        if nccl_number(operation).is_some() || !is_collective || numbered.contains(&key(operation)) {
            return nccl_number(operation);
        }
        let next = next.entry(key(operation)).or_default();
        *next += 1;
        Some(*next - 1)
    };
    records.operations.iter().map(number).collect()
}

/// The execution time, and what measured it.
fn took<'a>(operation: &Operation, channels: &[&KernelChannel], measure: Option<&'a Measure>) -> Option<(Ns, &'a str)> {
    type Side = fn(&KernelChannel) -> Option<Ns>;
    let longest = |start: Side, stop: Side| {
        let times: Option<Vec<Ns>> = channels.iter().map(|of| Some(stop(of)? - start(of)?)).collect();
        times?.into_iter().max().filter(|time| *time > Ns::ZERO)
    };
    let gpu = longest(|of| of.gpu_start, |of| of.gpu_stop).map(|time| (time, "kernel_gpu"));
    let cpu = || longest(|of| of.start, |of| of.end).map(|time| (time, "kernel_cpu"));
    let timing = measure.and_then(|measure| measure.timing.as_deref()).unwrap_or("collective_cpu");
    let measured = operation.duration.filter(|time| *time > Ns::ZERO).map(|time| (time, timing));
    let own = || operation.took().filter(|time| *time > Ns::ZERO).map(|time| (time, "collective_cpu"));
    measured.or(gpu).or_else(cpu).or_else(own)
}

/// Inspector's size is the element count times the element size: of what a rank passes to an all-gather, or gets from a reduce-scatter.
fn message_bytes(collective: Collective, bytes: u64, ranks: Option<u64>) -> Option<u64> {
    use Collective::{AllGather, AllToAll, Gather, ReduceScatter, Scatter};
    match collective {
        AllGather | ReduceScatter | AllToAll | Gather | Scatter => bytes.checked_div(ranks?),
        _ => Some(bytes),
    }
}

fn line(
    records: &Records,
    operation: &Operation,
    number: Option<i64>,
    channels: &[&KernelChannel],
    measure: Option<&Measure>,
) -> Option<Value> {
    let collective = collective_of(operation)?;
    let (time, timing) = took(operation, channels, measure)?;
    let ranks = size_of(records, operation);
    let bytes = operation.bytes?;
    let algbw = bytes as f64 / time.as_f64();
    let busbw = match ranks {
        Some(ranks) => Some(algbw * collective.bus_factor(ranks)),
        None => (collective.bus_factor(2) == collective.bus_factor(4)).then(|| algbw * collective.bus_factor(2)),
    };
    let communicator = records.communicator_of(operation);
    let is_peer_to_peer = collective.is_point_to_point();
    let prefix = if is_peer_to_peer { "p2p" } else { "coll" };
    let mut perf = Map::new();
    let mut put = |key: &str, value: Value| perf.insert(format!("{prefix}{key}"), value);
    put("", function(collective).into());
    put("_sn", number.into());
    if is_peer_to_peer {
        put("_peer", operation.peer.into());
    }
    put("_msg_size_bytes", message_bytes(collective, bytes, ranks)?.into());
    put("_exec_time_us", micros(time));
    put("_timing_source", timing.into());
    put("_algobw_gbs", rounded(algbw));
    put("_busbw_gbs", busbw.map_or(Value::Null, rounded));
    let known = [("_algo", &operation.algorithm), ("_proto", &operation.protocol)];
    for (key, text) in known.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?))) {
        put(key, text.into());
    }
    operation.channels.into_iter().for_each(|channels| drop(put("_n_channels", channels.into())));
    if let Some(times) = times(operation, channels, prefix) {
        perf.insert("event_trace_ts".to_owned(), times);
    }
    let status = status(records, operation);
    Some(json!({
        "header": {
            "id": communicator.and_then(|of| of.hash).map(|hash| format!("{hash:#x}")),
            "comm_name": communicator.and_then(|of| of.name.as_deref()).unwrap_or("unknown"),
            "rank": operation.place.or_else(|| operation.rank_or_place()),
            "n_ranks": ranks,
            "nnodes": null,
        },
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "git_rev": concat!("nccl-stacks ", env!("CARGO_PKG_VERSION")),
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": operation.end.or(operation.start).or(operation.enqueued).map(|time| time.0 / 1000),
            "hostname": status.and_then(|row| row.host.as_deref()).unwrap_or("unknown"),
            "pid": status.and_then(|row| row.pid),
        },
        (format!("{prefix}_perf")): perf,
    }))
}

/// The status of an operation's process.
fn status<'a>(records: &'a Records, operation: &Operation) -> Option<&'a RankStatus> {
    records.rank_status.iter().find(|row| match row.rank {
        Some(rank) => operation.rank == Some(rank),
        None => row.communicator == operation.communicator && row.place == operation.place && row.place.is_some(),
    })
}

/// Whole microseconds, as in Inspector, but at least one, because the bandwidth is computed from it.
fn micros(time: Ns) -> Value {
    ((time.0 + 500) / 1000).max(1).into()
}

/// Rounds to six decimals.
fn rounded(bandwidth: f64) -> Value {
    ((bandwidth * 1e6).round() / 1e6).into()
}

/// The times of the call and of its channels, in microseconds since the epoch; `None` without channels.
fn times(operation: &Operation, channels: &[&KernelChannel], prefix: &str) -> Option<Value> {
    let stamp = |time: Option<Ns>| time.map(|time| Value::from(time.0 / 1000));
    let event = |of: &&KernelChannel| {
        let (start, stop) = (of.start.or(of.gpu_start)?, of.end.or(of.gpu_stop));
        let mut event = Map::new();
        event.insert("channel_id".to_owned(), of.channel.into());
        event.insert("kernel_start_ts".to_owned(), stamp(Some(start))?);
        stamp(stop).into_iter().for_each(|stop| drop(event.insert("kernel_stop_ts".to_owned(), stop)));
        Some(Value::from(event))
    };
    let events: Vec<Value> = channels.iter().filter_map(event).collect();
    let mut times = Map::new();
    let called = stamp(operation.enqueued).into_iter();
    called.for_each(|time| drop(times.insert(format!("{prefix}_start_ts"), time)));
    times.insert("kernel_events".to_owned(), (!events.is_empty()).then_some(events)?.into());
    Some(times.into())
}
