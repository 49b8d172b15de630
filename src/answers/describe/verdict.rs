//! How many questions some files can answer together, and what to turn on first for the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Descriptions;
use super::answers::{Answer, Possible};
use super::questions::{Basis, RECORDS_ON};

/// How many questions files of one kind can answer. Each is counted once, whatever the number of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// The number of questions that apply to any of the files.
    pub questions: u64,
    /// The number that all files to which they apply can answer.
    pub full: u64,
    /// The number that they can answer for a part, or that only some of them can answer.
    pub partly: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct First {
    /// The setting, or for records what to record with.
    pub turn_on: &'static str,
    /// The number of questions without a full answer that need it.
    pub questions: u64,
}

impl Answered {
    /// Counts answers: each is the name of a question and whether a file can answer it.
    fn count(answers: impl Iterator<Item = (&'static str, Possible)>) -> Self {
        let mut by_question: BTreeMap<&str, BTreeSet<Possible>> = BTreeMap::new();
        for (name, possible) in answers.filter(|(_, possible)| *possible != Possible::NothingToAsk) {
            by_question.entry(name).or_default().insert(possible);
        }
        let (yes, no) = (BTreeSet::from([Possible::Yes]), BTreeSet::from([Possible::No]));
        let count = |of: &BTreeSet<Possible>| by_question.values().filter(|seen| *seen == of).count() as u64;
        let (questions, full) = (by_question.len() as u64, count(&yes));
        Answered { questions, full, partly: questions - full - count(&no) }
    }
}

impl Descriptions {
    /// The answers of traces that a profiler wrote.
    fn of_profiles(&self) -> impl Iterator<Item = &Answer> {
        self.traces().filter(|trace| trace.header.writer.is_profiler).flat_map(|trace| &trace.answers)
    }

    /// What the traces of profilers can answer, and what the records can answer.
    pub fn answered(&self) -> [Answered; 2] {
        let traces = self.of_profiles().map(|of| (of.question.name, of.possible));
        let records = self.records().flat_map(|records| &records.answers).map(|of| (of.question.name, of.possible));
        [Answered::count(traces), Answered::count(records)]
    }

    /// What most questions without a full answer need, the first in the table if several do; `None` if nothing can be turned on. What no trace
    /// can answer is not counted.
    pub fn first(&self) -> Option<First> {
        let has_records = self.records().next().is_some();
        let mut needs: Vec<(&'static str, BTreeSet<&'static str>)> = Vec::new();
        let mut need = |question, turn_on| match needs.iter_mut().find(|(known, _)| *known == turn_on) {
            Some((_, questions)) => _ = questions.insert(question),
            None => needs.push((turn_on, BTreeSet::from([question]))),
        };
        for answer in self.of_profiles().filter(|answer| answer.basis != Basis::Records) {
            // Records that are there need not be recorded.
            let useful = answer.turn_on.iter().filter(|turn_on| !has_records || **turn_on != RECORDS_ON);
            useful.for_each(|turn_on| need(answer.question.question, *turn_on));
        }
        for answer in self.records().flat_map(|records| &records.answers) {
            answer.turn_on.iter().for_each(|(recorder, _)| need(answer.question.question, recorder));
        }
        let most = needs.iter().enumerate().max_by_key(|(at, (_, questions))| (questions.len(), Reverse(*at)))?;
        Some(First { turn_on: most.1.0, questions: most.1.1.len() as u64 })
    }
}
