//! Counts what the questions need: the kernels, operators and collectives of a trace, and how many of them have each key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::above::{Above, Climb};
use super::steps::Steps;
use super::{CategoryCount, RankFact};
use crate::attribution::capture::{CaptureTally, Captured};
use crate::attribution::forward::Forwards;
use crate::attribution::launches::{Evidence, Launched, Launches, Reason};
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::{Wanted, collectives};
use crate::attribution::{AttributionOptions, Attributor};
use crate::event::ids::EventIds;
use crate::id::{SliceId, TraceId};
use crate::names::args;
use crate::names::args::MEMORY;
use crate::names::calls::{CAPTURE_BEGIN, GRAPH_LAUNCHES};
use crate::names::category::CategoryKind;
use crate::names::described::NVTX;
use crate::store::Store;
use crate::store::strings::StringId;

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

/// How many items have what a question needs, and for kernels why the others lack it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Having {
    pub(super) have: u64,
    pub(super) lacking: BTreeMap<Lack, u64>,
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) kernels: u64,
    pub(super) call: Having,
    pub(super) replayed: u64,
    /// The number of replayed kernels with the call path of their capture.
    pub(super) captured: u64,
    pub(super) python: Having,
    pub(super) module: Having,
    pub(super) operator: Having,
    /// Backward kernels, and how many of them have a Python function above their forward operator.
    pub(super) backward: u64,
    pub(super) backward_python: u64,
    /// Kernels launched in a step.
    pub(super) in_steps: u64,
    /// Operators, and how many have each key.
    pub(super) operators: u64,
    pub(super) dims: u64,
    pub(super) strides: u64,
    pub(super) concrete: u64,
    pub(super) call_stacks: u64,
    pub(super) counters: u64,
    /// Backward operators, and how many have their forward operator.
    pub(super) backward_operators: u64,
    pub(super) paired: u64,
    /// Kernels that are collectives, and how much is known about them.
    pub(super) collectives: u64,
    pub(super) sized: Having,
    pub(super) grouped: Having,
    pub(super) numbered: Having,
    pub(super) replayed_collectives: u64,
    pub(super) memory_events: u64,
    /// Annotations, without those of libraries.
    pub(super) annotations: u64,
    pub(super) runtime_calls: u64,
    /// Whether the runtime calls belong to an accelerator other than CUDA and ROCm, both of which Kineto writes as `cuda_runtime`.
    pub(super) other_accelerator: bool,
    pub(super) frames: u64,
    pub(super) graph_launches: u64,
    pub(super) graph_ids: u64,
    pub(super) captures_here: u64,
    pub(super) gpus: u64,
    /// Slices by category, most frequent first.
    pub(super) categories: Vec<CategoryCount>,
    pub(super) rank: Option<RankFact>,
    /// The ranks of its collectives, where known.
    pub(super) ranks: BTreeSet<u32>,
    pub(super) steps: Steps,
}

impl Tally {
    /// Counts the only trace of a store, loaded with [`crate::event::ArgsWanted::DESCRIBED`]. `captures` counts the kernels that have the call path
    /// of their capture.
    pub(super) fn count(store: &Store, launches: &Launches, captures: CaptureTally) -> Self {
        let mut tally = Tally { captured: captures.matched, steps: Steps::find(store), ..Tally::default() };
        let (mut climb, mut forwards) = (Climb::new(store), Forwards::new(store));
        tally.count_slices(store, &mut climb, &mut forwards);
        tally.count_kernels(store, launches, &mut climb, &mut forwards);
        tally.count_collectives(store, launches);
        tally
    }

    fn count_slices(&mut self, store: &Store, climb: &mut Climb<'_>, forwards: &mut Forwards<'_>) {
        let ids = |keys: &[&str]| keys.iter().filter_map(|key| store.arg_key(key)).collect::<Vec<StringId>>();
        let keys = [args::INPUT_DIMS, args::INPUT_STRIDES, args::CONCRETE_INPUTS, &[args::CALL_STACK], args::COUNTERS];
        let keys = keys.map(ids);
        let mut categories: HashMap<StringId, u64> = HashMap::new();
        let memory = store.strings.find(MEMORY);
        for slice in store.slices.ids() {
            *categories.entry(store.slices.category(slice)).or_default() += 1;
            self.memory_events += u64::from(Some(store.slices.name(slice)) == memory);
            match store.category_kind(slice) {
                CategoryKind::Frame => self.frames += 1,
                CategoryKind::Cpu if climb.is_operator(slice) => self.count_operator(store, slice, &keys),
                _ => {}
            }
            if store.autograd(slice).is_some_and(|number| number.forward_thread != 0) {
                self.backward_operators += 1;
                let forward = forwards.forward(slice, &mut climb.callers);
                self.paired += u64::from(forward.operator().is_some());
            }
        }
        let named = |(id, count)| CategoryCount { category: store.strings.get(id).map(str::to_owned), count };
        self.categories = categories.into_iter().map(named).collect();
        self.categories.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.category.cmp(&b.category)));
        let is_other = |name: &str| name.ends_with("_runtime") && !name.starts_with("cuda");
        let mut names = self.categories.iter().filter_map(|of| of.category.as_deref());
        self.other_accelerator = names.any(|name| is_other(&name.to_ascii_lowercase()));
        self.runtime_calls = store.runtime_calls.len() as u64;
        for call in &store.runtime_calls {
            let name = store.slice_name(*call);
            self.graph_launches += u64::from(GRAPH_LAUNCHES.contains(&name));
            self.captures_here += u64::from(name.contains(CAPTURE_BEGIN));
        }
    }

    fn count_operator(&mut self, store: &Store, slice: SliceId, keys: &[Vec<StringId>; 5]) {
        self.operators += 1;
        let set = store.args.set(store.slices.args(slice));
        let counts = [&mut self.dims, &mut self.strides, &mut self.concrete, &mut self.call_stacks, &mut self.counters];
        for (count, key) in counts.into_iter().zip(keys) {
            *count += u64::from(set.iter().any(|arg| key.contains(&arg.flat_key)));
        }
    }

    fn count_kernels(
        &mut self,
        store: &Store,
        launches: &Launches,
        climb: &mut Climb<'_>,
        forwards: &mut Forwards<'_>,
    ) {
        let mut by_call: HashMap<SliceId, (Above, bool)> = HashMap::new();
        let (mut gpus, mut graphs) = (BTreeSet::new(), BTreeSet::new());
        for launched in &launches.kernels {
            gpus.insert(store.gpu_of(launched.kernel));
            if let EventIds::Gpu { graph_id, .. } = store.ids(launched.kernel)
                && graph_id != 0
            {
                graphs.insert(graph_id);
            }
            let (above, has_forward) = launched.call.map_or((Above::default(), false), |call| {
                *by_call.entry(call).or_insert_with(|| forward_stack(climb, forwards, call))
            });
            let is_backward = above.backward.is_some();
            self.backward += u64::from(is_backward);
            self.backward_python += u64::from(has_forward);
            self.replayed += u64::from(is_replayed(launched));
            self.in_steps += u64::from(self.steps.contain(store, launched));
            self.call.add(launched.call.is_some(), launched, is_backward);
            self.python.add(above.python, launched, is_backward);
            self.module.add(above.module, launched, is_backward);
            self.operator.add(above.operator, launched, is_backward);
        }
        self.kernels = launches.kernels.len() as u64;
        (self.gpus, self.graph_ids) = (gpus.len() as u64, graphs.len() as u64);
    }

    fn count_collectives(&mut self, store: &Store, launches: &Launches) {
        let wanted = Wanted::collectives();
        let is_collective = collectives(store, &wanted);
        let chosen = |launched: &&Launched| is_collective[store.slices.name(launched.kernel).0 as usize];
        let options = AttributionOptions { exact_names: true, forward: false };
        let attributor = Attributor::new(store, &wanted, Captured::default());
        let attribution = attributor.attribute(launches.kernels.iter().filter(chosen), options);
        let ranks = Ranks::find(store, &attribution.kernels);
        Operations::each(store, &attribution, &ranks, |operation, row| {
            self.collectives += 1;
            self.sized.add(operation.bytes.is_some(), &row.launched, false);
            self.grouped.add(operation.communicator.is_some(), &row.launched, false);
            self.numbered.add(operation.sequence.is_some(), &row.launched, false);
            self.replayed_collectives += u64::from(is_replayed(&row.launched));
            self.ranks.extend(operation.rank.map(|rank| rank.0));
        });
        let of_records = || attribution.kernels.iter().find_map(|row| ranks.of_records(row));
        let known = ranks.of_header(TraceId(0)).map(|rank| (rank, "header"));
        let known = known.or_else(|| of_records().map(|rank| (rank, "records of collectives")));
        let known = known.or_else(|| ranks.of_file(TraceId(0)).map(|rank| (rank, "file name")));
        self.rank = known.map(|(rank, from)| RankFact { rank: rank.0, from });
        let is_nvtx = |of: &&CategoryCount| of.category.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(NVTX));
        let nvtx: u64 = self.categories.iter().filter(is_nvtx).map(|of| of.count).sum();
        self.annotations = self.steps.annotations + nvtx;
    }

    /// Whether any slice has a category.
    pub(super) fn has_categories(&self) -> bool {
        self.categories.iter().any(|of| of.category.is_some())
    }

    /// Whether any slice has a Kineto category.
    pub(super) fn has_kineto(&self) -> bool {
        self.operators + self.frames + self.runtime_calls + self.kernels > 0
    }
}

impl Having {
    fn add(&mut self, has: bool, launched: &Launched, is_backward: bool) {
        let lack = match launched.evidence {
            _ if has => return self.have += 1,
            Evidence::None(Reason::BeforeTrace) => Lack::Before,
            Evidence::None(_) => Lack::Unlaunched,
            Evidence::GraphReplay | Evidence::Capture => Lack::Replayed,
            _ if is_backward => Lack::Backward,
            _ => Lack::Others,
        };
        *self.lacking.entry(lack).or_default() += 1;
    }

    /// Whether any kernel has it, or all others were replayed by graphs or launched before the trace and so do not show what the writer records.
    /// Kernels linked to no call could have had it.
    pub(super) fn is_recorded(&self) -> bool {
        self.have > 0 || ![Lack::Others, Lack::Unlaunched].iter().any(|lack| self.lacking.contains_key(lack))
    }
}

impl From<u64> for Having {
    fn from(have: u64) -> Self {
        Having { have, ..Having::default() }
    }
}

/// What is above a launch, and whether a Python function is above its forward operator.
fn forward_stack(climb: &mut Climb<'_>, forwards: &mut Forwards<'_>, call: SliceId) -> (Above, bool) {
    let above = climb.launch(call);
    let forward = above.backward.and_then(|backward| forwards.forward(backward, &mut climb.callers).operator());
    let has_forward = forward.is_some_and(|operator| climb.above(operator).python);
    (above, has_forward)
}

/// Whether a graph replays a kernel, judged by the call that launched it or by its node.
fn is_replayed(launched: &Launched) -> bool {
    matches!(launched.evidence, Evidence::GraphReplay | Evidence::Capture)
}
