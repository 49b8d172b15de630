//! The ranks of a job beside each other: each trace is reduced to its ranks, parts that were written before have theirs already.

use std::path::{Path, PathBuf};

use super::completeness::Completeness;
use super::error::RunError;
use super::inputs::Inputs;
use super::missing;
use super::reading::Run;
use super::runs::TraceOfRun;
use super::stacks::timeline;
use super::traces::{Prepared, Reduced, ReducedTraces, Reducer, TraceQuestion};
use crate::answers::damage::Losses;
use crate::answers::ranks::data::Compared;
use crate::answers::ranks::job::rank_of;
use crate::answers::ranks::reduce::{queues, reduce_attributed};
use crate::answers::ranks::reduction::{GivenRank, RankReduction};
use crate::answers::stacks::data::{StackOptions, StackReport};
use crate::answers::stacks::reduction::{StackReduction, attributed};
use crate::answers::stacks::timeline::Timeline;
use crate::answers::window::missing::Missing;
use crate::attribution::Attribution;
use crate::event::ArgsWanted;
use crate::operations::clocks::ClockMode;

/// What is asked of the ranks of a job.
#[derive(Debug, Default)]
pub struct RankQuestion {
    /// Which kernels of which part of each trace.
    pub traces: TraceQuestion,
    /// The options that decide what parts contain. Parts that were made with other options are refused, but without any options these need not be
    /// repeated.
    pub asked: String,
    /// Ranks that are given for traces.
    pub given: Vec<GivenRank>,
    /// How clocks are compared.
    pub clock: ClockMode,
    /// Whether the answer is drawn, which needs stacks and times of kernels, too.
    pub draws: bool,
}

/// The ranks of some files.
#[derive(Debug, Default)]
pub struct RanksOfFiles {
    pub ranks: Vec<RankReduction>,
    /// What a page needs beside them, if the answer is drawn.
    pub page: PageParts,
    /// What is wrong with the traces, in lines.
    pub damage: Vec<String>,
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
}

/// What a page needs of traces beside their ranks.
#[derive(Debug, Default)]
pub struct PageParts {
    /// The stacks of all traces; `None` if nothing is drawn.
    pub stacks: Option<StackReport>,
    /// When kernels ran, by rank.
    pub timelines: Vec<Timeline>,
    /// Why there are no stacks, if there are none, by trace.
    pub missing: Vec<(String, Missing)>,
}

/// The ranks of a trace, and what a page needs beside them.
type RanksOfTrace = (Vec<RankReduction>, Losses, Option<OnPage>);

/// What a page needs of one trace.
struct OnPage {
    name: String,
    stacks: StackReduction,
    timeline: Option<Timeline>,
    missing: Option<Missing>,
}

impl Run<'_> {
    /// The ranks of traces, of parts that were written before, or of both. A part that cannot be used is left out.
    /// Errors: as [`Run::reduce`]; parts of which none can be used, or that were made with other options; a given rank of no trace.
    pub fn ranks(&self, files: &Inputs, question: &RankQuestion) -> Result<RanksOfFiles, RunError> {
        let mut found = RanksOfFiles::default();
        if !files.parts.is_empty() {
            let asked = Some(&*question.asked).filter(|asked| !asked.is_empty() || !files.traces.is_empty());
            self.add_ranks_of_parts(&files.parts, asked, &mut found)?;
        }
        let mut on_page = Vec::new();
        if !files.traces.is_empty() {
            let ReducedTraces { traces, archives, left_out, lost, .. } = self.reduced_ranks(&files.traces, question)?;
            let (traces, said) =
                self.traces_of_run(traces, |trace| about(trace, &question.given, |(ranks, ..)| ranks))?;
            said.iter().for_each(|line| self.warn(line));
            let mut of_silent = Losses::default();
            for Reduced { reduction: (ranks, losses, of_page), name, rank, damage, .. } in traces {
                let rank = rank.map(|rank| rank.0);
                found.completeness.ranks.extend(rank);
                if ranks.is_empty() {
                    self.note_silent(&name);
                    found.completeness.silent.extend(rank);
                    if losses.is_unknown() {
                        of_silent.add(losses);
                    }
                }
                found.ranks.extend(ranks);
                on_page.extend(of_page);
                found.damage.extend(damage);
            }
            if let Some(first) = found.ranks.first_mut() {
                first.damage.add(of_silent);
            }
            found.left_out = said.into_iter().chain(left_out).collect();
            found.completeness.unread += lost;
            archives.iter().for_each(|archive| found.damage.extend(self.damage_lines(archive)));
        }
        question.given.iter().try_for_each(|given| given.set(&mut found.ranks)).map_err(RunError::GivenRank)?;
        // Parts have no stacks of which the page could show all.
        if files.parts.is_empty() {
            found.page = PageParts::new(on_page, question);
        }
        Ok(found)
    }

    fn reduced_ranks(
        &self,
        files: &[PathBuf],
        question: &RankQuestion,
    ) -> Result<ReducedTraces<RanksOfTrace>, RunError> {
        let how = &question.traces.stacks;
        let by = |prepared: Prepared<'_>| {
            let Prepared { name, database, launches, window, .. } = prepared;
            let (ranks, attribution, options) = ranks_of_trace(prepared, how);
            let store = database.store();
            let on_page = question.draws.then(|| {
                let part = StackReduction::of_attributed(name, store, &attribution, launches, window, &options);
                let mut timeline = timeline((name, store), &attribution, window, &part, files.len(), how);
                // A file of several ranks is none of them.
                timeline.iter_mut().filter(|_| ranks.len() > 1).for_each(|timeline| timeline.rank = None);
                let missing = missing::explain(database, window, &part)?;
                Ok::<_, RunError>(OnPage { name: name.to_owned(), stacks: part, timeline, missing })
            });
            Ok((ranks, Losses::count(store), on_page.transpose()?))
        };
        let args = how.grouping.args(ArgsWanted::OPERATIONS);
        self.reduce(files, &question.traces, &Reducer { args, compares_clocks: true, by: &by })
    }

    /// The ranks beside each other.
    /// Errors: ranks without any collective, and what [`Compared::from_reductions`] fails with.
    pub fn compare(&self, ranks: Vec<RankReduction>, clock: ClockMode) -> Result<Compared, RunError> {
        if ranks.iter().all(|part| part.rows.is_empty()) {
            let is_damaged = ranks.iter().any(|part| part.damage.is_unknown());
            return Err(RunError::NoCollective { is_damaged });
        }
        Ok(Compared::from_reductions(ranks, clock)?)
    }
}

/// Of which run a trace is: its rank as it is given, or as its parts say it.
pub(super) fn about<T>(
    trace: &Reduced<T>,
    given: &[GivenRank],
    ranks: impl Fn(&T) -> &Vec<RankReduction>,
) -> TraceOfRun {
    let ranks = ranks(&trace.reduction);
    let is_it = |given: &&GivenRank| Path::new(&trace.name).ends_with(&given.trace);
    let said = given.iter().find(is_it).map(|given| given.rank);
    let of_one = || match &ranks[..] {
        [one] => rank_of(one).ok(),
        // A trace without collectives may be of a rank, too.
        [] => trace.rank.map(|rank| rank.0),
        _ => None,
    };
    TraceOfRun { name: trace.name.clone(), rank: said.or_else(of_one), span: trace.span }
}

/// The ranks of a trace, with the attribution and the options that they were made with.
pub(super) fn ranks_of_trace(
    prepared: Prepared<'_>,
    how: &StackOptions,
) -> (Vec<RankReduction>, Attribution, StackOptions) {
    let options = prepared.options(how);
    let Prepared { name, database, attributor, launches, window, .. } = prepared;
    let store = database.store();
    let queues = queues(store, window, options.window_on);
    let attribution = attributed(attributor, launches, window, &options);
    let ranks = reduce_attributed(name, store, &attribution, &queues, window, &options);
    (ranks, attribution, options)
}

impl PageParts {
    fn new(traces: Vec<OnPage>, question: &RankQuestion) -> Self {
        let (mut parts, mut timelines, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for trace in traces {
            parts.push(trace.stacks);
            timelines.extend(trace.timeline);
            missing.extend(trace.missing.map(|missing| (trace.name, missing)));
        }
        let stacks = (!parts.is_empty()).then(|| StackReport::merge(parts, &question.traces.stacks));
        timelines.sort_by_key(|timeline: &Timeline| timeline.rank);
        if stacks.as_ref().is_none_or(StackReport::has_answer) {
            missing.clear();
        }
        PageParts { stacks, timelines, missing }
    }
}
