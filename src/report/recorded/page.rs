//! What NCCL's own records have, as a page.

use std::io;

use super::sentences::{advice, kind, sentence, sizes, verdict};
use super::{RecordsAnswer, RecordsForm};
use crate::analysis::recorded::{CensusRow, Diagnosis};
use crate::report::format::{count, duration};
use crate::report::html::{Command, FINDINGS, Finding, Page, ROWS, Top};
use crate::time::Ns;

pub(super) fn records(answer: &RecordsAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let RecordsAnswer { report, name, on_page, .. } = answer;
    let (mut document, mut table) = (Vec::new(), Vec::new());
    let plain = RecordsAnswer::new(report, name);
    plain.write(RecordsForm::Json, &mut document)?;
    plain.write(RecordsForm::Csv, &mut table)?;
    let words = &on_page.words;
    let command = |what: &'static str, rest: &str| Command {
        view: "records",
        what,
        text: format!("nccl-stacks records {words}{rest}"),
    };
    let finding = |of: &Diagnosis| Finding {
        cost: kind(of).to_owned(),
        what: sentence(of),
        text: advice(of).unwrap_or_default().to_owned(),
        link: "view=records".to_owned(),
        evidence: "The operations",
    };
    let operations: u64 = report.census.iter().map(|row| row.count).sum();
    let page = Page {
        kind: "records",
        title: "What NCCL recorded".to_owned(),
        names: (*name).to_owned(),
        verdict: vec![verdict(report)],
        facts: vec![
            ("Operations", count(operations)),
            ("Communicators", count(report.communicators.len() as u64)),
            ("Files", count(report.files.len() as u64)),
        ],
        findings: report.diagnoses.iter().take(FINDINGS).map(finding).collect(),
        top: (!report.census.is_empty()).then(|| Top {
            title: "Operations by size",
            columns: vec!["collective", "size", "count", "ranks", "total time", "median", "busbw"],
            rows: report.census.iter().take(ROWS).map(row).collect(),
            found: report.census.len(),
        }),
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
