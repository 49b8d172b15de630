//! Problems in what was recorded: what makes the job slow, and what the records lack.

use std::collections::{BTreeMap, BTreeSet};

use super::RecordsReport;
use super::communicators::CommunicatorRow;
use super::links::LinkRow;
use crate::answers::hang::{NcclWarning, Outcome, hang, merged};
use crate::answers::recording;
use crate::answers::recording::{FailedCalls, Loss};
use crate::names::values::KERNEL_CHANNELS;
use crate::operation::{Counts, Operation, Source};
use crate::operations::communicators::Communicators;
use crate::records::{RecordFile, Records, Remark};
use crate::statistics::median;
use crate::time::Ns;

/// A channel that takes this many times the mean of its operation's channels, in the median and beyond its error, is slow.
const SLOW_CHANNEL: f64 = 1.5;

/// Channels that take less on average are not judged: where each has next to nothing to move, their times are those of starting. In recordings of healthy jobs
/// without any work (0.1 µs a channel) one takes up to 1.8 times the mean.
const LEAST_CHANNEL: Ns = Ns(20_000);

/// A link with less than this share of its communicator's median bandwidth, in the median over its operations and beyond its error, is slow.
const SLOW_LINK: f64 = 0.5;

/// Links that move less in an operation are not judged: what that takes is latency, not bandwidth (at 25 GB/s 64 KiB take 2.6 µs). In recordings of healthy jobs
/// with 3 KB an operation, links are up to 2.4 times slower than others.
const LEAST_BYTES: u64 = 64 << 10;

/// The fewest links with a meaningful median.
const LEAST_LINKS: usize = 3;

/// A phase with this share of the steps' time is clearly the bottleneck.
const CLEAR_BOUND: f64 = 0.5;

/// Inspector omits smaller operations by default; an environment variable changes that.
const INSPECTOR_LEAST_BYTES: u64 = 8192;

/// Which kernel times a recording could have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// NCCL loaded no plugin.
    NoPlugin,
    /// The plugin was asked for other events only.
    Others,
    /// It was asked for the channels of kernels.
    Channels,
}

/// A problem. Ranks are ranks within the communicator, or of the job if only that is known; those of a hang are ranks of the job.
#[derive(Debug, Clone, PartialEq)]
pub enum Diagnosis {
    /// Ranks have done less than others, or something different.
    Hang {
        /// The ranks that are proved to be at fault.
        ranks: Vec<u32>,
    },
    /// NCCL calls returned an error.
    FailedCalls {
        /// The calls, with their ranks and number.
        calls: FailedCalls,
    },
    /// NCCL warned of something.
    Warned {
        /// What, and which process did first.
        warning: NcclWarning,
    },
    /// Processes could not record.
    NotRecorded {
        /// Why, in the operating system's words.
        why: String,
        processes: u64,
    },
    /// A collective of one size ran with different algorithms or protocols: ranks disagree, or NCCL changed its choice.
    MixedMethods {
        communicator: Option<String>,
        collective: String,
        /// The size in bytes.
        bytes: u64,
        /// Algorithm and protocol, with their ranks.
        methods: Vec<(String, Vec<u32>)>,
    },
    /// A channel takes far longer than the others of its rank.
    SlowChannel {
        communicator: Option<String>,
        rank: Option<u32>,
        channel: u32,
        channels: u64,
        /// Its time as a multiple of their mean.
        ratio: f64,
    },
    /// A link has far less bandwidth than the others of its communicator.
    SlowLink {
        communicator: Option<String>,
        rank: Option<u32>,
        peer: i64,
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
        ranks: Vec<u32>,
    },
    /// Recorded bandwidths differ from those computed from size and time.
    BandwidthsDiffer {
        /// The number of bandwidths that differ.
        differ: u64,
        /// The number of recorded bandwidths.
        recorded: u64,
    },
    /// Numbers between those of a rank's recorded operations are missing.
    Gaps {
        source: Source,
        /// The number of missing operations.
        missing: u64,
        /// Their ranks.
        ranks: Vec<u32>,
    },
    /// Ranks of a communicator have no recordings here.
    RanksNotHere {
        communicator: String,
        /// The number of ranks with recordings.
        here: u64,
        /// The number of its ranks.
        size: u64,
    },
    /// Ranks of a communicator have files here that contain none of its operations.
    NoOperations { communicator: String, ranks: Vec<u32> },
    /// Inspector omits small operations, and the records have none.
    SmallLeftOut {
        /// The smallest recorded size, in bytes.
        smallest: u64,
    },
    /// No operation of a source has a duration.
    NoTimes {
        source: Source,
        operations: u64,
        /// Whether it recorded the channels of their kernels, so that only the ends of these are missing.
        has_channels: bool,
        /// For this project's recorder: whether its plugin was asked for kernel channels.
        asked: Option<Asked>,
    },
    /// Parts of files were wrong, but could be repaired.
    Repaired {
        /// A description: `lines with …`.
        what: &'static str,
        /// The number of occurrences.
        count: u64,
        files: u64,
    },
    /// Parts of files could not be used.
    Skipped {
        /// A description: `lines with …`.
        what: &'static str,
        /// The number of occurrences.
        count: u64,
        files: u64,
    },
}

pub(super) fn find(records: &Records, communicators: &Communicators, report: &RecordsReport) -> Vec<Diagnosis> {
    let mut found: Vec<Diagnosis> = hangs(records).into_iter().collect();
    found.extend(recording::failed_calls(records).into_iter().map(|calls| Diagnosis::FailedCalls { calls }));
    found.extend(merged(records).into_iter().map(|warning| Diagnosis::Warned { warning }));
    let not_recorded = |Loss { why, count, .. }: Loss| Some(Diagnosis::NotRecorded { why: why?, processes: count });
    found.extend(recording::losses(records).into_iter().filter_map(not_recorded));
    found.extend(mixed(records, communicators));
    if !is_without_network(records) {
        found.extend(slow_channels(report));
        found.extend(slow_links(report));
    }
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

/// Dumps and answers of RAS suggest that the job hung, so only these are checked.
fn hangs(records: &Records) -> Option<Diagnosis> {
    let is_made_for_that = |file: &RecordFile| matches!(file.source, Some(Source::FLIGHT_RECORDER | Source::RAS));
    if !records.files.iter().any(is_made_for_that) {
        return None;
    }
    let report = hang(records);
    matches!(report.outcome, Outcome::Hung | Outcome::Lagging).then_some(Diagnosis::Hang { ranks: report.culprits })
}

/// Operations that should use one algorithm and protocol. If any part of the key is unknown, they may differ.
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

/// Whether all of a job is on one host, and no transfer over InfiniBand or by a plugin is recorded: then no network card is slow.
fn is_without_network(records: &Records) -> bool {
    let hosts: BTreeSet<&str> = records.rank_status.iter().filter_map(|status| status.host.as_deref()).collect();
    let has_network = records.profiler_events.iter().any(|event| matches!(event.kind, "net-ib" | "net-plugin"));
    hosts.len() == 1 && !has_network
}

fn slow_channels(report: &RecordsReport) -> Vec<Diagnosis> {
    let slow = report.channels.iter().filter(|row| row.mean >= LEAST_CHANNEL).filter_map(|row| {
        let (channel, time) = row.longest.filter(|(_, time)| time.is_above(SLOW_CHANNEL))?;
        let (communicator, rank, channels) = (row.communicator.clone(), row.rank, row.channels);
        Some(Diagnosis::SlowChannel { communicator, rank, channel, channels, ratio: time.median })
    });
    slow.collect()
}

fn slow_links(report: &RecordsReport) -> Vec<Diagnosis> {
    let mut bandwidths: BTreeMap<(Option<&str>, &str), Vec<f64>> = BTreeMap::new();
    let is_judged = |link: &&LinkRow| link.mean_bytes >= LEAST_BYTES;
    for link in report.links.iter().filter(is_judged) {
        let of = bandwidths.entry((link.communicator.as_deref(), link.direction)).or_default();
        of.extend(link.each.map(|each| each.median));
    }
    bandwidths.retain(|_, of| of.len() >= LEAST_LINKS);
    let medians: BTreeMap<_, f64> = bandwidths.into_iter().map(|(key, of)| (key, median(of))).collect();
    let slow = report.links.iter().filter(is_judged).filter_map(|link| {
        let median = *medians.get(&(link.communicator.as_deref(), link.direction))?;
        let gb_per_s = link.each.filter(|each| each.is_below(median * SLOW_LINK))?.median;
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

/// Whether NCCL numbers such operations without gaps: point-to-point operations have no number.
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
    let profiled = |source: &Source| matches!(*source, Source::INSPECTOR | Source::PLUGIN_DUMP | Source::RECORDER);
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

/// What the plugins of the recordings were asked for, over all files.
fn asked(files: &[RecordFile]) -> Asked {
    match files.iter().filter_map(|file| file.events).reduce(|all, of| all | of) {
        None => Asked::NoPlugin,
        Some(events) if events & KERNEL_CHANNELS == 0 => Asked::Others,
        Some(_) => Asked::Channels,
    }
}

/// The remarks of all files, merged by kind.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{KernelChannel, ProfilerEvent, ProxyOp, RankStatus};

    /// Four links of `count` operations of `bytes` each, of which the last takes `slow` times as long as the others; ranks are on `hosts`.
    fn of_links(count: i64, bytes: u64, slow: i64, hosts: &[&str]) -> Records {
        let mut records = Records::default();
        for (link, at) in (0..4_u32).flat_map(|link| (0..count).map(move |at| (link, at))) {
            // Every other operation takes a tenth longer.
            let took = (50_000 + 5_000 * (at % 2)) * if link == 3 { slow } else { 1 };
            let start = Ns(at * 1_000_000);
            let (start, end) = (Some(start), Some(start + Ns(took)));
            let (place, peer, is_send) = (Some(link), i64::from(link + 1) % 4, true);
            records.proxy_ops.push(ProxyOp {
                place,
                peer,
                is_send,
                bytes: Some(bytes),
                start,
                end,
                ..ProxyOp::default()
            });
        }
        for host in hosts {
            records.rank_status.push(RankStatus { host: Some((*host).to_owned()), ..RankStatus::default() });
        }
        records
    }

    fn slow_links_of(records: &Records) -> Vec<(Option<u32>, bool)> {
        let report = crate::answers::records::report(records);
        let slow = report.diagnoses.iter().filter_map(|of| match of {
            Diagnosis::SlowLink { rank, gb_per_s, median, .. } => Some((*rank, gb_per_s < median)),
            _ => None,
        });
        slow.collect()
    }

    #[test]
    fn a_link_is_slow_in_the_median_of_enough_large_transfers_over_a_network() {
        const MB: u64 = 1 << 20;
        assert_eq!(slow_links_of(&of_links(40, MB, 3, &["a", "b"])), [(Some(3), true)]);
        assert!(slow_links_of(&of_links(40, MB, 1, &["a", "b"])).is_empty(), "none is slower");
        assert!(slow_links_of(&of_links(10, MB, 3, &["a", "b"])).is_empty(), "too few operations");
        assert!(slow_links_of(&of_links(40, 3_000, 3, &["a", "b"])).is_empty(), "too few bytes");
        let mut on_one_host = of_links(40, MB, 3, &["a", "a"]);
        assert!(slow_links_of(&on_one_host).is_empty(), "there is no network");
        on_one_host.profiler_events.push(ProfilerEvent { kind: "net-ib", ..ProfilerEvent::default() });
        assert_eq!(slow_links_of(&on_one_host), [(Some(3), true)]);
        // One operation that takes long is no slow link.
        let mut once = of_links(40, MB, 1, &["a", "b"]);
        once.proxy_ops[0].end = Some(Ns(900_000_000));
        assert!(slow_links_of(&once).is_empty());
    }

    #[test]
    fn a_channel_is_slow_if_it_is_so_in_most_operations() {
        let of_channels = |count: i64, took: i64, slow: i64| {
            let mut records = Records::default();
            for at in 0..count {
                let operation = records.push(Operation { place: Some(0), ..Operation::default() });
                for channel in 0..4 {
                    let took = if channel == 2 { took * slow } else { took };
                    let (start, end) = (Some(Ns(at * 1_000_000)), Some(Ns(at * 1_000_000 + took)));
                    let mut row = KernelChannel::default();
                    (row.operation, row.channel, row.start, row.end) = (Some(operation), channel, start, end);
                    records.channels.push(row);
                }
            }
            let report = crate::answers::records::report(&records);
            report.diagnoses.iter().any(|of| matches!(of, Diagnosis::SlowChannel { channel: 2, channels: 4, .. }))
        };
        // Three times as long as the others is twice the mean of all four.
        assert!(of_channels(20, 30_000, 3));
        assert!(!of_channels(20, 30_000, 1) && !of_channels(10, 30_000, 3) && !of_channels(20, 100, 3));
    }
}
