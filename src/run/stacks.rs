//! The stacks of traces: the main answer.

use std::collections::BTreeMap;

use super::completeness::Completeness;
use super::error::RunError;
use super::inputs::Inputs;
use super::question::Question;
use super::reading::Run;
use super::traces::{Kept, Reduced, ReducedTraces};
use crate::answers::damage::Losses;
use crate::answers::stacks::data::StackReport;
use crate::answers::stacks::timeline::Timeline;
use crate::answers::window::missing::Missing;
use crate::time::Ns;

/// The stacks of some traces. There may be none.
#[derive(Debug, Default)]
pub struct StackAnswer {
    pub report: StackReport,
    /// Why there are no stacks, if there are none, by trace.
    pub missing: Vec<(String, Missing)>,
    /// What is wrong with the traces, in lines.
    pub damage: Vec<String>,
    /// Which files were left out, and why.
    pub left_out: Vec<String>,
    /// What to do next, in sentences, if there is one trace.
    pub next_steps: Vec<String>,
    /// When kernels ran, by trace, if the answer is drawn.
    pub timelines: Vec<Timeline>,
    /// Which ranks are here; of parts alone.
    pub completeness: Completeness,
}

impl Run<'_> {
    /// The stacks of traces, or of all ranks of parts that were written before. Parts that cannot be read are left out.
    /// Errors: as [`Run::ranks`], and parts beside traces.
    pub fn stacks(&self, files: &Inputs, question: &Question) -> Result<StackAnswer, RunError> {
        if files.are_parts()? {
            return self.stacks_of_parts(&files.parts, question);
        }
        let ReducedTraces { mut traces, archives, left_out, lost, .. } =
            self.reduce(&files.traces, question, Kept::Stacks)?;
        let mut answer = StackAnswer { left_out, ..StackAnswer::merge(&mut traces, question) };
        answer.completeness.unread = lost;
        for archive in &archives {
            answer.report.damage.add(Losses::count(archive));
            answer.damage.extend(self.damage_lines(archive));
        }
        Ok(answer)
    }
}

impl StackAnswer {
    /// Takes the stacks of traces, and what belongs to them.
    pub(super) fn merge(traces: &mut [Reduced], question: &Question) -> Self {
        let mut answer = StackAnswer::default();
        let mut paths: BTreeMap<&'static str, Ns> = BTreeMap::new();
        for trace in &mut *traces {
            answer.next_steps.append(&mut trace.next_steps);
            answer.timelines.extend(trace.timeline.take());
            answer.missing.extend(trace.missing.take().map(|missing| (trace.title.clone(), missing)));
            answer.damage.extend_from_slice(&trace.damage);
            trace.path.iter().for_each(|(kind, time)| *paths.entry(*kind).or_default() += *time);
        }
        let stacks = traces.iter_mut().filter_map(|trace| trace.stacks.take());
        answer.report = StackReport::merge(stacks, &question.stacks);
        answer.report.critical_path_ns = question.critical.then_some(paths);
        if answer.report.has_answer() {
            answer.missing.clear();
        }
        answer
    }
}
