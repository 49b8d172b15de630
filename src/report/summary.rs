//! The window as a whole, before the stacks: a verdict in words, then its numbers and the kernels that ran longest.

use std::io::{self, Write};

use super::format::{WIDTH_WITHOUT_SCREEN, count, duration, percent, percent_or_unknown, visible};
use super::kernels;
use crate::analysis::stacks::StackReport;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{Costliest, Verdict};
use crate::time::Ns;

/// A time that is a share of the window.
struct Time {
    label: &'static str,
    get: fn(&Summary) -> Ns,
}

const TIMES: &[Time] = &[
    Time { label: "GPU busy", get: |summary| summary.busy },
    Time { label: "Compute", get: |summary| summary.compute },
    Time { label: "Collectives", get: |summary| summary.collectives },
    Time { label: "Exposed", get: |summary| summary.exposed },
];

/// Writes the summary. Lines of the table of kernels are at most `width`.
///
/// # Errors
/// What the writer fails with.
pub(super) fn summary(report: &StackReport, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let summary = &report.summary;
    writeln!(out, "{}\n", verdict(&report.verdict()))?;
    for Time { label, get } in TIMES {
        let time = get(summary);
        let share = percent_or_unknown(summary.share(time));
        writeln!(out, " {label:<12}{:>12}{share:>10}", duration(time))?;
    }
    let of = if summary.gpus == 1 { String::new() } else { format!(" on {} GPUs, summed", summary.gpus) };
    writeln!(out, " {:<12}{:>12}{of}\n", "Window", duration(summary.wall))?;
    let table = kernels::table(&summary.top_kernels, Some(width.unwrap_or(WIDTH_WITHOUT_SCREEN)));
    writeln!(out, "{}", table.trim_end())?;
    match summary.other_names() {
        0 => writeln!(out),
        more => writeln!(out, " … and {} more names\n", count(more)),
    }
}

/// A verdict in words.
fn verdict(verdict: &Verdict<'_>) -> String {
    let Some(collectives) = verdict.collectives else {
        let launched = if verdict.has_stacks { "; those below were launched in it" } else { "" };
        return format!("No collective ran while the window lasted{launched}.");
    };
    let mut text = format!(
        "Collectives ran for {} of the window; for {} of that time ({}, {} of the window) no compute kernel ran beside them.",
        percent(collectives.share_of_window),
        percent(collectives.exposed_share),
        duration(collectives.exposed),
        percent(collectives.exposed_share_of_window)
    );
    if let Some(Costliest { share, from, within, .. }) = verdict.costliest {
        let from = from.map_or(String::new(), |from| format!(", from {}", visible(from)));
        let within = within.map_or(String::new(), |within| format!(" in {}", visible(within)));
        text.push_str(&format!(
            "\nOf the exposed time of the kernels asked for {} is that of one stack{from}{within}.",
            percent(share)
        ));
    }
    text
}
