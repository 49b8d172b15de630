//! What is off in what was recorded: what makes the job slow, and what the records leave out.

use std::collections::{BTreeMap, BTreeSet};

use super::RecordsReport;
use super::communicators::CommunicatorRow;
use crate::analysis::hang::{Outcome, hang};
use crate::analysis::recording::{self, FailedCalls, Loss};
use crate::names::values::KERNEL_CHANNELS;
use crate::operation::{Counts, Operation, Source};
use crate::operations::communicators::Communicators;
use crate::records::{RecordFile, Records, Remark};
use crate::statistics::median;

/// A channel that takes so many times the mean of all is slow.
const SLOW_CHANNEL: f64 = 1.5;

/// A link with less than this share of the median bandwidth of its communicator is slow.
const SLOW_LINK: f64 = 0.5;

/// Fewer links have no median that says something.
const LEAST_LINKS: usize = 3;

/// A phase with this share of the steps' time bounds them clearly.
const CLEAR_BOUND: f64 = 0.5;

/// Inspector leaves out what is smaller, unless the environment says otherwise.
const INSPECTOR_LEAST_BYTES: u64 = 8192;

/// What a recording could have had of the times of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// NCCL loaded no plugin.
    NoPlugin,
    /// The plugin was asked for other events.
    Others,
    /// It was asked for the channels of kernels.
    Channels,
}

/// Something that is off. Ranks are those within the communicator, or of the job where only that is known; those of a hang are of the job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Diagnosis {
    /// Ranks have done less than others, or something else.
    Hang {
        /// Which, as far as that is proved.
        ranks: Vec<u32>,
    },
    /// Calls of NCCL returned an error.
    FailedCalls {
        /// Which, on which ranks, and how many.
        calls: FailedCalls,
    },
    /// Processes could not record.
    NotRecorded {
        /// Why, in the system's words.
        why: String,
        /// How many.
        processes: u64,
    },
    /// One collective of one size ran by different algorithms or protocols: ranks disagree, or NCCL changed its mind.
    MixedMethods {
        /// The communicator.
        communicator: Option<String>,
        /// The collective.
        collective: String,
        /// The size in bytes.
        bytes: u64,
        /// Algorithm and protocol, with the ranks.
        methods: Vec<(String, Vec<u32>)>,
    },
    /// A channel takes far longer than the others of its rank.
    SlowChannel {
        /// The communicator.
        communicator: Option<String>,
        /// The rank.
        rank: Option<u32>,
        /// The channel.
        channel: u32,
        /// How many there are.
        channels: u64,
        /// Its time as a multiple of their mean.
        ratio: f64,
    },
    /// A link has far less bandwidth than the others of its communicator.
    SlowLink {
        /// The communicator.
        communicator: Option<String>,
        /// The rank.
        rank: Option<u32>,
        /// The other side.
        peer: i64,
        /// The channel.
        channel: u32,
        /// `send` or `receive`.
        direction: &'static str,
        /// Its bandwidth in GB/s.
        gb_per_s: f64,
        /// The median of all links of the communicator and direction, in GB/s.
        median: f64,
    },
    /// Proxies spend most of their time in one phase.
    Bound {
        /// `send`, `receive` or `both`.
        direction: &'static str,
        /// The phase.
        bound: &'static str,
        /// Its largest share on any of the ranks.
        share: f64,
        /// The ranks.
        ranks: Vec<u32>,
    },
    /// Bandwidths as recorded differ from those that follow from size and time.
    BandwidthsDiffer {
        /// How many.
        differ: u64,
        /// Of how many.
        recorded: u64,
    },
    /// Numbers of operations are not there between others of the same rank.
    Gaps {
        /// What recorded them.
        source: Source,
        /// How many.
        missing: u64,
        /// On which ranks.
        ranks: Vec<u32>,
    },
    /// Ranks of a communicator recorded nothing here.
    RanksNotHere {
        /// The communicator.
        communicator: String,
        /// How many ranks are here.
        here: u64,
        /// How many it has.
        size: u64,
    },
    /// Files of ranks are here that have no operations of a communicator of theirs.
    NoOperations {
        /// The communicator.
        communicator: String,
        /// The ranks.
        ranks: Vec<u32>,
    },
    /// Inspector leaves out small operations, and none is here.
    SmallLeftOut {
        /// The smallest size that is here, in bytes.
        smallest: u64,
    },
    /// No operation of a source says how long it took.
    NoTimes {
        /// What recorded them.
        source: Source,
        /// How many operations.
        operations: u64,
        /// Whether it recorded channels of their kernels, whose ends then are what is missing.
        has_channels: bool,
        /// Of the recorder of this project: whether its plugin was asked for channels of kernels.
        asked: Option<Asked>,
    },
    /// Something was wrong in files, and understood.
    Repaired {
        /// What: `lines with …`.
        what: &'static str,
        /// How often.
        count: u64,
        /// In how many files.
        files: u64,
    },
    /// Something in files could not be used.
    Skipped {
        /// What: `lines with …`.
        what: &'static str,
        /// How often.
        count: u64,
        /// In how many files.
        files: u64,
    },
}

pub(super) fn find(records: &Records, communicators: &Communicators, report: &RecordsReport) -> Vec<Diagnosis> {
    let mut found: Vec<Diagnosis> = hangs(records).into_iter().collect();
    found.extend(recording::failed_calls(records).into_iter().map(|calls| Diagnosis::FailedCalls { calls }));
    let not_recorded = |Loss { why, count, .. }: Loss| Some(Diagnosis::NotRecorded { why: why?, processes: count });
    found.extend(recording::losses(records).into_iter().filter_map(not_recorded));
    found.extend(mixed(records, communicators));
    found.extend(slow_channels(report));
    found.extend(slow_links(report));
    found.extend(bounds(report));
    let differ = report.bandwidth_check.as_ref().filter(|check| check.differ > 0);
    found.extend(differ.map(|check| Diagnosis::BandwidthsDiffer { differ: check.differ, recorded: check.recorded }));
    found.extend(gaps(records, communicators));
    found.extend(report.communicators.iter().filter_map(not_here));
    let is_silent = |row: &&CommunicatorRow| row.ranks_here > 0 && !row.silent_ranks.is_empty();
    found.extend(report.communicators.iter().filter(is_silent).map(|row| Diagnosis::NoOperations {
        communicator: row.communicator.clone(),
        ranks: row.silent_ranks.clone(),
    }));
    found.extend(small(records));
    found.extend(no_times(records));
    found.extend(remarks(
        &records.files,
        |file| &file.skipped,
        |what, count, files| Diagnosis::Skipped { what, count, files },
    ));
    found.extend(remarks(
        &records.files,
        |file| &file.repaired,
        |what, count, files| Diagnosis::Repaired { what, count, files },
    ));
    found
}

fn not_here(row: &CommunicatorRow) -> Option<Diagnosis> {
    let files = row.ranks_here + row.silent_ranks.len() as u64;
    let size = row.size.filter(|size| row.ranks_here > 0 && *size > files)?;
    Some(Diagnosis::RanksNotHere { communicator: row.communicator.clone(), here: files, size })
}

/// Dumps and answers of RAS are made when a job hangs.
fn hangs(records: &Records) -> Option<Diagnosis> {
    let is_made_for_that = |file: &RecordFile| matches!(file.source, Some(Source::FLIGHT_RECORDER | Source::RAS));
    if !records.files.iter().any(is_made_for_that) {
        return None;
    }
    let report = hang(records);
    matches!(report.outcome, Outcome::Hung | Outcome::Lagging).then_some(Diagnosis::Hang { ranks: report.culprits })
}

/// What has to run by one algorithm and protocol: source, communicator, collective and size. Where one of these is unknown it may differ.
type Same<'a> = (Source, usize, &'a str, u64);

fn mixed(records: &Records, communicators: &Communicators) -> Vec<Diagnosis> {
    let mut methods: BTreeMap<Same<'_>, BTreeMap<String, BTreeSet<u32>>> = BTreeMap::new();
    for operation in &records.operations {
        let Some(collective) = operation.collective.as_deref() else { continue };
        let Some(method) = method(operation.algorithm.as_deref(), operation.protocol.as_deref()) else { continue };
        let Some((group, bytes)) = communicators.of_operation(operation).zip(operation.bytes) else { continue };
        let key = (operation.source, group, collective, bytes);
        methods.entry(key).or_default().entry(method).or_default().extend(operation.place_or_rank());
    }
    for call in &records.calls {
        let Some(collective) = call.collective.as_deref() else { continue };
        let Some(method) = method(call.algorithm.as_deref(), call.protocol.as_deref()) else { continue };
        let Some((group, bytes)) = communicators.position(call.communicator).zip(call.bytes) else { continue };
        let key = (call.source, group, collective, bytes);
        let rank = call.place.or(call.rank.map(|rank| rank.0));
        methods.entry(key).or_default().entry(method).or_default().extend(rank);
    }
    let several = methods.into_iter().filter(|(_, methods)| methods.len() > 1);
    let diagnosis = |((_, group, collective, bytes), methods): (Same<'_>, BTreeMap<String, BTreeSet<u32>>)| {
        Diagnosis::MixedMethods {
            communicator: communicators.title(Some(group)),
            collective: collective.to_owned(),
            bytes,
            methods: methods.into_iter().map(|(method, ranks)| (method, ranks.into_iter().collect())).collect(),
        }
    };
    several.map(diagnosis).collect()
}

fn method(algorithm: Option<&str>, protocol: Option<&str>) -> Option<String> {
    match (algorithm, protocol) {
        (Some(algorithm), Some(protocol)) => Some(format!("{algorithm}/{protocol}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

fn slow_channels(report: &RecordsReport) -> Vec<Diagnosis> {
    let slow = report.channels.iter().filter_map(|row| {
        let time = row.time.filter(|time| time.ratio >= SLOW_CHANNEL)?;
        let (communicator, rank, channels) = (row.communicator.clone(), row.rank, row.channels);
        Some(Diagnosis::SlowChannel { communicator, rank, channel: time.channel, channels, ratio: time.ratio })
    });
    slow.collect()
}

fn slow_links(report: &RecordsReport) -> Vec<Diagnosis> {
    let mut bandwidths: BTreeMap<(Option<&str>, &str), Vec<f64>> = BTreeMap::new();
    for link in &report.links {
        let of = bandwidths.entry((link.communicator.as_deref(), link.direction)).or_default();
        of.extend(link.gb_per_s);
    }
    bandwidths.retain(|_, of| of.len() >= LEAST_LINKS);
    let medians: BTreeMap<_, f64> = bandwidths.into_iter().map(|(key, of)| (key, median(of))).collect();
    let slow = report.links.iter().filter_map(|link| {
        let median = *medians.get(&(link.communicator.as_deref(), link.direction))?;
        let gb_per_s = link.gb_per_s.filter(|of| *of < median * SLOW_LINK)?;
        Some(Diagnosis::SlowLink {
            communicator: link.communicator.clone(),
            rank: link.rank,
            peer: link.peer,
            channel: link.channel,
            direction: link.direction,
            gb_per_s,
            median,
        })
    });
    slow.collect()
}

fn bounds(report: &RecordsReport) -> Vec<Diagnosis> {
    let mut found: BTreeMap<(&str, &str), (f64, BTreeSet<u32>)> = BTreeMap::new();
    for row in &report.proxies {
        let (Some(bound), Some(share)) = (row.bound, row.bound_share) else { continue };
        if share >= CLEAR_BOUND {
            let (largest, ranks) = found.entry((row.direction, bound)).or_default();
            *largest = largest.max(share);
            ranks.extend(row.rank);
        }
    }
    let diagnosis = |((direction, bound), (share, ranks)): ((&'static str, &'static str), (f64, BTreeSet<u32>))| {
        Diagnosis::Bound { direction, bound, share, ranks: ranks.into_iter().collect() }
    };
    found.into_iter().map(diagnosis).collect()
}

/// Whether NCCL numbers its like without a gap: point-to-point operations have no number.
fn is_numbered(operation: &Operation) -> bool {
    let is_point_to_point = matches!(operation.collective.as_deref(), Some("send" | "recv" | "sendrecv"));
    operation.counts == Counts::Function && !is_point_to_point
}

fn gaps(records: &Records, communicators: &Communicators) -> Vec<Diagnosis> {
    type Key<'r> = (Source, Option<usize>, Option<u32>, &'r str);
    let mut numbers: BTreeMap<Key<'_>, BTreeSet<i64>> = BTreeMap::new();
    for operation in records.operations.iter().filter(|operation| is_numbered(operation)) {
        let (Some(collective), Some(sequence)) = (operation.collective.as_deref(), operation.sequence) else {
            continue;
        };
        let key = (operation.source, communicators.of_operation(operation), operation.place_or_rank(), collective);
        numbers.entry(key).or_default().insert(sequence);
    }
    let mut by_source: BTreeMap<Source, (u64, BTreeSet<u32>)> = BTreeMap::new();
    for ((source, _, rank, _), numbers) in numbers {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { continue };
        let missing = last.abs_diff(*first).saturating_add(1).saturating_sub(numbers.len() as u64);
        if missing > 0 {
            let (all, ranks) = by_source.entry(source).or_default();
            *all = all.saturating_add(missing);
            ranks.extend(rank);
        }
    }
    let diagnosis = |(source, (missing, ranks)): (Source, (u64, BTreeSet<u32>))| Diagnosis::Gaps {
        source,
        missing,
        ranks: ranks.into_iter().collect(),
    };
    by_source.into_iter().map(diagnosis).collect()
}

fn small(records: &Records) -> Option<Diagnosis> {
    let of_inspector = records.operations.iter().filter(|operation| operation.source == Source::INSPECTOR);
    let smallest = of_inspector.filter_map(|operation| operation.bytes).min()?;
    (smallest >= INSPECTOR_LEAST_BYTES).then_some(Diagnosis::SmallLeftOut { smallest })
}

fn no_times(records: &Records) -> Vec<Diagnosis> {
    let mut by_source: BTreeMap<Source, (u64, u64)> = BTreeMap::new();
    for operation in records.operations.iter().filter(|operation| !operation.did_not_run) {
        let (all, timed) = by_source.entry(operation.source).or_default();
        *all += 1;
        *timed += u64::from(super::census::took(operation).is_some());
    }
    let profiled =
        |source: &Source| matches!(*source, Source::INSPECTOR | Source::COMMA | Source::PLUGIN_DUMP | Source::RECORDER);
    let without = by_source.into_iter().filter(|(source, (_, timed))| profiled(source) && *timed == 0);
    let of_channels = |of: Source| {
        let operations = records.channels.iter().filter_map(|channel| records.operations.get(channel.operation?));
        operations.into_iter().any(|operation| operation.source == of)
    };
    let diagnosis = |(source, (operations, _))| {
        let has_channels = of_channels(source);
        let asked = (source == Source::RECORDER).then(|| asked(&records.files));
        Diagnosis::NoTimes { source, operations, has_channels, asked }
    };
    without.map(diagnosis).collect()
}

/// What the plugins of recordings were asked for: the most of any.
fn asked(files: &[RecordFile]) -> Asked {
    match files.iter().filter_map(|file| file.events).reduce(|all, of| all | of) {
        None => Asked::NoPlugin,
        Some(events) if events & KERNEL_CHANNELS == 0 => Asked::Others,
        Some(_) => Asked::Channels,
    }
}

/// Remarks of all files, each sort once.
fn remarks(
    files: &[RecordFile],
    of: fn(&RecordFile) -> &Vec<Remark>,
    diagnosis: fn(&'static str, u64, u64) -> Diagnosis,
) -> Vec<Diagnosis> {
    let mut sorts: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for remark in files.iter().flat_map(of) {
        let (count, files) = sorts.entry(remark.what).or_default();
        *count = count.saturating_add(remark.count);
        *files += 1;
    }
    sorts.into_iter().map(|(what, (count, files))| diagnosis(what, count, files)).collect()
}
