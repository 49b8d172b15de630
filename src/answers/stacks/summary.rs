//! The whole window: how busy its GPUs were, with what, and how much of the collectives no computation hid.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::gpu_spans::{GpuSpans, within_trace};
use crate::answers::cost::Distribution;
use crate::attribution::launches::{self, Launched};
use crate::id::{GpuId, SliceId, ThreadId};
use crate::names::calls::{CAPTURE_BEGIN, CAPTURE_END, GRAPH_LAUNCHES, WHOLE_GRAPH, Work};
use crate::names::category::CategoryKind;
use crate::names::steps::GPU_ANNOTATION;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// A window in numbers. Times are summed over the GPUs. Work that crosses an edge of the measured span counts with the part inside. Kernels that
/// overlap on one GPU count once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// The window; without one, the span of the whole trace.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Window"))]
    pub window: Window,
    /// From the first start to the last end of the GPU work launched in the window. `None` if times are measured over the window itself: for the
    /// whole trace, for a window on kernels, and if nothing was launched.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<crate::operations::written::Window>"))]
    pub gpu_span: Option<Window>,
    /// The GPU annotation (`gpu_user_annotation`) with the name of the window's slice that spans all of `gpu_span`, if there is one: it confirms the
    /// span.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<crate::operations::written::Window>"))]
    pub gpu_annotation: Option<Window>,
    /// The number of GPUs that the times add up: those that ran work of the window, or all GPUs of the trace if there is no `gpu_span`.
    pub gpus: u64,
    /// The length of `gpu_span` on each GPU, added up; without one, the window's length times the number of GPUs. The other times are shares of this.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub wall_ns: Ns,
    /// When any kernel ran. Within a `gpu_span`, this counts every kernel; the other times count only what was launched in the window.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub busy_ns: Ns,
    /// When compute kernels ran: all kernels but collectives.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub compute_ns: Ns,
    /// When collectives ran: kernels of the known and the user's own families, and chosen kernels whose names say so.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub collectives_ns: Ns,
    /// When collectives ran and no compute kernel did.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub exposed_ns: Ns,
    /// When copies and fills ran and no kernel did; `None` where hardly any time is without a kernel.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub copies_ns: Option<Ns>,
    /// The same of kernels that had been launched and had not begun.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub queued_ns: Option<Ns>,
    /// What is not recorded of the window's work, although the trace shows that there was some.
    #[serde(default)]
    pub unrecorded: Unrecorded,
    /// The kernel names with the most total time, among kernels launched in the window, or started in it if there is no `gpu_span`.
    #[cfg_attr(test, schemars(length(max = 5)))]
    pub top_kernels: Vec<KernelRow>,
    /// The number of distinct names of these kernels, including those not listed.
    pub kernel_names_found: u64,
}

/// Work that is not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unrecorded {
    /// How many calls launched kernels or graphs in the window; 0 where hardly any time is without a kernel.
    pub launches: u64,
    /// Of so many of them no kernel is known: the profiler dropped it or its time, or they were captured into a graph.
    pub launches_without_kernels: u64,
    /// How many of these launched a graph of any number of kernels.
    pub graphs_without_kernels: u64,
    /// When graphs ran that are recorded as a whole, as Nsight Systems does by default: which kernels were in them is unknown.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub graphs_ns: Ns,
}

/// All kernels of one name, like a row of `nsys stats -r cuda_gpu_kern_sum`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelRow {
    /// Their name, as the trace has it.
    pub name: String,
    /// The number of kernels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub instances: u64,
    /// How long they ran.
    pub time: Distribution,
    /// Their share of the time of all kernels in the table. Kernels that overlap each count.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub share_of_kernels: f64,
}

/// No verdict names less idle time.
const NOTABLE: f64 = 0.01;

/// How many kernel names a summary lists.
const TOP: usize = 5;

impl Summary {
    /// Adds the summary of another trace. Its window is on another clock: the merged window spans both, and only sums have a meaning. The top kernels
    /// stay unknown, because medians cannot be added.
    pub(super) fn add(&mut self, other: &Summary) {
        self.window = self.window.around(other.window);
        self.gpu_span = self.gpu_span.into_iter().chain(other.gpu_span).reduce(Window::around);
        self.gpu_annotation = None;
        self.gpus += other.gpus;
        for (sum, time) in [
            (&mut self.wall_ns, other.wall_ns),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.compute_ns, other.compute_ns),
            (&mut self.collectives_ns, other.collectives_ns),
            (&mut self.exposed_ns, other.exposed_ns),
        ] {
            *sum += time;
        }
        for (sum, time) in [(&mut self.copies_ns, other.copies_ns), (&mut self.queued_ns, other.queued_ns)] {
            *sum = sum.zip(time).map(|(sum, time)| sum + time);
        }
        self.unrecorded.launches += other.unrecorded.launches;
        self.unrecorded.launches_without_kernels += other.unrecorded.launches_without_kernels;
        self.unrecorded.graphs_without_kernels += other.unrecorded.graphs_without_kernels;
        self.unrecorded.graphs_ns += other.unrecorded.graphs_ns;
        self.top_kernels.clear();
        self.kernel_names_found = 0;
    }

    /// A time as a share of [`Summary::wall_ns`]; `None` for an empty window.
    pub fn share(&self, time: Ns) -> Option<f64> {
        time.share_of(self.wall_ns)
    }

    /// What the times are shares of.
    pub fn whole(&self) -> &'static str {
        if self.gpu_span.is_some() { "GPU span" } else { "window" }
    }
}

pub(crate) fn summarise(store: &Store, window: Window, spans: &GpuSpans<'_>) -> Summary {
    let mut summary = times(within_trace(store, window), spans);
    if summary.share(summary.wall_ns - summary.busy_ns).is_some_and(|share| share >= NOTABLE) {
        let launched = launches::for_work(store, store.kernels.clone()).kernels;
        (summary.copies_ns, summary.queued_ns) =
            (Some(spans.idle_with(copies(store))), Some(spans.idle_with(queued(store, &launched))));
        summary.unrecorded = unrecorded(store, &launched, summary.window);
    }
    summary.gpu_annotation = summary.gpu_span.and_then(|work| annotation(store, window, work));
    let slices = &store.slices;
    let inside = store.kernels.iter().copied().filter(|kernel| spans.count(store, *kernel));
    if let Some(graph) = store.strings.find(WHOLE_GRAPH) {
        let graphs = inside.clone().filter(|kernel| slices.name(*kernel) == graph);
        summary.unrecorded.graphs_ns = spans.busy(store, graphs.map(|kernel| (kernel, slices.dur(kernel))));
    }
    let inside = inside.map(|kernel| (slices.name(kernel), slices.dur(kernel)));
    (summary.top_kernels, summary.kernel_names_found) = top_kernels(store, inside);
    summary
}

/// When copies and fills ran, by GPU.
fn copies(store: &Store) -> impl Iterator<Item = (GpuId, Window)> {
    let is_one = |slice: &SliceId| {
        store.category_kind(*slice) == CategoryKind::Gpu && Work::of_slice(store.slice_name(*slice), false).is_some()
    };
    store.slices.ids().filter(is_one).map(|slice| (store.gpu_of(slice), store.slices.window(slice)))
}

/// From the end of the call that launches a kernel to the start of that, by GPU.
fn queued(store: &Store, launched: &[Launched]) -> impl Iterator<Item = (GpuId, Window)> {
    launched.iter().filter_map(|of| {
        let window = Window { start: store.slices.window(of.call?).end, end: store.slices.ts(of.kernel) };
        Some((store.gpu_of(of.kernel), window))
    })
}

/// The launches of a window, and those of which no kernel is recorded. A kernel whose launch is unknown may be of any of these. Where a stream is captured, launches
/// run nothing.
fn unrecorded(store: &Store, launched: &[Launched], window: Window) -> Unrecorded {
    let known: HashSet<SliceId> = launched.iter().filter_map(|of| of.call).collect();
    let mut capturing: HashSet<Option<ThreadId>> = HashSet::new();
    let mut found = Unrecorded::default();
    for call in store.runtime_calls.iter().copied() {
        let (name, thread) = (store.slice_name(call), store.thread_of(call));
        if name.contains(CAPTURE_BEGIN) {
            capturing.insert(thread);
        } else if name.contains(CAPTURE_END) {
            capturing.remove(&thread);
        }
        let is_graph = GRAPH_LAUNCHES.contains(&name);
        let is_launch = is_graph || Work::of_call(name) == Some(Work::Kernel);
        if is_launch && capturing.is_empty() && window.contains(store.slices.ts(call)) {
            found.launches += 1;
            found.launches_without_kernels += u64::from(!known.contains(&call));
            found.graphs_without_kernels += u64::from(is_graph && !known.contains(&call));
        }
    }
    let unknown = launched.iter().filter(|of| of.call.is_none()).count() as u64;
    found.launches_without_kernels = found.launches_without_kernels.saturating_sub(unknown);
    found.graphs_without_kernels = found.graphs_without_kernels.min(found.launches_without_kernels);
    found
}

/// The GPU annotation that has the name of the window's slice and spans all of its work. Kineto projects an annotation onto the GPU: from the first
/// to the last kernel launched in it.
fn annotation(store: &Store, window: Window, work: Window) -> Option<Window> {
    let category = store.strings.find(GPU_ANNOTATION)?;
    let slices = &store.slices;
    let is_window = |slice: &SliceId| slices.ts(*slice) == window.start && slices.window(*slice) == window;
    let names: HashSet<StringId> = slices.ids().filter(is_window).map(|slice| slices.name(slice)).collect();
    let of_gpu =
        slices.ids().filter(|slice| slices.category(*slice) == category && names.contains(&slices.name(*slice)));
    of_gpu.map(|slice| slices.window(slice)).find(|span| span.start <= work.start && span.end >= work.end)
}

/// The summary without the kernels by name.
pub(super) fn times(window: Window, spans: &GpuSpans<'_>) -> Summary {
    let (gpus, gpu_span) = (spans.gpus(), spans.work());
    let mut summary = Summary { window, gpu_span, gpus, wall_ns: spans.length(), ..Summary::default() };
    for (Window { start, end }, all, counted) in spans.each() {
        summary.busy_ns += all.busy(start, end);
        summary.compute_ns += counted.compute.within(start, end);
        summary.collectives_ns += counted.collectives.within(start, end);
        summary.exposed_ns += counted.exposed(all, start, end);
    }
    summary
}

/// The names with the most total time, longest first, then by name; and the number of names. `kernels` yields names and durations.
fn top_kernels(store: &Store, kernels: impl Iterator<Item = (StringId, Ns)>) -> (Vec<KernelRow>, u64) {
    let mut lengths: Vec<Vec<Ns>> = vec![Vec::new(); store.strings.len()];
    kernels.for_each(|(name, dur)| lengths[name.0 as usize].push(dur.max(Ns::ZERO)));
    let text = |id: usize| store.strings.get(StringId(id as u32)).unwrap_or_default();
    let with_total = |(id, lengths): (usize, Vec<Ns>)| (lengths.iter().copied().sum(), id, lengths);
    let all = lengths.into_iter().enumerate().filter(|(_, lengths)| !lengths.is_empty());
    let mut names: Vec<(Ns, usize, Vec<Ns>)> = all.map(with_total).collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| text(a.1).cmp(text(b.1))));
    let (time, found) = (names.iter().map(|(total, ..)| *total).sum(), names.len() as u64);
    let row = |(total, id, lengths): (Ns, usize, Vec<Ns>)| KernelRow {
        name: text(id).to_owned(),
        instances: lengths.len() as u64,
        share_of_kernels: total.share_of(time).unwrap_or(0.0),
        time: Distribution::from_times(lengths).unwrap_or_default(),
    };
    (names.into_iter().take(TOP).map(row).collect(), found)
}
