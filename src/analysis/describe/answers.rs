//! The answer to each question: whether a trace, or records, can answer it, for how much of it, and what to turn on if not.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::header::HeaderFacts;
use super::questions::{Basis, KERNELS_ON, NSYS_KERNELS_ON, Question, RecordQuestion, Recorder, TraceQuestion};
use super::sources::SourceRow;
use super::tally::{Having, Lack, Tally};
use crate::event::Writer;
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

/// Why a trace of another accelerator has no kernels.
const OTHER_ACCELERATOR: &str = "only kernels of CUDA and ROCm are read, and this trace is from another accelerator";

/// Why an export of Nsight Systems lacks something.
pub(super) const NOT_OF_NSYS: &str = "Nsight Systems does not record that; torch.profiler does";

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
    /// Why it is missing although it was asked for. If `lacking` has reasons, this explains its `others`.
    pub although: Option<&'static str>,
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
        let TraceQuestion { basis, unit, .. } = *self;
        let question = self.question.of_trace(tally.kernels > 0, tally.collectives > 0);
        let (having, of) = ((self.having)(tally), (self.count)(tally));
        // What a trace either has or lacks has no share.
        let have = if basis == Basis::Trace { of } else { having.have };
        let possible = match basis {
            // A job with a single rank waits for no other.
            _ if question.of_several && header.world_size == Some(1) => Possible::NothingToAsk,
            Basis::Trace if of == 0 => Possible::No,
            _ if self.missing_basis(tally).is_some() => Possible::No,
            _ if of == 0 => Possible::NothingToAsk,
            _ if have == 0 => Possible::No,
            _ if have as f64 >= NEARLY_ALL * of as f64 => Possible::Yes,
            _ => Possible::Partly,
        };
        let (lacking, was_on, turn_on, although) = (having.lacking.clone(), None, Vec::new(), None);
        let mut answer = Answer { question, basis, possible, have, of, unit, lacking, was_on, turn_on, although };
        match possible {
            Possible::Yes | Possible::NothingToAsk => {}
            // No trace has it, whatever is recorded.
            _ if basis == Basis::Records => answer.turn_on.push(self.turn_on),
            _ if *header.writer == Writer::NSIGHT_SYSTEMS => self.advise_nsys(&mut answer, tally),
            _ => self.advise(&mut answer, &having, tally, header),
        }
        answer
    }

    /// Fills in what to turn on: first for what the question is about, then for what it needs. Settings that are on already are not advised again.
    fn advise(&self, answer: &mut Answer, having: &Having, tally: &Tally, header: &HeaderFacts) {
        let flag = self.flag.filter(|flag| header.is_on(flag));
        if let Some((why, turn_on)) = (self.without)(tally, flag.is_some()).filter(|_| answer.have == 0) {
            answer.lacking.clear();
            (answer.was_on, answer.although) = (flag, Some(why));
            return answer.turn_on.extend(turn_on);
        }
        let was_on = flag.is_some() || (self.is_seen)(tally, having);
        // What was not asked for is missing everywhere, for this one reason.
        if answer.have == 0 && !was_on {
            answer.lacking.clear();
        }
        match self.missing_basis(tally) {
            Some(KERNELS_ON) if tally.other_accelerator => answer.although = Some(OTHER_ACCELERATOR),
            Some(basis) => {
                answer.turn_on.push(basis);
                answer.turn_on.extend(Some(self.turn_on).filter(|_| self.flag.is_some() && !was_on));
            }
            None if was_on => {
                // If kernels are counted by reason, this explains the others.
                let is_said = answer.lacking.is_empty() || answer.lacking.contains_key(&Lack::Others);
                answer.although = Some((self.although)(tally)).filter(|why| is_said && !why.is_empty());
                answer.was_on = self.flag;
            }
            None => answer.turn_on.push(self.turn_on),
        }
        answer.turn_on.extend(self.replayed.filter(|_| having.lacking.contains_key(&Lack::Replayed)));
    }

    /// What to turn on in Nsight Systems. Without kernels, kernels come first.
    fn advise_nsys(&self, answer: &mut Answer, tally: &Tally) {
        let needs_kernels = self.missing_basis(tally) == Some(KERNELS_ON);
        let Some(own) = self.nsys else {
            answer.lacking.clear();
            answer.although = Some(NOT_OF_NSYS);
            return;
        };
        answer.turn_on.extend(Some(NSYS_KERNELS_ON).filter(|_| needs_kernels));
        answer.turn_on.extend(Some(own).filter(|own| !needs_kernels || !own.starts_with(NSYS_KERNELS_ON)));
    }
}

impl RecordQuestion {
    pub(super) fn answer(&self, sources: &[SourceRow]) -> RecordAnswer {
        let RecordQuestion { question, share, recorders, events, .. } = *self;
        let shares = || sources.iter().map(|row| (row, share(row)));
        let ratio = |(have, of): (u64, u64)| have as f64 / of.max(1) as f64;
        let best = shares().max_by(|(_, a), (_, b)| ratio(*a).total_cmp(&ratio(*b)).then(a.1.cmp(&b.1)));
        let (row, (have, of)) = best.map_or((None, (0, 0)), |(row, share)| (Some(row), share));
        let row = row.filter(|_| have > 0);
        let is_alone = question.of_several && row.is_some_and(|row| row.ranks.len() < 2);
        // A single answer from RAS shows who has enqueued less, but not whether that changes.
        let is_once = question.of_several && row.is_some_and(|row| row.source == Source::RAS.name() && row.files < 2);
        let possible = match have {
            0 => Possible::No,
            _ if is_alone || is_once || have < of => Possible::Partly,
            _ => Possible::Yes,
        };
        let turn_on: &[Recorder] = match possible {
            Possible::Yes => &[],
            _ if is_once => &[("a second answer of RAS", "a minute later")],
            _ if sources.iter().any(|row| row.events & events != 0) => &[],
            _ if is_alone => &[("the records of the other ranks", "")],
            _ => recorders,
        };
        // RAS has no operations; it counts them by rank.
        let is_by_rank = self.unit == "operations" && row.is_some_and(|row| row.operations == 0);
        RecordAnswer {
            question,
            possible,
            have,
            of,
            unit: if is_by_rank { "counts of ranks" } else { self.unit },
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
