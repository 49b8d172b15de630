//! What the records lack: operations, ranks, times, and what could not be read.

use std::collections::{BTreeMap, BTreeSet};

use super::{problem, some_ranks};
use crate::answers::records::RecordsReport;
use crate::answers::records::communicators::{CommunicatorRow, counted};
use crate::document::findings::{Finding, FindingKind};
use crate::document::format::{count, plural, ranks, size, visible};
use crate::names::values::KERNEL_CHANNELS;
use crate::operation::{Counts, Operation, Source};
use crate::operations::communicators::Communicators;
use crate::records::{RecordFile, Records, Remark};

/// Inspector omits smaller operations by default; an environment variable changes that.
const INSPECTOR_LEAST_BYTES: u64 = 8192;

pub(super) fn find(records: &Records, communicators: &Communicators, report: &RecordsReport) -> Vec<Finding> {
    let mut found: Vec<Finding> = bandwidths(report).into_iter().collect();
    found.extend(gaps(records, communicators));
    found.extend(report.communicators.iter().filter_map(not_here));
    found.extend(report.communicators.iter().filter_map(silent));
    found.extend(small(records));
    found.extend(no_times(records));
    found.extend(report.left_out.iter().map(|(what, files)| {
        let what = format!("Left out in {}: {what}.", plural(*files, "file"));
        problem(FindingKind::Skipped, "Left out", what, [], None)
    }));
    found.extend(remarks(&records.files, |file| &file.repaired).into_iter().map(|(what, files)| {
        let what = format!("Repaired in {}: {what}.", plural(files, "file"));
        problem(FindingKind::Repaired, "Repaired", what, [], None)
    }));
    found
}

/// Recorded bandwidths that differ from those computed from size and time.
fn bandwidths(report: &RecordsReport) -> Option<Finding> {
    let check = report.bandwidth_check.as_ref().filter(|check| check.differ > 0)?;
    let (differ, recorded) = (count(check.differ), count(check.recorded));
    let what = format!("{differ} of {recorded} recorded bus bandwidths differ from size by time.");
    let advice = "trust the times, and ask which version wrote the bandwidths.";
    Some(problem(FindingKind::BandwidthsDiffer, "Bandwidths differ", what, [], Some(advice)))
}

/// Numbers between those of a rank's recorded operations that are missing.
fn gaps(records: &Records, communicators: &Communicators) -> Vec<Finding> {
    type Key<'r> = (Source, Option<usize>, Option<u32>, &'r str);
    let mut numbers: BTreeMap<Key<'_>, BTreeSet<i64>> = BTreeMap::new();
    // NCCL numbers these without gaps; sends and receives have no number.
    let is_numbered = |of: &&Operation| of.counts == Counts::Function && !of.is_point_to_point();
    for operation in records.operations.iter().filter(is_numbered) {
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
    let advice = "make the recorder's ring larger, or let it write more often.";
    let finding = |(source, (missing, ranks)): (Source, (u64, BTreeSet<u32>))| {
        let what = format!(
            "{} between others {} not in the records of {}, on {}: overwritten, filtered or lost.",
            plural(missing, "operation"),
            if missing == 1 { "is" } else { "are" },
            source.title(),
            some_ranks(&ranks)
        );
        problem(FindingKind::Gaps, "Gaps", what, ranks, Some(advice))
    };
    by_source.into_iter().map(finding).collect()
}

/// A communicator some of whose ranks have no recordings here.
fn not_here(row: &CommunicatorRow) -> Option<Finding> {
    let here = row.ranks_here + row.silent_ranks.len() as u64;
    let size = row.size.filter(|size| row.ranks_here > 0 && *size > here)?;
    let are_here = if here == 1 { "1 is".to_owned() } else { format!("{} are", count(here)) };
    let what = format!("Of the {} ranks of {}, {are_here} here.", count(size), visible(&row.communicator));
    let advice = "add the files of the other ranks, so that they can be compared.";
    Some(problem(FindingKind::RanksNotHere, "Missing ranks", what, [], Some(advice)))
}

/// A communicator some of whose ranks have files here that contain none of its operations.
fn silent(row: &CommunicatorRow) -> Option<Finding> {
    let communicator = visible(&row.communicator);
    let what = match &row.silent_ranks[..] {
        _ if row.ranks_here == 0 => return None,
        [] => return None,
        [one] => format!("Rank {one}'s file has no operations of {communicator}."),
        several => format!("The files of {} have no operations of {communicator}.", ranks(several)),
    };
    let advice = "ask `nccl-stacks hang` with the same files: who calls nothing may be who the others wait for.";
    Some(problem(FindingKind::NoOperations, "No operations", what, row.silent_ranks.clone(), Some(advice)))
}

/// Inspector omits small operations, and the records have none.
fn small(records: &Records) -> Option<Finding> {
    let of_inspector = records.operations.iter().filter(|operation| operation.source == Source::INSPECTOR);
    let smallest = of_inspector.filter_map(|operation| operation.bytes).min()?;
    let what = format!(
        "No operation is smaller than {}: NCCL Inspector leaves out those under 8,192 bytes by default.",
        size(smallest)
    );
    (smallest >= INSPECTOR_LEAST_BYTES)
        .then(|| problem(FindingKind::SmallLeftOut, "Small operations left out", what, [], None))
}

/// What to do about operations of which only the time of the call is known.
const LATE_CALLS: &str = "ask `nccl-stacks ranks` with the same files: it says which ranks call late.";

/// What to do about operations of which no time is known.
const NO_CLOCK: &str = "ask `nccl-stacks hang` with the same files whether ranks wait, and for times run the job with `nccl-stacks record`.";

/// Sources none of whose operations has a duration: nothing shows which are slow.
fn no_times(records: &Records) -> Vec<Finding> {
    let mut by_source: BTreeMap<Source, (u64, bool)> = BTreeMap::new();
    for (operation, times) in counted(records) {
        let (all, is_timed) = by_source.entry(operation.source).or_default();
        *all += times;
        *is_timed |= operation.took().is_some();
    }
    // Operations that timed out have no end.
    let without = by_source.into_iter().filter(|(of, (_, is_timed))| !is_timed && *of != Source::WATCHDOG);
    let has_calls = |of: Source| records.operations.iter().any(|call| call.source == of && call.enqueued.is_some());
    let of_channels = |of: Source| {
        let operations = records.channels.iter().filter_map(|channel| records.operations.get(channel.operation?));
        operations.into_iter().any(|operation| operation.source == of)
    };
    let finding = |(source, (operations, _)): (Source, (u64, bool))| {
        let (ends, advice) = match source {
            Source::INSPECTOR | Source::PLUGIN_DUMP | Source::RECORDER => {
                missing_ends(source, &records.files, of_channels(source))
            }
            // These never say it.
            _ if has_calls(source) => ("", LATE_CALLS),
            _ => ("", NO_CLOCK),
        };
        let operations = plural(operations, "operation");
        let what = format!("None of the {operations} of {} says how long it took{ends}.", source.title());
        problem(FindingKind::NoTimes, "No times", what, [], Some(advice))
    };
    without.map(finding).collect()
}

/// Why a source has no times, and what to do about it: whether it recorded the channels of kernels, so that only the ends of these are missing, and
/// for this project's recorder what the plugins were asked for, over all files (none if NCCL loaded no plugin).
fn missing_ends(source: Source, files: &[RecordFile], has_channels: bool) -> (&'static str, &'static str) {
    let asked = files.iter().filter_map(|file| file.events).reduce(|all, of| all | of);
    let asks_channels = asked.is_some_and(|events| events & KERNEL_CHANNELS != 0);
    let is_recorder = source == Source::RECORDER;
    let advice = match asked {
        None if is_recorder => {
            "let NCCL 2.27 or later load the profiler plugin, too: `nccl-stacks record --print-env` shows the variables."
        }
        _ if is_recorder && asks_channels => {
            "ask `nccl-stacks hang` with the same files: it says whether these kernels ran."
        }
        _ if is_recorder => {
            "record the channels of kernels, too: add kernel-channels to `nccl-stacks record --events`."
        }
        _ if has_channels => "record with a later version of the plugin: some write no stops of channels.",
        _ => "record the channels of kernels, too: bit 64 of NCCL_PROFILE_EVENT_MASK for NCCL's example plugin.",
    };
    let ends = match has_channels {
        true => ": the ends of their kernels are not recorded",
        false if is_recorder && asks_channels => ", though the channels of their kernels were asked for",
        false => "",
    };
    (ends, advice)
}

/// The remarks of all files by kind, each with its number: `2 lines with …`, and in how many files.
pub(in crate::answers::records) fn remarks(
    files: &[RecordFile],
    of: fn(&RecordFile) -> &Vec<Remark>,
) -> Vec<(String, u64)> {
    let mut sorts: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for remark in files.iter().flat_map(of) {
        let (count, files) = sorts.entry(remark.what).or_default();
        *count = count.saturating_add(remark.count);
        *files += 1;
    }
    sorts.into_iter().map(|(what, (n, files))| (format!("{} {what}", count(n)), files)).collect()
}
