//! The window as a whole, before the stacks: a verdict in words, then numbers and the longest-running kernels.

use std::io::{self, Write};

use super::Screen;
use super::format::{WIDTH_WITHOUT_SCREEN, count, duration, percent, percent_or_unknown, visible};
use super::{damage, kernels};
use crate::analysis::not_asked::{FamilyTime, NotAsked, PossibleTime};
use crate::analysis::stacks::StackReport;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{Costliest, Verdict, Waiting};
use crate::attribution::selection::ALL_FAMILIES;
use crate::names::families::FUSED;
use crate::time::{Ns, Window};

/// A time that is shown as a share.
struct Time {
    label: &'static str,
    get: fn(&Summary) -> Ns,
    /// Whether it covers everything that runs on the GPUs, even where the other times cover only what the window launched.
    is_of_all: bool,
}

const TIMES: &[Time] = &[
    Time { label: "GPU busy", get: |summary| summary.busy, is_of_all: true },
    Time { label: "compute", get: |summary| summary.compute, is_of_all: false },
    Time { label: "collectives", get: |summary| summary.collectives, is_of_all: false },
    Time { label: "exposed", get: |summary| summary.exposed, is_of_all: false },
];

/// Writes the summary: a short one before stacks, otherwise one with the longest-running kernels, in a table as wide as the
/// screen.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn summary(report: &StackReport, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let summary = &report.summary;
    for text in damaged(report) {
        writeln!(out, "{}", screen.accent(&screen.fill(&text)))?;
    }
    writeln!(out, "{}", screen.fill(&verdict(&report.verdict(), report, screen)))?;
    for text in beside(&report.not_asked) {
        writeln!(out, "{}", screen.accent(&screen.fill(&text)))?;
    }
    if report.has_answer() && !screen.verbose {
        let share = |time: &Time| {
            let any = if time.is_of_all && summary.gpu_span.is_some() { " with any work" } else { "" };
            format!("{}{any} {}", time.label, percent_or_unknown(summary.share((time.get)(summary))))
        };
        let shares: Vec<String> = TIMES.iter().map(share).collect();
        let line = format!("Of {}: {}", measured(report), shares.join(", "));
        return writeln!(out, "{}", screen.fill(&line));
    }
    writeln!(out)?;
    for Time { label, get, .. } in TIMES {
        let time = get(summary);
        let share = percent_or_unknown(summary.share(time));
        writeln!(out, " {label:<12}{:>12}{share:>10}", duration(time))?;
    }
    writeln!(out, " {:<12}{:>12}{}", summary.whole(), duration(summary.wall), on_gpus(summary))?;
    if let Some(window) = launched_within(report) {
        writeln!(out, " {:<12}{:>12}", "window", duration(window))?;
    }
    writeln!(out)?;
    let table = kernels::table(&summary.top_kernels, Some(screen.width.unwrap_or(WIDTH_WITHOUT_SCREEN)));
    writeln!(out, "{}", table.trim_end())?;
    match summary.other_names() {
        0 => Ok(()),
        more => writeln!(out, " … and {} more names", count(more)),
    }
}

/// The denominator of the shares: `5.240 ms`, or `the GPU span of 5.240 ms (launched within 1.394 ms)`. Windows of several traces have
/// separate clocks, so they form no common span.
pub(super) fn measured(report: &StackReport) -> String {
    let summary = &report.summary;
    let length = format!("{}{}", duration(summary.wall), on_gpus(summary));
    match launched_within(report) {
        Some(window) => {
            let too = if summary.gpu_annotation.is_some() { "; its annotation on the GPU spans it, too" } else { "" };
            format!("the GPU span of {length} (launched within {}{too})", duration(window))
        }
        None if summary.gpu_span.is_some() => format!("GPU spans of {length}"),
        None => length,
    }
}

/// The length of the window whose launches are measured, if there is one such window.
fn launched_within(report: &StackReport) -> Option<Ns> {
    report.summary.gpu_span.filter(|_| report.traces.len() < 2).map(|_| report.summary.window.duration())
}

/// A note that times are sums over several GPUs.
fn on_gpus(summary: &Summary) -> String {
    if summary.gpus == 1 { String::new() } else { format!(" on {} GPUs, summed", summary.gpus) }
}

/// The sentences about the window as a whole, without its costliest stack.
pub(super) fn whole(report: &StackReport) -> Vec<String> {
    let verdict = Verdict { costliest: None, ..report.verdict() };
    let verdict = self::verdict(&verdict, report, &Screen::default());
    damaged(report).into_iter().chain(std::iter::once(verdict)).chain(beside(&report.not_asked)).collect()
}

/// A sentence for each kind of communication outside of the selected collectives.
pub fn beside(found: &NotAsked) -> impl Iterator<Item = String> {
    [not_asked(found), fused(found), possible(found)].into_iter().flatten()
}

/// The sentences about damage that precede the verdict.
fn damaged(report: &StackReport) -> Vec<String> {
    let windows: Vec<Window> = report.traces.iter().map(|trace| trace.window).collect();
    damage::sentences(&report.damage, windows.len(), &windows)
}

/// The verdict in words.
fn verdict(verdict: &Verdict<'_>, report: &StackReport, screen: &Screen) -> String {
    let (traces, is_narrowed) = (report.traces.len(), !report.not_asked.families.is_empty());
    let Some(collectives) = verdict.collectives else {
        if !report.not_asked.possible.is_empty() {
            return "No kernel of a known collective ran during the window.".to_owned();
        }
        let launched = if verdict.has_stacks { "; the kernels below were launched in it" } else { "" };
        return format!("No collective ran during the window{launched}.");
    };
    let whole = report.summary.whole();
    let mut text = format!(
        "Collectives ran for {} of the {whole}; for {} of that time ({}, {} of the {whole}) no compute kernel ran beside them.",
        percent(collectives.share_of_window),
        percent(collectives.exposed_share),
        duration(collectives.exposed),
        percent(collectives.exposed_share_of_window)
    );
    if let Some(Costliest { share, of, rank, from, within, waiting, .. }) = &verdict.costliest {
        let asked = if is_narrowed { format!(" of the kernels asked for ({})", duration(*of)) } else { String::new() };
        let on = rank.map_or(String::new(), |rank| format!(" on {}", visible(rank)));
        let from = from.map_or(String::new(), |from| format!(": {}", screen.accent(&visible(from))));
        let within: String = within.iter().map(|frame| format!(" in {}", visible(frame))).collect();
        text.push_str(&format!(
            "\n{} of the exposed time{asked} comes from one stack{on}{from}{within}.",
            percent(*share)
        ));
        if let Some(Waiting { mean, best, .. }) = waiting {
            let (mean, best) = (duration(Ns::rounded(*mean)), duration(*best));
            let (over, advice) = if traces > 1 {
                (
                    format!(" over {traces} traces"),
                    ", which bounds the transfer: the rest is waiting for other ranks, or contention. The command ranks shows who waits for whom.",
                )
            } else {
                let advice = ": the rest is waiting for other ranks, or contention. Give the traces of all ranks to the command ranks to see who waits for whom.";
                (String::new(), advice)
            };
            text.push_str(&format!(
                "\nIts kernels took a mean of {mean}; the fastest with this collective, size and number of ranks{over} took {best}{advice}"
            ));
        }
    }
    text
}

/// `121.100 ms of 125.200 ms of communication is in kernels that are not asked for: custom-allreduce 110.700 ms, nccl 10.400 ms.`
fn not_asked(found: &NotAsked) -> Option<String> {
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

/// `12.300 ms are matrix products that communicate themselves: neither hidden nor exposed. The option --family fused-gemm shows them.`
fn fused(found: &NotAsked) -> Option<String> {
    (found.fused > Ns::ZERO).then(|| {
        format!(
            "{} are matrix products that communicate themselves: neither hidden nor exposed. The option --family {FUSED} shows them.",
            duration(found.fused)
        )
    })
}

/// How many kernel names a line has.
const NAMED: usize = 3;

/// `8 kernels (12.300 ms) are possibly communication, and count neither as collectives nor as computation: send_tokens (12.300 ms), launched by dispatch.
/// The options --family all-collectives --kernel-name 'send_tokens' make them collectives.`
fn possible(found: &NotAsked) -> Option<String> {
    let longest = found.possible.first()?;
    let name = |of: &PossibleTime| {
        let caller = of.caller.as_deref().map_or(String::new(), |caller| format!(", launched by {}", visible(caller)));
        format!("{} ({}{caller})", visible(beginning(&of.name)), duration(of.gpu_time))
    };
    let mut names: Vec<String> = found.possible.iter().take(NAMED).map(name).collect();
    match found.possible.len() - names.len() {
        0 => {}
        more => names.push(format!("{} more", count(more as u64))),
    }
    let all: u64 = found.possible.iter().map(|of| of.kernels).sum();
    let (is, them) = if all == 1 { ("is", "it a collective") } else { ("are", "them collectives") };
    Some(format!(
        "{} ({}) {is} possibly communication, and counted neither as collectives nor as computation: {}. The options --family {ALL_FAMILIES} --kernel-name '{}' make {them}.",
        super::format::kernels(all),
        duration(found.possible.iter().map(|of| of.gpu_time).sum()),
        names.join("; "),
        visible(beginning(&longest.name)),
    ))
}

/// A kernel's name up to its parameters and template arguments, which is a pattern that matches it.
fn beginning(kernel: &str) -> &str {
    let anonymous = kernel.find("(anonymous namespace)").map_or(0, |at| at + "(anonymous namespace)".len());
    kernel[anonymous..].find(['(', '<']).map_or(kernel, |at| &kernel[..anonymous + at])
}
