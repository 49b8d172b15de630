//! The sentences about a file: why a question cannot be answered, and what to turn on.

use crate::answers::describe::{Answer, Basis, Lack, Possible, TraceDescription};
use crate::document::format::count;

pub(crate) fn possible(possible: Possible) -> &'static str {
    match possible {
        Possible::Yes => "yes",
        Possible::Partly => "partly",
        Possible::No => "no",
        Possible::NothingToAsk => "-",
    }
}

/// How much of a trace has what a question needs. A question that needs only presence has no share.
pub(crate) fn trace_share(answer: &Answer, trace: &TraceDescription) -> String {
    match answer.basis {
        Basis::Records => "not by a trace".to_owned(),
        Basis::Trace if answer.of > 0 => counted(answer.of, answer.unit),
        _ if answer.question.is_about_several() && answer.have > 0 && trace.counts.ranks.len() < 2 => {
            match trace.header.world_size.unwrap_or(1) {
                ..=1 => "beside the traces of the other ranks".to_owned(),
                2 => "beside the trace of the other rank".to_owned(),
                n => format!("beside the traces of the other {} ranks", count(n - 1)),
            }
        }
        _ => share(answer.have, answer.of, answer.unit),
    }
}

/// `97.3 % of 4,718 operators`. Rounding never turns a part into all or into nothing.
pub(crate) fn share(have: u64, of: u64, unit: &str) -> String {
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

/// `4,718 operators of the backward pass`, `1 operator of the backward pass`. The first plural is the noun.
pub(crate) fn counted(n: u64, unit: &str) -> String {
    let noun = unit.split(' ').find(|word| word.ends_with('s') && !word.ends_with("ss")).filter(|_| n == 1);
    let unit = noun.map_or(unit.to_owned(), |noun| unit.replacen(noun, noun.trim_end_matches('s'), 1));
    format!("{} {unit}", count(n))
}

/// Why a question cannot be answered in full, and what to do about it; empty if there is nothing to say.
pub(crate) fn hint(answer: &Answer) -> String {
    if matches!(answer.possible, Possible::Yes | Possible::NothingToAsk) {
        return String::new();
    }
    let why = match (answer.was_on, reasons(answer)) {
        (Some(flag), why) if why.is_empty() => format!("{flag} was on"),
        (Some(flag), why) => format!("{flag} was on, but {why}"),
        (None, why) => why,
    };
    let turn_on = answer.turn_on.join("; ");
    let turn_on = if turn_on.is_empty() { turn_on } else { format!("next time: {turn_on}") };
    joined([why, turn_on], "; ")
}

/// `the others are: 545 replayed by a graph, 12 launched before the trace began, 3 launched otherwise`
fn reasons(answer: &Answer) -> String {
    if answer.lacking.is_empty() {
        return String::new();
    }
    let words = answer.lacking.iter().map(|(lack, n)| {
        let phrase = match lack {
            Lack::Replayed => "replayed by a graph",
            Lack::Before => "launched before the trace began",
            Lack::Unlaunched => "not tied to a call in the trace",
            Lack::Backward => "launched in the backward pass",
            Lack::Others => "launched otherwise",
        };
        format!("{} {phrase}", count(*n))
    });
    let words: Vec<String> = words.collect();
    format!("{} {}", if answer.have > 0 { "the others are:" } else { "they are:" }, words.join(", "))
}

/// The texts that are not empty.
pub(crate) fn joined<const N: usize>(texts: [String; N], by: &str) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(by)
}

/// The questions that do not apply to the trace, each list with its reason: `… (no collectives); … (no kernels that graphs replay)`.
pub(crate) fn nothing_to_ask(trace: &TraceDescription) -> String {
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    for answer in trace.answers.iter().filter(|answer| answer.possible == Possible::NothingToAsk) {
        let why = if answer.of > 0 { "the job has one rank".to_owned() } else { format!("no {}", answer.unit) };
        match parts.iter_mut().find(|(known, _)| *known == why) {
            Some((_, questions)) => questions.push(answer.question.question),
            None => parts.push((why, vec![answer.question.question])),
        }
    }
    let part = |(why, questions): (String, Vec<&str>)| format!("{} ({why})", questions.join(", "));
    parts.into_iter().map(part).collect::<Vec<_>>().join("; ")
}

/// `rank 0 of 4`, `4 ranks in one file`
pub(crate) fn rank(trace: &TraceDescription) -> Option<String> {
    match (&trace.counts.rank, trace.counts.ranks.len() as u64, trace.header.world_size) {
        (_, several @ 2.., _) => Some(format!("{} ranks in one file", count(several))),
        (Some(rank), _, Some(size)) => Some(format!("rank {} of {}", rank.rank, count(size))),
        (Some(rank), _, None) => Some(format!("rank {}", rank.rank)),
        (None, _, size) => size.map(|size| format!("one of {} ranks", count(size))),
    }
}
