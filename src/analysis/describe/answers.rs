//! The answer to each question for a trace: whether the trace can answer it, for how much of it, and what to turn on if not.

use std::collections::BTreeMap;

use serde::Serialize;

use super::header::HeaderFacts;
use super::questions::{
    Basis, KERNELS_ON, NO_FRAMES, NSYS_KERNELS_ON, OPERATORS_ON, QUESTIONS, Question, RECORDS_ON, STACKS_ON, Share,
    WITH_STACK,
};
use super::tally::Tally;
use crate::event::Writer;

/// Whether a trace can answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Possible {
    /// Yes, for nearly everything that the question is about.
    Yes,
    /// For a part of it.
    Partly,
    /// No.
    No,
    /// The question does not apply, through no fault of the recording: the trace has no collective, or no graph.
    NothingToAsk,
}

/// The share from which the answer is yes. A key is never complete: operators without inputs have no dimensions, and the first kernels of a trace
/// were launched before it.
const NEARLY_ALL: f64 = 0.9;

/// Why a trace of another accelerator has no kernels.
const OTHER_ACCELERATOR: &str = "only kernels of CUDA and ROCm are read, and this trace is from another accelerator";

/// Why an export of Nsight Systems lacks something.
const NOT_OF_NSYS: &str = "Nsight Systems does not record that; torch.profiler does";

/// What older writers record when asked for stacks.
const AS_TEXT: &str = "operators have a Call stack as text, which sql shows but stacks do not use";

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The name of the question.
    pub name: &'static str,
    /// The question, in a few words.
    pub question: &'static str,
    /// Whether the trace can answer it.
    pub possible: Possible,
    /// What it needs.
    pub key: &'static str,
    /// How many of `unit` have that.
    pub have: u64,
    /// How many of `unit` there are.
    pub of: u64,
    /// What is counted: kernels, operators, collectives.
    pub unit: &'static str,
    /// The number of kernels that lack it although it was asked for, by reason: `replayed` by a graph, launched `before` the trace, `unlaunched` by
    /// any call in it, launched in the `backward` pass, or `others`.
    pub lacking: BTreeMap<&'static str, u64>,
    /// The setting that was on already.
    pub was_on: Option<&'static str>,
    /// What to turn on, as written in a program or on a command line.
    pub turn_on: Vec<&'static str>,
    /// Why it is missing although it was asked for. If `lacking` has reasons, this explains its `others`.
    pub although: Option<&'static str>,
    /// The command that answers it.
    pub command: &'static str,
}

/// The answers to all questions.
pub(super) fn answers(tally: &Tally, header: &HeaderFacts) -> Vec<Answer> {
    QUESTIONS.iter().map(|question| answer(question, tally, header)).collect()
}

fn answer(question: &Question, tally: &Tally, header: &HeaderFacts) -> Answer {
    let Share { have, of } = (question.share)(tally);
    let possible = possible(question, tally, Share { have, of }, header);
    let lacking = question.above.map(|above| above(tally).reasons()).unwrap_or_default();
    let mut answer = Answer {
        name: question.name,
        question: question.question,
        possible,
        key: question.key,
        have,
        of,
        unit: question.unit,
        lacking,
        was_on: None,
        turn_on: Vec::new(),
        although: None,
        command: question.command,
    };
    if matches!(possible, Possible::Partly | Possible::No) {
        advise(&mut answer, question, tally, header);
    }
    answer
}

fn possible(question: &Question, tally: &Tally, Share { have, of }: Share, header: &HeaderFacts) -> Possible {
    // A job with a single rank waits for no other.
    if matches!(question.name, "ranks" | "hang") && header.world_size == Some(1) {
        return Possible::NothingToAsk;
    }
    match question.basis {
        Basis::Trace if of == 0 => Possible::No,
        Basis::Kernels if tally.kernels == 0 => Possible::No,
        Basis::Operators if tally.operators == 0 => Possible::No,
        Basis::Collectives if tally.kernels == 0 => Possible::No,
        _ if of == 0 => Possible::NothingToAsk,
        _ if have == 0 => Possible::No,
        _ if have as f64 >= NEARLY_ALL * of as f64 => Possible::Yes,
        _ => Possible::Partly,
    }
}

/// Fills in what to turn on: first for what the question is about, then for what it needs. Settings that are on already are not advised again.
fn advise(answer: &mut Answer, question: &Question, tally: &Tally, header: &HeaderFacts) {
    // No trace shows a hang, whatever is recorded.
    if question.name == "hang" {
        answer.turn_on.extend(question.turn_on);
        return;
    }
    if *header.writer == Writer::NSIGHT_SYSTEMS {
        return advise_nsys(answer, question, tally);
    }
    if question.flag == Some(WITH_STACK)
        && header.is_on(WITH_STACK)
        && answer.have == 0
        && tally.frames == 0
        && tally.kernels > 0
    {
        return advise_stacks(answer, tally);
    }
    let was_on = question.flag.is_some_and(|flag| header.is_on(flag)) || (question.on)(tally);
    let basis = match question.basis {
        Basis::Kernels | Basis::Collectives if tally.kernels == 0 => Some(KERNELS_ON),
        Basis::Operators if tally.operators == 0 => Some(OPERATORS_ON),
        _ => None,
    };
    // What was not asked for is missing everywhere, for this one reason.
    if answer.have == 0 && !was_on {
        answer.lacking.clear();
    }
    match (basis, was_on) {
        (Some(KERNELS_ON), _) if tally.other_accelerator => answer.although = Some(OTHER_ACCELERATOR),
        (Some(basis), _) => {
            answer.turn_on.push(basis);
            answer.turn_on.extend(question.turn_on.filter(|own| question.flag.is_some() && !was_on && *own != basis));
        }
        (None, true) => {
            answer.was_on = question.flag;
            // If kernels are counted by reason, `although` explains the others.
            let is_said = answer.lacking.is_empty() || answer.lacking.contains_key("others");
            let although = question.none.filter(|_| answer.have == 0).map_or(question.although, |none| none(tally));
            answer.although = Some(although).filter(|although| is_said && !although.is_empty());
        }
        (None, false) => answer.turn_on.extend(question.turn_on),
    }
    if question.name == "python-stack" && !was_on && tally.call_stacks > 0 {
        answer.although = Some(AS_TEXT);
    }
    // Collectives replayed by a graph have no record in any trace.
    if question.basis == Basis::Collectives && question.above.is_some() && tally.replayed_collectives > 0 {
        answer.turn_on.push(RECORDS_ON);
    }
}

/// What to turn on in Nsight Systems. Without kernels, kernels come first.
fn advise_nsys(answer: &mut Answer, question: &Question, tally: &Tally) {
    let Some(own) = question.nsys else {
        answer.lacking.clear();
        answer.although = Some(NOT_OF_NSYS);
        return;
    };
    let needs_kernels = matches!(question.basis, Basis::Kernels | Basis::Collectives) && tally.kernels == 0;
    answer.turn_on.extend(Some(NSYS_KERNELS_ON).filter(|_| needs_kernels));
    answer.turn_on.extend(Some(own).filter(|own| !needs_kernels || !own.starts_with(NSYS_KERNELS_ON)));
}

/// What to turn on if stacks were asked for but no Python function was recorded. There is one reason for that everywhere.
fn advise_stacks(answer: &mut Answer, tally: &Tally) {
    answer.lacking.clear();
    answer.was_on = Some(WITH_STACK);
    answer.although = Some(NO_FRAMES);
    if tally.call_stacks > 0 {
        answer.although = Some(AS_TEXT);
    } else {
        // PyTorch follows Python only if it records the CPU.
        answer.turn_on.push(if tally.operators == 0 { OPERATORS_ON } else { STACKS_ON });
    }
}
