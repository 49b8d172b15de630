//! The sentences about a file: why a question cannot be answered, and what to turn on.

use crate::analysis::describe::sources::RecordAnswer;
use crate::analysis::describe::{Answer, Possible, TraceDescription};
use crate::report::format::count;

pub(super) fn possible(possible: Possible) -> &'static str {
    match possible {
        Possible::Yes => "yes",
        Possible::Partly => "partly",
        Possible::No => "no",
        _ => "-",
    }
}

/// `97.3 % of 4,718 operators`. Rounding never turns a part into all or into nothing.
pub(super) fn share(have: u64, of: u64, unit: &str) -> String {
    match (have, of) {
        (_, 0) => format!("no {unit}"),
        (1, 1) => counted(1, unit),
        (0, _) => format!("0 of {}", counted(of, unit)),
        (have, of) if have == of => format!("all {}", counted(of, unit)),
        (have, of) => {
            let tenths = (have as f64 * 1000.0 / of as f64).floor().clamp(1.0, 999.0);
            format!("{:.1} % of {} {unit}", tenths / 10.0, count(of))
        }
    }
}

/// Words that have a singular.
const PLURALS: &[&str] =
    &["kernels", "operators", "collectives", "annotations", "events", "operations", "steps", "counts", "captures"];

/// `4,718 operators of the backward pass`, `1 operator of the backward pass`
pub(super) fn counted(n: u64, unit: &str) -> String {
    let noun = PLURALS.iter().filter_map(|word| Some((unit.find(word)?, word))).min();
    match noun {
        Some((_, word)) if n == 1 => format!("1 {}", unit.replacen(word, word.trim_end_matches('s'), 1)),
        _ => format!("{} {unit}", count(n)),
    }
}

/// Why a question cannot be answered in full, and what to do about it; empty if there is nothing to say.
pub(super) fn hint(answer: &Answer) -> String {
    if matches!(answer.possible, Possible::Yes | Possible::NothingToAsk) {
        return String::new();
    }
    let why = match answer.lacking.is_empty() {
        true => answer.although.unwrap_or_default().to_owned(),
        false => reasons(answer),
    };
    let mut parts = Vec::new();
    match answer.was_on {
        Some(flag) if !why.is_empty() => parts.push(format!("{flag} was on, but {why}")),
        _ if !why.is_empty() => parts.push(why),
        _ => {}
    }
    if !answer.turn_on.is_empty() {
        parts.push(format!("next time: {}", answer.turn_on.join("; ")));
    }
    parts.join("; ")
}

/// `545 are replayed by a graph, 12 were launched before the trace began, 3 outside of any nn.Module`
fn reasons(answer: &Answer) -> String {
    let words = answer.lacking.iter().map(|(name, n)| {
        let phrase = match *name {
            "replayed" => "replayed by a graph",
            "before" => "launched before the trace began",
            "unlaunched" => "not tied to a call in the trace",
            "backward" => "launched in the backward pass",
            _ => answer.although.unwrap_or("launched otherwise"),
        };
        format!("{} {phrase}", count(*n))
    });
    let words: Vec<String> = words.collect();
    format!("{} {}", if answer.have > 0 { "the others are:" } else { "they are:" }, words.join(", "))
}

/// What to record to answer a question about records.
pub(super) fn record_hint(answer: &RecordAnswer) -> String {
    answer.turn_on.map_or(String::new(), |turn_on| format!("needs: {turn_on}"))
}

/// The questions that do not apply to the trace, each list with its reason: `… (no collectives); … (no kernels that graphs replay)`.
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
