//! What every form says of records: what was recorded, what is wrong, and facts.

use super::flows;
use super::sentences::{advice, kind, sentence, sentences};
use crate::answers::records::flows::FlowRunReport;
use crate::answers::records::{Diagnosis, RecordsReport};
use crate::document::findings::{Document, Finding, FindingKind, Link, Place};
use crate::document::format::count;

/// What all forms say.
pub(crate) fn document(report: &RecordsReport) -> Document {
    let operations: u64 = report.census.iter().map(|row| row.count).sum();
    Document {
        title: "What NCCL recorded".to_owned(),
        verdict: sentences(report),
        findings: report.diagnoses.iter().map(finding).chain(flow_findings(report)).collect(),
        facts: vec![
            ("Operations", count(operations + flow_runs(report).map(|run| run.ops).sum::<u64>())),
            ("Communicators", count(report.communicators.len() as u64)),
            ("Files", count(report.files.len() as u64)),
        ],
        ..Document::default()
    }
}

fn finding(of: &Diagnosis) -> Finding {
    let ranks = match of {
        Diagnosis::Hang { ranks }
        | Diagnosis::Bound { ranks, .. }
        | Diagnosis::Gaps { ranks, .. }
        | Diagnosis::NoOperations { ranks, .. } => ranks.clone(),
        Diagnosis::SlowChannel { rank, .. } | Diagnosis::SlowLink { rank, .. } => rank.iter().copied().collect(),
        _ => Vec::new(),
    };
    Finding {
        kind: kind(of),
        cost: title(kind(of)).to_owned(),
        what: sentence(of),
        place: Place { ranks, ..Place::default() },
        advice: advice(of).map(str::to_owned),
        link: Some(Link { text: "The operations", view: "records", ..Link::default() }),
        ..Finding::default()
    }
}

/// A kind of finding in a few words.
fn title(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Hang => "Hang",
        FindingKind::FailedCalls => "Failed calls",
        FindingKind::NotRecorded => "Not recorded",
        FindingKind::MixedMethods => "Mixed methods",
        FindingKind::SlowChannel => "Slow channel",
        FindingKind::SlowLink => "Slow link",
        FindingKind::Warned => "NCCL warned",
        FindingKind::ProxyBound => "Bound by the proxy",
        FindingKind::BandwidthsDiffer => "Bandwidths differ",
        FindingKind::Gaps => "Gaps",
        FindingKind::RanksNotHere => "Missing ranks",
        FindingKind::NoOperations => "No operations",
        FindingKind::SmallLeftOut => "Small operations left out",
        FindingKind::NoTimes => "No times",
        FindingKind::Repaired => "Repaired",
        _ => "Left out",
    }
}

/// The folders of flow files.
fn flow_runs(report: &RecordsReport) -> impl Iterator<Item = &FlowRunReport> {
    report.flows.iter().flat_map(|flows| &flows.runs)
}

/// What is wrong in flow files: a finding for each folder.
fn flow_findings(report: &RecordsReport) -> impl Iterator<Item = Finding> {
    flow_runs(report).filter(|run| !run.findings.is_empty()).map(|run| Finding {
        kind: FindingKind::Flows,
        cost: flows::folder(run).to_owned(),
        what: run.findings.first().map_or(String::new(), flows::sentence),
        evidence: run.findings.iter().skip(1).map(flows::sentence).collect(),
        link: Some(Link { text: "The folders", view: "records", ..Link::default() }),
        ..Finding::default()
    })
}
