//! The answer to each question: whether a trace, or records, can answer it, for how much of it, and what to turn on if not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::has;
use super::header::HeaderFacts;
use super::questions::{
    Basis, KERNELS, OPERATORS, OTHER_PROFILER, Question, RECORDS_ON, RecordQuestion, Recorder, Setting, TraceQuestion,
};
use super::sources::SourceRow;
use super::tally::{Lack, Tally};
use crate::operation::Source;

/// Whether a file can answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
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

/// What a command of the main answer needs where there are no collectives: it asks for these unless an option says otherwise.
const WITH_ALL_KERNELS: &str = " --kernel-name '*'";

/// The command for annotations in a trace without kernels.
const ANNOTATIONS_ALONE: &str = "nccl-stacks sql TRACE \"SELECT name, count(*), sum(dur) FROM slice WHERE category = 'user_annotation' GROUP BY name\"";

/// The answer of a trace to a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Answer {
    /// The question.
    #[serde(flatten)]
    pub question: Question,
    /// What the trace must have before the question applies.
    #[serde(skip)]
    pub basis: Basis,
    /// Whether the trace can answer it.
    pub possible: Possible,
    /// How many of `unit` have what it needs.
    pub have: u64,
    /// How many of `unit` there are.
    pub of: u64,
    /// What is counted: kernels, operators, collectives.
    pub unit: &'static str,
    /// The number of kernels that lack it although it was asked for, by reason.
    pub lacking: BTreeMap<Lack, u64>,
    /// The setting that was on already.
    pub was_on: Option<&'static str>,
    /// What to turn on, as written in a program or on a command line.
    pub turn_on: Vec<&'static str>,
}

/// The answer of records to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordAnswer {
    /// The question.
    #[serde(flatten)]
    pub question: Question,
    /// Whether the records can answer it.
    pub possible: Possible,
    /// How many of `unit` have what it needs, in the source that has most: several sources may have recorded the same operations.
    pub have: u64,
    /// How many of `unit` that source has.
    pub of: u64,
    /// What is counted: operations, steps, counts of ranks.
    pub unit: &'static str,
    /// The name of that source; `None` if no source has it.
    pub by: Option<&'static str>,
    /// All sources that have it.
    pub sources: Vec<&'static str>,
    /// What to record with: any of these.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub turn_on: Vec<Recorder>,
}

impl TraceQuestion {
    pub(super) fn answer(&self, tally: &Tally, header: &HeaderFacts) -> Answer {
        let (basis, unit) = (self.basis, self.unit);
        let [of, have] = [self.all, self.all | self.have].map(|flags| tally.number(flags));
        let lacking = match self.all {
            has::KERNEL | has::COLLECTIVE if basis == Basis::Kernels => tally.lacking(self.all, self.have),
            _ => BTreeMap::new(),
        };
        let lacks = self.lacks(tally);
        let possible = match basis {
            // A job with a single rank waits for no other.
            _ if self.question.is_about_several() && header.world_size == Some(1) => Possible::NothingToAsk,
            Basis::Trace if of == 0 => Possible::No,
            _ if lacks.is_some() => Possible::No,
            _ if of == 0 => Possible::NothingToAsk,
            _ if have == 0 => Possible::No,
            _ if have as f64 >= NEARLY_ALL * of as f64 => Possible::Yes,
            _ => Possible::Partly,
        };
        let question = Question { command: self.command(tally), ..self.question.clone() };
        let mut answer =
            Answer { question, basis, possible, have, of, unit, lacking, was_on: None, turn_on: Vec::new() };
        if possible != Possible::Yes && possible != Possible::NothingToAsk {
            self.advise(&mut answer, lacks, tally, header);
        }
        answer
    }

    /// The command that answers it for this trace.
    fn command(&self, tally: &Tally) -> Cow<'static, str> {
        let command = &self.question.command;
        match tally.counts.kernels {
            _ if tally.counts.collectives > 0 || !command.starts_with("nccl-stacks TRACE") => command.clone(),
            0 if self.question.name == "annotations" => ANNOTATIONS_ALONE.into(),
            _ => format!("{command}{WITH_ALL_KERNELS}").into(),
        }
    }

    /// What to turn on if the trace has nothing of the basis.
    fn lacks(&self, tally: &Tally) -> Option<Setting> {
        match self.basis {
            Basis::Kernels | Basis::Records if tally.counts.kernels == 0 => Some(KERNELS),
            Basis::Operators if tally.number(has::OPERATOR) == 0 => Some(OPERATORS),
            _ => None,
        }
    }

    /// Fills in what to turn on: first for what the question is about, then for what it needs. Settings that are on already are not advised again.
    fn advise(&self, answer: &mut Answer, lacks: Option<Setting>, tally: &Tally, header: &HeaderFacts) {
        let Setting { flag, seen, shown_by, .. } = self.setting;
        // No trace has it, whatever is recorded.
        if self.basis == Basis::Records {
            return answer.turn_on.push(self.setting.torch);
        }
        let Some(own) = self.setting.words(header) else {
            answer.lacking.clear();
            return answer.turn_on.push(OTHER_PROFILER);
        };
        // A graph's launch has no parameters of collectives, whatever is recorded.
        let is_replayed = shown_by != 0 && answer.lacking.contains_key(&Lack::Replayed);
        let may_be_on = shown_by != 0 && tally.number(shown_by) == 0;
        let was_on = flag.is_some_and(|flag| header.is_on(flag)) || tally.number(seen) > 0 || may_be_on;
        // What was not asked for is missing everywhere, for this one reason.
        if answer.have == 0 && !was_on {
            answer.lacking.clear();
        }
        match lacks.map(|basis| basis.words(header)) {
            // Only kernels of CUDA and ROCm are read.
            Some(_) if tally.other_accelerator && self.basis == Basis::Kernels => {}
            Some(basis) => {
                answer.turn_on.extend(basis);
                answer.turn_on.extend(Some(own).filter(|_| flag.is_some() && !was_on));
            }
            None if was_on => answer.was_on = flag,
            None => answer.turn_on.push(own),
        }
        answer.turn_on.extend(Some(RECORDS_ON).filter(|_| is_replayed));
    }
}

impl RecordQuestion {
    pub(super) fn answer(&self, sources: &[SourceRow]) -> RecordAnswer {
        let shares = || sources.iter().map(|row| (row, (self.share)(row)));
        let ratio = |(have, of): (u64, u64)| have as f64 / of.max(1) as f64;
        let best = shares().max_by(|(_, a), (_, b)| ratio(*a).total_cmp(&ratio(*b)).then(a.1.cmp(&b.1)));
        let (row, (have, of)) = best.map_or((None, (0, 0)), |(row, share)| (Some(row), share));
        let row = row.filter(|_| have > 0);
        let of_several = row.filter(|_| self.question.is_about_several());
        let is_alone = of_several.is_some_and(|row| row.ranks.len() < 2);
        // A single answer from RAS shows who has enqueued less, but not whether that changes.
        let is_once = of_several.is_some_and(|row| row.source == Source::RAS.name() && row.files < 2);
        // What a log says of some ranks does not show how far the others got.
        let is_reported = self.unit == "operations" && row.is_some_and(SourceRow::is_reported);
        let possible = match have {
            0 => Possible::No,
            _ if is_reported || is_alone || is_once || have < of => Possible::Partly,
            _ => Possible::Yes,
        };
        let turn_on: &[Recorder] = match possible {
            Possible::Yes => &[],
            _ if is_once => &[("a second answer of RAS", "a minute later")],
            _ if sources.iter().any(|row| row.events & self.events != 0) => &[],
            _ if is_alone && !is_reported => &[("the records of the other ranks", "")],
            _ => self.recorders,
        };
        // RAS has no operations; it counts them by rank.
        let is_by_rank = self.unit == "operations" && row.is_some_and(|row| row.operations == 0);
        RecordAnswer {
            question: self.question.clone(),
            possible,
            have,
            of,
            unit: match (is_reported, is_by_rank) {
                (true, _) => "reports of ranks",
                (_, true) => "counts of ranks",
                _ => self.unit,
            },
            by: row.map(|row| row.source),
            sources: shares().filter(|(_, (have, _))| *have > 0).map(|(row, _)| row.source).collect(),
            turn_on: turn_on.to_vec(),
        }
    }
}

/// `NCCL Inspector, or the flight recorder with TORCH_NCCL_ENABLE_TIMING=1`; `None` without any.
pub fn one_of(recorders: &[Recorder]) -> Option<String> {
    let text = |(name, how): &Recorder| format!("{name} {how}").trim_end().to_owned();
    let (last, others) = recorders.split_last()?;
    let others = others.iter().map(|recorder| text(recorder) + ", ").collect::<String>();
    Some(if others.is_empty() { text(last) } else { format!("{others}or {}", text(last)) })
}

fn as_text<S: Serializer>(recorders: &[Recorder], serializer: S) -> Result<S::Ok, S::Error> {
    one_of(recorders).serialize(serializer)
}
