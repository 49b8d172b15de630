//! A loaded trace, or several, reduced to the parts of their ranks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::reduction::{Kind, MOST_RANKS, RankReduction, RankSource, ReducedStack, Row, Step, Tie};
use crate::answers::damage::Losses;
use crate::answers::stacks::data::StackOptions;
use crate::answers::stacks::gpu_spans::{is_by_launches, launched_in, spans_of};
use crate::answers::stacks::grouping::{GroupKey, GroupValue, Keys, Naming};
use crate::answers::stacks::reduction::Attributed;
use crate::answers::stacks::steps::Steps;
use crate::attribution::busy::Busy;
use crate::attribution::capture::Captured;
use crate::attribution::launches::{Evidence, Launched, WindowOn};
use crate::attribution::operations::Operations;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::{Wanted, choose};
use crate::attribution::stack_key::StackKey;
use crate::attribution::{Attributor, KernelLaunch, launches};
use crate::event::ArgValue;
use crate::id::{GpuId, ProcessId, RankId, SliceId, ThreadId, TraceId};
use crate::names::category::CategoryKind;
use crate::names::collectives::Collective;
use crate::numbers::Numbers;
use crate::operation::{Communicator, Operation, Split};
use crate::replay::build::{Source, build, profiled_from};
use crate::replay::rank::{NodeKind, RankGraph};
use crate::store::Store;
use crate::time::{Ns, Window};

/// As [`reduce`], of all collectives of a trace.
pub fn collectives(name: &str, store: &Store) -> Vec<RankReduction> {
    let wanted = Wanted::collectives();
    let launches = launches::find(store, &choose(store, &wanted));
    let attributor = Attributor::new(store, &wanted, Captured::default());
    reduce(&Attributed::new(name, attributor, &launches, Window::ALL, &StackOptions::default()))
}

/// Reduces a trace to the collectives of a window, one part for each rank in it. Chosen kernels
/// that are no collectives are left out. The trace must have been loaded with [`crate::event::ArgsWanted::OPERATIONS`], or all. If
/// the store has several traces, each has parts of its own, under its own name.
pub fn reduce(of: &Attributed<'_>) -> Vec<RankReduction> {
    let Attributed { name, store, ref attribution, window, options, .. } = *of;
    let queues = Queues::find(store, window, options.window_on);
    let window_of = windows(store, window, attribution.kernels.iter().map(|row| &row.launched));
    let ranks = Ranks::find(store, &attribution.kernels);
    let mut found = Found::default();
    let mut own: Vec<Own<'_>> = Vec::new();
    found.groups =
        Operations::each(store, attribution, &ranks, |operation, row| own.push(found.own(store, operation, row)));
    found.doubt_exchanges();
    let mut reductions = Vec::new();
    let all = by_rank(&own);
    let has_gpu = |rank: RankId| all.keys().any(|(_, of, _)| *of == Some(rank));
    let without_gpu: BTreeSet<RankId> = own.iter().filter_map(|own| own.rank).filter(|rank| !has_gpu(*rank)).collect();
    for ((trace, rank, _), gpus) in all {
        let own: Vec<&Own<'_>> = own.iter().filter(|own| gpus.contains(&own.gpu)).collect();
        let measured: Vec<(Window, Ns)> = gpus.iter().filter_map(|gpu| queues.of.get(gpu)).copied().collect();
        let wall = measured.iter().map(|(span, _)| span.duration()).sum();
        let queue_empty = measured.iter().map(|(_, empty)| *empty).sum();
        let gpu_span = measured.iter().map(|(span, _)| *span).reduce(Window::around).filter(|_| queues.is_of_work);
        let Found { texts, kinds, groups } = &found;
        let (kinds, groups) = (kinds.list.clone(), groups.clone());
        let reducer = Reducer { of, work: &queues.work, texts: texts.list.clone(), trace, gpus };
        let gpu = reducer.gpus.first().copied();
        let of_rank = reducer.gpus.iter().map(|gpu| window_of(*gpu)).reduce(Window::around).unwrap_or(window);
        let reduction = reducer.reduction(&own, of_rank, window);
        let file = name_of(store, trace).unwrap_or(name);
        let said = said(store, &ranks, rank, &own, &without_gpu);
        // So that it can be meant.
        let gpu = gpu.filter(|_| ranks.is_merged(trace) && said.len() != 1);
        let trace = gpu.map_or_else(|| file.to_owned(), |gpu| format!("{file}/GPU {}", number_of(store, gpu)));
        reductions.push(RankReduction { trace, said, gpu_span, wall, queue_empty, kinds, groups, ..reduction });
    }
    reductions.iter_mut().take(1).for_each(|first| first.damage = Losses::count(store));
    reductions
}

/// What is needed of an operation.
struct Own<'k> {
    gpu: GpuId,
    rank: Option<RankId>,
    group: Option<u32>,
    kind: u32,
    seq: Option<u32>,
    launch: Option<SliceId>,
    stream: Option<ThreadId>,
    /// Whether it only sends, or only receives.
    message: Option<&'static str>,
    row: &'k KernelLaunch,
}

/// What operations have in common.
#[derive(Default)]
struct Found {
    texts: Numbers<String>,
    kinds: Numbers<Kind>,
    groups: Vec<Communicator>,
}

impl Found {
    /// Where sends and receives are recorded, a kernel `SendRecv` without a record may be one, and no all-to-all.
    fn doubt_exchanges(&mut self) {
        let is_message = |kind: &Kind| kind.is_recorded && kind.tie() == Tie::PointToPoint;
        if self.kinds.list.iter().any(is_message) {
            self.kinds.list.iter_mut().filter(|kind| !kind.is_recorded).for_each(|kind| kind.split = Split::Unknown);
        }
    }

    fn own<'k>(&mut self, store: &Store, operation: Operation, row: &'k KernelLaunch) -> Own<'k> {
        let kernel = row.launched.kernel;
        let name = self.texts.number_of(store.slice_name(kernel));
        let is_recorded = operation.communicator.is_some() || operation.dtype.is_some() || row.record.is_some();
        let kind = Kind::of(&operation, name, is_recorded);
        Own {
            gpu: store.gpu_of(kernel),
            rank: operation.rank,
            group: operation.communicator.map(|group| group as u32),
            kind: self.kinds.number_of(&kind),
            seq: operation.sequence.and_then(|seq| u32::try_from(seq).ok()),
            launch: operation.launch,
            stream: operation.stream,
            message: match operation.known_collective() {
                Some(Collective::Send) => Some("send"),
                Some(Collective::Recv) => Some("recv"),
                _ => None,
            },
            row,
        }
    }
}

/// The window of each GPU: where all is asked for, that of its trace; in a file of several ranks, that of its process and of the process that
/// launched most of these kernels.
fn windows<'k>(store: &Store, window: Window, kernels: impl Iterator<Item = &'k Launched>) -> impl Fn(GpuId) -> Window {
    let spans = if window == Window::ALL { store.trace_spans() } else { Vec::new() };
    let mut of_gpus: BTreeMap<GpuId, Window> = BTreeMap::new();
    let callers = store.calling_processes();
    let traces: BTreeSet<TraceId> = callers.iter().map(|process| store.tracks.process(*process).trace).collect();
    if window == Window::ALL && callers.len() > traces.len() {
        let mut of_processes: BTreeMap<ProcessId, Window> = BTreeMap::new();
        for slice in store.slices.ids().filter(|slice| store.slices.dur(*slice) > Ns::ZERO) {
            let Some(process) = store.process_of(slice) else { continue };
            let own = store.slices.window(slice);
            of_processes.entry(process).and_modify(|of| *of = of.around(own)).or_insert(own);
        }
        for (gpu, launcher) in launchers(store, kernels) {
            let both = [launcher, gpu.process].into_iter().filter_map(|process| of_processes.get(&process).copied());
            of_gpus.extend(both.reduce(Window::around).map(|window| (gpu, window)));
        }
    }
    move |gpu: GpuId| of_gpus.get(&gpu).or(spans.get(gpu.trace.row())).copied().unwrap_or(window)
}

/// By GPU: the process that launched most of these kernels, of those whose launch is known.
pub(super) fn launchers<'k>(store: &Store, kernels: impl Iterator<Item = &'k Launched>) -> BTreeMap<GpuId, ProcessId> {
    let mut votes: BTreeMap<GpuId, BTreeMap<ProcessId, u64>> = BTreeMap::new();
    for launched in kernels {
        let Some(process) = launched.call.and_then(|call| store.process_of(call)) else { continue };
        *votes.entry(store.gpu_of(launched.kernel)).or_default().entry(process).or_default() += 1;
    }
    let most = |votes: BTreeMap<ProcessId, u64>| votes.into_iter().max_by_key(|(_, kernels)| *kernels);
    votes.into_iter().filter_map(|(gpu, votes)| Some((gpu, most(votes)?.0))).collect()
}

/// For how long nothing was queued on each GPU.
struct Queues {
    /// All work of GPUs, in the order of starts.
    work: Vec<Launched>,
    /// The span that is measured, and for how much of it nothing was queued.
    of: BTreeMap<GpuId, (Window, Ns)>,
    /// Whether the spans are those of the work that was launched in the window, and not the window itself.
    is_of_work: bool,
}

impl Queues {
    /// For how much of the GPU span of what was launched in a window nothing was queued on each GPU; for the whole trace, and for a window that is
    /// chosen by when kernels start, of the window. A kernel is queued from the end of the call that launched it on.
    fn find(store: &Store, window: Window, on: WindowOn) -> Queues {
        let is_kernel = |slice: SliceId| store.category_kind(slice) == CategoryKind::Kernel;
        let work = launches::of_all_work(store).kernels;
        let kernels: Vec<Launched> = work.iter().filter(|of| is_kernel(of.kernel)).copied().collect();
        let own = if is_by_launches(window, on) { launched_in(store, &kernels, window) } else { Vec::new() };
        let (is_of_work, spans) = (!own.is_empty(), spans_of(store, &own));
        let window_of = windows(store, window, kernels.iter());
        let mut of_gpu: BTreeMap<GpuId, Vec<(Ns, Ns)>> = BTreeMap::new();
        for launched in &kernels {
            let Window { start, end } = store.slices.window(launched.kernel);
            let call = launched.call.map(|call| store.slices.window(call).end);
            let queued = call.map_or(start, |call| call.min(start));
            of_gpu.entry(store.gpu_of(launched.kernel)).or_default().push((queued, end - queued));
        }
        let measured = |(gpu, queued): (GpuId, Vec<(Ns, Ns)>)| {
            let span = if is_of_work { *spans.get(&gpu)? } else { window_of(gpu) };
            Some((gpu, (span, span.duration() - Busy::from_spans(queued).within(span.start, span.end))))
        };
        let of = of_gpu.into_iter().filter_map(measured).collect();
        Queues { of, is_of_work, work }
    }
}

/// The name of one of several traces.
fn name_of(store: &Store, trace: TraceId) -> Option<&str> {
    let trace = store.traces.get(trace.row()).filter(|_| store.traces.len() > 1)?;
    Some(trace.name.as_deref().unwrap_or(&trace.file))
}

/// The GPUs of each rank of each trace. A GPU of unknown rank counts as a rank by itself.
fn by_rank(all: &[Own<'_>]) -> BTreeMap<(TraceId, Option<RankId>, Option<GpuId>), Vec<GpuId>> {
    let mut votes: BTreeMap<GpuId, BTreeMap<RankId, u64>> = BTreeMap::new();
    for own in all {
        let of_gpu = votes.entry(own.gpu).or_default();
        own.rank.into_iter().for_each(|rank| *of_gpu.entry(rank).or_default() += 1);
    }
    let mut found: BTreeMap<_, Vec<GpuId>> = BTreeMap::new();
    for (gpu, votes) in votes {
        let rank =
            votes.into_iter().max_by_key(|(rank, votes)| (*votes, std::cmp::Reverse(*rank))).map(|(rank, _)| rank);
        found.entry((gpu.trace, rank, rank.is_none().then_some(gpu))).or_default().push(gpu);
    }
    found
}

/// The number of a GPU, or what the trace has in its place.
fn number_of(store: &Store, gpu: GpuId) -> String {
    let number = store.tracks.process(gpu.process).pid;
    let text = store.tracks.text_of(number).and_then(|text| store.strings.get(text));
    text.map_or_else(|| number.to_string(), str::to_owned)
}

/// What says which rank it is. Where a file has several ranks, that is what tells them apart, and if a rank has no GPU of its own, nothing does.
fn said(
    store: &Store,
    ranks: &Ranks<'_>,
    rank: Option<RankId>,
    own: &[&Own<'_>],
    without_gpu: &BTreeSet<RankId>,
) -> Vec<(RankSource, u32)> {
    let trace = own.first().map_or(TraceId(0), |own| own.gpu.trace);
    if ranks.is_merged(trace) {
        let others = own.iter().filter_map(|own| own.rank).filter(|rank| without_gpu.contains(rank));
        let all: BTreeSet<RankId> = rank.into_iter().chain(others).collect();
        return all.into_iter().map(|rank| (RankSource::Records, rank.0)).collect();
    }
    let of_records = own.iter().find_map(|own| ranks.of_records(own.row));
    let header = ranks.of_header(trace);
    let is_merged = header.is_none() && of_records.is_some();
    let of_file = ranks.of_file(trace).filter(|_| !is_merged);
    let file = store.traces.get(trace.row()).map_or("", |trace| trace.file.as_str());
    let source = if crate::names::ranks::is_named_rank(file) { RankSource::FileName } else { RankSource::FileWord };
    let all = [(RankSource::Header, header), (RankSource::Records, of_records), (source, of_file)];
    let mut said: Vec<(RankSource, u32)> =
        all.into_iter().filter_map(|(source, rank)| Some((source, rank?.0))).collect();
    if said.is_empty() {
        said.extend(rank.map(|rank| (RankSource::Records, rank.0)));
    }
    said
}

struct Reducer<'a> {
    of: &'a Attributed<'a>,
    work: &'a [Launched],
    texts: Vec<String>,
    trace: TraceId,
    gpus: Vec<GpuId>,
}

impl Reducer<'_> {
    /// The part, without what it has in common with others. `window` is the rank's part of what was `asked` for.
    fn reduction(self, own: &[&Own<'_>], window: Window, asked: Window) -> RankReduction {
        let (stacks, stack_of) = self.stacks(own);
        let (mut steps, last_step) = self.steps(own, window);
        let mut streams: Numbers<Option<ThreadId>> = Numbers::default();
        let slices = &self.of.store.slices;
        let mut rows: Vec<Row> = Vec::with_capacity(own.len());
        for (own, stack) in own.iter().zip(stack_of) {
            let kernel = own.row.launched.kernel;
            rows.push(Row {
                kernel: kernel.0,
                start: slices.ts(kernel),
                dur: own.row.gpu_time,
                exposed: own.row.exposed,
                kind: own.kind,
                group: own.group,
                seq: own.seq,
                stack,
                stream: streams.number(own.stream),
                step: step_of(&steps, slices.ts(own.launch.unwrap_or(kernel))),
                is_replay: own.row.launched.evidence == Evidence::GraphReplay,
                ..Row::default()
            });
        }
        self.find_busy(&mut rows);
        let graph = build(&Source {
            store: self.of.store,
            work: self.work,
            gpus: &self.gpus,
            window: asked,
            rows: own.iter().map(|own| (own.row.launched.kernel, own.message)).collect(),
            steps: steps.iter().map(|step| step.window).collect(),
            last_step,
            profiled_from: profiled_from(self.of.store, self.trace),
        });
        self.find_busy_steps(&graph, &mut steps);
        RankReduction {
            world_size: self.world_size(),
            host: self.of.store.host_of(self.trace).map(str::to_owned),
            window,
            texts: self.texts,
            stacks,
            steps,
            rows,
            graph,
            ..RankReduction::default()
        }
    }

    /// The stacks, and which of them each operation has.
    fn stacks(&self, own: &[&Own<'_>]) -> (Vec<ReducedStack>, Vec<Option<u32>>) {
        let Attributed { store, ref attribution, options, .. } = *self.of;
        let mut by_path: HashMap<_, u32> = HashMap::new();
        let mut stacks: Numbers<ReducedStack> = Numbers::default();
        let mut of = Vec::with_capacity(own.len());
        if options.grouping.is_asked() {
            let ranks = Ranks::find(store, &attribution.kernels);
            let rank =
                |row: &KernelLaunch| ranks.of_kernel(row).map_or_else(String::new, |rank| format!("rank {rank}"));
            let naming = Naming { exact_names: options.exact_names, user_code: &options.user_code, rank: &rank };
            let mut keys = Keys::new(store, attribution, &options.grouping, naming);
            of.extend(own.iter().map(|own| Some(stacks.number(group_stack(&keys.key(own.row))))));
            return (stacks.list, of);
        }
        for Own { row, .. } in own {
            if row.path.is_none() && row.capture.is_none() {
                of.push(None);
                continue;
            }
            let path = (row.path, row.helper_thread, row.capture, row.forward);
            let stack = *by_path.entry(path).or_insert_with(|| {
                let key = StackKey::from_kernel(store, &attribution.paths, row, options.exact_names);
                let telling = key.telling_frames(&options.user_code);
                stacks.number(ReducedStack {
                    telling,
                    captured: key.captured.map(|path| path.frames),
                    forward: key.forward.map(|path| path.frames),
                    thread: key.thread,
                    frames: key.frames,
                })
            });
            of.push(Some(stack));
        }
        (stacks.list, of)
    }

    /// The steps of the processes that launch, and the slice of the last one. Another rank in the same file has its own.
    fn steps(&self, own: &[&Own<'_>], window: Window) -> (Vec<Step>, Option<SliceId>) {
        let store = self.of.store;
        let launchers: BTreeSet<_> = own.iter().filter_map(|own| store.process_of(own.launch?)).collect();
        let all = Steps::find(store);
        let is_own = |process: ProcessId| launchers.is_empty() || launchers.contains(&process);
        let own = all.processes().filter(|(process, _)| is_own(*process)).flat_map(|(_, steps)| steps);
        let mut own: Vec<_> = own.filter(|step| store.trace_of(step.slice) == self.trace).collect();
        own.sort_by_key(|step| step.slice);
        let (mut steps, mut last_step): (Vec<Step>, _) = (Vec::new(), None);
        for step in own {
            let is_nested = steps.last().is_some_and(|last| step.window.start < last.window.end);
            if !is_nested && step.window.overlaps(window) {
                let name = store.slice_name(step.slice).to_owned();
                steps.push(Step { name, window: step.window, busy: Ns::ZERO, compute: Ns::ZERO });
                last_step = Some(step.slice);
            }
        }
        (steps, last_step)
    }

    /// Finds for how long kernels that compute ran, and none did, between the collectives.
    fn find_busy(&self, rows: &mut [Row]) {
        let activity = &self.of.attribution.activity;
        let is_compute = |kernel: &SliceId| {
            let name = self.of.store.slices.name(*kernel);
            !activity.is_collective[name.0 as usize]
                && activity.may_communicate(name).is_none()
                && self.gpus.contains(&self.of.store.gpu_of(*kernel))
        };
        let span = |kernel: &SliceId| (self.of.store.slices.ts(*kernel), self.of.store.slices.dur(*kernel));
        let busy = Busy::from_spans(self.of.store.kernels.iter().filter(|kernel| is_compute(kernel)).map(span));
        let mut last: Option<Ns> = None;
        for row in rows {
            let start = last.unwrap_or(row.start);
            row.busy_before = busy.within(start, row.start);
            row.idle_before = (row.start - start).max(Ns::ZERO) - row.busy_before;
            last = Some(row.end().max(start));
        }
    }

    /// Finds for how long kernels ran that were launched in each step.
    fn find_busy_steps(&self, graph: &RankGraph, steps: &mut [Step]) {
        let slices = &self.of.store.slices;
        let mut spans: Vec<Vec<(Ns, Ns, bool)>> = vec![Vec::new(); steps.len()];
        for (node, slice) in graph.nodes.iter().zip(&graph.slices).filter(|(node, _)| !node.kind.is_cpu()) {
            let is_kernel = |slice: &SliceId| self.of.store.category_kind(*slice) == CategoryKind::Kernel;
            if let (Some(step), Some(slice)) = (node.step.get(), slice.filter(is_kernel)) {
                spans[step as usize].push((slices.ts(slice), slices.dur(slice), node.kind == NodeKind::Slice));
            }
        }
        for (step, mut spans) in steps.iter_mut().zip(spans) {
            spans.sort_unstable();
            let of = |asked: fn(bool) -> bool| {
                let spans = spans.iter().filter(|(.., is_compute)| asked(*is_compute));
                Busy::from_spans(spans.map(|(start, dur, _)| (*start, *dur))).within(Ns::MIN, Ns::MAX)
            };
            (step.busy, step.compute) = (of(|_| true), of(|is_compute| is_compute));
        }
    }

    fn world_size(&self) -> Option<u32> {
        let mut own = self.of.store.header.iter().filter(|field| field.trace == self.trace);
        match own.find(|field| field.key == "distributedInfo.world_size")?.value {
            ArgValue::Int(size) => u32::try_from(size).ok().filter(|size| *size <= MOST_RANKS),
            _ => None,
        }
    }
}

/// A group by other keys in place of a stack: its frames are the levels of the keys' values.
fn group_stack(key: &GroupKey) -> ReducedStack {
    let label = key.iter().map(GroupValue::label).collect::<Vec<_>>().join(" / ");
    let frames = key.iter().flat_map(GroupValue::path).map(str::to_owned).collect();
    ReducedStack { telling: vec![label], frames, ..ReducedStack::default() }
}

fn step_of(steps: &[Step], launched: Ns) -> Option<u32> {
    let after = steps.partition_point(|step| step.window.start <= launched);
    let at = after.checked_sub(1)?;
    steps[at].window.contains(launched).then_some(at as u32)
}
