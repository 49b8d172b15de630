//! What is said beside the answer: how the load went, which window was taken, what is not in the stacks and why.

use std::path::Path;
use std::time::Duration;

use super::{archives, say, screen_width};
use crate::analysis::diff::{Bound, Diff};
use crate::analysis::losses::Losses;
use crate::analysis::missing::{Missing, NameCount};
use crate::analysis::stacks::{Coverage, StackOptions, StackReport, Unattributed};
use crate::analysis::summary::KernelTable;
use crate::attribution::capture::CaptureTally;
use crate::attribution::launches::{Evidence, Reason, WindowOn};
use crate::damage::{Cost, Damage, DamageReport, Description, Tally};
use crate::export::cut::Copied;
use crate::load::Loaded;
use crate::report::diff;
use crate::report::table::{count, name_counts, shorten_right};
use crate::report::text::{WIDTH_WITHOUT_SCREEN, size as bytes, visible};
use crate::store::Store;
use crate::time::{Nanos, Window};

/// Of a kernel's name in a note: what tells it from others comes first.
const NAME_WIDTH: usize = 60;

/// `Trace loaded: 62.4 MB in 0.2 s (312 MB/s), 239,093 events`
pub(super) fn loaded(loaded: &Loaded) {
    let megabytes = loaded.text_bytes as f64 / 1e6;
    let rate = megabytes / loaded.seconds.max(1e-6);
    let events = count(loaded.store.events);
    let traces = archives::traces(&loaded.store);
    say(&format!(
        "Trace loaded: {megabytes:.1} MB in {:.1} s ({rate:.0} MB/s), {events} events{traces}",
        loaded.seconds
    ));
    archives::findings(&loaded.findings);
    archives::apart(&loaded.store);
}

/// `Config: nccl-stacks.toml (--sort, --stack-depth)`
pub(super) fn config<'a>(path: &Path, keys: impl Iterator<Item = &'a str>) {
    let flags: Vec<String> = keys.map(|key| format!("--{key}")).collect();
    let taken = if flags.is_empty() { String::new() } else { format!(" ({})", flags.join(", ")) };
    say(&format!("Config: {}{taken}", path.display()));
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

/// `Written: trace.db, 64.30 MB in 1.2 s`
pub(super) fn written(path: &Path, size: u64, time: Duration) {
    say(&format!("Written: {}, {} in {:.1} s", path.display(), bytes(size), time.as_secs_f64()));
}

/// `Cut: 1,234 of 66,322 events, 98 kernels marked`
pub(super) fn cut(copied: &Copied, what: &str) {
    let Copied { events, kept, marked, not_json, .. } = *copied;
    say(&format!("Cut: {} of {} events, {} marked", count(kept), count(events), kernels(marked)));
    if marked == 0 {
        say(&format!("Note: no {what} lies in the window, so that nothing is marked"));
    }
    if not_json > 0 {
        say(&format!("Left out: events and header fields of which nothing can make JSON: {}", count(not_json)));
    }
}

/// How many kernels there are, and by what each was attributed, or why it was not.
pub(super) fn coverage(report: &StackReport) {
    let coverage = &report.coverage;
    say(&format!("Kernels: {} match, {} in the window", count(report.kernels_in_trace), count(coverage.kernels)));
    say(&format!("Coverage: {}", covered(coverage)));
    for (reason, missed) in &coverage.unattributed {
        say(&format!("Without a launch: {}", without_launch(*reason, missed)));
    }
}

/// How many kernels a table of them has.
pub(super) fn kernel_table(table: &KernelTable, in_trace: u64) {
    let (inside, names, time) = (count(table.kernels), count(table.names), Nanos(table.time));
    say(&format!("Kernels: {} match, {inside} in the window, of {names} names, {time} in all", count(in_trace)));
}

/// What a diff leaves out, and what makes its traces hard to compare.
pub(super) fn diff(diff: &Diff) {
    let [before, after] = [&diff.before, &diff.after].map(|side| side.summary.window.duration());
    let shown = diff.changes.len() as u64;
    if diff.unchanged > 0 {
        say(&format!("Unchanged: {} stacks", count(diff.unchanged)));
    }
    if shown < diff.changed {
        say(&format!("Not shown: {} of {} stacks", count(diff.changed - shown), count(diff.changed)));
    }
    let [gpus_before, gpus_after] = [&diff.before, &diff.after].map(|side| side.summary.gpus);
    if gpus_before != gpus_after {
        say(&format!("Note: the traces are of {gpus_before} and {gpus_after} GPUs, whose times are summed"));
    }
    if before.min(after) as f64 * ALIKE < before.max(after) as f64 {
        say(&format!(
            "Note: the windows differ in length ({} before, {} after); --function-name and --index choose one step of each",
            Nanos(before),
            Nanos(after)
        ));
    }
}

/// That one of the traces has none of the kernels, if it has none.
pub(super) fn nothing_on_a_side(diff: &Diff, what: &str) -> Option<String> {
    let side = [&diff.before, &diff.after].into_iter().find(|side| side.kernels.count == 0)?;
    Some(format!("{}: no {what} ran in the window", side.trace))
}

/// Windows that differ by more than this factor are hardly of the same work.
const ALIKE: f64 = 1.25;

/// `Exceeded: exposed>+5%: 120.000 ms before, 128.100 ms after (+6.8 %)`
pub(super) fn exceeded(diff: &Diff, bounds: &[&Bound]) -> String {
    let line = |bound: &&Bound| {
        let [before, after] = [diff.before.kernels, diff.after.kernels].map(|kernels| kernels.by(bound.measure));
        let value = |number| diff::value(bound.measure, number);
        let change = diff::change(bound.measure, before, after);
        format!("Exceeded: {}: {} before, {} after, {change}", bound.text, value(before), value(after))
    };
    bounds.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What the counts leave out, and what is not sure.
pub(super) fn left_out(report: &StackReport, how: &StackOptions) {
    let coverage = &report.coverage;
    let on_launch = how.window_on == WindowOn::Launch;
    let shown = report.stacks.len() as u64;
    if shown < report.stacks_found {
        say(&format!(
            "Not shown: {} of {} stacks, with {}",
            count(report.stacks_found - shown),
            count(report.stacks_found),
            kernels(report.left_out)
        ));
    }
    if report.elsewhere > 0 {
        let (inside, outside) = if on_launch { ("run", "launched") } else { ("launched", "run") };
        say(&format!(
            "Not in the stacks: {}, {inside} in the window, {outside} outside of it",
            kernels(report.elsewhere)
        ));
    }
    if coverage.uncertain > 0 {
        say(&format!(
            "Uncertain: {} whose correlation id or External id several calls have (several ranks in one file?); the latest call before each was taken",
            kernels(coverage.uncertain)
        ));
    }
    if coverage.flow_disagrees > 0 {
        say(&format!(
            "Flows disagree for {}: an arrow leads there from another call than the one with the same correlation id, which was taken",
            kernels(coverage.flow_disagrees)
        ));
    }
    if let Some(captures) = &coverage.captures {
        say(&format!("Graph captures: {}", captured(captures)));
    }
    if coverage.forward_unknown > 0 {
        say(&format!(
            "Forward pass: {} of the backward pass without a stack of the forward pass (its operator is not in the trace, or several have its number)",
            kernels(coverage.forward_unknown)
        ));
    }
    let cut = report.stacks.iter().filter(|stack| stack.key.is_truncated()).count();
    if let (Some(max), true) = (how.max_callers, cut > 0) {
        say(&format!(
            "Stacks with more than {max} callers (marked ...): {}; --stack-depth 0 shows all",
            count(cut as u64)
        ));
    }
}

/// `392 of 392 kernels attributed: 98 by correlation, 294 by graph replay; 0 without a launch`
fn covered(coverage: &Coverage) -> String {
    let by: Vec<String> = Evidence::TIES
        .iter()
        .filter_map(|evidence| Some(format!("{} by {}", count(*coverage.by.get(evidence)?), tie(*evidence))))
        .collect();
    let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
    format!(
        "{} of {} attributed{by}; {} without a launch",
        count(coverage.attributed()),
        kernels(coverage.kernels),
        count(coverage.unattributed())
    )
}

fn tie(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Correlation => "correlation",
        Evidence::Flow => "flow",
        Evidence::ExternalId => "External id",
        Evidence::GraphReplay => "graph replay",
        Evidence::Capture => "graph capture alone",
        Evidence::None(_) => "nothing",
    }
}

/// `5 (24.316 ms) launched before the trace began: ncclDevKernel_AllReduce at 1000 ns, … and 2 more`
fn without_launch(reason: Reason, missed: &Unattributed) -> String {
    let named: Vec<String> = missed
        .first
        .iter()
        .map(|kernel| format!("{} at {} ns", shorten_right(&visible(&kernel.name), NAME_WIDTH), kernel.ts))
        .collect();
    let more = match missed.all.count - missed.first.len() as u64 {
        0 => String::new(),
        more => format!(" and {} more", count(more)),
    };
    format!("{} ({}) {}: {}{more}", count(missed.all.count), Nanos(missed.all.gpu_time), why(reason), named.join(", "))
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::NoCalls => "because the trace has no calls into a runtime (recorded without ProfilerActivity.CPU?)",
        Reason::BeforeTrace => "launched before the first call that was recorded",
        Reason::NoId => "with nothing that ties them to a call: no correlation id, no flow",
        Reason::NotRecorded => "whose call is not in the trace, though earlier ones are (records dropped?)",
    }
}

/// `stacks for 294 kernels, 0 ambiguous (captured in several places), 3 of a graph that no capture holds`
fn captured(tally: &CaptureTally) -> String {
    let order = match tally.by_order {
        0 => String::new(),
        n => format!(" ({} by order alone, because the calls name no kernels)", count(n)),
    };
    format!(
        "stacks for {}{order}, {} ambiguous (captured in several places), {} of a graph that no capture holds",
        kernels(tally.matched),
        count(tally.ambiguous),
        count(tally.unknown)
    )
}

fn kernels(n: u64) -> String {
    if n == 1 { "1 kernel".to_owned() } else { format!("{} kernels", count(n)) }
}

/// `Repaired: 1,234 of 1,240 events are written, 12 on threads of their own`
pub(super) fn repaired(copied: &Copied) {
    let Copied { events, kept, moved, .. } = *copied;
    let lanes = if moved > 0 { format!(", {} of them on threads of their own", count(moved)) } else { String::new() };
    say(&format!("Repaired: {} of {} events are written{lanes}", count(kept), count(events)));
}

/// What is wrong with a text that was repaired.
pub(super) fn damage_of_text(damage: &DamageReport, text_bytes: u64) {
    let found = damage.iter().filter(|(d, tally)| d.cost != Cost::None && tally.count > 0);
    found.for_each(|(description, tally)| one_line("", description, tally));
    let lost = damage.lost_bytes();
    lost_in_all(lost, text_bytes, lost as f64 / text_bytes.max(1) as f64);
}

/// The same as a list, for `--strict`.
pub(super) fn fault_list(damage: &DamageReport) -> String {
    damage.faults().map(|(description, tally)| format!("\n  {}", one_damage(description, tally))).collect()
}

/// What is wrong with the trace, once, at the end.
pub(super) fn damage(store: &Store) {
    for (whose, description, tally) in damages(store).filter(|(_, d, tally)| d.cost != Cost::None && tally.count > 0) {
        one_line(&whose, description, tally);
    }
    let Losses { text_bytes, lost_bytes, lost_share, .. } = Losses::of(store);
    lost_in_all(lost_bytes, text_bytes, lost_share);
}

fn one_line(whose: &str, description: &Description, tally: Tally) {
    let verb = match description.cost {
        Cost::Lost => "Left out",
        Cost::Recovered => "Mended",
        Cost::Moved | Cost::None => "Note",
    };
    say(&format!("{verb}: {whose}{}", one_damage(description, tally)));
}

/// `Lost in all: 311 of 5,237 bytes of the text (5.94 %)`
fn lost_in_all(lost: u64, text: u64, share: f64) {
    if share <= 0.0 {
        return;
    }
    // The share of the text alone is smaller if not all of the text is there.
    let unread = if (lost as f64) < share * 0.999 * text as f64 { ", with what could not be decompressed" } else { "" };
    let share = match share * 100.0 {
        percent if percent < 0.01 => "less than 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    };
    say(&format!("Lost in all: {} of {} bytes of the text ({share}{unread})", count(lost), count(text)));
}

/// The same as a list, for `--strict`.
pub(super) fn damage_list(store: &Store) -> String {
    let faults = damages(store).filter(|(_, d, tally)| d.cost.is_fault() && tally.count > 0);
    faults.map(|(whose, description, tally)| format!("\n  {whose}{}", one_damage(description, tally))).collect()
}

/// What is wrong with each trace, with its name before it if it has one, and with the archive that they are in.
fn damages(store: &Store) -> impl Iterator<Item = (String, &'static Description, Tally)> {
    let whose = |name: &Option<String>| name.as_ref().map_or(String::new(), |name| format!("{}: ", visible(name)));
    let of_traces = store.traces.iter().map(move |trace| (whose(&trace.name), &trace.damage));
    let of_traces =
        of_traces.flat_map(|(whose, damage)| damage.iter().map(move |(d, tally)| (whose.clone(), d, tally)));
    let of_archive = store.damage.iter().filter(|(d, _)| d.kind.is_of_archive());
    of_traces.chain(of_archive.map(|(d, tally)| (String::new(), d, tally)))
}

/// `events without a phase or a valid timestamp: 3 (first at byte 181 of the text)`
fn one_damage(description: &Description, tally: Tally) -> String {
    let of = if matches!(description.kind, Damage::PackedCutOff | Damage::PackedCorrupt) {
        "compressed file"
    } else if description.kind.is_of_archive() {
        "archive"
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
        Missing::OtherKernels { kernels: rows, related, elsewhere, families } => {
            let elsewhere = match elsewhere {
                0 => String::new(),
                n => format!(" The trace has {} outside of it.", kernels(*n)),
            };
            let these = if *related { "Related kernels that did" } else { "None of those that did has a related name. The most frequent" };
            let table = name_counts(rows, screen_width().unwrap_or(WIDTH_WITHOUT_SCREEN));
            let families: Vec<String> = families
                .iter()
                .map(|family| format!("  --family {} finds {}\n", family.name, kernels(family.count)))
                .collect();
            format!("Nothing found: no {what} ran in the window.{elsewhere} {these}:\n{table}{}", families.concat())
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

fn no_launch_link(n: u64, graph_launches: &[NameCount]) -> String {
    let mut text =
        format!("Nothing found: {} ran in the window, but no call in the trace is tied to them.", kernels(n));
    if !graph_launches.is_empty() {
        text.push_str(" They may have been launched as part of a graph; the window has these graph launches:\n");
        text.push_str(&name_counts(graph_launches, WIDTH_WITHOUT_SCREEN));
    }
    text
}
