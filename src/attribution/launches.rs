//! Finds the call that launched a kernel, by the strongest evidence there is.
//!
//! A kernel and the runtime call that launched it have the same correlation id in their arguments, as CUPTI and ROCm record it. The `flow` table
//! has the same fact, but binds a flow to whatever is on the stream at that time, which for overlapping kernels is another kernel. So a flow
//! counts only if one of the two has no correlation id, or to choose between several calls with the kernel's id. If neither helps there is the
//! External id, which a kernel shares with its operator.
//!
//! Several calls may have a kernel's id: a file merged from the traces of several ranks has each id once per rank, and a long recording reuses
//! ids. Then calls that cannot launch a kernel are ruled out, and so are calls of a process that does not launch onto this GPU; the kernels with
//! only one possible call show which process does. If there are none, names of both with one rank do, or the order in a file that was put
//! together rank by rank. Flows decide among the rest.
//!
//! Calls, flows and operators are scanned once for all chosen kernels, in the store's columns: one SQL query per kernel would take longer than
//! everything else together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::damage::Damage;
use crate::event::ids::EventIds;
use crate::id::{GpuId, ProcessId, SliceId, TraceId};
use crate::names::calls::{GRAPH_LAUNCHES, Work};
use crate::names::category::CategoryKind;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::Ns;

/// How much later than its kernel a call may begin and still be its launch. The profiler aligns the clocks of CPU and GPU much better than this. A
/// call that begins even later has the id by chance, or because ids were reused.
const MAX_CLOCK_SKEW: Ns = Ns(10_000_000);

/// A kernel and the call that launched it. Rows are small because a trace has one per kernel; times are in the store's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Launched {
    pub kernel: SliceId,
    /// The call, if it is in the trace.
    pub call: Option<SliceId>,
    /// The evidence that ties them.
    pub evidence: Evidence,
    /// Whether several calls have the same evidence, so that the latest one before the kernel was taken.
    pub uncertain: bool,
    /// Whether the `flow` table has another call as the launch.
    pub flow_disagrees: bool,
}

/// The evidence that ties a kernel to the code that launched it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The correlation id.
    Correlation,
    /// A flow.
    Flow,
    /// The External id, which is the number of the operator to which the kernel belongs.
    ExternalId,
    /// The call launched a graph, by correlation id or flow. The kernel was captured into the graph earlier.
    GraphReplay,
    /// Only the ids of its graph and node, as found in the trace of a capture. The launching call is in that trace.
    Capture,
    /// None, and the reason.
    #[cfg_attr(test, schemars(skip))]
    None(Reason),
}

impl Evidence {
    /// Its name in SQL and JSON; without evidence, the name of the reason.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Correlation => "correlation",
            Evidence::Flow => "flow",
            Evidence::ExternalId => "external-id",
            Evidence::GraphReplay => "graph-replay",
            Evidence::Capture => "capture",
            Evidence::None(reason) => reason.name(),
        }
    }

    /// All kinds of evidence, strongest first.
    pub const TIES: [Evidence; 5] =
        [Evidence::Correlation, Evidence::Flow, Evidence::ExternalId, Evidence::GraphReplay, Evidence::Capture];
}

/// Why a kernel is unattributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The trace has no runtime calls: it was recorded without the CPU.
    NoCalls,
    /// It was launched before the first call of the trace, or replayed by a graph before any that the trace launches.
    BeforeTrace,
    /// It has no id in its arguments.
    NoId,
    /// There are calls before and after it, but the call with its id is not in the trace.
    NotRecorded,
}

impl Reason {
    /// Its name in SQL and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoCalls => "no-calls",
            Reason::BeforeTrace => "before-trace",
            Reason::NoId => "no-id",
            Reason::NotRecorded => "not-recorded",
        }
    }
}

/// The launches of all chosen kernels of a trace.
#[derive(Debug, Default, Serialize)]
pub struct Launches {
    /// One row per kernel, in order of their starts.
    pub kernels: Vec<Launched>,
}

/// The time that decides whether a kernel is in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum WindowOn {
    /// The start of the call that launched it; without such a call, the start of the kernel itself. Kernels launched before the trace began count
    /// from its start.
    #[default]
    Launch,
    Kernel,
}

impl Launched {
    /// The time that places it in a window. A kernel launched before the trace began counts from the start of the trace, so that no later step
    /// appears to have launched it.
    pub fn at(&self, store: &Store, on: WindowOn) -> Ns {
        match (on, self.call, self.evidence) {
            (WindowOn::Launch, Some(call), _) => store.slices.ts(call),
            (WindowOn::Launch, None, Evidence::None(Reason::BeforeTrace)) => store.span.start,
            _ => store.slices.ts(self.kernel),
        }
    }

    /// The kernel's duration; 0 if it never ended.
    pub fn gpu_time(&self, store: &Store) -> Ns {
        store.slices.dur(self.kernel).max(Ns::ZERO)
    }
}

/// Finds the launches of all kernels with these names.
pub fn find(store: &Store, names: &[StringId]) -> Launches {
    let mut is_chosen = vec![false; store.strings.len()];
    names.iter().for_each(|name| is_chosen[name.0 as usize] = true);
    let chosen = |slice: &SliceId| is_chosen[store.slices.name(*slice).0 as usize];
    for_work(store, store.kernels.iter().copied().filter(chosen).collect())
}

/// Finds the launches of all kernels, copies and fills of a store.
pub(crate) fn of_all_work(store: &Store) -> Launches {
    let is_work = |slice: &SliceId| match store.category_kind(*slice) {
        CategoryKind::Kernel => true,
        CategoryKind::Gpu => Work::of_slice(store.slice_name(*slice), false).is_some(),
        _ => false,
    };
    for_work(store, store.slices.ids().filter(is_work).collect())
}

/// Finds the launches of GPU work: slices in order, either kernels or copies and fills.
pub fn for_work(store: &Store, work: Vec<SliceId>) -> Launches {
    let mut finder = Finder::new(store, &work);
    let mut launches = Launches { kernels: work.into_iter().map(|kernel| finder.launched(kernel)).collect() };
    by_external_id(store, &mut launches);
    launches
}

/// The calls with an id, in order of their starts, by trace and correlation id.
type Calls = HashMap<(TraceId, i64), SmallVec<[SliceId; 1]>, foldhash::fast::FixedState>;

/// Trace and correlation id of GPU work, its GPU, and whether it is a kernel.
type Asked = ((TraceId, i64), GpuId, bool);

/// Ties the chosen kernels to calls.
struct Finder<'a> {
    store: &'a Store,
    /// The calls with an id, in order of their starts, by trace and correlation id.
    calls: Calls,
    /// By GPU: the process that launches onto it, if that is known, and whether more than the order of the file shows it. Empty if no id has
    /// several calls.
    launchers: HashMap<GpuId, (ProcessId, bool)>,
    /// Whether any id has several calls.
    has_rivals: bool,
    /// The results of [`Finder::possible`].
    possible: HashMap<Asked, Rc<[SliceId]>, foldhash::fast::FixedState>,
    /// By trace and correlation id: how many of the first calls belong to one process, for traces where this matters. If several ranks in one file
    /// use the same flow numbers, all flow ends are bound to the first rank's start, and the other starts count as damage.
    of_one_process: HashMap<(TraceId, i64), usize, foldhash::fast::FixedState>,
    /// Kernels and the slices from which a flow arrives, sorted by kernel; the flows of one kernel in the order in which they were bound.
    flows: Vec<(SliceId, SliceId)>,
    /// The names of calls that launch graphs.
    graph_launches: Vec<StringId>,
    /// By trace: the lowest correlation id of all calls, and the start of the first call.
    first_calls: Vec<Option<(Option<i64>, Ns)>>,
    /// By trace: the start of the first call that launches a graph.
    first_graphs: Vec<Option<Ns>>,
}

impl<'a> Finder<'a> {
    fn new(store: &'a Store, kernels: &[SliceId]) -> Self {
        let mut calls = Calls::with_capacity_and_hasher(kernels.len(), Default::default());
        calls.extend(kernels.iter().filter_map(|kernel| Some((store.trace_correlation(*kernel)?, SmallVec::new()))));
        let mut first_calls: Vec<Option<(Option<i64>, Ns)>> = vec![None; store.traces.len()];
        let graph_launches: Vec<StringId> = GRAPH_LAUNCHES.iter().filter_map(|name| store.strings.find(name)).collect();
        let mut first_graphs = vec![None; store.traces.len()];
        for slice in store.runtime_calls.iter().copied() {
            let (trace, ts) = (store.trace_of(slice), store.slices.ts(slice));
            if !graph_launches.is_empty() && graph_launches.contains(&store.slices.name(slice)) {
                first_graphs[trace.row()].get_or_insert(ts);
            }
            let (first_id, _) = first_calls[trace.row()].get_or_insert((None, ts));
            let Some(id) = store.correlation(slice) else { continue };
            *first_id = Some(first_id.map_or(id, |first| first.min(id)));
            if let Some(with_id) = calls.get_mut(&(trace, id)) {
                with_id.push(slice);
            }
        }
        let has_duplicates = |trace: TraceId| store.damage_of(trace).get(Damage::FlowDuplicateId).count > 0;
        let doubtful = calls.iter().filter(|((trace, _), _)| has_duplicates(*trace));
        let of_one_process = doubtful.map(|(id, calls)| (*id, of_one_process(store, calls))).collect();
        let has_rivals = calls.values().any(|calls| calls.len() > 1);
        let launchers = if has_rivals { launchers(store, kernels, &calls) } else { HashMap::new() };
        Finder {
            has_rivals,
            possible: HashMap::default(),
            store,
            launchers,
            of_one_process,
            calls,
            flows: flows_into(store, kernels),
            graph_launches,
            first_calls,
            first_graphs,
        }
    }

    fn launched(&mut self, kernel: SliceId) -> Launched {
        let slices = &self.store.slices;
        let kernel_ts = slices.ts(kernel);
        let latest_start = kernel_ts + MAX_CLOCK_SKEW;
        let correlation = self.store.correlation(kernel);
        let trace = self.store.trace_of(kernel);
        let id = correlation.filter(|_| self.has_rivals).map(|id| (trace, id));
        let possible = id.map_or(Rc::default(), |id| self.possible(kernel, id));
        let candidates = correlation.and_then(|id| self.calls.get(&(trace, id))).map_or(&[][..], SmallVec::as_slice);
        let candidates = &candidates[..candidates.partition_point(|call| slices.ts(*call) <= latest_start)];
        let first = self.flows.partition_point(|(to, _)| *to < kernel);
        let flows = self.flows[first..].iter().take_while(|(to, _)| *to == kernel).map(|(_, from)| *from);
        let (call, evidence, uncertain) = match candidates {
            [] => match flows.clone().find(|from| self.is_only_tie(*from, correlation)) {
                Some(call) => (Some(call), Evidence::Flow, false),
                None => (None, Evidence::None(self.reason(trace, kernel, correlation)), false),
            },
            [only] => (Some(*only), Evidence::Correlation, false),
            rivals => {
                let may_trust_flows = self.may_trust_flows(kernel, rivals);
                let first = rivals.first().copied();
                let in_time = possible.partition_point(|call| slices.ts(*call) <= latest_start);
                let left = &possible[..in_time];
                let mut of_flows = flows.clone().filter(|from| may_trust_flows && left.binary_search(from).is_ok());
                let is_by_order = self.launchers.get(&self.store.gpu_of(kernel)).is_some_and(|(_, is_sure)| !is_sure);
                let (of_flow, is_sure) = (of_flows.next(), left.len() == 1 && !is_by_order);
                let before = left.partition_point(|call| slices.ts(*call) <= kernel_ts);
                let call = of_flow.or(left[..before].last().copied()).or(left.first().copied()).or(first);
                (call, Evidence::Correlation, !is_sure && of_flow.is_none())
            }
        };
        let is_graph = call.is_some_and(|call| self.graph_launches.contains(&slices.name(call)));
        let evidence = if is_graph { Evidence::GraphReplay } else { evidence };
        let flow_disagrees = call.is_some_and(|call| flows.clone().any(|from| from != call));
        Launched { kernel, call, evidence, uncertain, flow_disagrees }
    }

    /// Of several calls with a kernel's id, those that may be its launch.
    fn possible(&mut self, kernel: SliceId, id: (TraceId, i64)) -> Rc<[SliceId]> {
        let (store, gpu) = (self.store, self.store.gpu_of(kernel));
        let is_kernel = store.category_kind(kernel) == CategoryKind::Kernel;
        if let Some(known) = self.possible.get(&(id, gpu, is_kernel)) {
            return Rc::clone(known);
        }
        let all = self.calls.get(&id).map_or(&[][..], SmallVec::as_slice);
        let launches = if is_kernel { launches_among(store, all) } else { all.to_vec() };
        let launcher = self.launchers.get(&gpu).map(|(process, _)| *process);
        let of_launcher = |call: &SliceId| launcher.is_some() && store.process_of(*call) == launcher;
        let theirs: Vec<SliceId> = launches.iter().copied().filter(of_launcher).collect();
        let possible: Rc<[SliceId]> = if theirs.is_empty() { launches.into() } else { theirs.into() };
        self.possible.insert((id, gpu, is_kernel), Rc::clone(&possible));
        possible
    }

    /// Whether a flow is evidence: one end has no correlation id, or both have the same.
    fn is_only_tie(&self, from: SliceId, correlation: Option<i64>) -> bool {
        let other = self.store.correlation(from);
        correlation.is_none() || other.is_none() || other == correlation
    }

    /// Whether flows can choose between the calls with a kernel's id.
    fn may_trust_flows(&self, kernel: SliceId, candidates: &[SliceId]) -> bool {
        let id = self.store.trace_correlation(kernel);
        id.and_then(|id| self.of_one_process.get(&id)).is_none_or(|of| candidates.len() <= *of)
    }

    fn reason(&self, trace: TraceId, kernel: SliceId, correlation: Option<i64>) -> Reason {
        let kernel_ts = self.store.slices.ts(kernel);
        let is_of_graph = || matches!(self.store.ids(kernel), EventIds::Gpu { graph_id, .. } if graph_id != 0);
        let no_graph_before = || self.first_graphs[trace.row()].is_none_or(|first| first > kernel_ts);
        match (self.first_calls.get(trace.row()).copied().flatten(), correlation) {
            (None, _) => Reason::NoCalls,
            // Ids rise with time.
            (Some((Some(first_id), _)), Some(id)) if id < first_id => Reason::BeforeTrace,
            (Some((_, first_ts)), _) if kernel_ts < first_ts => Reason::BeforeTrace,
            // A replay may run for long, and its kernels have ids of their own.
            _ if is_of_graph() && no_graph_before() => Reason::BeforeTrace,
            (_, None) => Reason::NoId,
            _ => Reason::NotRecorded,
        }
    }
}

/// The calls that can launch a kernel, judged by name; all if none can. The runtime may use a kernel for a copy.
fn launches_among(store: &Store, calls: &[SliceId]) -> Vec<SliceId> {
    let can = |call: &SliceId| Work::is_launch(store.slice_name(*call));
    let launches: Vec<SliceId> = calls.iter().copied().filter(can).collect();
    if launches.is_empty() { calls.to_vec() } else { launches }
}

/// See [`Finder::launchers`].
fn launchers(store: &Store, kernels: &[SliceId], calls: &Calls) -> HashMap<GpuId, (ProcessId, bool)> {
    let mut only_launches: HashMap<(TraceId, i64), Option<ProcessId>, foldhash::fast::FixedState> = HashMap::default();
    let mut votes: BTreeMap<GpuId, BTreeMap<ProcessId, u64>> = BTreeMap::new();
    for kernel in kernels.iter().copied().filter(|kernel| store.category_kind(*kernel) == CategoryKind::Kernel) {
        let Some(id) = store.trace_correlation(kernel) else { continue };
        let process = *only_launches.entry(id).or_insert_with(|| match launches_among(store, calls.get(&id)?)[..] {
            [only] => store.process_of(only),
            _ => None,
        });
        if let Some(process) = process {
            *votes.entry(store.gpu_of(kernel)).or_default().entry(process).or_default() += 1;
        }
    }
    let most =
        |of: BTreeMap<ProcessId, u64>| of.into_iter().max_by_key(|(_, votes)| *votes).map(|(process, _)| process);
    let gpus: BTreeSet<GpuId> = store.kernels.iter().map(|kernel| store.gpu_of(*kernel)).collect();
    let callers = store.calling_processes();
    let mut launchers: HashMap<GpuId, (ProcessId, bool)> =
        in_order(&gpus, &callers).into_iter().map(|(gpu, process)| (gpu, (process, false))).collect();
    let rank = |process: ProcessId| Some((store.tracks.process(process).trace, store.rank_in_name(process)?));
    let named = |gpu: GpuId| {
        callers.iter().copied().find(|caller| rank(gpu.process).is_some_and(|of| rank(*caller) == Some(of)))
    };
    launchers.extend(gpus.iter().filter_map(|gpu| Some((*gpu, (named(*gpu)?, true)))));
    launchers.extend(votes.into_iter().filter_map(|(gpu, of)| Some((gpu, (most(of)?, true)))));
    launchers
}

/// By GPU: the process beside it in a file of one process and one GPU after the other, as several traces are put together. A file in the order of
/// time has all processes before the GPUs.
fn in_order(gpus: &BTreeSet<GpuId>, callers: &BTreeSet<ProcessId>) -> HashMap<GpuId, ProcessId> {
    let mut places: Vec<(ProcessId, Option<GpuId>)> = gpus.iter().map(|gpu| (gpu.process, Some(*gpu))).collect();
    places.extend(callers.iter().map(|process| (*process, None)));
    places.sort_unstable_by_key(|(process, _)| *process);
    let pair = |pair: &[(ProcessId, Option<GpuId>)]| match *pair {
        [(process, None), (_, Some(gpu))] | [(_, Some(gpu)), (process, None)] => Some((gpu, process)),
        _ => None,
    };
    places.chunks(2).map(pair).collect::<Option<_>>().unwrap_or_default()
}

/// How many of the first calls belong to one process.
fn of_one_process(store: &Store, calls: &[SliceId]) -> usize {
    let process = |call: &SliceId| store.process_of(*call);
    calls.windows(2).position(|pair| process(&pair[0]) != process(&pair[1])).map_or(calls.len(), |at| at + 1)
}

/// The flows from CPU slices into some kernels, sorted by kernel.
fn flows_into(store: &Store, kernels: &[SliceId]) -> Vec<(SliceId, SliceId)> {
    let mut is_wanted = vec![false; store.slices.len()];
    kernels.iter().for_each(|kernel| is_wanted[kernel.row()] = true);
    let of_cpu = |slice: SliceId| !matches!(store.category_kind(slice), CategoryKind::Kernel | CategoryKind::Gpu);
    let ends = store.flows.slice_in.iter().zip(&store.flows.slice_out);
    let wanted = ends.filter(|(to, from)| is_wanted[to.row()] && of_cpu(**from));
    let mut flows: Vec<(SliceId, SliceId)> = wanted.map(|(to, from)| (*to, *from)).collect();
    flows.sort_by_key(|(to, _)| *to);
    flows
}

/// Ties the remaining kernels to the operator with their External id. Traces from before October 2024 have the correlation id in that argument if
/// there is no operator.
fn by_external_id(store: &Store, launches: &mut Launches) {
    let wanted = |launched: &Launched| {
        let kernel = launched.kernel;
        let id = store.external_id(kernel)?;
        let is_wanted = launched.call.is_none() && store.correlation(kernel) != Some(id);
        is_wanted.then(|| (store.trace_of(kernel), id))
    };
    let ids = launches.kernels.iter().filter_map(|launched| Some((wanted(launched)?, Vec::new())));
    let mut operators: HashMap<(TraceId, i64), Vec<SliceId>> = ids.collect();
    if operators.is_empty() {
        return;
    }
    for slice in store.slices.ids() {
        if store.category_kind(slice) == CategoryKind::Cpu
            && let Some(id) = store.external_id(slice)
            && let Some(with_id) = operators.get_mut(&(store.trace_of(slice), id))
        {
            with_id.push(slice);
        }
    }
    for launched in &mut launches.kernels {
        let Some(with_id) = wanted(launched).and_then(|id| operators.get(&id)) else { continue };
        let latest_start = store.slices.ts(launched.kernel) + MAX_CLOCK_SKEW;
        let before = &with_id[..with_id.partition_point(|call| store.slices.ts(*call) <= latest_start)];
        if let Some(latest) = before.last() {
            (launched.call, launched.evidence) = (Some(*latest), Evidence::ExternalId);
            launched.uncertain = before.len() > 1;
        }
    }
}
