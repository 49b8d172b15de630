//! Pipelines: which ranks are the stages, and for how long their GPUs wait for each other.
//!
//! Nothing is known by names: a stage is where ranks are that send to the next ones before these send back. Bubble is what a rank has of a step
//! besides its kernels and the transfers that run alone. Where one kernel carries out several messages, it waits
//! for the stage whose side of one of them starts last.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::job::Job;
use super::messages::{Message, Own, Ranks, Step, messages, own};
use super::schedule::{Computed, Piece};
use super::waiting::measure;
use crate::attribution::busy::Busy;
use crate::operations::clocks::Clocks;
use crate::operations::matching::Matches;
use crate::replay::peers::Part;
use crate::replay::places::step_shifts;
use crate::replay::question::Question;
use crate::replay::rank::{NodeKind, RankGraph};
use crate::replay::stages::{is_next, stages};
use crate::statistics::median_time;
use crate::time::{Ns, Window};

/// The stages of a pipeline, and what they do in the steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pipeline {
    /// The stages, in the order of the forward pass.
    #[cfg_attr(test, schemars(length(min = 2)))]
    pub stages: Vec<Stage>,
    /// The number of steps that are measured.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub steps: u64,
    /// The number of steps that are left out, because not all of their sends and receives are matched and measured.
    pub steps_left_out: u64,
    /// How many microbatches go through it in a step; the mean if steps differ.
    pub microbatches: f64,
    /// How many parts of the model each stage has: from the last stage microbatches go on to the first one so often, and once more.
    pub chunks: f64,
    /// In which order the stages send.
    pub schedule: Schedule,
    /// How much shorter a rerun of the job is in which all stages compute as long as their mean, in ns; `None` without a rerun.
    pub balanced_saves_ns: Option<i64>,
    /// What its ranks compute for which microbatch, in the order of ranks and of time; empty where the threads that launch do not show it.
    #[serde(skip)]
    pub pieces: Vec<Piece>,
}

/// In which order the stages of a pipeline send forward and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Nothing is sent back.
    ForwardOnly,
    /// All microbatches forward, then all back.
    ForwardThenBackward,
    /// The last stage sends the first one back before the last one has come.
    InTurn,
    /// The same, and gradients of weights are computed after what is sent back.
    ZeroBubble,
}

/// A stage: sums over its ranks and over the steps. All times but the phases add up to the length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stage {
    /// Its ranks.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub ranks: Vec<u32>,
    /// How long the steps are: from the first start to the last end on any rank.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub length_ns: Ns,
    /// For how long kernels, copies and fills run.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub compute_ns: Ns,
    /// The same of each of its ranks.
    #[serde(skip)]
    pub computes: Vec<Ns>,
    /// How much of that belongs to the forward pass; `None` if that is not known. Both may run at once; the optimizer belongs to neither.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub forward_ns: Option<Ns>,
    /// How much belongs to the backward pass.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub backward_ns: Option<Ns>,
    /// For how long collectives, sends and receives alone run, without waiting.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub transfer_ns: Ns,
    /// For how long it waits for the stage before it.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waits_for_previous_ns: Ns,
    /// For how long it waits for the stage after it.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waits_for_next_ns: Ns,
    /// For how long it waits in collectives.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waits_in_collectives_ns: Ns,
    /// For how long nothing runs.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub idle_ns: Ns,
    /// How much of its waiting and idling is before it has sent anything back.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub warm_up_ns: Ns,
    /// After that, until its last microbatch has gone forward.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub steady_ns: Ns,
    /// After that.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub cool_down_ns: Ns,
}

impl Stage {
    /// What it waits and idles.
    pub fn bubble(&self) -> Ns {
        self.waits_for_previous_ns + self.waits_for_next_ns + self.waits_in_collectives_ns + self.idle_ns
    }
}

impl Pipeline {
    /// For how long a stage computes in a step, and what that is of the mean of all stages. It is the median of its ranks, since a rank that takes longer than
    /// the others of its stage does not make the stage longer.
    pub fn computes(&self, stage: usize) -> (Ns, f64) {
        let each = |stage: &Stage| median_time(&mut stage.computes.clone()).as_f64() / self.steps.max(1) as f64;
        let (own, all) = (each(&self.stages[stage]), self.stages.iter().map(each).sum::<f64>());
        (Ns::rounded(own), own * self.stages.len() as f64 / all.max(1.0))
    }

    /// Asks what the job would take if all stages computed equally long. `ranks` are the numbers of ranks.
    pub(super) fn balance(&mut self, question: &Question<'_>, ranks: &[u32]) {
        let mut times = question.job.times.clone();
        let mut factors: HashMap<u32, f64> = HashMap::new();
        for (at, stage) in self.stages.iter().enumerate() {
            let factor = 1.0 / self.computes(at).1.max(f64::MIN_POSITIVE);
            stage.ranks.iter().for_each(|rank| {
                factors.entry(*rank).or_insert(factor);
            });
        }
        question.scale(&mut times, Part::Gpu, |rank| factors.get(&ranks[rank]).copied().unwrap_or(1.0));
        self.balanced_saves_ns = Some(question.saves(times));
    }

    /// Adds what the stages compute in which direction, if that is known.
    fn add_computed(
        &mut self,
        compared: Ranks<'_>,
        stage_of: &BTreeMap<usize, usize>,
        own: &BTreeMap<(usize, Step), Own>,
    ) {
        let whole = |of: f64| (of.fract() == 0.0).then_some(of as usize);
        let parts = whole(self.chunks).zip(whole(self.microbatches * self.chunks));
        let Some(Computed { stages, pieces, weights_later }) = Computed::find(compared, stage_of, own, parts) else {
            return;
        };
        for (stage, [back, forward]) in self.stages.iter_mut().zip(stages) {
            (stage.forward_ns, stage.backward_ns) = (Some(forward), Some(back));
        }
        if self.schedule == Schedule::InTurn && weights_later {
            self.schedule = Schedule::ZeroBubble;
        }
        self.pieces = pieces;
    }

    /// The share of bubble in the time of all stages.
    pub fn bubble_share(&self) -> f64 {
        let sum = |of: fn(&Stage) -> Ns| self.stages.iter().map(of).sum::<Ns>();
        sum(Stage::bubble).share_of(sum(|stage| stage.length_ns)).unwrap_or_default()
    }

    /// What that would be if all stages took equally long and messages no time, and each microbatch went back as soon as it can.
    pub fn least_bubble_share(&self) -> f64 {
        let before = self.stages.len() as f64 - 1.0;
        before / (self.microbatches * self.chunks + before)
    }
}

/// Finds the pipeline of a job; `None` if there is none, or clocks are unknown.
pub(super) fn find(job: &Job, matches: &Matches, clocks: &Clocks) -> Option<Pipeline> {
    let graphs: Vec<&RankGraph> = job.reductions.iter().map(|reduction| &reduction.graph).collect();
    let stage_of = stages(&graphs, matches)?;
    let shifts = &step_shifts(&graphs, matches);
    let compared = Ranks { job, matches, clocks, shifts };
    let mut messages = messages(compared);
    messages.retain(|message| message.ranks.iter().all(|rank| stage_of.contains_key(rank)));
    let last = stage_of.values().max().copied()?;
    let is_comparable = |message: &Message| compared.clocks.are_comparable(message.ranks[0], message.ranks[1]);
    if !messages.iter().all(is_comparable) {
        return None;
    }
    for message in &mut messages {
        let [from, to] = message.ranks.map(|rank| stage_of[&rank]);
        message.is_forward = is_next(from, to, last);
    }
    // What two ranks exchange in turn all the time is no pipeline: there the first stage goes ahead.
    let goes_ahead = |sent: &[Ns], back: &[Ns]| sent.len() < 2 || back.first().is_none_or(|first| sent[1] < *first);
    if !is_mostly(&messages, &stage_of, 0, goes_ahead) {
        return None;
    }
    let mut steps = steps(compared, &stage_of);
    let ((mut spans, unmeasured), found) = (Spans::find(compared, &stage_of, last), steps.len());
    steps.retain(|(step, _)| !unmeasured.contains(step));
    messages.retain(|message| steps.iter().any(|(step, _)| *step == message.step));
    if messages.is_empty() {
        return None;
    }
    let mut pipeline = shape(&messages, &stage_of, last, steps.len());
    let own = own(&messages);
    for (rank, stage) in &stage_of {
        let (of_stage, spans) = (&mut pipeline.stages[*stage], spans.remove(rank).unwrap_or_default().nested());
        of_stage.ranks.push(compared.job.ranks[*rank]);
        let before = of_stage.compute_ns;
        for (step, window) in &steps {
            let phases = own.get(&(*rank, *step)).map(|own| [own.first_back, own.last_forward]);
            let [first, last] = phases.unwrap_or_default();
            let first = first.unwrap_or(window.start).clamp(window.start, window.end);
            let last = last.unwrap_or(window.end).clamp(first, window.end);
            spans.add(of_stage, *window, [first, last]);
        }
        of_stage.computes.push(of_stage.compute_ns - before);
    }
    pipeline.add_computed(compared, &stage_of, &own);
    let trimmed = job.reductions.iter().map(|of| of.graph.left_out_steps).max().unwrap_or_default();
    pipeline.steps_left_out = (found - steps.len()) as u64 + u64::from(trimmed);
    pipeline.stages.iter_mut().for_each(|stage| stage.ranks.sort_unstable());
    Some(pipeline)
}

/// What messages alone say.
fn shape(messages: &[Message], stage_of: &BTreeMap<usize, usize>, last: usize, steps: usize) -> Pipeline {
    let count = |from: usize, to: usize| {
        messages
            .iter()
            .filter(|message| message.ranks.map(|rank| stage_of[&rank]) == [from, to] && message.is_forward)
            .count()
    };
    let width = stage_of.values().filter(|stage| **stage == 0).count().max(1);
    let (forward, again) = (count(0, 1), if last > 1 { count(last, 0) } else { 0 });
    // Of `chunks` messages to the second stage, all but the first have come from the last one.
    let chunks = 1.0 / (1.0 - again as f64 / forward.max(again + 1) as f64);
    let schedule = match messages.iter().all(|message| message.is_forward) {
        true => Schedule::ForwardOnly,
        false if is_mostly(messages, stage_of, last, |came, back| back.first() < came.last()) => Schedule::InTurn,
        false => Schedule::ForwardThenBackward,
    };
    Pipeline {
        stages: vec![Stage::default(); last + 1],
        steps: steps as u64,
        steps_left_out: 0,
        microbatches: forward as f64 / (width * steps.max(1)) as f64 / chunks,
        chunks,
        schedule,
        balanced_saves_ns: None,
        pieces: Vec::new(),
    }
}

/// Whether that holds in most steps for the ranks of the first or the last stage: from when they send or get messages that go forward, and messages that go
/// back.
fn is_mostly(
    messages: &[Message],
    stage_of: &BTreeMap<usize, usize>,
    stage: usize,
    holds: impl Fn(&[Ns], &[Ns]) -> bool,
) -> bool {
    let mut times: BTreeMap<(usize, Step), [Vec<Ns>; 2]> = BTreeMap::new();
    for message in messages {
        let ends = message.ranks.iter().zip([message.windows[0].start, message.windows[1].end]);
        for (rank, time) in ends.filter(|(rank, _)| stage_of[rank] == stage) {
            times.entry((*rank, message.step)).or_default()[usize::from(!message.is_forward)].push(time);
        }
    }
    times.values_mut().flatten().for_each(|times| times.sort_unstable());
    times.values().filter(|[forward, back]| holds(forward, back)).count() * 2 > times.len()
}

/// The steps: from the first start to the last end of what any of these ranks runs; the whole if there are none. One that begins before the end of
/// the step before it begins there.
fn steps(compared: Ranks<'_>, stage_of: &BTreeMap<usize, usize>) -> Vec<(Step, Window)> {
    let mut found: BTreeMap<Step, Window> = BTreeMap::new();
    let has_steps = compared.job.reductions.iter().any(|reduction| reduction.graph.steps > 0);
    for rank in stage_of.keys() {
        let nodes = compared.job.reductions[*rank].graph.nodes.iter();
        let aligned = |time: Ns| compared.clocks.ranks[*rank].aligned(time);
        for node in nodes.filter(|node| !node.kind.is_cpu() && node.step.get().is_some() == has_steps) {
            let window = Window { start: aligned(node.start), end: aligned(node.end) };
            found
                .entry(compared.step(*rank, node.step.get()))
                .and_modify(|of| *of = of.around(window))
                .or_insert(window);
        }
    }
    let mut until = Ns::MIN;
    let after = |(step, window): (Step, Window)| {
        let start = window.start.max(std::mem::replace(&mut until, window.end));
        (start < window.end).then_some((step, Window { start, ..window }))
    };
    found.into_iter().filter_map(after).collect()
}

/// What a rank does when: starts and lengths, on the job's clock. Computing, transfers, waiting for the stage before and for the next one, and waiting in
/// collectives.
#[derive(Default)]
struct Spans([Vec<(Ns, Ns)>; 5]);

impl Spans {
    /// By rank; and the steps in which it is unknown how long a send or a receive waits.
    fn find(
        compared: Ranks<'_>,
        stage_of: &BTreeMap<usize, usize>,
        last: usize,
    ) -> (BTreeMap<usize, Self>, BTreeSet<Step>) {
        let Ranks { job, matches, clocks, .. } = compared;
        let (mut found, mut unmeasured) = (BTreeMap::<usize, Self>::new(), BTreeSet::new());
        for rank in stage_of.keys() {
            let nodes = job.reductions[*rank].graph.nodes.iter().filter(|node| node.kind == NodeKind::Slice);
            let compute = nodes.map(|node| (clocks.ranks[*rank].aligned(node.start), node.end - node.start));
            found.entry(*rank).or_default().0[0] = compute.collect();
        }
        for group in &matches.groups {
            for of in job.collectives(group) {
                let measured = measure(of, clocks);
                let is_unknown = measured.is_none() && group.name.pair.is_some();
                let waits = measured.map_or_else(Vec::new, |of| of.waits);
                for (member, row) in of.counted_rows() {
                    let rank = of.rank(member);
                    let (Some(stage), Some(Spans(spans))) = (stage_of.get(&rank), found.get_mut(&rank)) else {
                        continue;
                    };
                    unmeasured.extend(is_unknown.then(|| compared.step(rank, row.step)));
                    let start = clocks.ranks[rank].aligned(row.start);
                    let wait = waits.iter().find(|(of, _)| *of == member).map_or(Ns::ZERO, |(_, wait)| *wait);
                    spans[1].push((start + wait, row.dur - wait));
                    let other =
                        group.members.iter().find(|other| **other != rank).and_then(|other| stage_of.get(other));
                    let waiting = match other.filter(|_| group.name.pair.is_some()) {
                        Some(other) if is_next(*stage, *other, last) => 3,
                        Some(_) => 2,
                        None => 4,
                    };
                    spans[waiting].push((start, wait));
                }
            }
        }
        (found, unmeasured)
    }

    fn nested(self) -> Nested {
        let mut all = Busy::default();
        Nested(self.0.map(|spans| {
            all = all.with(&Busy::from_spans(spans));
            all.clone()
        }))
    }
}

/// The same, each with those before it.
struct Nested([Busy; 5]);

impl Nested {
    fn add(&self, stage: &mut Stage, Window { start, end }: Window, [first, last]: [Ns; 2]) {
        let within = self.0.each_ref().map(|of| of.within(start, end));
        let [compute, transfer, previous, next, collectives] = within;
        let bubble = |from: Ns, to: Ns| to - from - self.0[1].within(from, to);
        stage.length_ns += end - start;
        stage.compute_ns += compute;
        stage.transfer_ns += transfer - compute;
        stage.waits_for_previous_ns += previous - transfer;
        stage.waits_for_next_ns += next - previous;
        stage.waits_in_collectives_ns += collectives - next;
        stage.idle_ns += end - start - collectives;
        stage.warm_up_ns += bubble(start, first);
        stage.steady_ns += bubble(first, last);
        stage.cool_down_ns += bubble(last, end);
    }
}
