//! Notes on archives: their traces, and their other files.

use crate::damage::Damage;
use crate::input::containers::{Findings, InnerDamage};
use crate::report::format::{count, duration, visible};
use crate::run::inputs::is_named_like_a_trace;
use crate::store::Store;
use crate::time::Window;

use crate::cli::terminal::say;

/// How many files are named in a line.
const NAMED: usize = 4;

/// The spans of the traces in a store, with their names. Empty for a single trace, which [`apart`] cannot compare with anything.
pub(crate) fn spans(store: &Store) -> Vec<(Window, String)> {
    if store.traces.len() < 2 {
        return Vec::new();
    }
    let spans = store.spans().into_iter().zip(&store.traces);
    spans.filter_map(|(span, trace)| Some((span?, trace.name.clone().unwrap_or_default()))).collect()
}

/// `, 4 traces (rank0.json.gz, rank1.json.gz, …)`; empty for a trace that is a file of its own.
pub(crate) fn traces(store: &Store) -> String {
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

/// Reports the files of an archive that are not traces.
pub(crate) fn findings(findings: &Findings) {
    let files = |n| match n {
        1 => "1 file of the archive".to_owned(),
        n => format!("{} files of the archive", count(n)),
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
