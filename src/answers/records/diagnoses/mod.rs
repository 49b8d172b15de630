//! Problems in what was recorded: what makes the job slow (`slow`), what the records lack (`lacks`), and what NCCL itself reported. A problem is a
//! [`Finding`] and gets its words where it is found.

mod lacks;
mod slow;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use lacks::remarks;

use super::RecordsReport;
use crate::answers::hang::document::{NOTHING, difference, failed, hung, is_reported, lagging, operation, warned};
use crate::answers::hang::{EvidenceKind, HangReport, HungGroup, NcclWarning, OpenGroup, Outcome, hang, merged};
use crate::answers::recording;
use crate::answers::recording::{Loss, words};
use crate::document::findings::{Finding, FindingKind, Place};
use crate::document::format::{ranks, size, visible};
use crate::operation::Source;
use crate::operations::communicators::Communicators;
use crate::records::{RecordFile, Records};

/// So many groups are named in which calls differ.
const DIFFERING: usize = 8;

/// A problem: in few words, in a sentence, and its advice. Ranks are ranks within the communicator, or of the job if only that is known; those of a hang
/// are ranks of the job.
fn problem(
    kind: FindingKind,
    title: &str,
    what: String,
    ranks: impl IntoIterator<Item = u32>,
    advice: Option<&str>,
) -> Finding {
    Finding {
        kind,
        cost: title.to_owned(),
        what,
        place: Place { ranks: ranks.into_iter().collect(), ..Place::default() },
        advice: advice.map(str::to_owned),
        ..Finding::default()
    }
}

/// The problems, the most important first.
pub(super) fn find(records: &Records, communicators: &Communicators, report: &RecordsReport) -> Vec<Finding> {
    let judged = hang(records);
    let mut found = hangs(records, &judged);
    found.extend(recording::failed_calls(records).iter().map(|calls| {
        let advice = "read what NCCL prints about it with NCCL_DEBUG=WARN.";
        problem(FindingKind::FailedCalls, "Failed calls", words::failed(calls), [], Some(advice))
    }));
    found.extend(merged(records).iter().map(|of| warning(of, &judged)));
    found.extend(recording::losses(records).iter().filter_map(not_recorded));
    found.extend(mixed(records, communicators));
    found.extend(slow::find(records, report));
    if found.is_empty() && judged.is_empty() && report.census.is_empty() && report.flows.is_none() {
        found.push(problem(FindingKind::NoOperations, "Nothing to judge by", NOTHING.to_owned(), [], None));
    }
    found.extend(lacks::find(records, communicators, report));
    found
}

/// Dumps, answers of RAS and timeouts suggest that the job hung, so only in these hangs are looked for; in all, calls that differ and processes that a source
/// reports.
fn hangs(records: &Records, report: &HangReport) -> Vec<Finding> {
    let is_made_for_that = |file: &RecordFile| matches!(file.source, Some(Source::FLIGHT_RECORDER | Source::RAS));
    let is_fewer = |group: &&HungGroup| group.evidence.iter().any(|of| of.kind == EvidenceKind::FewerMessages);
    let differing = report.differing.iter().chain(report.lagging.iter().filter(is_fewer));
    let differs = |group: &HungGroup| {
        let advice = "ask `nccl-stacks hang` with the same files: it says in which call, and on which ranks.";
        let what = difference(group).unwrap_or_default();
        problem(FindingKind::Hang, "Calls differ", what, group.odd_ranks.clone(), Some(advice))
    };
    let mut found: Vec<Finding> = differing.take(DIFFERING).map(differs).collect();
    let has_timed_out =
        !report.timed_out_ranks.is_empty() || records.operations.iter().any(|of| of.source == Source::WATCHDOG);
    let is_said = !report.awaited_ranks.is_empty() || !report.failed_ranks.is_empty();
    let is_reported_alone =
        report.lagging.is_empty() && report.processes.iter().any(|of| of.group.is_none() && !of.made_less);
    let what = match (report.outcome, &report.culprits[..]) {
        (Outcome::Hung | Outcome::Lagging, culprits @ [_, ..]) => {
            Some(format!("The job hangs, or is held up, on {}.", ranks(culprits)))
        }
        (Outcome::Hung, []) => Some(hung(report)),
        (Outcome::Lagging, []) if is_reported_alone || report.lagging.first().is_some_and(is_reported) => {
            Some(lagging(report))
        }
        (Outcome::Lagging, []) if report.lagging.is_empty() && is_said => Some(lagging(report)),
        (Outcome::Lagging, []) if !report.lagging.is_empty() => {
            Some("Ranks have done less than others of their group.".to_owned())
        }
        _ => None,
    };
    let timed_out = has_timed_out.then(|| match report.open.first().filter(|_| what.is_none()) {
        Some(OpenGroup { name, collective, sequence, waiting_ranks, .. }) => {
            let what = operation(collective.as_deref(), *sequence);
            format!("A collective timed out: {what} of {} on {}.", visible(&name.group), ranks(waiting_ranks))
        }
        None => "A collective timed out.".to_owned(),
    });
    // A mismatch that ranks print is no timeout.
    let timed_out = timed_out.filter(|_| what.is_none() || !report.timed_out_ranks.is_empty());
    let what = if what.is_none() { failed(report) } else { what };
    let is_looked_for = has_timed_out || is_said || is_reported_alone || records.files.iter().any(is_made_for_that);
    let advice = "ask `nccl-stacks hang` with the same files: it says in which call, and why.";
    let what: Vec<String> = timed_out.into_iter().chain(what.filter(|_| is_looked_for)).collect();
    if !what.is_empty() {
        found.insert(0, problem(FindingKind::Hang, "Hang", what.join(" "), report.culprits.clone(), Some(advice)));
    }
    found
}

fn warning(of: &NcclWarning, judged: &HangReport) -> Finding {
    let advice = match of.kind {
        "network" => Some(
            "look at the NIC, the cable and the switch port between both sides, and whether the process on the other side still runs.",
        ),
        "cuda" => Some("look at the GPU: Xid errors in dmesg, nvidia-smi -q; and at what ran there before."),
        "setup" => Some("look at which GPU and which rank each process gets when it starts."),
        "mismatch" if !judged.differing.is_empty() || judged.outcome == Outcome::Hung => {
            Some("ask `nccl-stacks hang` with the same files: it says which ranks call something different.")
        }
        "mismatch" => Some(
            "let all ranks log their calls (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,COLL): `nccl-stacks hang` compares these logs.",
        ),
        _ => None,
    };
    problem(FindingKind::Warned, "NCCL warned", warned(of), [], advice)
}

fn not_recorded(Loss { why, count, .. }: &Loss) -> Option<Finding> {
    let what = words::not_recorded(why.as_deref()?, *count);
    let advice = "choose a folder in which the job's processes can create files, with room for their rings (--dir, --ring-size).";
    Some(problem(FindingKind::NotRecorded, "Not recorded", what, [], Some(advice)))
}

/// Operations that should use one algorithm and protocol. If any part of the key is unknown, they may differ.
type Same<'a> = (Source, usize, &'a str, u64);

/// Collectives of one size that ran with different algorithms or protocols: ranks disagree, or NCCL changed its choice.
fn mixed(records: &Records, communicators: &Communicators) -> Vec<Finding> {
    let mut methods: BTreeMap<Same<'_>, BTreeMap<String, BTreeSet<u32>>> = BTreeMap::new();
    for operation in records.operations.iter().chain(records.calls.iter().map(|(like, _)| like)) {
        let Some(collective) = operation.collective.as_deref() else { continue };
        let Some(method) = method(operation.algorithm.as_deref(), operation.protocol.as_deref()) else { continue };
        let Some((group, bytes)) = communicators.of_operation(operation).zip(operation.bytes) else { continue };
        let key = (operation.source, group, collective, bytes);
        methods.entry(key).or_default().entry(method).or_default().extend(operation.place_or_rank());
    }
    let advice = "compare the environment (NCCL_ALGO, NCCL_PROTO, NCCL version, topology) of these ranks.";
    let several = methods.into_iter().filter(|(_, methods)| methods.len() > 1);
    let finding = |((_, group, collective, bytes), methods): (Same<'_>, BTreeMap<String, BTreeSet<u32>>)| {
        let group = communicators.title(Some(group)).map_or(String::new(), |name| format!(" in {}", visible(&name)));
        let ways: Vec<String> =
            methods.iter().map(|(method, ranks)| format!("{} on {}", visible(method), some_ranks(ranks))).collect();
        let (collective, ways, n) = (visible(collective), ways.join("; "), ways.len());
        let what = format!("{collective} of {}{group} ran in {n} ways: {ways}.", size(bytes));
        problem(FindingKind::MixedMethods, "Mixed methods", what, [], Some(advice))
    };
    several.map(finding).collect()
}

fn method(algorithm: Option<&str>, protocol: Option<&str>) -> Option<String> {
    match (algorithm, protocol) {
        (Some(algorithm), Some(protocol)) => Some(format!("{algorithm}/{protocol}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

fn some_ranks(of: &BTreeSet<u32>) -> String {
    let of: Vec<u32> = of.iter().copied().collect();
    if of.is_empty() { "ranks that are not recorded".to_owned() } else { ranks(&of) }
}
