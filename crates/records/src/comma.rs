//! CoMMA, Google's profiler plugin: a line of JSON for each operation of a rank, with its proxy operations and their steps.
//!
//! `ts` and `dur` of an operation are those of enqueuing it, in microseconds; when it ran follows from its children and is in
//! `child_start_ts` and `child_dur`. Depending on the version, times count from the epoch or from the start of the process; their size shows
//! which. The number of ranks is not recorded.

use std::io;

use serde::Deserialize;
use serde_json::Number;

use super::objects::{FoundObject, Objects, first, micros};
use super::reader::{Reading, RecordReader};
use super::tables::{ProxyOp, ProxyStep, Records};
use crate::operation::{Communicator, Counts, Operation, Source, State};
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::time::Ns;

/// Reads CoMMA's traces.
pub(super) struct Comma;

/// Times before this, in ns, do not count from the epoch: it is September 2001.
const EPOCH: Ns = Ns(1_000_000_000_000_000_000);

/// How many objects are looked at: groups, and proxy operations without an operation, have no communicator.
const DECIDE: usize = 64;

const NO_CHANNEL: &str = "proxy operations without a channel and a peer";

impl RecordReader for Comma {
    fn source(&self) -> Source {
        Source::COMMA
    }

    fn sniff(&self, head: &[u8]) -> bool {
        let parsed = |text: &Vec<u8>| serde_json::from_slice::<Line>(text).ok();
        let is_operation = |line: &Line| line.comm_hash.as_deref().is_some_and(|hash| hash.starts_with("0x"));
        let lines: Vec<Line> = first(head, Objects::strict(), DECIDE).iter().filter_map(parsed).collect();
        lines.iter().all(|line| line.ph == "X") && lines.iter().any(is_operation)
    }

    fn read(&self, reading: &mut Reading<'_>) -> io::Result<()> {
        let mut objects = Objects::strict();
        let mut is_relative = false;
        while let Some(FoundObject { offset, text }) = objects.next(reading.bytes, reading.file)? {
            match serde_json::from_slice::<Line>(text) {
                Ok(line) => {
                    reading.file.records += 1;
                    if !is_relative && time(line.ts.as_ref()).is_some_and(|time| time < EPOCH) {
                        is_relative = true;
                        reading.file.note("Its times count from the start of the process, and not from the epoch.");
                    }
                    push(reading, &line, text, offset);
                }
                Err(_) => reading.file.skip("records that are not JSON, or have fields of another type", Some(offset)),
            }
        }
        Ok(())
    }
}

/// A line: an operation, a group, or a proxy operation without one. Keys that are not named here are accepted.
#[derive(Deserialize)]
struct Line {
    ph: String,
    cat: String,
    ts: Option<Number>,
    rank: Option<u32>,
    name: Option<String>,
    comm_hash: Option<String>,
    seq_num: Option<i64>,
    algo: Option<String>,
    proto: Option<String>,
    n_max_channel: Option<u32>,
    peer: Option<i64>,
    child_start_ts: Option<Number>,
    child_dur: Option<Number>,
    /// Its end did not come before CoMMA needed the room.
    #[serde(default)]
    reclaimed: bool,
    args: Option<Args>,
    #[serde(default)]
    proxyops: Vec<Proxy>,
}

#[derive(Deserialize)]
struct Args {
    size: Option<u64>,
}

#[derive(Deserialize)]
struct Proxy {
    peer: Option<i64>,
    rank: Option<u32>,
    #[serde(default)]
    is_send: bool,
    n_steps: Option<u32>,
    chunk_size: Option<u64>,
    channel_id: Option<u32>,
    ts: Option<Number>,
    dur: Option<Number>,
    #[serde(default)]
    reclaimed: bool,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    step: Option<u32>,
    size: Option<u64>,
    start_time: Option<Number>,
    end_time: Option<Number>,
    fifo_ready_time: Option<Number>,
}

/// A time of a record; 0 means that it did not happen.
fn time(value: Option<&Number>) -> Option<Ns> {
    micros(value?).filter(|time| *time > Ns::ZERO)
}

/// A length of time; 0 is shorter than a microsecond.
fn length(value: Option<&Number>) -> Option<Ns> {
    micros(value?).filter(|length| *length >= Ns::ZERO)
}

fn push(reading: &mut Reading<'_>, line: &Line, text: &[u8], offset: u64) {
    match line.cat.as_str() {
        // Groups have neither a rank nor operations.
        "GROUP" => {}
        "PROXY" => {
            let is_added =
                serde_json::from_slice(text).is_ok_and(|proxy| push_proxy(reading.records, &proxy, None, line.rank));
            if !is_added {
                reading.file.skip(NO_CHANNEL, Some(offset));
            }
        }
        _ => push_operation(reading, line, offset),
    }
}

fn push_operation(reading: &mut Reading<'_>, line: &Line, offset: u64) {
    let (Some(name), Some(hash)) = (line.name.as_deref(), line.comm_hash.as_deref()) else {
        return reading.file.skip("records without an operation's name and communicator", Some(offset));
    };
    let records = &mut *reading.records;
    let hash = u64::from_str_radix(hash.trim_start_matches("0x"), 16).ok();
    let communicator = records.communicator(Communicator { hash, ..Communicator::default() });
    let collective = Collective::of_record(name);
    let start = time(line.child_start_ts.as_ref());
    let took = length(line.child_dur.as_ref()).filter(|_| !line.reclaimed);
    let mut text = |text: &Option<String>| {
        text.as_deref().filter(|text| !text.is_empty()).map(|text| records.text(&text.to_uppercase()))
    };
    let (algorithm, protocol) = (text(&line.algo), text(&line.proto));
    let row = Operation {
        source: Source::COMMA,
        place: line.rank,
        communicator: Some(communicator),
        sequence: line.seq_num,
        counts: Counts::Function,
        collective: Some(records.text(collective.map_or(name, |collective| collective.name()))),
        bytes: line.args.as_ref().and_then(|args| args.size).filter(|_| !needs_ranks(collective)),
        peer: line.peer,
        enqueued: time(line.ts.as_ref()),
        start,
        end: start.zip(took).map(|(start, took)| start + took),
        state: match (line.reclaimed, start) {
            (true, Some(_)) => State::Started,
            (true, None) => State::Scheduled,
            (false, Some(_)) => State::Completed,
            (false, None) => State::Unknown,
        },
        algorithm,
        protocol,
        channels: line.n_max_channel,
        ..Operation::default()
    };
    let operation = records.push(row);
    for proxy in &line.proxyops {
        if !push_proxy(records, proxy, Some(operation), line.rank) {
            reading.file.skip(NO_CHANNEL, Some(offset));
        }
    }
}

/// Whether the size of nccl-tests needs the number of ranks: CoMMA's is count by element, of one rank's part.
fn needs_ranks(collective: Option<Collective>) -> bool {
    use Collective::{AllGather, AllToAll, Gather, ReduceScatter, Scatter};
    matches!(collective, Some(AllGather | ReduceScatter | AllToAll | Gather | Scatter))
}

/// Adds a proxy operation; whether it says enough of itself.
fn push_proxy(records: &mut Records, proxy: &Proxy, operation: Option<usize>, place: Option<u32>) -> bool {
    let (Some(channel), Some(peer)) = (proxy.channel_id, proxy.peer) else { return false };
    let is_send = proxy.is_send;
    let start = time(proxy.ts.as_ref());
    let sizes = proxy.steps.iter().filter_map(|step| step.size);
    let bytes = sizes.fold(None, |sum: Option<u64>, size| Some(sum.unwrap_or(0).saturating_add(size)));
    let proxy_op = records.proxy_ops.len();
    records.proxy_ops.push(ProxyOp {
        operation,
        place: proxy.rank.or(place),
        channel,
        peer,
        is_send,
        steps: proxy.n_steps.unwrap_or(0),
        chunk_bytes: proxy.chunk_size,
        bytes,
        queued: None,
        start,
        end: start.zip(length(proxy.dur.as_ref())).filter(|_| !proxy.reclaimed).map(|(start, took)| start + took),
    });
    for step in &proxy.steps {
        let start = time(step.start_time.as_ref());
        let end = time(step.end_time.as_ref()).filter(|end| Some(*end) >= start);
        let ready = time(step.fifo_ready_time.as_ref()).filter(|ready| Some(*ready) >= start && Some(*ready) <= end);
        records.proxy_steps.push(ProxyStep {
            proxy_op,
            step: step.step.unwrap_or(0),
            start,
            end,
            // Before the receiver has room it is waited for, after that the network is.
            peer_wait: ready.zip(start).filter(|_| is_send).map(|(ready, start)| ready - start),
            network: end.zip(ready.filter(|_| is_send).or(start)).map(|(end, from)| end - from),
            bytes: step.size,
            ..ProxyStep::default()
        });
    }
    true
}
