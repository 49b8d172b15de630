//! What is said beside the answer: how the load went, which window was taken, what is not in the stacks and why.

use super::{say, screen_width};
use crate::analysis::missing::Missing;
use crate::analysis::stacks::StackReport;
use crate::damage::{Cost, Damage, DamageReport, Description, Tally};
use crate::load::Loaded;
use crate::report::table::{count, name_counts};
use crate::time::{Nanos, Window};

/// Wide enough for most names, short enough for a log.
const WIDTH_WITHOUT_SCREEN: usize = 160;

/// `Trace loaded: 62.4 MB in 0.2 s (312 MB/s), 239,093 events`
pub(super) fn loaded(loaded: &Loaded) {
    let megabytes = loaded.text_bytes as f64 / 1e6;
    let rate = megabytes / loaded.seconds.max(1e-6);
    let events = count(loaded.store.events);
    say(&format!("Trace loaded: {megabytes:.1} MB in {:.1} s ({rate:.0} MB/s), {events} events", loaded.seconds));
}

/// Which window was taken, in a form that asks for it again.
pub(super) fn window(what: &str, window: Window) {
    let Window { start, .. } = window;
    let length = window.duration();
    say(&format!("Window: {what}, {} (--start-ts {start} --duration {length})", Nanos(length)));
    if length == 0 {
        say("The window is empty: it has no length, so no launch can lie in it.");
    }
}

/// What the counts leave out.
pub(super) fn left_out(report: &StackReport, max_callers: Option<usize>) {
    say(&format!(
        "Kernels: {} match, {} launched in the window",
        count(report.kernels_in_trace),
        count(report.launched_in_window)
    ));
    if report.without_launch > 0 {
        say(&format!(
            "Not in the stacks: {} that ran in the window and whose launch is not in the trace (launched before it began, or the \
             record was dropped)",
            kernels(report.without_launch)
        ));
    }
    if report.launched_elsewhere > 0 {
        say(&format!(
            "Not in the stacks: {} that ran in the window but were launched outside of it",
            kernels(report.launched_elsewhere)
        ));
    }
    if report.uncertain > 0 {
        say(&format!(
            "Uncertain: {} whose correlation id several calls have (several ranks in one file?); the latest call before each was taken",
            kernels(report.uncertain)
        ));
    }
    if report.without_callers > 0 {
        say(&format!(
            "Callers unknown: {} whose launch partly overlaps another slice of its thread",
            kernels(report.without_callers)
        ));
    }
    let cut = report.stacks.iter().filter(|stack| stack.cut).count();
    if let (Some(max), true) = (max_callers, cut > 0) {
        say(&format!(
            "Stacks with more than {max} callers (marked ...): {}; --stack-depth 0 shows all",
            count(cut as u64)
        ));
    }
}

fn kernels(n: u64) -> String {
    if n == 1 { "1 kernel".to_owned() } else { format!("{} kernels", count(n)) }
}

/// What is wrong with the trace, once, at the end.
pub(super) fn damage(damage: &DamageReport) {
    for (description, tally) in damage.iter().filter(|(d, tally)| d.cost != Cost::None && tally.count > 0) {
        let verb = if description.cost == Cost::Lost { "Left out" } else { "Note" };
        say(&format!("{verb}: {}", one_damage(description, tally)));
    }
}

/// The same as a list, for `--strict`.
pub(super) fn damage_list(damage: &DamageReport) -> String {
    damage.lost().map(|(description, tally)| format!("\n  {}", one_damage(description, tally))).collect()
}

/// `events without a phase or a valid timestamp: 3 (first at byte 181 of the text)`
fn one_damage(description: &Description, tally: Tally) -> String {
    let of = if matches!(description.kind, Damage::PackedCutOff | Damage::PackedCorrupt) {
        "compressed file"
    } else {
        "text"
    };
    let place = tally.first_offset.map(|at| format!("at byte {at} of the {of}"));
    match (description.kind.is_place(), place) {
        (true, Some(place)) => format!("{}, {place}", description.phrase),
        (true, None) => description.phrase.to_owned(),
        (false, Some(place)) => format!("{}: {} (first {place})", description.phrase, count(tally.count)),
        (false, None) => format!("{}: {}", description.phrase, count(tally.count)),
    }
}

/// Why there is nothing. `what` are the kernels that were looked for: `NCCL or RCCL kernel`.
pub(super) fn missing(missing: &Missing, what: &str) -> String {
    match missing {
        Missing::NoLaunchLink { kernels: n, elsewhere, graph_launches } => {
            let mut text = no_launch_link(*n, graph_launches);
            if *elsewhere > 0 {
                text.push_str(&format!("\n{} more ran in the window and were launched outside of it.", kernels(*elsewhere)));
            }
            text
        }
        Missing::LaunchedElsewhere { kernels: n } => format!(
            "Nothing found: {} ran in the window, but launched outside of it. The window is on the launch: begin it earlier.",
            kernels(*n)
        ),
        Missing::OtherKernels { kernels: rows, related, elsewhere } => {
            let elsewhere = match elsewhere {
                0 => String::new(),
                n => format!(" The trace has {} outside of it.", kernels(*n)),
            };
            let these = if *related { "Related kernels that did" } else { "None of those that did has a related name. The most frequent" };
            let table = name_counts(rows, screen_width().unwrap_or(WIDTH_WITHOUT_SCREEN));
            format!("Nothing found: no {what} ran in the window.{elsewhere} {these}:\n{table}")
        }
        Missing::NoKernels { span: Some((span, n)) } => format!(
            "Nothing found: no kernel at all ran in the window. The trace has {}, between {} ns and {} ns ({}).",
            kernels(*n),
            span.start,
            span.end,
            Nanos(span.duration())
        ),
        Missing::NoKernels { span: None } => {
            "Nothing found: the trace has no GPU kernels. Was it recorded without ProfilerActivity.CUDA, or on another rank?".to_owned()
        }
    }
}

fn no_launch_link(n: u64, graph_launches: &[crate::analysis::missing::NameCount]) -> String {
    let mut text =
        format!("Nothing found: {} ran in the window, but no call in the trace is tied to them. ", kernels(n));
    if graph_launches.is_empty() {
        text.push_str("They were launched before the trace began, or the records of their launches were dropped.");
    } else {
        text.push_str("They were probably launched as part of a graph; the window has these graph launches:\n");
        text.push_str(&name_counts(graph_launches, WIDTH_WITHOUT_SCREEN));
    }
    text
}
