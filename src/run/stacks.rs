//! The stacks of traces: the main answer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::completeness::Completeness;
use super::error::RunError;
use super::missing;
use super::next_steps::next_steps;
use super::reading::Run;
use super::traces::{Prepared, Reduced, ReducedTraces, Reducer, TraceQuestion};
use crate::answers::MOST_DRAWN;
use crate::answers::cost::Order;
use crate::answers::damage::Losses;
use crate::answers::ranks::alone::Alone;
use crate::answers::stacks::data::{StackOptions, StackReport};
use crate::answers::stacks::reduction::{StackReduction, attributed};
use crate::answers::stacks::timeline::Timeline;
use crate::answers::window::missing::Missing;
use crate::attribution::{Attribution, KernelLaunch};
use crate::event::ArgsWanted;
use crate::store::Store;
use crate::time::{Ns, Window};

/// How many rows the timeline of a trace has at most, and those of all traces of a page.
const ROWS_OF_ONE: usize = 40_000;
const ROWS_OF_ALL: usize = 160_000;

/// What is asked about the stacks of traces.
#[derive(Debug, Default)]
pub struct StackQuestion {
    /// Which kernels of which part of each trace, and what the stacks show.
    pub traces: TraceQuestion,
    /// Whether the answer is drawn, which needs the times of all kernels.
    pub draws: bool,
    /// Whether the critical path of each rank alone is found.
    pub critical: bool,
    /// See [`StackOptions::largest_groups`].
    pub largest_groups: Option<Order>,
    /// As [`RankQuestion::asked`](super::RankQuestion::asked), for parts alone.
    pub asked: String,
}

/// The stacks of some traces. There may be none.
#[derive(Debug)]
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
    /// Finds the stacks of traces.
    pub fn stacks(&self, files: &[PathBuf], question: &StackQuestion) -> Result<StackAnswer, RunError> {
        let how = &question.traces.stacks;
        let by = |prepared: Prepared<'_>| {
            let options = prepared.options(how);
            let Prepared { name, database, attributor, launches, window, is_alone, .. } = prepared;
            let store = database.store();
            let options = StackOptions { largest_groups: question.largest_groups.filter(|_| is_alone), ..options };
            let mut attribution = attributed(attributor, launches, window, &options);
            let path = question.critical.then(|| {
                let found = Alone::find(store, &attribution, window);
                let of_kernel = |kernel: &KernelLaunch| found.on_path.get(&kernel.launched.kernel).copied();
                attribution
                    .kernels
                    .iter_mut()
                    .for_each(|kernel| kernel.critical = Some(of_kernel(kernel).unwrap_or_default()));
                found.kinds
            });
            let part = StackReduction::of_attributed(name, store, &attribution, launches, window, &options);
            let mut timeline = match question.draws {
                true => timeline((name, store), &attribution, window, &part, files.len(), how),
                false => None,
            };
            let alone = timeline.iter_mut().filter(|_| files.len() == 1);
            alone.for_each(|timeline| timeline.add_costs(store, &attribution, &options));
            let missing = missing::explain(database, window, &part)?;
            let next = if is_alone { next_steps(name, store, &attribution.kernels) } else { Vec::new() };
            Ok((part, missing, timeline, path, next))
        };
        // Records are joined by the numbers of operations, too.
        let args = if how.records.is_some() { ArgsWanted::OPERATIONS } else { ArgsWanted::COLLECTIVES };
        let args = how.grouping.args(args);
        let ReducedTraces { traces, archives, left_out, .. } =
            self.reduce(files, &question.traces, &Reducer { args, compares_clocks: false, by: &by })?;
        let (mut reductions, mut reasons, mut damage, mut timelines) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut paths, mut next_steps): (BTreeMap<&'static str, Ns>, Vec<String>) = Default::default();
        for Reduced { reduction: (reduction, missing, timeline, path, next), name, damage: of_trace, .. } in traces {
            reductions.push(reduction);
            next_steps.extend(next);
            timelines.extend(timeline);
            path.into_iter().flatten().for_each(|(kind, time)| *paths.entry(kind.word()).or_default() += time);
            reasons.extend(missing.map(|missing| (name, missing)));
            damage.extend(of_trace);
        }
        let mut report = StackReport::merge(reductions, how);
        report.critical_path_ns = question.critical.then_some(paths);
        for archive in &archives {
            report.damage.add(Losses::count(archive));
            damage.extend(self.damage_lines(archive));
        }
        if report.has_answer() {
            reasons.clear();
        }
        let completeness = Completeness::default();
        Ok(StackAnswer { report, missing: reasons, damage, left_out, next_steps, timelines, completeness })
    }
}

/// When the kernels of one of so many files ran; `None` if these are too many to be drawn.
pub(super) fn timeline(
    (name, store): (&str, &Store),
    attribution: &Attribution,
    window: Window,
    part: &StackReduction,
    files: usize,
    options: &StackOptions,
) -> Option<Timeline> {
    if files > MOST_DRAWN {
        return None;
    }
    let most = (ROWS_OF_ALL / files.max(1)).min(ROWS_OF_ONE);
    let mut timeline = Timeline::new(name, store, attribution, window, options, most);
    timeline.rank = part.trace().rank.map(|rank| rank.0);
    Some(timeline)
}
