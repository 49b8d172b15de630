//! The contents of NCCL's own records, as a page.

use std::io;

use super::RecordsAnswer;
use super::document::{flow_runs, folder};
use super::sentences::sizes;
use crate::analysis::recorded::flows::FlowRunReport;
use crate::analysis::recorded::{CensusRow, RecordsReport};
use crate::report::OnPage;
use crate::report::document::Answer;
use crate::report::form::Form;
use crate::report::format::{count, duration};
use crate::report::html::{Command, Page, ROWS, Top};
use crate::time::Ns;

pub(super) fn records(answer: &RecordsAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let RecordsAnswer { report, name, on_page: OnPage { inputs, options, notes, .. }, .. } = answer;
    let plain = RecordsAnswer::new(report, name);
    let command = |what: &'static str, rest: &str| Command {
        view: "records",
        what,
        text: format!("nccl-stacks records {inputs}{options}{rest}"),
    };
    let page = Page {
        kind: "records",
        names: (*name).to_owned(),
        document: answer.document(),
        top: top_of_flows(report).filter(|_| report.census.is_empty()).or((!report.census.is_empty()).then(|| Top {
            title: "Operations by size",
            columns: vec!["collective", "size", "count", "ranks", "total time", "median", "busbw"],
            rows: report.census.iter().take(ROWS).map(row).collect(),
            found: report.census.len(),
        })),
        documents: vec![("records", plain.bytes(Form::Json)?)],
        tables: vec![("records", plain.bytes(Form::Csv)?)],
        commands: vec![
            command("All tables", " --format table"),
            command("Everything, for programs", " --format json --output records.json"),
            command("For spreadsheets", " --format csv --output records.csv"),
        ],
        notes: notes.clone(),
        ..Page::default()
    };
    page.write(out)
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
