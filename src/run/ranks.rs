//! The ranks of a job beside each other: each trace is reduced to its ranks, parts that were written before have theirs already.

use super::completeness::Completeness;
use super::error::RunError;
use super::inputs::Inputs;
use super::memory;
use super::question::Question;
use super::reading::Run;
use super::stacks::StackAnswer;
use super::traces::{Kept, Reduced};
use crate::answers::damage::Losses;
use crate::answers::ranks::data::Compared;
use crate::answers::ranks::job::rank_of;
use crate::answers::ranks::reduction::{RankReduction, Row};
use crate::document::format::visible;
use crate::operations::clocks::ClockMode;

#[derive(Debug, Default)]
pub struct RanksOfFiles {
    pub ranks: Vec<RankReduction>,
    /// The stacks of all traces, if the answer is drawn.
    pub stacks: Option<StackAnswer>,
    /// What is wrong with the traces, in lines.
    pub damage: Vec<String>,
    /// Whether traces without a collective are damaged so that they may have had one.
    pub is_damaged: bool,
    /// What is wrong with these.
    pub(super) of_silent: Losses,
    /// Which files were left out, and why.
    pub left_out: Vec<String>,
    /// Which ranks are here, and what parts say of the others.
    pub completeness: Completeness,
}

impl RanksOfFiles {
    /// Ranks that are from records, which have nothing else.
    pub fn from_records(ranks: Vec<RankReduction>) -> Self {
        RanksOfFiles { ranks, ..RanksOfFiles::default() }
    }

    /// Takes what is wrong with a trace without a collective, if that may have lost some.
    pub(super) fn add_silent(&mut self, losses: Losses) {
        if losses.is_unknown() {
            self.of_silent.add(losses);
        }
    }
}

impl Run<'_> {
    /// The ranks of traces, of parts that were written before, or of both. A part that cannot be used is left out.
    /// Errors: as [`Run::stacks`]; parts of which none can be used, or that were made with other options; a given rank of no trace.
    pub fn ranks(&self, files: &Inputs, question: &Question) -> Result<RanksOfFiles, RunError> {
        let mut found = RanksOfFiles::default();
        if !files.parts.is_empty() {
            let asked = Some(&*question.asked).filter(|asked| !asked.is_empty() || !files.traces.is_empty());
            self.add_ranks_of_parts(&files.parts, asked, question, &mut found)?;
        }
        let mut traces = Vec::new();
        if !files.traces.is_empty() {
            let reduced = self.reduce(&files.traces, question, Kept::Ranks)?;
            let said;
            (traces, said) = self.traces_of_run(reduced.traces, &question.given)?;
            said.iter().for_each(|line| self.warn(line));
            self.count_parts_once(&mut traces, &found.ranks);
            for Reduced { ranks, losses, title, rank, damage, .. } in &mut traces {
                let rank = rank.map(|rank| rank.0);
                found.completeness.ranks.extend(rank);
                if ranks.is_empty() {
                    self.note_silent(title);
                    found.completeness.silent.extend(rank);
                    found.add_silent(std::mem::take(losses));
                }
                found.ranks.append(ranks);
                found.damage.extend_from_slice(damage);
            }
            found.left_out = said.into_iter().chain(reduced.left_out).collect();
            found.completeness.unread += reduced.lost;
            reduced.archives.iter().for_each(|archive| found.damage.extend(self.damage_lines(archive)));
        }
        found.is_damaged = found.of_silent.is_unknown();
        if let Some(first) = found.ranks.first_mut() {
            first.damage.add(std::mem::take(&mut found.of_silent));
        }
        question.given.iter().try_for_each(|given| given.set(&mut found.ranks)).map_err(RunError::GivenRank)?;
        // Parts have no stacks of which the page could show all.
        if question.draws && files.parts.is_empty() && !traces.is_empty() {
            let mut stacks = StackAnswer::merge(&mut traces, question);
            stacks.timelines.sort_by_key(|timeline| timeline.rank);
            found.stacks = Some(stacks);
        }
        Ok(found)
    }

    /// Leaves out traces of which these are the parts.
    fn count_parts_once(&self, traces: &mut Vec<Reduced>, of_parts: &[RankReduction]) {
        // No two recordings of a rank have collectives at the same nanoseconds.
        let is_there = |of_trace: &RankReduction| {
            let rank = rank_of(of_trace).ok();
            let is_it = |part: &RankReduction| have_same_rows(part, of_trace) && rank_of(part).ok() == rank;
            rank.is_some() && !of_trace.rows.is_empty() && of_parts.iter().any(is_it)
        };
        traces.retain(|trace| {
            let is_counted = !trace.ranks.is_empty() && trace.ranks.iter().all(is_there);
            if is_counted {
                self.warn(&format!("There twice, and counted once: {} and its part", visible(&trace.title)));
            }
            !is_counted
        });
    }

    /// The ranks beside each other. Reruns that need more memory than there is are left out.
    /// Errors: ranks without any collective, and what [`Compared::from_reductions`] fails with.
    pub fn compare(&self, mut ranks: Vec<RankReduction>, clock: ClockMode) -> Result<Compared, RunError> {
        if ranks.iter().all(|part| part.rows.is_empty()) {
            let is_damaged = ranks.iter().any(|part| part.damage.is_unknown());
            return Err(RunError::NoCollective { is_damaged });
        }
        let too_large = memory::too_large(&mut ranks, self.memory());
        let mut compared = Compared::from_reductions(ranks, clock)?;
        compared.too_large = too_large;
        Ok(compared)
    }
}

/// Whether the collectives of two reductions are the same. The kernels of a part are not numbered.
fn have_same_rows(one: &RankReduction, other: &RankReduction) -> bool {
    let unnumbered = |row: &Row| Row { kernel: 0, ..*row };
    one.rows.len() == other.rows.len() && one.rows.iter().map(unnumbered).eq(other.rows.iter().map(unnumbered))
}
