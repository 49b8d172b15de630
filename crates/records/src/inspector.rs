//! NCCL Inspector: a line of JSON for each operation of each rank, with its time of execution and the bandwidths that follow.
//!
//! Format v4.0, of NCCL 2.28 to 2.32. From v4.3 on a record may lack the header: that of the last line with one counts, which has statistics in place of
//! an operation. Only verbose records have absolute times: the beginning and end of kernels as the CPU saw them,
//! while the time of execution is from the GPU's clock where the record says `kernel_gpu`. So the two differ, and the time of execution is
//! kept as it is. `dump_timestamp_us` is the time at which the record was written, often long after the operation.
//!
//! Variants that occur: the fields of the header at the top level, as an agent of Datadog writes them; and a plugin that adds algorithm,
//! protocol, channels and sums of the proxies' phases. Documentation shows records over several lines.

use std::collections::HashSet;
use std::io;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::RecordFile;
use super::objects::{FoundObject, Objects, first, micros};
use super::reader::{Reader, Reading};
use super::tables::{KernelChannel, Measure, RankStatus, Records};
use super::text;
use crate::operation::{Communicator, Counts, Operation, Source, State};
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::time::{Ns, Window};

pub(super) const READER: Reader = Reader { source: Source::INSPECTOR, sniff, read, leaves_holes: false };

fn sniff(head: &[u8]) -> bool {
    first(head, Objects::strict(), DECIDE).iter().any(|text| is_record(text))
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    let mut objects = Objects::strict();
    let mut of_file = OfFile::default();
    while let Some(found) = objects.next(reading.bytes, reading.file)? {
        of_file.add(reading, found);
    }
    // A process that is killed loses what it has not written yet, and that is what its rank did last.
    reading.file.is_cut = objects.is_cut;
    Ok(())
}

/// One of these is in every record.
const PERFORMANCE: [&str; 2] = ["coll_perf", "p2p_perf"];

/// What a line has that begins what was written at once, in place of an operation.
const STATISTICS: &str = "dump_stats";

/// What Inspector calls a communicator without a name.
const NAMELESS: &str = "unknown";

/// How many objects are looked at: the first may be damaged.
const DECIDE: usize = 4;

fn is_record(text: &[u8]) -> bool {
    let Ok(object) = serde_json::from_slice::<Map<String, Value>>(text) else { return false };
    let header = object.get("header").and_then(Value::as_object).unwrap_or(&object);
    let has_ranks = header.contains_key("n_ranks") && header.contains_key("rank");
    has_ranks && PERFORMANCE.iter().chain(&[STATISTICS]).any(|key| object.contains_key(*key))
}

/// A record. Keys that are not named here are accepted.
#[derive(Deserialize)]
struct Record {
    header: Option<Header>,
    metadata: Option<Metadata>,
    coll_perf: Option<Map<String, Value>>,
    p2p_perf: Option<Map<String, Value>>,
    dump_stats: Option<Map<String, Value>>,
    /// Of a record with the header's fields beside the others.
    id: Option<Value>,
    rank: Option<Value>,
}

#[derive(Deserialize, Clone)]
struct Header {
    id: Value,
    rank: Option<u32>,
    n_ranks: Option<u64>,
    comm_name: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    inspector_output_format_version: Option<String>,
    hostname: Option<String>,
    pid: Option<i64>,
    dump_timestamp_us: Option<Value>,
}

#[derive(Default)]
struct OfFile {
    /// The header of the last line with one.
    header: Option<Header>,
    /// The communicators and ranks whose process is known.
    said: HashSet<(usize, Option<u32>)>,
}

impl OfFile {
    fn add(&mut self, reading: &mut Reading<'_>, FoundObject { offset, text }: FoundObject<'_>) {
        let Ok(record) = serde_json::from_slice::<Record>(text) else {
            return reading.file.skip("records that are not JSON, or have fields of another type", Some(offset));
        };
        // The fields of a header may be beside the others.
        let is_without = record.header.is_none() && record.id.is_none() && record.rank.is_none();
        let own = record.header.or_else(|| serde_json::from_slice(text).ok());
        let is_known = own.is_some() || is_without;
        let written =
            record.metadata.as_ref().and_then(|of| of.dump_timestamp_us.as_ref()?.as_i64()?.checked_mul(1_000));
        if let Some(at) = written.map(Ns) {
            let here = Window { start: at, end: at };
            reading.file.written = Some(reading.file.written.map_or(here, |known| known.around(here)));
        }
        if let Some(own) = own {
            self.process(&own, record.metadata.as_ref(), reading);
            self.header = Some(own);
        }
        if let Some(version) = record.metadata.and_then(|metadata| metadata.inspector_output_format_version) {
            reading.file.version.get_or_insert(version);
        }
        let (perf, prefix) = match (record.coll_perf, record.p2p_perf) {
            (Some(perf), _) => (perf, "coll"),
            (None, Some(perf)) => (perf, "p2p"),
            (None, None) => {
                return match record.dump_stats {
                    Some(statistics) => dropped(&statistics, reading.file, offset),
                    None => {
                        reading.file.skip("records of neither collectives nor sends and receives", Some(offset));
                    }
                };
            }
        };
        let Some(header) = self.header.as_ref().filter(|_| is_known) else {
            return reading.file.skip("records without the rank and its communicator", Some(offset));
        };
        let perf = Perf { fields: &perf, prefix };
        let Some(name) = perf.fields.get(prefix).and_then(Value::as_str) else {
            return reading.file.skip("records that do not name their operation", Some(offset));
        };
        reading.file.records += 1;
        push(reading, header, &perf, name, offset);
    }

    fn process(&mut self, header: &Header, metadata: Option<&Metadata>, reading: &mut Reading<'_>) {
        let Some(Metadata { hostname, pid, .. }) = metadata.filter(|of| of.hostname.is_some() || of.pid.is_some())
        else {
            return;
        };
        let communicator = communicator(header, reading.records);
        if self.said.insert((communicator, header.rank)) {
            reading.records.rank_status.push(RankStatus {
                source: Source::INSPECTOR,
                communicator: Some(communicator),
                place: header.rank,
                host: hostname.clone(),
                pid: *pid,
                ..RankStatus::default()
            });
        }
    }
}

/// Counts what Inspector itself has lost since it last wrote.
fn dropped(statistics: &Map<String, Value>, file: &mut RecordFile, offset: u64) {
    let lost = |kind: &str| statistics.get(&format!("{kind}_dropped_since_last_dump")).and_then(Value::as_u64);
    let lost = [lost("coll"), lost("p2p")].into_iter().flatten().fold(0, u64::saturating_add);
    file.skip_several("operations that Inspector had no room for", lost, Some(offset));
}

fn communicator(header: &Header, records: &mut Records) -> usize {
    records.communicator(Communicator {
        hash: hash(&header.id),
        name: header.comm_name.clone().filter(|name| name != NAMELESS),
        size: header.n_ranks,
        ..Communicator::default()
    })
}

fn push(reading: &mut Reading<'_>, header: &Header, perf: &Perf<'_>, name: &str, offset: u64) {
    let records = &mut *reading.records;
    let communicator = communicator(header, records);
    let (of_name, collective) = records.collective(name);
    let text = |records: &mut Records, key| perf.text(key).map(|text| records.text(&text.to_uppercase()));
    let times = perf.times();
    reading.file.skip_several("kernel events without a channel", times.left_out, Some(offset));
    let first = |of: fn(&KernelChannel) -> Option<Ns>| times.channels.iter().filter_map(of).min();
    // A channel without a stop has no known end, and neither has its operation.
    let all_stopped = times.left_out == 0 && times.channels.iter().all(|channel| channel.end.is_some());
    let operation = records.operations.len();
    let row = Operation {
        source: Source::INSPECTOR,
        place: header.rank,
        communicator: Some(communicator),
        sequence: perf.number("sn").and_then(|number| i64::try_from(number).ok()),
        counts: Counts::Function,
        collective: Some(of_name),
        bytes: perf.number("msg_size_bytes").and_then(|bytes| size(collective, bytes, header.n_ranks)),
        peer: perf.fields.get("p2p_peer").and_then(Value::as_i64),
        enqueued: times.enqueued,
        start: first(|channel| channel.start),
        end: times.channels.iter().filter_map(|channel| channel.end).max().filter(|_| all_stopped),
        duration: time(perf.get("exec_time_us")).filter(|duration| *duration >= Ns::ZERO),
        state: State::Completed,
        algorithm: text(records, "algo"),
        protocol: text(records, "proto"),
        channels: perf.number("n_channels").and_then(|number| u32::try_from(number).ok()),
        ..Operation::default()
    };
    let row = Operation { end: row.end.filter(|end| row.start.is_some_and(|start| start <= *end)), ..row };
    records.push(row);
    records.measures.push(Measure { operation, ..perf.measure() });
    let rows = times.channels.into_iter();
    records.channels.extend(rows.map(|row| KernelChannel { operation: Some(operation), ..row }));
}

/// The communicator's hash: `"0x7f8c496ae9f661"`, or a number.
fn hash(id: &Value) -> Option<u64> {
    id.as_str().map_or_else(|| id.as_u64(), text::hash)
}

/// The size of nccl-tests. Inspector's is count by element: what each rank gives to an all-gather, or gets from a reduce-scatter.
fn size(collective: Option<Collective>, bytes: u64, ranks: Option<u64>) -> Option<u64> {
    use Collective::{AllGather, AllToAll, Gather, ReduceScatter, Scatter};
    match collective {
        Some(AllGather | ReduceScatter | AllToAll | Gather | Scatter) => bytes.checked_mul(ranks?),
        _ => Some(bytes),
    }
}

/// The fields of an operation, which begin with `coll_` or `p2p_`.
struct Perf<'a> {
    fields: &'a Map<String, Value>,
    prefix: &'static str,
}

/// When an operation ran, if its record is a verbose one.
#[derive(Default)]
struct Times {
    enqueued: Option<Ns>,
    channels: Vec<KernelChannel>,
    /// How many events do not say their channel.
    left_out: u64,
}

impl Perf<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(&format!("{}_{key}", self.prefix))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    fn times(&self) -> Times {
        let Some(trace) = self.fields.get("event_trace_ts").and_then(Value::as_object) else { return Times::default() };
        let channel = |event: &Value| {
            Some(KernelChannel {
                channel: u32::try_from(event.get("channel_id")?.as_u64()?).ok()?,
                start: stamp(event.get("kernel_start_ts")),
                end: stamp(event.get("kernel_stop_ts")),
                ..KernelChannel::default()
            })
        };
        let events = trace.get("kernel_events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let channels: Vec<KernelChannel> = events.iter().filter_map(channel).collect();
        Times {
            enqueued: stamp(trace.get(&format!("{}_start_ts", self.prefix))),
            left_out: (events.len() - channels.len()) as u64,
            channels,
        }
    }

    /// What the record has beside the time. A time in whole microseconds may be off by one.
    fn measure(&self) -> Measure {
        let resolution = match self.get("exec_time_us") {
            Some(Value::Number(number)) if number.is_f64() => Ns(1),
            _ => Ns(1000),
        };
        let parts = self.fields.get("decomposition");
        let phase = |key: &str| time(parts?.get(key));
        let gpu_waits = [phase("proxy_gpu_wait_us"), phase("proxy_gpu_recv_wait_us")];
        Measure {
            algbw: self.get("algobw_gbs").and_then(Value::as_f64),
            busbw: self.get("busbw_gbs").and_then(Value::as_f64),
            resolution,
            gpu_wait: gpu_waits.into_iter().flatten().reduce(|one, other| one + other),
            peer_wait: phase("proxy_peer_wait_us"),
            network: phase("proxy_network_us"),
            flush: phase("proxy_flush_us"),
            ..Measure::default()
        }
    }
}

fn time(value: Option<&Value>) -> Option<Ns> {
    micros(value?.as_number()?)
}

/// A point in time; 0 means that the event did not happen.
fn stamp(value: Option<&Value>) -> Option<Ns> {
    time(value).filter(|time| *time > Ns::ZERO)
}
