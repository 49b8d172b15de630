//! What every form says of records: what was recorded, what is wrong, and facts.

use super::flows;
use crate::answers::records::flows::FlowReport;
use crate::answers::records::{CensusRow, RecordsReport};
use crate::document::findings::{Document, Finding, FindingKind};
use crate::document::format::{count, duration, plural, size, visible};
use crate::time::Ns;

/// This many kinds of damage are named; the others are counted.
const DAMAGES: usize = 4;

/// At most so many sentences are about anything else.
const SENTENCES: usize = 3;

/// What was lost, what was recorded, what is wrong, and what to do first, in one line.
pub fn verdict(report: &RecordsReport) -> String {
    let said = left_out(&report.left_out).into_iter().chain(sentences(report)).chain(first_advice(report));
    said.collect::<Vec<_>>().join(" ")
}

fn sentences(report: &RecordsReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if report.flows.is_none() || !report.census.is_empty() {
        sentences.push(recorded(report));
    }
    sentences.extend(report.flows.iter().map(flows::verdict));
    let is_wrong = |flows: &FlowReport| flows.runs.iter().any(|run| !run.findings.is_empty());
    let mut wrong: Vec<String> =
        diagnoses(report).enumerate().filter(is_in_verdict).map(|(_, of)| of.what.clone()).collect();
    if report.diagnoses.is_empty() && !report.flows.as_ref().is_some_and(is_wrong) {
        wrong.push("Nothing is off.".to_owned());
    }
    if sentences.len() + wrong.len() < SENTENCES {
        sentences.extend(report.census.first().and_then(longest));
    }
    sentences.extend(wrong);
    sentences
}

/// What is wrong without what was lost, which precedes the verdict.
pub(crate) fn diagnoses(report: &RecordsReport) -> impl Iterator<Item = &Finding> {
    report.diagnoses.iter().filter(|of| of.kind != FindingKind::Skipped)
}

/// Whether the verdict includes a diagnosis: the first one, and failures, on which everything else depends.
pub(crate) fn is_in_verdict((at, diagnosis): &(usize, &Finding)) -> bool {
    *at == 0 || matches!(diagnosis.kind, FindingKind::FailedCalls | FindingKind::NotRecorded)
}

/// What could not be used: `Left out: 137 records that newer ones have overwritten.`
pub(crate) fn left_out(kinds: &[(String, u64)]) -> Option<String> {
    let lines = kinds.iter().map(|(what, _)| what.as_str());
    let more = lines.len().saturating_sub(DAMAGES);
    let more = if more > 0 { format!(", and {} of other kinds", count(more as u64)) } else { String::new() };
    let shown: Vec<&str> = lines.take(DAMAGES).collect();
    (!shown.is_empty()).then(|| format!("Left out: {}{more}.", shown.join(", ")))
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
        some => format!(" of {}", plural(some, "communicator")),
    };
    format!(
        "{}{communicators}, recorded by {} in {}.",
        plural(operations, "operation"),
        sources.join(", "),
        plural(files, "file")
    )
}

/// `Most time is in all_reduce of 8.39 MB: 96.1 ms in 512 operations, 180.0 µs each in the median, 320.1 GB/s (busbw).`
fn longest(row: &CensusRow) -> Option<String> {
    let time = row.time?;
    let of_size = row.size.map_or(String::new(), |class| format!(" of {}", sizes(class.min_bytes, class.max_bytes)));
    let bandwidth = row.busbw_gb_per_s.map_or(String::new(), |bus| format!(", {bus:.1} GB/s (busbw)"));
    Some(format!(
        "Most time is in {}{of_size}: {} in {}, {} each in the median{bandwidth}.",
        row.collective.as_deref().map_or("operations of unknown kind".into(), visible),
        duration(time.total_ns),
        plural(row.timed, "operation"),
        duration(Ns::rounded(time.median_ns))
    ))
}

/// `8.39 MB`, or `8.39 to 12.58 MB`.
pub(crate) fn sizes(min: u64, max: u64) -> String {
    if min == max { size(min) } else { format!("{} to {}", size(min), size(max)) }
}

/// What to do first, as a sentence.
pub(crate) fn first_advice(report: &RecordsReport) -> Option<String> {
    let advice = diagnoses(report).next()?.advice.as_ref()?;
    Some(format!("First: {advice}"))
}

pub(crate) fn document(report: &RecordsReport) -> Document {
    let operations: u64 = report.census.iter().map(|row| row.count).sum();
    Document {
        title: "What NCCL recorded".to_owned(),
        damage: left_out(&report.left_out).into_iter().collect(),
        verdict: sentences(report),
        findings: report.diagnoses.iter().cloned().chain(flow_findings(report)).collect(),
        facts: vec![
            ("Operations", count(operations + flows::runs(report).map(|run| run.ops).sum::<u64>())),
            ("Communicators", count(report.communicators.len() as u64)),
            ("Files", count(report.files.len() as u64)),
        ],
        ..Document::default()
    }
}

/// What is wrong in flow files: a finding for each folder.
fn flow_findings(report: &RecordsReport) -> impl Iterator<Item = Finding> {
    flows::runs(report).filter(|run| !run.findings.is_empty()).map(|run| Finding {
        kind: FindingKind::Flows,
        cost: flows::folder(run).to_owned(),
        what: run.findings.first().map_or(String::new(), |first| first.what.clone()),
        evidence: run.findings.iter().skip(1).map(|finding| finding.what.clone()).collect(),
        ..Finding::default()
    })
}
