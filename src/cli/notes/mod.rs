//! Notes beside the answer, on standard error: how the load went, what an archive has, what was written. The files below have the notes on the
//! window, and on what is missing from the answer and why.

mod diff;
mod missing;
mod window;

use std::path::Path;

use crate::answers::damage::lines::store_lines;
use crate::answers::stacks::document::coverage::Line;
use crate::damage::Damage;
use crate::document::format::{count, duration, kernels, size, visible};
use crate::export::cut::Copied;
use crate::input::containers::{Findings, InnerDamage};
use crate::load::Loaded;
use crate::run::WindowChoice;
use crate::run::inputs::is_named_like_a_trace;
use crate::store::Store;
use crate::time::Window;

use super::terminal::{detail, is_verbose, note, say};

pub(crate) use diff::{diff, exceeded, exceeded_by_ranks, grown, not_comparable, nothing_on_a_side, rank_changes};
pub(crate) use missing::missing;
pub(crate) use window::{window, window_text};

/// How far to trust the stacks.
pub(crate) fn coverage(lines: impl IntoIterator<Item = Line>) {
    lines.into_iter().for_each(|(line, is_detail)| if is_detail { detail(&line) } else { note(&line) });
}

/// `Trace loaded: 62.4 MB in 0.2 s (312 MB/s), 239,093 events`
pub(crate) fn loaded(loaded: &Loaded) {
    let megabytes = loaded.text_bytes as f64 / 1e6;
    let rate = megabytes / loaded.seconds.max(1e-6);
    let events = count(loaded.store.events);
    let traces = names(&loaded.store);
    note(&format!(
        "Trace loaded: {megabytes:.1} MB in {:.1} s ({rate:.0} MB/s), {events} events{traces}",
        loaded.seconds
    ));
    findings(None, &loaded.findings);
    apart(&spans(&loaded.store));
}

/// Warns that a trace's times are probably nanoseconds.
pub(crate) fn probably_nanoseconds(file: &str) {
    say(&format!(
        "{}: its times are probably nanoseconds, and were read as microseconds, so that all are 1,000 times too long: use \
         --ts-unit ns (displayTimeUnit is ns, and no event has a category, as XSigma's XPlane exporter writes)",
        visible(file)
    ));
}

pub(crate) fn damage(store: &Store) {
    store_lines(store, is_verbose()).iter().for_each(|line| say(line));
}

/// `Traces loaded: 4 (rank0.json.gz, rank1.json.gz, …), 76.4 MB, 264,890 events`, and the window in each of them.
pub(crate) fn traces(names: &[&str], (text_bytes, events): (u64, u64), choice: &WindowChoice, is_by_step: bool) {
    let megabytes = text_bytes as f64 / 1e6;
    let n = count(names.len() as u64);
    note(&format!("Traces loaded: {n} ({}), {megabytes:.1} MB, {} events", some_names(names), count(events)));
    let which = match (&choice.function, choice.times) {
        _ if choice.steps.is_some() => {
            choice.steps.map_or(String::new(), |step| format!("--step {step} of each trace"))
        }
        (_, Some((_, length))) => format!("as given, from the start of each trace on, {}", duration(length)),
        (Some(name), None) => match choice.index {
            Some(index) => format!("{} in each trace (--index {index})", visible(name)),
            None => format!("{} in each trace", visible(name)),
        },
        (None, None) if is_by_step => "all steps of each trace (--total takes the whole of each)".to_owned(),
        (None, None) => {
            "the whole of each trace (choose a part of each with --step, or with --function-name and --index)"
                .to_owned()
        }
    };
    note(&format!("Window: {which}"));
}

/// `Config: nccl-stacks.conf (--sort, --stack-depth)`
pub(crate) fn config<'a>(path: &Path, names: impl Iterator<Item = &'a str>) {
    let flags: Vec<String> = names.map(|name| format!("--{name}")).collect();
    let taken = if flags.is_empty() { String::new() } else { format!(" ({})", flags.join(", ")) };
    note(&format!("Config: {}{taken}", path.display()));
}

/// `Written: stacks.txt, 12.30 kB`
pub(crate) fn answer_written(path: &Path, bytes: u64) {
    note(&format!("Written: {}, {}", path.display(), size(bytes)));
}

/// `Cut: 1,234 of 66,322 events, 98 kernels marked`
pub(crate) fn cut(copied: &Copied, what: &str) {
    let Copied { events, kept, marked, not_json, .. } = *copied;
    note(&format!("Cut: {} of {} events, {} marked", count(kept), count(events), kernels(marked)));
    if marked == 0 {
        say(&format!("Note: no {what} lies in the window, so that nothing is marked"));
    }
    if not_json > 0 {
        say(&format!("Left out: events and header fields that cannot be written as JSON: {}", count(not_json)));
    }
}

/// `Repaired: 1,234 of 1,240 events are written, 12 of them on threads of their own`
pub(crate) fn repaired(copied: &Copied) {
    let Copied { events, kept, moved, .. } = *copied;
    let lanes = if moved > 0 { format!(", {} of them on threads of their own", count(moved)) } else { String::new() };
    note(&format!("Repaired: {} of {} events are written{lanes}", count(kept), count(events)));
}

/// How many files are named in a line.
const NAMED: usize = 4;

/// The spans of the traces in a store, with their names. Empty for a single trace, which [`apart`] cannot compare with anything.
fn spans(store: &Store) -> Vec<(Window, String)> {
    if store.traces.len() < 2 {
        return Vec::new();
    }
    let spans = store.spans().into_iter().zip(&store.traces);
    spans.filter_map(|(span, trace)| Some((span?, trace.name.clone().unwrap_or_default()))).collect()
}

/// `, 4 traces (rank0.json.gz, rank1.json.gz, …)`; empty for a trace that is a file of its own.
fn names(store: &Store) -> String {
    let names: Vec<&String> = store.traces.iter().filter_map(|trace| trace.name.as_ref()).collect();
    match names.len() {
        0 => String::new(),
        1 => format!(", 1 trace ({})", some_names(&names)),
        n => format!(", {} traces ({})", count(n as u64), some_names(&names)),
    }
}

/// Warns if one trace ends before another begins: they are probably of different runs, and shares of their common time mean little.
pub(crate) fn apart(spans: &[(Window, String)]) {
    if spans.len() < 2 {
        return;
    }
    let (Some(first), Some(last)) =
        (spans.iter().min_by_key(|(span, _)| span.end), spans.iter().max_by_key(|(span, _)| span.start))
    else {
        return;
    };
    let (end, start) = (first.0.end, last.0.start);
    if start > end {
        let [first, last] = [first, last].map(|(_, name)| visible(name));
        say(&format!(
            "Note: {first} ends {} before {last} begins: the traces are probably of different runs",
            duration(start - end)
        ));
    }
}

/// Reports the files of an archive that are not traces. Those of several archives have the archives' names already.
pub(crate) fn findings(archive: Option<&str>, findings: &Findings) {
    let archive = archive.map_or("the archive".into(), visible);
    let files = |n| match n {
        1 => format!("1 file of {archive}"),
        n => format!("{} files of {archive}", count(n)),
    };
    let Findings { no_traces, unreadable, inner, damage, .. } = findings;
    let named: Vec<&String> = no_traces.iter().filter(|name| is_named_like_a_trace(name)).collect();
    let others: Vec<&String> = no_traces.iter().filter(|name| !named.contains(name)).collect();
    if !others.is_empty() {
        let n = damage.get(Damage::NoTraceInFile).count.saturating_sub(named.len() as u64);
        let verb = if n == 1 { "is not a trace" } else { "are not traces" };
        say(&format!("Note: {} {verb}: {}", files(n), some_names(&others)));
    }
    if !named.is_empty() {
        say(&format!("Left out: named like traces, but not traces: {}", some_names(&named)));
    }
    if !unreadable.is_empty() {
        let n = damage.get(Damage::FileUnreadable).count;
        say(&format!("Left out: nothing could be read of {}: {}", files(n), some_names(unreadable)));
    }
    for InnerDamage { archive, kind, offset } in inner.iter().take(NAMED) {
        say(&format!("Left out: {}: {}, at byte {offset} of it", visible(archive), kind.description().phrase));
    }
}

/// `a.json, b.json, …`
pub(crate) fn some_names(names: &[impl AsRef<str>]) -> String {
    let mut shown: Vec<String> = names.iter().take(NAMED).map(|name| visible(name.as_ref()).to_string()).collect();
    if names.len() > NAMED {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}
