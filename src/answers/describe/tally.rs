//! Counts what the questions need: the slices, kernels and collectives of a trace by what they have: flags of [`has`](super::has).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::above::{Above, Climb};
use super::has;
use crate::answers::stacks::steps::Steps;
use crate::attribution::capture::Captured;
use crate::attribution::forward::Forwards;
use crate::attribution::launches::{Evidence, Launched, Launches, Reason};
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::{Wanted, collectives};
use crate::attribution::{AttributionOptions, Attributor};
use crate::event::ids::EventIds;
use crate::id::{SliceId, TraceId};
use crate::names::args;
use crate::names::calls::{CAPTURE_BEGIN, GRAPH_LAUNCHES};
use crate::names::category::CategoryKind;
use crate::names::described::NVTX;
use crate::names::frames::fold;
use crate::names::steps::{ANNOTATION, is_mark, label, priority};
use crate::store::Store;
use crate::store::strings::StringId;

/// The slices of a category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CategoryCount {
    /// The category; `None` for slices without one.
    pub category: Option<String>,
    /// The number of slices.
    pub count: u64,
}

/// Steps of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepCount {
    /// Their name, without their numbers.
    pub name: String,
    /// The number of steps.
    pub count: u64,
}

/// The rank of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankFact {
    /// The rank.
    pub rank: u32,
    /// Where the rank was found.
    pub from: &'static str,
}

/// What is in a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// The rank, if known.
    pub rank: Option<RankFact>,
    /// The ranks of the collectives in this file: several if the file was merged.
    pub ranks: Vec<u32>,
    /// Slices by category, most frequent first.
    pub slices: Vec<CategoryCount>,
    /// The steps, by name, most frequent first: those that `--group-by step` knows.
    pub steps: Vec<StepCount>,
    /// The number of GPUs that have kernels.
    pub gpus_with_kernels: u64,
    /// The number of kernels.
    pub kernels: u64,
    /// The number of kernels that are collectives.
    pub collectives: u64,
    /// The number of kernels that graphs replay.
    pub replayed: u64,
    /// The number of calls that launch a graph.
    pub graph_launches: u64,
    /// The number of distinct graphs that the kernels name.
    pub graph_ids: u64,
    /// The number of graph captures that begin in the trace.
    pub captures: u64,
}

/// Why a kernel lacks something above its launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// It runs in the backward pass, on a thread without Python.
    Backward,
    /// It was launched before the trace.
    Before,
    /// None of the other reasons.
    Others,
    /// A graph replays it.
    Replayed,
    /// No call of the trace launched it.
    Unlaunched,
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// By flags.
    items: HashMap<u32, u64, FixedState>,
    /// Whether the runtime calls belong to an accelerator other than CUDA and ROCm, both of which Kineto writes as `cuda_runtime`.
    pub(super) other_accelerator: bool,
}

impl Tally {
    /// Counts the only trace of a store, loaded with [`crate::event::ArgsWanted::DESCRIBED`]. `captured` has the call paths of captures.
    pub(super) fn count(store: &Store, launches: &Launches, captured: &Captured) -> Self {
        let mut tally = Tally::default();
        let (mut climb, mut forwards) = (Climb::new(store), Forwards::new(store));
        tally.count_slices(store, &mut climb, &mut forwards);
        tally.count_kernels(store, launches, captured, &mut climb, &mut forwards);
        tally.count_collectives(store, launches);
        let number = |flags| tally.number(flags);
        let [kernels, collectives, replayed] = [has::KERNEL, has::COLLECTIVE, has::KERNEL | has::REPLAYED].map(number);
        let [graph_launches, captures] = [has::GRAPH_LAUNCH, has::CAPTURE].map(number);
        tally.counts = Counts { kernels, collectives, replayed, graph_launches, captures, ..tally.counts };
        tally
    }

    /// How many items have all of these flags.
    pub(super) fn number(&self, flags: u32) -> u64 {
        self.items.iter().filter(|(known, _)| **known & flags == flags).map(|(_, n)| n).sum()
    }

    /// Why items with some flags lack others: of each reason how many.
    pub(super) fn lacking(&self, all: u32, have: u32) -> BTreeMap<Lack, u64> {
        let mut lacking: BTreeMap<Lack, u64> = BTreeMap::new();
        for (flags, n) in self.items.iter().filter(|(flags, _)| **flags & all == all && **flags & have != have) {
            *lacking.entry(Lack::from_flags(*flags)).or_default() += n;
        }
        lacking
    }

    fn add(&mut self, flags: u32) {
        *self.items.entry(flags).or_default() += 1;
    }

    fn count_slices(&mut self, store: &Store, climb: &mut Climb<'_>, forwards: &mut Forwards<'_>) {
        let ids = |(flag, keys): (u32, &[&str])| {
            (flag, keys.iter().filter_map(|key| store.arg_key(key)).collect::<Vec<StringId>>())
        };
        let keys = [
            (has::DIMS, args::INPUT_DIMS),
            (has::STRIDES, args::INPUT_STRIDES),
            (has::CONCRETE, args::CONCRETE_INPUTS),
            (has::COUNTERS, args::COUNTERS),
        ]
        .map(ids);
        let mut categories: HashMap<StringId, u64> = HashMap::new();
        let [memory, annotation] = [args::MEMORY, ANNOTATION].map(|text| store.strings.find(text));
        let mut is_own = vec![false; store.strings.len()];
        for name in store.names.iter().filter(|name| name.of_cpu) {
            is_own[name.id.0 as usize] = store.strings.get(name.id).is_some_and(|name| priority(name, true).is_some());
        }
        for slice in store.slices.ids() {
            let (category, name) = (store.slices.category(slice), store.slices.name(slice));
            *categories.entry(category).or_default() += 1;
            let mut flags = if Some(name) == memory { has::MEMORY } else { 0 };
            flags |= if Some(category) == annotation && is_own[name.0 as usize] { has::ANNOTATION } else { 0 };
            match store.category_kind(slice) {
                CategoryKind::Frame => flags |= has::FRAME,
                CategoryKind::Cpu if climb.is_operator(slice) => flags |= operator(store, slice, &keys),
                _ => {}
            }
            if store.autograd(slice).is_some_and(|number| number.forward_thread != 0) {
                let forward = forwards.forward(slice, &mut climb.callers);
                let is_known = forward.operator().is_some();
                flags |= has::BACKWARD_OPERATOR | if is_known { has::FORWARD } else { 0 };
            }
            if flags != 0 {
                self.add(flags);
            }
        }
        for (id, count) in categories {
            let category = store.strings.get(id).map(str::to_owned);
            let name = category.as_deref().unwrap_or_default().to_ascii_lowercase();
            self.other_accelerator |= name.ends_with("_runtime") && !name.starts_with("cuda");
            if name == NVTX {
                *self.items.entry(has::ANNOTATION).or_default() += count;
            }
            self.counts.slices.push(CategoryCount { category, count });
        }
        self.counts.slices.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.category.cmp(&b.category)));
        for call in &store.runtime_calls {
            let name = store.slice_name(*call);
            let graph = if GRAPH_LAUNCHES.contains(&name) { has::GRAPH_LAUNCH } else { 0 };
            self.add(has::RUNTIME | graph | if name.contains(CAPTURE_BEGIN) { has::CAPTURE } else { 0 });
        }
    }

    fn count_kernels(
        &mut self,
        store: &Store,
        launches: &Launches,
        captured: &Captured,
        climb: &mut Climb<'_>,
        forwards: &mut Forwards<'_>,
    ) {
        let steps = Steps::find(store);
        let mut by_call: HashMap<SliceId, u32> = HashMap::new();
        let (mut gpus, mut graphs) = (BTreeSet::new(), BTreeSet::new());
        for launched in &launches.kernels {
            gpus.insert(store.gpu_of(launched.kernel));
            if let EventIds::Gpu { graph_id, .. } = store.ids(launched.kernel)
                && graph_id != 0
            {
                graphs.insert(graph_id);
            }
            let flags = launched.call.map_or(0, |call| {
                *by_call.entry(call).or_insert_with(|| {
                    let step = if steps.of_call(store, call).is_some() { has::STEP } else { 0 };
                    has::CALL | step | above(climb, forwards, call)
                })
            });
            let capture = if captured.stacks.contains_key(&launched.kernel) { has::CAPTURED } else { 0 };
            self.add(has::KERNEL | flags | capture | evidence(launched));
        }
        (self.counts.gpus_with_kernels, self.counts.graph_ids) = (gpus.len() as u64, graphs.len() as u64);
        self.counts.steps = by_name(store, &steps);
    }

    fn count_collectives(&mut self, store: &Store, launches: &Launches) {
        let wanted = Wanted::collectives();
        let is_collective = collectives(store, &wanted);
        let chosen = |launched: &&Launched| is_collective[store.slices.name(launched.kernel).0 as usize];
        let options = AttributionOptions { exact_names: true, without_forward: true };
        let attributor = Attributor::new(store, &wanted, Captured::default());
        let attribution = attributor.attribute(launches.kernels.iter().filter(chosen), options);
        let ranks = Ranks::find(store, &attribution.kernels);
        let (mut found, mut ranks_here) = (Vec::new(), BTreeSet::new());
        Operations::each(store, &attribution, &ranks, |operation, row| {
            let keys = [
                (operation.bytes.is_some(), has::SIZE),
                (operation.communicator.is_some(), has::GROUP),
                (operation.sequence.is_some(), has::NUMBER),
            ];
            let known = keys.into_iter().filter(|(is_known, _)| *is_known).fold(0, |flags, (_, flag)| flags | flag);
            found.push(has::COLLECTIVE | known | evidence(&row.launched));
            ranks_here.extend(operation.rank.map(|rank| rank.0));
        });
        self.counts.ranks = ranks_here.into_iter().collect();
        let of_records = || attribution.kernels.iter().find_map(|row| ranks.of_records(row));
        let known = ranks.of_header(TraceId(0)).map(|rank| (rank, "header"));
        let known = known.or_else(|| of_records().map(|rank| (rank, "records of collectives")));
        let known = known.or_else(|| ranks.of_file(TraceId(0)).map(|rank| (rank, "file name")));
        self.counts.rank = known.map(|(rank, from)| RankFact { rank: rank.0, from });
        let others = if launches.kernels.len() > found.len() { has::OTHERS } else { 0 };
        let is_ranked = self.counts.rank.is_some() || self.counts.ranks.len() > 1;
        let of_all = others | if is_ranked { has::RANK } else { 0 };
        found.into_iter().for_each(|flags| self.add(flags | of_all));
    }

    pub(super) fn has_categories(&self) -> bool {
        self.counts.slices.iter().any(|of| of.category.is_some())
    }

    pub(super) fn has_kineto(&self) -> bool {
        [has::OPERATOR, has::FRAME, has::RUNTIME, has::KERNEL].into_iter().any(|flags| self.number(flags) > 0)
    }
}

impl Lack {
    fn from_flags(flags: u32) -> Self {
        let known = [
            (has::BEFORE, Lack::Before),
            (has::UNLAUNCHED, Lack::Unlaunched),
            (has::REPLAYED, Lack::Replayed),
            (has::BACKWARD, Lack::Backward),
        ];
        known.into_iter().find(|(flag, _)| flags & flag != 0).map_or(Lack::Others, |(_, lack)| lack)
    }
}

fn operator(store: &Store, slice: SliceId, keys: &[(u32, Vec<StringId>)]) -> u32 {
    let set = store.args.set(store.slices.args(slice));
    let of_key = |(flag, key): &(u32, Vec<StringId>)| {
        if set.iter().any(|arg| key.contains(&arg.flat_key)) { *flag } else { 0 }
    };
    keys.iter().map(of_key).fold(has::OPERATOR, |flags, flag| flags | flag)
}

/// What is above a launch, and whether a Python function is above its forward operator.
fn above(climb: &mut Climb<'_>, forwards: &mut Forwards<'_>, call: SliceId) -> u32 {
    let Above { flags, backward } = climb.launch(call);
    let Some(backward) = backward else { return flags };
    let forward = forwards.forward(backward, &mut climb.callers).operator();
    let has_python = forward.is_some_and(|operator| climb.above(operator).flags & has::PYTHON != 0);
    flags | has::BACKWARD | if has_python { has::FORWARD_PYTHON } else { 0 }
}

/// How a kernel was launched, judged by its call or its node.
fn evidence(launched: &Launched) -> u32 {
    match launched.evidence {
        Evidence::GraphReplay | Evidence::Capture => has::REPLAYED,
        Evidence::None(Reason::BeforeTrace) => has::BEFORE,
        Evidence::None(_) => has::UNLAUNCHED | has::SHOWS,
        _ => has::SHOWS,
    }
}

fn by_name(store: &Store, steps: &Steps) -> Vec<StepCount> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for step in steps.processes().flat_map(|(_, steps)| steps) {
        let name = store.slice_name(step.slice);
        let name = if is_mark(name, true) { label(name) } else { fold(name) };
        *counts.entry(name.into_owned()).or_default() += 1;
    }
    let mut found: Vec<StepCount> = counts.into_iter().map(|(name, count)| StepCount { name, count }).collect();
    found.sort_by_key(|step| std::cmp::Reverse(step.count));
    found
}
