//! Counts what the questions need: the kernels, operators and collectives of a trace, and how many of them have each key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::above::{Above, Climb};
use super::steps::Steps;
use crate::attribution::capture::{CaptureTally, Captured};
use crate::attribution::forward::{Forward, Forwards};
use crate::attribution::launches::{self, Evidence, Launched, Launches, Reason};
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::{Wanted, collectives};
use crate::attribution::{AttributionOptions, Attributor};
use crate::event::ids::EventIds;
use crate::id::{GpuId, SliceId, TraceId};
use crate::names::args;
use crate::names::calls::{CAPTURE_BEGIN, GRAPH_LAUNCHES};
use crate::names::category::CategoryKind;
use crate::names::described::{MEMORY_EVENT, NVTX};
use crate::store::Store;
use crate::store::strings::StringId;

/// The number of kernels that lack something above their launch, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    /// Replayed by a graph.
    pub(super) replayed: u64,
    /// Launched before the trace.
    pub(super) before: u64,
    /// Launched by no call of the trace.
    pub(super) unlaunched: u64,
    /// In the backward pass, which runs on a thread without Python.
    pub(super) backward: u64,
    /// None of these.
    pub(super) others: u64,
}

/// The number of kernels that have something above their launch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OfKernels {
    pub(super) have: u64,
    pub(super) lacking: Lacking,
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) kernels: u64,
    pub(super) call: OfKernels,
    pub(super) replayed: u64,
    /// The number of replayed kernels with the call path of their capture.
    pub(super) captured: u64,
    pub(super) python: OfKernels,
    pub(super) module: OfKernels,
    pub(super) operator: OfKernels,
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
    pub(super) sized: OfKernels,
    pub(super) grouped: OfKernels,
    pub(super) numbered: OfKernels,
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
    pub(super) categories: Vec<(Option<String>, u64)>,
    /// The rank of the trace, and where it was found.
    pub(super) rank: Option<(u32, &'static str)>,
    /// The ranks of its collectives, where known.
    pub(super) ranks: BTreeSet<u32>,
    pub(super) steps: Steps,
}

impl Tally {
    /// Counts the only trace of a store, loaded with [`crate::event::ArgsWanted::DESCRIBED`]. `captures` counts the kernels that have the call path
    /// of their capture.
    pub(super) fn count(store: &Store, launches: &Launches, captures: CaptureTally) -> Self {
        let mut tally = Tally { captured: captures.matched, ..Tally::default() };
        tally.count_slices(store);
        tally.steps = Steps::find(store);
        tally.count_kernels(store, launches);
        tally.count_collectives(store, launches);
        tally
    }

    fn count_slices(&mut self, store: &Store) {
        let keys = Keys::find(store);
        let mut climb = Climb::new(store, keys.hierarchy);
        let mut forwards = Forwards::new(store);
        let mut categories: HashMap<StringId, u64> = HashMap::new();
        let memory = store.strings.find(MEMORY_EVENT);
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
                self.paired += u64::from(matches!(forward, Forward::Operator(_)));
            }
        }
        let mut categories: Vec<(Option<String>, u64)> =
            categories.into_iter().map(|(id, count)| (store.strings.get(id).map(str::to_owned), count)).collect();
        categories.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        self.categories = categories;
        let named = |call: &&SliceId, names: &[&str]| names.contains(&store.slice_name(**call));
        self.runtime_calls = store.runtime_calls.len() as u64;
        let is_other = |name: &str| name.ends_with("_runtime") && !name.starts_with("cuda");
        let names = self.categories.iter().filter_map(|(name, _)| name.as_deref());
        self.other_accelerator = names.map(str::to_ascii_lowercase).any(|name| is_other(&name));
        self.graph_launches = store.runtime_calls.iter().filter(|call| named(call, GRAPH_LAUNCHES)).count() as u64;
        let begins = store.runtime_calls.iter().filter(|call| store.slice_name(**call).contains(CAPTURE_BEGIN));
        self.captures_here = begins.count() as u64;
    }

    fn count_operator(&mut self, store: &Store, slice: SliceId, keys: &Keys) {
        self.operators += 1;
        let set = store.args.set(store.slices.args(slice));
        let has = |wanted: &[StringId]| u64::from(set.iter().any(|arg| wanted.contains(&arg.flat_key)));
        self.dims += has(&keys.dims);
        self.strides += has(&keys.strides);
        self.concrete += has(&keys.concrete);
        self.call_stacks += has(&keys.call_stack);
        self.counters += has(&keys.counters);
    }

    fn count_kernels(&mut self, store: &Store, launches: &Launches) {
        let mut climb = Climb::new(store, Keys::find(store).hierarchy);
        let mut forwards = Forwards::new(store);
        let mut by_call: HashMap<SliceId, (Above, bool)> = HashMap::new();
        let (mut gpus, mut graphs) = (BTreeSet::<GpuId>::new(), BTreeSet::new());
        for launched in &launches.kernels {
            gpus.insert(store.gpu_of(launched.kernel));
            if let EventIds::Gpu { graph_id, .. } = store.ids(launched.kernel)
                && graph_id != 0
            {
                graphs.insert(graph_id);
            }
            let (above, has_forward) = launched.call.map_or((Above::default(), false), |call| {
                *by_call.entry(call).or_insert_with(|| forward_stack(&mut climb, &mut forwards, call))
            });
            self.backward += u64::from(above.backward.is_some());
            self.backward_python += u64::from(has_forward);
            self.replayed += u64::from(is_replayed(launched));
            self.in_steps += u64::from(self.steps.contain(store, launched));
            let is_backward = above.backward.is_some();
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
        Operations::each(store, &attribution, |operation, row| {
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
        self.rank = known.map(|(rank, from)| (rank.0, from));
        self.annotations = self.steps.annotations + self.of_category(NVTX);
    }

    /// The number of slices with a category, ignoring case.
    pub(super) fn of_category(&self, wanted: &str) -> u64 {
        let is_it = |name: &Option<String>| name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        self.categories.iter().filter(|(name, _)| is_it(name)).map(|(_, count)| count).sum()
    }

    /// Whether any slice has a category.
    pub(super) fn has_categories(&self) -> bool {
        self.categories.iter().any(|(name, _)| name.is_some())
    }

    /// Whether any slice has a Kineto category.
    pub(super) fn has_kineto(&self) -> bool {
        self.operators + self.frames + self.runtime_calls + self.kernels > 0
    }
}

impl OfKernels {
    fn add(&mut self, has: bool, launched: &Launched, is_backward: bool) {
        let Lacking { replayed, before, unlaunched, backward, others } = &mut self.lacking;
        *match launched.evidence {
            _ if has => &mut self.have,
            Evidence::None(Reason::BeforeTrace) => before,
            Evidence::None(_) => unlaunched,
            Evidence::GraphReplay | Evidence::Capture => replayed,
            _ if is_backward => backward,
            _ => others,
        } += 1;
    }

    /// Whether any kernel has it, or all others were replayed by graphs or launched before the trace and so do not show what the writer records.
    /// Kernels linked to no call could have had it.
    pub(super) fn is_recorded(&self) -> bool {
        self.have > 0 || self.lacking.others + self.lacking.unlaunched == 0
    }

    /// The reasons that occur, by name.
    pub(super) fn reasons(&self) -> BTreeMap<&'static str, u64> {
        let Lacking { replayed, before, unlaunched, backward, others } = self.lacking;
        let all = [
            ("replayed", replayed),
            ("before", before),
            ("unlaunched", unlaunched),
            ("backward", backward),
            ("others", others),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// What is above a launch, and whether a Python function is above its forward operator.
fn forward_stack(climb: &mut Climb<'_>, forwards: &mut Forwards<'_>, call: SliceId) -> (Above, bool) {
    let above = climb.launch(call);
    let forward = above.backward.map(|backward| forwards.forward(backward, &mut climb.callers));
    let has_forward = matches!(forward, Some(Forward::Operator(operator)) if climb.above(operator).python);
    (above, has_forward)
}

/// The argument keys as string ids of the trace.
struct Keys {
    dims: Vec<StringId>,
    strides: Vec<StringId>,
    concrete: Vec<StringId>,
    call_stack: Vec<StringId>,
    counters: Vec<StringId>,
    hierarchy: Option<StringId>,
}

impl Keys {
    fn find(store: &Store) -> Self {
        let find = |keys: &[&str]| keys.iter().filter_map(|key| store.arg_key(key)).collect();
        Keys {
            dims: find(args::INPUT_DIMS),
            strides: find(args::INPUT_STRIDES),
            concrete: find(args::CONCRETE_INPUTS),
            call_stack: find(&[args::CALL_STACK]),
            counters: find(args::COUNTERS),
            hierarchy: store.arg_key(args::MODULE_HIERARCHY),
        }
    }
}

/// Whether a graph replays a kernel, judged by the call that launched it or by its node.
fn is_replayed(launched: &Launched) -> bool {
    matches!(launched.evidence, Evidence::GraphReplay | Evidence::Capture)
}

/// Whether a capture may provide the call path of a kernel.
pub(super) fn may_be_captured(store: &Store, launched: &Launched) -> bool {
    launched.evidence == Evidence::GraphReplay || store.graph_node(launched.kernel).is_some()
}

/// The launches of all kernels of a store.
pub(super) fn launches(store: &Store) -> Launches {
    launches::for_work(store, store.kernels.clone())
}
