//! The sentences about a file: what wrote it, why something cannot be asked, and what to turn on.

use crate::analysis::describe::sources::RecordAnswer;
use crate::analysis::describe::{Answer, Possible, TraceDescription, Writer};
use crate::report::format::count;

/// What wrote a trace, in a few words.
pub(super) fn writer(writer: Writer) -> &'static str {
    match writer {
        Writer::Kineto => "Trace of PyTorch's profiler (Kineto's JSON)",
        Writer::KinetoEvents => "Events of PyTorch's profiler without Kineto's header: a file of 2021, or rewritten by a script",
        Writer::Xplane => "Trace of XSigma's XPlane exporter",
        Writer::NsightSystems => "SQLite export of Nsight Systems",
        Writer::Perfetto => "Trace in Perfetto's protobuf, not of PyTorch's profiler",
        Writer::Chrome => "Trace in Chrome's JSON, not of PyTorch's profiler",
        _ => "Trace",
    }
}

/// Whether what PyTorch's profiler or Nsight Systems can record is missing in a trace of theirs.
pub(super) fn is_profile(writer: Writer) -> bool {
    !matches!(writer, Writer::Perfetto | Writer::Chrome | Writer::Xplane)
}

/// A word for whether a question can be asked.
pub(super) fn possible(possible: Possible) -> &'static str {
    match possible {
        Possible::Yes => "yes",
        Possible::Partly => "partly",
        Possible::No => "no",
        _ => "-",
    }
}

/// `97.3 % of 4,718 operators`. Nearly all is not written as all, and next to nothing not as nothing.
pub(super) fn share(have: u64, of: u64, unit: &str) -> String {
    match (have, of) {
        (_, 0) => format!("no {unit}"),
        (0, _) => format!("0 of {} {unit}", count(of)),
        (have, of) if have == of => format!("{} {unit}", count(of)),
        (have, of) => {
            let tenths = (have as f64 * 1000.0 / of as f64).floor().clamp(1.0, 999.0);
            format!("{:.1} % of {} {unit}", tenths / 10.0, count(of))
        }
    }
}

/// What to do about a question, and why it cannot be asked of all; empty if there is nothing to say.
pub(super) fn hint(answer: &Answer) -> String {
    let mut parts = Vec::new();
    let reasons = reasons(answer);
    match (answer.was_on, answer.although) {
        (Some(flag), Some(although)) => parts.push(format!("{flag} was on, but {}", although_or(&reasons, although))),
        (Some(flag), None) if !reasons.is_empty() => parts.push(format!("{flag} was on, but {reasons}")),
        (None, Some(although)) => parts.push(although_or(&reasons, although)),
        (None, None) if !reasons.is_empty() => parts.push(reasons),
        _ => {}
    }
    if !answer.turn_on.is_empty() {
        parts.push(format!("turn on: {}", answer.turn_on.join("; ")));
    }
    parts.join(". ")
}

/// The reasons by kernels where there are any, else the one of the table.
fn although_or(reasons: &str, although: &str) -> String {
    if reasons.is_empty() { although.to_owned() } else { format!("{reasons}: {although}") }
}

/// `of the others 545 are replayed by a graph, 12 have no launch in the trace`
fn reasons(answer: &Answer) -> String {
    let word = |(name, n): (&&str, &u64)| match (*name, *n) {
        ("replayed", n) => format!("{} {} replayed by a graph", count(n), are(n)),
        ("unlaunched", n) => format!("{} {} no launch in the trace", count(n), have(n)),
        ("backward", n) => format!("{} {} of the backward pass", count(n), are(n)),
        (_, n) => format!("{} {} launched without", count(n), are(n)),
    };
    let words: Vec<String> = answer.lacking.iter().map(word).collect();
    if words.is_empty() { String::new() } else { format!("of the others {}", words.join(", ")) }
}

fn are(n: u64) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

fn have(n: u64) -> &'static str {
    if n == 1 { "has" } else { "have" }
}

/// What to record for a question about records.
pub(super) fn record_hint(answer: &RecordAnswer) -> String {
    answer.turn_on.map_or(String::new(), |turn_on| format!("needs: {turn_on}"))
}

/// What the trace has nothing of, as a list: `no collectives; no kernels that graphs replay`.
pub(super) fn nothing_to_ask(trace: &TraceDescription) -> String {
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    for answer in trace.answers.iter().filter(|answer| answer.possible == Possible::NothingToAsk) {
        let why = if answer.of > 0 { "the job has one rank".to_owned() } else { format!("no {}", answer.unit) };
        match parts.iter_mut().find(|(known, _)| *known == why) {
            Some((_, questions)) => questions.push(answer.question),
            None => parts.push((why, vec![answer.question])),
        }
    }
    let part = |(why, questions): (String, Vec<&str>)| format!("{} ({why})", questions.join(", "));
    parts.into_iter().map(part).collect::<Vec<_>>().join("; ")
}
