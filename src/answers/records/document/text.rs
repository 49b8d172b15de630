//! Records for people: what is wrong, then tables.

use std::io::{self, Write};

use super::sentences::{diagnoses, first_advice, is_in_verdict};
use super::table::tables;
use super::{RecordsAnswer, flows};
use crate::answers::records::RecordsReport;
use crate::document::Screen;
use crate::document::form::Form;
use crate::document::format::count;

/// The default number of operations in text.
const ROWS: usize = 20;

/// The most lines about what is wrong.
const LINES: usize = 12;

/// The tables that text has; what flow files hold it says in words.
const TABLES: [&str; 3] = ["operations", "proxies", "events"];

pub(crate) fn records(answer: &RecordsAnswer<'_>, form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let (report, is_text) = (answer.report, form == Form::Text);
    if let Some(advice) = first_advice(report) {
        writeln!(out, "{}", screen.fill(&advice))?;
    }
    let mut others = diagnoses(report).enumerate().filter(|of| !is_in_verdict(of)).map(|(_, of)| of);
    let limit = if screen.verbose || !is_text { usize::MAX } else { LINES };
    others.by_ref().take(limit).try_for_each(|of| writeln!(out, "{}", screen.fill(&of.what)))?;
    let more = others.count();
    if more > 0 {
        writeln!(out, "… and {} more, with --format table", count(more as u64))?;
    }
    let limit = answer.limit.or(is_text.then_some(ROWS));
    let shown = tables(report).into_iter().filter(|table| !is_text || TABLES.contains(&table.id));
    shown.map(|table| table.first(limit)).try_for_each(|table| table.write(screen, out))?;
    if let Some(flows) = report.flows.as_ref().filter(|_| is_text) {
        write!(out, "\n{}", flows::text(flows))?;
    }
    bandwidths(report, screen, out)
}

/// Whether the recorded bandwidths match the computed ones.
fn bandwidths(report: &RecordsReport, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let Some(check) = &report.bandwidth_check else { return Ok(()) };
    let line = format!(
        "Bus bandwidths: {} of {} recorded ones follow from size and time within the rounding of the time.",
        count(check.agree),
        count(check.recorded)
    );
    writeln!(out, "\n{}", screen.fill(&line))
}
