//! The window as a whole: how busy its GPUs were, with what, and how much of the collectives no computation hid.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::cost::Distribution;
use super::gpu_spans::{GpuSpans, within_trace};
use super::losses::Losses;
use crate::id::SliceId;
use crate::names::steps::GPU_ANNOTATION;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// A window in numbers. Times are summed over the GPUs. Of work that begins or ends outside the span that is measured, the part inside counts. What runs at
/// once on one GPU counts once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The window; the whole trace has its own start and end here.
    pub window: Window,
    /// When the GPUs ran what was launched in the window, from the first start to the last end. `None` if the times are those of the window
    /// itself: for the whole trace, for a window on kernels, and where nothing was launched.
    #[serde(default)]
    pub gpu_span: Option<Window>,
    /// The annotation on a GPU that has the name of the window's slice and spans all of `gpu_span`, if there is one: so the profiler agrees.
    #[serde(default)]
    pub gpu_annotation: Option<Window>,
    /// How many GPUs the times are of: those that ran something of it, or of the whole trace if there is no such span.
    pub gpus: u64,
    /// The length of this span on each GPU, added up, else the window's length times the number of GPUs: the other times are shares of this.
    #[serde(rename = "wall_ns")]
    pub wall: Ns,
    /// When any kernel ran. Of a `gpu_span` the other times are of what was launched in the window, and this one is of all that ran in it.
    #[serde(rename = "busy_ns")]
    pub busy: Ns,
    /// When compute kernels ran.
    #[serde(rename = "compute_ns")]
    pub compute: Ns,
    /// When collectives ran.
    #[serde(rename = "collectives_ns")]
    pub collectives: Ns,
    /// When collectives ran and no compute kernel did.
    #[serde(rename = "exposed_ns")]
    pub exposed: Ns,
    /// The kernels that ran longest in all, of those that start in it.
    pub top_kernels: Vec<KernelRow>,
    /// How many different names these kernels have.
    #[serde(rename = "kernel_names_found")]
    pub kernel_names: u64,
}

/// All kernels of one name, as a row of `nsys stats -r cuda_gpu_kern_sum`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KernelRow {
    /// Their name.
    pub name: String,
    /// How many.
    pub instances: u64,
    /// How long they ran.
    pub time: Distribution,
    /// The share of the time of all kernels of the table.
    #[serde(rename = "share_of_kernels")]
    pub share: f64,
}

/// How many kernel names a summary has.
const TOP: usize = 5;

impl Summary {
    /// Adds that of another trace, whose window is on another clock: the window then spans both, and only sums have a meaning. The kernels
    /// that ran longest stay unknown, because their medians cannot be added.
    pub(super) fn add(&mut self, other: &Summary) {
        self.window = self.window.around(other.window);
        self.gpu_span = self.gpu_span.into_iter().chain(other.gpu_span).reduce(Window::around);
        self.gpu_annotation = None;
        self.gpus += other.gpus;
        for (sum, time) in [
            (&mut self.wall, other.wall),
            (&mut self.busy, other.busy),
            (&mut self.compute, other.compute),
            (&mut self.collectives, other.collectives),
            (&mut self.exposed, other.exposed),
        ] {
            *sum += time;
        }
        self.top_kernels.clear();
        self.kernel_names = 0;
    }
}

/// Sums up a window, measured in these spans.
pub(crate) fn summarise(store: &Store, window: Window, spans: &GpuSpans<'_>) -> Summary {
    let mut summary = times(within_trace(store, window), spans);
    summary.gpu_annotation = summary.gpu_span.and_then(|work| annotation(store, window, work));
    let slices = &store.slices;
    let inside = store.kernels.iter().copied().filter(|kernel| spans.count(store, *kernel));
    let table = kernel_table(store, inside.map(|kernel| (slices.name(kernel), slices.dur(kernel))), TOP);
    (summary.top_kernels, summary.kernel_names) = (table.rows, table.names);
    summary
}

/// The annotation on a GPU that has the name of the slice of a window and spans all of its work. Kineto projects annotations onto the GPU: from the
/// first kernel to the last that was launched in them.
fn annotation(store: &Store, window: Window, work: Window) -> Option<Window> {
    let category = store.strings.find(GPU_ANNOTATION)?;
    let slices = &store.slices;
    let span = |slice: SliceId| Window::new(slices.ts(slice), slices.dur(slice).max(Ns::ZERO));
    let is_window = |slice: &SliceId| slices.ts(*slice) == window.start && span(*slice) == window;
    let names: HashSet<StringId> = slices.ids().filter(is_window).map(|slice| slices.name(slice)).collect();
    let of_gpu =
        slices.ids().filter(|slice| slices.category(*slice) == category && names.contains(&slices.name(*slice)));
    of_gpu.map(span).find(|span| span.start <= work.start && span.end >= work.end)
}

/// The same without the kernels by name.
pub(super) fn times(window: Window, spans: &GpuSpans<'_>) -> Summary {
    let (gpus, gpu_span) = (spans.gpus(), spans.work());
    let mut summary = Summary { window, gpu_span, gpus, wall: spans.length(), ..Summary::default() };
    for (Window { start, end }, all, counted) in spans.each() {
        summary.busy += all.busy(start, end);
        summary.compute += counted.compute.within(start, end);
        summary.collectives += counted.collectives.within(start, end);
        summary.exposed += counted.collectives.without(&all.compute, start, end);
    }
    summary
}

/// Kernels by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelTable {
    /// By time in all, the longest first; equal times by name.
    pub rows: Vec<KernelRow>,
    /// How many names there are in all.
    #[serde(rename = "kernel_names_found")]
    pub names: u64,
    /// How many kernels there are in all.
    pub kernels: u64,
    /// How long these ran.
    #[serde(rename = "time_ns")]
    pub time: Ns,
    /// What is wrong with the trace.
    pub damage: Losses,
}

/// Kernels by name: at most `limit` rows. `kernels` are names and lengths.
pub fn kernel_table(store: &Store, kernels: impl Iterator<Item = (StringId, Ns)>, limit: usize) -> KernelTable {
    let mut lengths: Vec<Vec<Ns>> = vec![Vec::new(); store.strings.len()];
    kernels.for_each(|(name, dur)| lengths[name.0 as usize].push(dur.max(Ns::ZERO)));
    let text = |id: usize| store.strings.get(StringId(id as u32)).unwrap_or_default();
    let with_total = |(id, lengths): (usize, Vec<Ns>)| (lengths.iter().copied().sum(), id, lengths);
    let all = lengths.into_iter().enumerate().filter(|(_, lengths)| !lengths.is_empty());
    let mut names: Vec<(Ns, usize, Vec<Ns>)> = all.map(with_total).collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| text(a.1).cmp(text(b.1))));
    let time = names.iter().map(|(total, ..)| *total).sum();
    let kernels = names.iter().map(|(.., lengths)| lengths.len() as u64).sum();
    let row = |(total, id, lengths): (Ns, usize, Vec<Ns>)| KernelRow {
        name: text(id).to_owned(),
        instances: lengths.len() as u64,
        share: total.share_of(time).unwrap_or(0.0),
        time: Distribution::from_times(lengths).unwrap_or_default(),
    };
    let damage = Losses::count(store);
    KernelTable {
        names: names.len() as u64,
        kernels,
        time,
        rows: names.into_iter().take(limit).map(row).collect(),
        damage,
    }
}
