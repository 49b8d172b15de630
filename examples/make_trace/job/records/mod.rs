//! NCCL's own records of a simulated job, beside its traces and of the same collectives: what a profiler plugin, Inspector, the flight
//! recorder and Megatrace leave. And which kernel of which trace each record is, which real records never say.
//!
//! Each writer is a file here; `calls` finds out what was called. Every source has its own clock, and counts in its own way.

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
    /// How much the clock of a source on a rank is fast or slow, at most, compared with the clock of the rank's trace.
    pub(crate) max_offset_ns: i64,
    /// How many of a hundred records are not written.
    pub(crate) lose_percent: f64,
    pub(crate) inspector: Inspector,
    pub(crate) megatrace: Megatrace,
    /// The first step that the traces have; the records have all.
    pub(crate) trace_from_step: u32,
    /// Whether the recorder of this project was there.
    pub(crate) recorder: Recorder,
}

/// What of the recorder was loaded.
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
    /// Verbose on ranks of an even number.
    Mixed,
}

/// Which of Megatrace's formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Megatrace {
    /// Without groups; calls are counted by communicator.
    L2,
    /// With groups; calls are counted by stream.
    #[default]
    L4,
}

/// What a rank leaves.
pub(crate) struct RankRecords {
    pub(crate) files: Vec<RecordFile>,
    /// In the order of the files and of what is in them.
    pub(crate) truth: Vec<RecordTruth>,
}

pub(crate) struct RecordFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Which kernel a record is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RecordTruth {
    pub(crate) file: String,
    /// Which record of the file it is, from 0. A record of the plugin is all that it writes of one call.
    pub(crate) index: usize,
    /// `plugin-dump`, `inspector`, `flight-recorder`, `megatrace` or `recorder`.
    pub(crate) source: &'static str,
    /// The rank of the job.
    pub(crate) rank: u32,
    /// The start of the kernel on the clock of the rank's trace, since 1970. `None` if the trace does not have it, or does not exist.
    pub(crate) kernel_ts_ns: Option<i64>,
    /// Its collective as NCCL calls it: `AllReduce`.
    pub(crate) function: &'static str,
    /// What the plugin says of the call, and therefore a join of all sources: the algorithm, the protocol and the number of channels.
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
        What::Kernel { launch, .. } => launched.contains(&launch.correlation),
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
