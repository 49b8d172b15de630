//! NCCL's own records of a simulated job, for the same collectives as in its traces: the files of a profiler plugin, Inspector, the flight
//! recorder and Megatrace. And the kernel in a trace of each record, which real records never have.
//!
//! Each writer is a file here; `calls` derives the calls. Every source has its own clock, and its own way of counting.

mod calls;
mod flight;
mod inspector;
mod megatrace;
mod plugin;
mod recorder;

use std::collections::HashSet;

use serde::Serialize;

use super::Job;
use super::clock::Clock;
use super::events::{Event, Name, What};
use super::layout::Layout;
use super::rng::Rng;
use calls::{Call, calls};

/// How the records of a job are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    /// The largest offset of a source's clock on a rank from the clock of the rank's trace.
    pub(crate) max_offset_ns: i64,
    /// The percentage of records that are not written.
    pub(crate) lose_percent: f64,
    pub(crate) inspector: Inspector,
    pub(crate) megatrace: Megatrace,
    /// The first step in the traces; the records have all steps.
    pub(crate) trace_from_step: u32,
    /// Which parts of this project's recorder were loaded.
    pub(crate) recorder: Recorder,
}

/// The parts of the recorder that were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "the program writes both, and tests the parts")]
pub(crate) enum Recorder {
    #[default]
    None,
    Plugin,
    Interceptor,
    Both,
}

/// Whether Inspector writes times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inspector {
    #[default]
    Verbose,
    Brief,
    /// Verbose on ranks with an even number.
    Mixed,
}

/// The format of Megatrace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Megatrace {
    /// Without groups; calls are counted by communicator.
    L2,
    /// With groups; calls are counted by stream.
    #[default]
    L4,
}

/// The files of a rank.
pub(crate) struct RankRecords {
    pub(crate) files: Vec<RecordFile>,
    /// In the order of the files and of their contents.
    pub(crate) truth: Vec<RecordTruth>,
}

pub(crate) struct RecordFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The kernel of a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RecordTruth {
    pub(crate) file: String,
    /// The index of the record in its file, from 0. For the plugin, all that it writes of one call is one record.
    pub(crate) index: usize,
    /// `plugin-dump`, `inspector`, `flight-recorder`, `megatrace` or `recorder`.
    pub(crate) source: &'static str,
    /// The rank of the job.
    pub(crate) rank: u32,
    /// The start of the kernel on the clock of the rank's trace, since 1970. `None` if it is not in a trace.
    pub(crate) kernel_ts_ns: Option<i64>,
    /// The collective's name in NCCL: `AllReduce`.
    pub(crate) function: &'static str,
    /// What the plugin records of the call, and so a join of all sources: the algorithm, the protocol and the number of channels.
    pub(crate) algorithm: Option<&'static str>,
    pub(crate) protocol: Option<&'static str>,
    pub(crate) channels: u32,
    /// What the clock of this source shows minus what that of the trace shows.
    pub(crate) offset_ns: i64,
}

impl RecordTruth {
    /// A line of JSON.
    pub(crate) fn line(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// What each writer has.
struct Writing<'a> {
    layout: &'a Layout,
    rank: u32,
    clock: SourceClock,
    recording: &'a Recording,
    /// Those that are written.
    calls: Vec<&'a Call<'a>>,
}

/// The clock of a source.
#[derive(Clone, Copy)]
struct SourceClock {
    clock: Clock,
    offset: i64,
}

impl SourceClock {
    fn at(self, ns: i64) -> i64 {
        self.clock.at(ns) + self.offset
    }
}

/// A file with the calls that it has, in order.
struct Written<'a> {
    name: String,
    bytes: Vec<u8>,
    calls: Vec<&'a Call<'a>>,
}

type Writer = for<'a> fn(&Writing<'a>) -> Vec<Written<'a>>;

const WRITERS: [(&str, Writer); 5] = [
    ("plugin-dump", plugin::write),
    ("inspector", inspector::write),
    ("flight-recorder", flight::write),
    ("megatrace", megatrace::write),
    ("recorder", recorder::write),
];

/// Leaves what a profiler records that is started later: the events from a step on, and the kernels that were launched then.
pub(super) fn trace_part(recording: &Recording, events: &mut Vec<Event<'_>>) {
    let from = traced_from(recording, events);
    let launched: HashSet<u32> = events
        .iter()
        .filter(|event| event.start >= from)
        .filter_map(|event| match event.what {
            What::Call { launch, .. } => Some(launch.correlation),
            _ => None,
        })
        .collect();
    events.retain(|event| match event.what {
        What::Kernel { launch, .. } | What::Copy { launch, .. } => launched.contains(&launch.correlation),
        _ => event.start >= from,
    });
}

/// When the traces begin: the start of their first step.
fn traced_from(recording: &Recording, events: &[Event<'_>]) -> i64 {
    let is_first = |event: &&Event<'_>| matches!(event.name, Name::Step(step) if step == recording.trace_from_step);
    events.iter().find(is_first).filter(|_| recording.trace_from_step > 0).map_or(i64::MIN, |event| event.start)
}

pub(super) fn of_rank(
    job: &Job,
    recording: &Recording,
    layout: &Layout,
    rank: u32,
    clock: Clock,
    events: &[Event<'_>],
) -> RankRecords {
    let calls = calls(job, layout, rank, events, traced_from(recording, events));
    let mut records = RankRecords { files: Vec::new(), truth: Vec::new() };
    for (number, (source, write)) in (0..).zip(WRITERS) {
        let mut rng = Rng::new(job.seed, 4_000_000_000 + u64::from(rank) * 8 + number);
        let offset = (rng.either_side() * recording.max_offset_ns as f64).round() as i64;
        let is_lost = |rng: &mut Rng| (rng.either_side() + 1.0) * 50.0 < recording.lose_percent;
        let kept = calls.iter().filter(|_| !is_lost(&mut rng)).collect();
        let clock_of_source = SourceClock { clock, offset };
        for file in write(&Writing { layout, rank, clock: clock_of_source, recording, calls: kept }) {
            let has_trace = !job.missing.contains(&rank);
            records.truth.extend(file.calls.iter().enumerate().map(|(index, call)| RecordTruth {
                file: file.name.clone(),
                index,
                source,
                rank,
                kernel_ts_ns: call.kernel.filter(|_| has_trace).map(|(start, _)| clock.at(start)),
                function: call.function,
                algorithm: call.plan.algorithm,
                protocol: call.plan.protocol,
                channels: call.plan.channels,
                offset_ns: offset,
            }));
            records.files.push(RecordFile { name: file.name, bytes: file.bytes });
        }
    }
    records
}
