//! The contents of NCCL's own records, as a page.

use std::io;

use super::flows;
use super::sentences::{advice, kind, sentence, sizes, verdict};
use super::{RecordsAnswer, RecordsForm};
use crate::analysis::recorded::flows::FlowRunReport;
use crate::analysis::recorded::{CensusRow, Diagnosis, RecordsReport};
use crate::report::OnPage;
use crate::report::format::{count, duration};
use crate::report::html::{Command, FINDINGS, Finding, Link, Page, ROWS, Top};
use crate::time::Ns;

pub(super) fn records(answer: &RecordsAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let RecordsAnswer { report, name, on_page, .. } = answer;
    let (mut document, mut table) = (Vec::new(), Vec::new());
    let plain = RecordsAnswer::new(report, name);
    plain.write(RecordsForm::Json, &mut document)?;
    plain.write(RecordsForm::Csv, &mut table)?;
    let OnPage { inputs, options, .. } = on_page;
    let command = |what: &'static str, rest: &str| Command {
        view: "records",
        what,
        text: format!("nccl-stacks records {inputs}{options}{rest}"),
    };
    let finding = |of: &Diagnosis| Finding {
        cost: kind(of).to_owned(),
        what: sentence(of),
        text: advice(of).unwrap_or_default().to_owned(),
        link: Some(Link { text: "The operations", view: "records", ..Link::default() }),
        ..Finding::default()
    };
    let operations: u64 = report.census.iter().map(|row| row.count).sum();
    let page = Page {
        kind: "records",
        title: "What NCCL recorded".to_owned(),
        names: (*name).to_owned(),
        verdict: vec![verdict(report)],
        facts: vec![
            ("Operations", count(operations + flow_runs(report).map(|run| run.ops).sum::<u64>())),
            ("Communicators", count(report.communicators.len() as u64)),
            ("Files", count(report.files.len() as u64)),
        ],
        findings: report.diagnoses.iter().map(finding).chain(flow_findings(report)).take(FINDINGS).collect(),
        top: top_of_flows(report).filter(|_| report.census.is_empty()).or((!report.census.is_empty()).then(|| Top {
            title: "Operations by size",
            columns: vec!["collective", "size", "count", "ranks", "total time", "median", "busbw"],
            rows: report.census.iter().take(ROWS).map(row).collect(),
            found: report.census.len(),
        })),
        documents: vec![("records", document)],
        tables: vec![("records", table)],
        commands: vec![
            command("All tables", " --format table"),
            command("Everything, for programs", " --format json --output records.json"),
            command("For spreadsheets", " --format csv --output records.csv"),
        ],
        notes: on_page.notes.clone(),
        ..Page::default()
    };
    page.write(out)
}

/// The folders of flow files.
fn flow_runs(report: &RecordsReport) -> impl Iterator<Item = &FlowRunReport> {
    report.flows.iter().flat_map(|flows| &flows.runs)
}

fn folder(run: &FlowRunReport) -> String {
    if run.folder.is_empty() { "this folder".to_owned() } else { run.folder.clone() }
}

/// What is wrong in flow files: a finding for each folder.
fn flow_findings(report: &RecordsReport) -> impl Iterator<Item = Finding> {
    flow_runs(report).filter(|run| !run.findings.is_empty()).map(|run| Finding {
        cost: folder(run),
        what: run.findings.first().map_or(String::new(), flows::sentence),
        text: run.findings.iter().skip(1).map(flows::sentence).collect::<Vec<_>>().join(" "),
        link: Some(Link { text: "The folders", view: "records", ..Link::default() }),
        ..Finding::default()
    })
}

fn top_of_flows(report: &RecordsReport) -> Option<Top> {
    let row = |run: &FlowRunReport| {
        vec![
            folder(run),
            count(run.ranks.len() as u64),
            count(run.ops),
            count(run.steps),
            run.expected_steps.map_or("unknown".to_owned(), count),
            count(run.findings.len() as u64),
        ]
    };
    let rows: Vec<Vec<String>> = flow_runs(report).take(ROWS).map(row).collect();
    (!rows.is_empty()).then(|| Top {
        title: "Flow files",
        columns: vec!["folder", "ranks", "operations", "steps", "steps expected", "what is off"],
        rows,
        found: flow_runs(report).count(),
    })
}

fn row(of: &CensusRow) -> Vec<String> {
    let time = of.time;
    vec![
        of.collective.clone().unwrap_or_else(|| "unknown".to_owned()),
        of.size.map_or(String::new(), |class| sizes(class.min_bytes, class.max_bytes)),
        count(of.count),
        count(of.ranks),
        time.map_or(String::new(), |time| duration(time.total)),
        time.map_or(String::new(), |time| duration(Ns::rounded(time.median))),
        of.busbw_gb_per_s.map_or(String::new(), |bus| format!("{bus:.1} GB/s")),
    ]
}
