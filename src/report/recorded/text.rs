//! Recorded operations for people: what is wrong, the operations, and the phases of the proxies.

use std::io::{self, Write};

use super::RecordsAnswer;
use super::flows;
use super::sentences::{first_advice, is_in_verdict, sentence};
use super::table::{CENSUS, EVENTS, PROXIES, bandwidths, section};
use crate::report::Screen;
use crate::report::format::count;

/// The default number of operations.
const ROWS: usize = 20;

/// The most lines about what is wrong.
const LINES: usize = 12;

pub(super) fn records(answer: &RecordsAnswer<'_>, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let report = answer.report;
    if let Some(advice) = first_advice(report) {
        writeln!(out, "{}", screen.fill(&advice))?;
    }
    let mut others = report.diagnoses.iter().enumerate().filter(|of| !is_in_verdict(of)).map(|(_, of)| of);
    let limit = if screen.verbose { usize::MAX } else { LINES };
    others.by_ref().take(limit).try_for_each(|of| writeln!(out, "{}", screen.fill(&sentence(of))))?;
    let more = others.count();
    if more > 0 {
        writeln!(out, "… and {} more, with --format table", count(more as u64))?;
    }
    let limit = Some(answer.limit.unwrap_or(ROWS));
    section("Operations", CENSUS, &report.census, limit, screen, out)?;
    section("Proxies", PROXIES, &report.proxies, limit, screen, out)?;
    section("Other events of NCCL's profiler", EVENTS, &report.profiler_events, limit, screen, out)?;
    if let Some(flows) = &report.flows {
        write!(out, "\n{}", flows::text(flows))?;
    }
    bandwidths(report, screen, out)
}
