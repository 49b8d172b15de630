//! What every form says of records: what was recorded, what is wrong, and facts.

use super::flows;
use super::sentences::sentences;
use crate::answers::records::RecordsReport;
use crate::answers::records::flows::FlowRunReport;
use crate::document::findings::{Document, Finding, FindingKind};
use crate::document::format::count;

/// What all forms say.
pub(crate) fn document(report: &RecordsReport) -> Document {
    let operations: u64 = report.census.iter().map(|row| row.count).sum();
    Document {
        title: "What NCCL recorded".to_owned(),
        verdict: sentences(report),
        findings: report.diagnoses.iter().cloned().chain(flow_findings(report)).collect(),
        facts: vec![
            ("Operations", count(operations + flow_runs(report).map(|run| run.ops).sum::<u64>())),
            ("Communicators", count(report.communicators.len() as u64)),
            ("Files", count(report.files.len() as u64)),
        ],
        ..Document::default()
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
        what: run.findings.first().map_or(String::new(), |first| first.what.clone()),
        evidence: run.findings.iter().skip(1).map(|finding| finding.what.clone()).collect(),
        ..Finding::default()
    })
}
