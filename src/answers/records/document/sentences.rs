//! The sentences about recorded operations: the verdict, what is wrong, and what to do about it.

use super::flows;
use crate::answers::hang::document::warned;
use crate::answers::recording::words;
use crate::answers::records::{Asked, CensusRow, Diagnosis, RecordsReport};
use crate::document::findings::FindingKind;
use crate::document::format::{count, duration, percent, ranks, size, visible};
use crate::operation::Source;
use crate::time::Ns;

/// This many kinds of damage are in the verdict; the others are counted.
const DAMAGES: usize = 4;

/// What was recorded, what is wrong, and what to do first, in one line.
pub fn verdict(report: &RecordsReport) -> String {
    sentences(report).into_iter().chain(first_advice(report)).collect::<Vec<_>>().join(" ")
}

/// The same in sentences.
pub(crate) fn sentences(report: &RecordsReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if report.flows.is_none() || !report.census.is_empty() {
        sentences.push(recorded(report));
    }
    sentences.extend(report.flows.iter().map(flows::verdict));
    sentences.extend(report.census.first().and_then(longest));
    match report.diagnoses.first() {
        Some(first) => sentences.push(sentence(first)),
        None if report.flows.as_ref().is_none_or(|flows| flows.runs.iter().all(|run| run.findings.is_empty())) => {
            sentences.push("Nothing is off.".to_owned());
        }
        None => {}
    }
    let failed = |of: &&Diagnosis| matches!(of, Diagnosis::FailedCalls { .. } | Diagnosis::NotRecorded { .. });
    sentences.extend(report.diagnoses.iter().skip(1).filter(failed).map(sentence));
    sentences.extend(damage(report));
    sentences
}

/// Whether the verdict includes a diagnosis: the first one, and failures and losses, on which everything else depends.
pub(crate) fn is_in_verdict((at, diagnosis): &(usize, &Diagnosis)) -> bool {
    let is_of_recording =
        matches!(diagnosis, Diagnosis::Skipped { .. } | Diagnosis::FailedCalls { .. } | Diagnosis::NotRecorded { .. });
    *at == 0 || is_of_recording
}

/// The damage after the first diagnosis: `Left out: 137 records that newer ones have overwritten.`
fn damage(report: &RecordsReport) -> Option<String> {
    let lines: Vec<String> = report.diagnoses.iter().skip(1).filter_map(lost).collect();
    let more = lines.len().saturating_sub(DAMAGES);
    let more = if more > 0 { format!(", and {} of other kinds", count(more as u64)) } else { String::new() };
    let shown = &lines[..lines.len().min(DAMAGES)];
    (!lines.is_empty()).then(|| format!("Left out: {}{more}.", shown.join(", ")))
}

fn lost(diagnosis: &Diagnosis) -> Option<String> {
    match diagnosis {
        Diagnosis::Skipped { what, count: n, .. } => Some(format!("{} {what}", count(*n))),
        _ => None,
    }
}

/// `1,024 operations of 2 communicators, recorded by NCCL Inspector in 8 files.`
fn recorded(report: &RecordsReport) -> String {
    let operations: u64 = report.census.iter().map(|row| row.count).sum();
    let mut sources: Vec<&str> = report.files.iter().filter_map(|file| file.title).collect();
    let files = sources.len() as u64;
    if files == 0 {
        return "Nothing was recorded.".to_owned();
    }
    sources.sort_unstable();
    sources.dedup();
    let communicators = match report.communicators.len() as u64 {
        // Some records do not say of which an operation is.
        0 => String::new(),
        some => format!(" of {}", counted(some, "communicator")),
    };
    format!(
        "{}{communicators}, recorded by {} in {}.",
        counted(operations, "operation"),
        sources.join(", "),
        counted(files, "file")
    )
}

/// `Most time is in all_reduce of 8.39 MB: 96.1 ms in 512 operations, 180.000 µs each in the median, 320.1 GB/s (busbw).`
fn longest(row: &CensusRow) -> Option<String> {
    let time = row.time?;
    let of_size = row.size.map_or(String::new(), |class| format!(" of {}", sizes(class.min_bytes, class.max_bytes)));
    let bandwidth = row.busbw_gb_per_s.map_or(String::new(), |bus| format!(", {bus:.1} GB/s (busbw)"));
    Some(format!(
        "Most time is in {}{of_size}: {} in {}, {} each in the median{bandwidth}.",
        row.collective.as_deref().map_or("operations of unknown kind".into(), visible),
        duration(time.total_ns),
        counted(row.timed, "operation"),
        duration(Ns::rounded(time.median_ns))
    ))
}

/// `8.39 MB`, or `8.39 to 12.58 MB`.
pub(crate) fn sizes(min: u64, max: u64) -> String {
    if min == max { size(min) } else { format!("{} to {}", size(min), size(max)) }
}

/// `1 file`, `8 files`
pub(crate) fn counted(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

fn some_ranks(of: &[u32]) -> String {
    if of.is_empty() { "ranks that are not recorded".to_owned() } else { ranks(of) }
}

fn rank(rank: Option<u32>) -> String {
    rank.map_or("an unknown rank".to_owned(), |rank| format!("rank {rank}"))
}

fn within(communicator: Option<&str>) -> String {
    communicator.map_or(String::new(), |name| format!(" of {}", visible(name)))
}

pub(crate) fn kind(diagnosis: &Diagnosis) -> FindingKind {
    match diagnosis {
        Diagnosis::Hang { .. } => FindingKind::Hang,
        Diagnosis::FailedCalls { .. } => FindingKind::FailedCalls,
        Diagnosis::Warned { .. } => FindingKind::Warned,
        Diagnosis::NotRecorded { .. } => FindingKind::NotRecorded,
        Diagnosis::MixedMethods { .. } => FindingKind::MixedMethods,
        Diagnosis::SlowChannel { .. } => FindingKind::SlowChannel,
        Diagnosis::SlowLink { .. } => FindingKind::SlowLink,
        Diagnosis::Bound { .. } => FindingKind::ProxyBound,
        Diagnosis::BandwidthsDiffer { .. } => FindingKind::BandwidthsDiffer,
        Diagnosis::Gaps { .. } => FindingKind::Gaps,
        Diagnosis::RanksNotHere { .. } => FindingKind::RanksNotHere,
        Diagnosis::NoOperations { .. } => FindingKind::NoOperations,
        Diagnosis::SmallLeftOut { .. } => FindingKind::SmallLeftOut,
        Diagnosis::NoTimes { .. } => FindingKind::NoTimes,
        Diagnosis::Repaired { .. } => FindingKind::Repaired,
        Diagnosis::Skipped { .. } => FindingKind::Skipped,
    }
}

/// A diagnosis in words.
pub(crate) fn sentence(diagnosis: &Diagnosis) -> String {
    match diagnosis {
        Diagnosis::Hang { ranks } if ranks.is_empty() => "Ranks have done less than others of their group.".to_owned(),
        Diagnosis::Hang { ranks } => format!("The job hangs, or is held up, on {}.", some_ranks(ranks)),
        Diagnosis::FailedCalls { calls } => words::failed(calls),
        Diagnosis::Warned { warning } => warned(warning),
        Diagnosis::NotRecorded { why, processes } => words::not_recorded(why, *processes),
        Diagnosis::MixedMethods { communicator, collective, bytes, methods } => {
            let ways: Vec<String> =
                methods.iter().map(|(method, ranks)| format!("{} on {}", visible(method), some_ranks(ranks))).collect();
            let group = communicator.as_deref().map_or(String::new(), |name| format!(" in {}", visible(name)));
            let (collective, ways, n) = (visible(collective), ways.join("; "), ways.len());
            format!("{collective} of {}{group} ran in {n} ways: {ways}.", size(*bytes))
        }
        Diagnosis::SlowChannel { communicator, rank: of, channel, channels, ratio } => format!(
            "Channel {channel} of {}{} takes {ratio:.2} times the mean of its {channels} channels, in the median over operations.",
            rank(*of),
            within(communicator.as_deref())
        ),
        Diagnosis::SlowLink { communicator, rank: of, peer, channel, direction, gb_per_s, median } => {
            let (verb, to) = if *direction == "send" { ("sends", "to") } else { ("receives", "from") };
            let of = rank(*of);
            let group = within(communicator.as_deref());
            format!(
                "{of}{group} {verb} {gb_per_s:.2} GB/s {to} rank {peer} on channel {channel}, in the median over operations, where that of all links is {median:.2} GB/s."
            )
        }
        Diagnosis::Bound { direction, bound, share, ranks } => {
            let what = match *direction {
                "send" => "Sends",
                "receive" => "Receives",
                _ => "The proxies",
            };
            format!(
                "{what} of {} are bound by {}: up to {} of their steps' time.",
                some_ranks(ranks),
                phase(bound),
                percent(*share)
            )
        }
        of_records => records_sentence(of_records),
    }
}

/// The diagnoses about gaps and errors of the records themselves.
fn records_sentence(diagnosis: &Diagnosis) -> String {
    match diagnosis {
        Diagnosis::BandwidthsDiffer { differ, recorded } => {
            format!("{} of {} recorded bus bandwidths differ from size by time.", count(*differ), count(*recorded))
        }
        Diagnosis::Gaps { source, missing, ranks } => format!(
            "{} between others {} not in the records of {}, on {}: overwritten, filtered or lost.",
            counted(*missing, "operation"),
            if *missing == 1 { "is" } else { "are" },
            source.title(),
            some_ranks(ranks)
        ),
        Diagnosis::RanksNotHere { communicator, here, size } => format!(
            "Of the {} ranks of {}, {} here.",
            count(*size),
            visible(communicator),
            if *here == 1 { "1 is".to_owned() } else { format!("{} are", count(*here)) }
        ),
        Diagnosis::NoOperations { communicator, ranks } => match &ranks[..] {
            [one] => format!("Rank {one}'s file has no operations of {}.", visible(communicator)),
            _ => format!("The files of {} have no operations of {}.", some_ranks(ranks), visible(communicator)),
        },
        Diagnosis::SmallLeftOut { smallest } => format!(
            "No operation is smaller than {}: NCCL Inspector leaves out those under 8,192 bytes by default.",
            size(*smallest)
        ),
        Diagnosis::NoTimes { source, operations, has_channels, asked } => {
            let ends = match (has_channels, asked) {
                (true, _) => ": the ends of their kernels are not recorded",
                (false, Some(Asked::Channels)) => ", though the channels of their kernels were asked for",
                (false, _) => "",
            };
            format!(
                "None of the {} of {} says how long it took{ends}.",
                counted(*operations, "operation"),
                source.title()
            )
        }
        Diagnosis::Repaired { what, count: n, files } => {
            format!("Repaired in {}: {} {what}.", counted(*files, "file"), count(*n))
        }
        Diagnosis::Skipped { what, count: n, files } => {
            format!("Left out in {}: {} {what}.", counted(*files, "file"), count(*n))
        }
        _ => String::new(),
    }
}

/// What a phase waits for.
fn phase(bound: &str) -> &str {
    match bound {
        "gpu" => "the GPU",
        "receiver-late" => "receivers that have no room yet",
        "network" => "the network",
        "network-or-late-peer" => "the network or a late peer",
        "flush" => "flushing what arrived to the GPU",
        other => other,
    }
}

/// What to do first, as a sentence.
pub(crate) fn first_advice(report: &RecordsReport) -> Option<String> {
    report.diagnoses.first().and_then(advice).map(|advice| format!("First: {advice}"))
}

/// What to do about a diagnosis; `None` if nothing needs to be done.
pub(crate) fn advice(diagnosis: &Diagnosis) -> Option<&'static str> {
    Some(match diagnosis {
        Diagnosis::Hang { .. } => "ask `nccl-stacks hang` with the same files: it says in which call, and why.",
        Diagnosis::FailedCalls { .. } => "read what NCCL prints about it with NCCL_DEBUG=WARN.",
        Diagnosis::Warned { warning } => match warning.kind {
            "network" => {
                "look at the NIC, the cable and the switch port between both sides, and whether the process on the other side still runs."
            }
            "cuda" => "look at the GPU: Xid errors in dmesg, nvidia-smi -q; and at what ran there before.",
            "mismatch" => "ask `nccl-stacks hang` with the same files: it says which ranks call something different.",
            _ => return None,
        },
        Diagnosis::NotRecorded { .. } => {
            "choose a folder in which the job's processes can create files, with room for their rings (--dir, --ring-size)."
        }
        Diagnosis::MixedMethods { .. } => {
            "compare the environment (NCCL_ALGO, NCCL_PROTO, NCCL version, topology) of these ranks."
        }
        Diagnosis::SlowChannel { .. } | Diagnosis::SlowLink { .. } => {
            "look at the NIC and the switch port that carry it, and at what else uses them."
        }
        Diagnosis::Bound { bound: "gpu", .. } => {
            "the network has time left: look at the kernels beside the collectives, and at the number of channels."
        }
        Diagnosis::Bound { bound: "receiver-late", .. } => {
            "look at the peers that receive: they arrive late, or are slow to empty their buffers."
        }
        Diagnosis::Bound { bound: "flush", .. } => "look at PCIe and GPUDirect RDMA between NIC and GPU.",
        Diagnosis::Bound { .. } => "compare the bandwidth of the links with that of the NICs.",
        Diagnosis::BandwidthsDiffer { .. } => "trust the times, and ask which version wrote the bandwidths.",
        Diagnosis::Gaps { .. } => "make the recorder's ring larger, or let it write more often.",
        Diagnosis::RanksNotHere { .. } => "add the files of the other ranks, so that they can be compared.",
        Diagnosis::NoOperations { .. } => {
            "ask `nccl-stacks hang` with the same files: who calls nothing may be who the others wait for."
        }
        Diagnosis::NoTimes { source: Source::FLIGHT_RECORDER, .. } => {
            "set TORCH_NCCL_ENABLE_TIMING=1 for the next run: dumps then say how long each collective took, which costs one more CUDA event for each."
        }
        Diagnosis::NoTimes { source: Source::MEGATRACE, .. } => {
            "ask `nccl-stacks ranks` with the same files: it compares when ranks entered NCCL."
        }
        Diagnosis::NoTimes { asked: Some(Asked::NoPlugin), .. } => {
            "let NCCL 2.27 or later load the profiler plugin, too: `nccl-stacks record --print-env` shows the variables."
        }
        Diagnosis::NoTimes { asked: Some(Asked::Others), .. } => {
            "record the channels of kernels, too: add kernel-channels to `nccl-stacks record --events`."
        }
        Diagnosis::NoTimes { asked: Some(Asked::Channels), .. } => {
            "ask `nccl-stacks hang` with the same files: it says whether these kernels ran."
        }
        Diagnosis::NoTimes { has_channels: false, .. } => {
            "record the channels of kernels, too: bit 64 of NCCL_PROFILE_EVENT_MASK for NCCL's example plugin."
        }
        Diagnosis::NoTimes { has_channels: true, .. } => {
            "record with a later version of the plugin: some write no stops of channels."
        }
        _ => return None,
    })
}
