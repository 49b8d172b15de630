//! The window as a whole: how busy its GPUs were, with what, and how much of the collectives no computation hid.

use serde::{Deserialize, Serialize};

use super::cost::Distribution;
use super::losses::Losses;
use crate::attribution::exposure::GpuActivity;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// A window in numbers. Times are summed over the GPUs. Of work that begins or ends outside the window, the part inside counts. What runs at
/// once on one GPU counts once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The window; the whole trace has its own start and end here.
    pub window: Window,
    /// How many GPUs ran kernels, anywhere in the trace.
    pub gpus: u64,
    /// The window's length times the number of GPUs: the other times are shares of this.
    #[serde(rename = "wall_ns")]
    pub wall: Ns,
    /// When any kernel ran.
    #[serde(rename = "busy_ns")]
    pub busy: Ns,
    /// When compute kernels ran.
    #[serde(rename = "compute_ns")]
    pub compute: Ns,
    /// When collectives ran.
    #[serde(rename = "collectives_ns")]
    pub collectives: Ns,
    /// When collectives ran and nothing else did.
    #[serde(rename = "exposed_ns")]
    pub exposed: Ns,
    /// The kernels that ran longest in all, of those that start in the window.
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
        let Window { start, end } = other.window;
        self.window = Window { start: self.window.start.min(start), end: self.window.end.max(end) };
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

/// Sums up a window.
pub(crate) fn summarise(store: &Store, activity: &GpuActivity, window: Window) -> Summary {
    let window = within_trace(store, window);
    let gpus = activity.of.len() as u64;
    let mut summary = Summary { window, gpus, wall: wall(activity, window), ..Summary::default() };
    for device in activity.of.values() {
        let (start, end) = (window.start, window.end);
        let compute = device.compute.within(start, end);
        let exposed = device.collectives.without(&device.compute, start, end);
        let collectives = device.collectives.within(start, end);
        let Summary { busy, compute: computed, collectives: collected, exposed: alone, .. } = &mut summary;
        *busy += compute + exposed;
        *computed += compute;
        *collected += collectives;
        *alone += exposed;
    }
    let slices = &store.slices;
    let kernels = store.kernels.iter().copied();
    let inside = kernels.filter(|kernel| window.contains(slices.ts(*kernel)));
    let table = kernel_table(store, inside.map(|kernel| (slices.name(kernel), slices.dur(kernel))), TOP);
    (summary.top_kernels, summary.kernel_names) = (table.rows, table.names);
    summary
}

/// The window itself, or the span of the trace if the window is all of it.
pub fn within_trace(store: &Store, window: Window) -> Window {
    if window == Window::ALL { store.span } else { window }
}

/// A window's length times the number of GPUs.
pub(crate) fn wall(activity: &GpuActivity, window: Window) -> Ns {
    Ns(window.duration().0.saturating_mul(activity.of.len() as i64))
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
        time: Distribution::of(lengths).unwrap_or_default(),
    };
    let damage = Losses::of(store);
    KernelTable {
        names: names.len() as u64,
        kernels,
        time,
        rows: names.into_iter().take(limit).map(row).collect(),
        damage,
    }
}
