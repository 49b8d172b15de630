//! The window as a whole, before the stacks: a verdict in words, then its numbers and the kernels that ran longest.

use std::io::{self, Write};

use super::Screen;
use super::format::{
    WIDTH_WITHOUT_SCREEN, count, duration, kernels as kernels_of, percent, percent_or_unknown, visible,
};
use super::kernels;
use crate::analysis::not_asked::{FamilyTime, NotAsked};
use crate::analysis::stacks::StackReport;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{Costliest, Verdict, Waiting};
use crate::time::Ns;

/// A time that is a share of the window.
struct Time {
    label: &'static str,
    get: fn(&Summary) -> Ns,
}

const TIMES: &[Time] = &[
    Time { label: "GPU busy", get: |summary| summary.busy },
    Time { label: "compute", get: |summary| summary.compute },
    Time { label: "collectives", get: |summary| summary.collectives },
    Time { label: "exposed", get: |summary| summary.exposed },
];

/// Writes the summary: of an answer with stacks in short, else with the kernels that ran longest. Lines of their table are as wide as the
/// screen.
///
/// # Errors
/// What the writer fails with.
pub(super) fn summary(report: &StackReport, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let summary = &report.summary;
    writeln!(out, "{}", screen.fill(&verdict(&report.verdict(), report, screen)))?;
    if let Some(text) = not_asked(&report.not_asked) {
        writeln!(out, "{}", screen.accent(&screen.fill(&text)))?;
    }
    if let Some(text) = beyond(report) {
        writeln!(out, "{}", screen.fill(&text))?;
    }
    if report.has_answer() && !screen.verbose {
        let share = |Time { label, get }: &Time| format!("{label} {}", percent_or_unknown(summary.share(get(summary))));
        let shares: Vec<String> = TIMES.iter().map(share).collect();
        let of = if summary.gpus == 1 { String::new() } else { format!(" on {} GPUs, summed", summary.gpus) };
        let line = format!("Of {}{of}: {}", duration(summary.wall), shares.join(", "));
        return writeln!(out, "{}", screen.fill(&line));
    }
    writeln!(out)?;
    for Time { label, get } in TIMES {
        let time = get(summary);
        let share = percent_or_unknown(summary.share(time));
        writeln!(out, " {label:<12}{:>12}{share:>10}", duration(time))?;
    }
    let of = if summary.gpus == 1 { String::new() } else { format!(" on {} GPUs, summed", summary.gpus) };
    writeln!(out, " {:<12}{:>12}{of}\n", "window", duration(summary.wall))?;
    let table = kernels::table(&summary.top_kernels, Some(screen.width.unwrap_or(WIDTH_WITHOUT_SCREEN)));
    writeln!(out, "{}", table.trim_end())?;
    match summary.other_names() {
        0 => Ok(()),
        more => writeln!(out, " … and {} more names", count(more)),
    }
}

/// What to say of the window as a whole, a line each, without the stack that has most of it.
pub(super) fn whole(report: &StackReport) -> Vec<String> {
    let verdict = Verdict { costliest: None, ..report.verdict() };
    let verdict = self::verdict(&verdict, report, &Screen::default());
    [Some(verdict), not_asked(&report.not_asked), beyond(report)].into_iter().flatten().collect()
}

/// How many of the kernels ran outside of the window.
fn beyond(report: &StackReport) -> Option<String> {
    (report.beyond > 0).then(|| {
        format!(
            "{} of the {} ran outside of the window; the shares of the window do not have them.",
            count(report.beyond),
            kernels_of(report.coverage.kernels)
        )
    })
}

/// A verdict in words.
fn verdict(verdict: &Verdict<'_>, report: &StackReport, screen: &Screen) -> String {
    let (traces, is_narrowed) = (report.traces.len(), !report.not_asked.families.is_empty());
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
    if let Some(Costliest { share, of, rank, from, within, waiting, .. }) = &verdict.costliest {
        let asked = if is_narrowed { format!(" of the kernels asked for ({})", duration(*of)) } else { String::new() };
        let on = rank.map_or(String::new(), |rank| format!(" on {}", visible(rank)));
        let from = from.map_or(String::new(), |from| format!(", from {}", screen.accent(&visible(from))));
        let within: String = within.iter().map(|frame| format!(" in {}", visible(frame))).collect();
        text.push_str(&format!(
            "\n{} of the exposed time{asked} is that of one stack{on}{from}{within}.",
            percent(*share)
        ));
        if let Some(Waiting { mean, best, .. }) = waiting {
            let (mean, best) = (duration(Ns::rounded(*mean)), duration(*best));
            let (over, advice) = if traces > 1 {
                (
                    format!(" over {traces} traces"),
                    ", which bounds the transfer: the rest is waiting for other ranks, or contention. The command ranks says for whom.",
                )
            } else {
                let advice = ": the rest is waiting for other ranks, or contention. Give the traces of all ranks to the command ranks to see who waits for whom.";
                (String::new(), advice)
            };
            text.push_str(&format!(
                "\nIts kernels took {mean} in the mean, the fastest of this size{over} {best}{advice}"
            ));
        }
    }
    text
}

/// `121.100 ms of 125.200 ms of communication is in kernels that are not asked for: custom-allreduce 110.700 ms, nccl 10.400 ms.`
pub fn not_asked(found: &NotAsked) -> Option<String> {
    let family = |family: &FamilyTime| format!("{} {}", family.family, duration(family.gpu_time));
    let families: Vec<String> = found.families.iter().map(family).collect();
    (!families.is_empty()).then(|| {
        format!(
            "{} of {} of communication is in kernels that are not asked for: {}.",
            duration(found.gpu_time()),
            duration(found.collectives),
            families.join(", ")
        )
    })
}
