//! The window as a whole: how busy its GPUs were, with what, and how much of the collectives no computation hid.

use serde::Serialize;

use super::cost::Distribution;
use super::losses::Losses;
use crate::attribution::exposure::GpuActivity;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::Window;

/// A window in numbers. Times in ns, summed over the GPUs. Of work that begins or ends outside the window, the part inside counts. What runs at
/// once on one GPU counts once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The window; the whole trace has its own start and end here.
    pub window: Window,
    /// How many GPUs ran kernels, anywhere in the trace.
    pub gpus: u64,
    /// The window's length times the number of GPUs: the other times are shares of this.
    #[serde(rename = "wall_ns")]
    pub wall: i64,
    /// When any kernel ran.
    #[serde(rename = "busy_ns")]
    pub busy: i64,
    /// When compute kernels ran.
    #[serde(rename = "compute_ns")]
    pub compute: i64,
    /// When collectives ran.
    #[serde(rename = "collectives_ns")]
    pub collectives: i64,
    /// When collectives ran and nothing else did.
    #[serde(rename = "exposed_ns")]
    pub exposed: i64,
    /// The kernels that ran longest in all, of those that start in the window.
    pub top_kernels: Vec<KernelRow>,
    /// How many different names these kernels have.
    #[serde(rename = "kernel_names_found")]
    pub kernel_names: u64,
}

/// All kernels of one name, as a row of `nsys stats -r cuda_gpu_kern_sum`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelRow {
    /// Their name.
    pub name: String,
    /// How many.
    pub instances: u64,
    /// How long they ran, in ns.
    pub time: Distribution,
    /// The share of the time of all kernels of the table.
    #[serde(rename = "share_of_kernels")]
    pub share: f64,
}

/// How many kernel names a summary has.
const TOP: usize = 5;

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
        let any = compute.saturating_add(exposed);
        for (sum, time) in [(busy, any), (computed, compute), (collected, collectives), (alone, exposed)] {
            *sum = sum.saturating_add(time);
        }
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

/// A window's length times the number of GPUs, in ns.
pub(crate) fn wall(activity: &GpuActivity, window: Window) -> i64 {
    window.duration().saturating_mul(activity.of.len() as i64)
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
    /// How long these ran, in ns.
    #[serde(rename = "time_ns")]
    pub time: i64,
    /// What is wrong with the trace.
    pub damage: Losses,
}

/// Kernels by name: at most `limit` rows. `kernels` are names and lengths in ns.
pub fn kernel_table(store: &Store, kernels: impl Iterator<Item = (StringId, i64)>, limit: usize) -> KernelTable {
    let mut lengths: Vec<Vec<i64>> = vec![Vec::new(); store.strings.len()];
    kernels.for_each(|(name, dur)| lengths[name.0 as usize].push(dur.max(0)));
    let text = |id: usize| store.strings.get(StringId(id as u32)).unwrap_or_default();
    let total = |lengths: &[i64]| lengths.iter().fold(0_i64, |sum, dur| sum.saturating_add(*dur));
    let with_total = |(id, lengths): (usize, Vec<i64>)| (total(&lengths), id, lengths);
    let all = lengths.into_iter().enumerate().filter(|(_, lengths)| !lengths.is_empty());
    let mut names: Vec<(i64, usize, Vec<i64>)> = all.map(with_total).collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| text(a.1).cmp(text(b.1))));
    let time = names.iter().fold(0_i64, |sum, (total, ..)| sum.saturating_add(*total));
    let kernels = names.iter().map(|(.., lengths)| lengths.len() as u64).sum();
    let row = |(total, id, lengths): (i64, usize, Vec<i64>)| KernelRow {
        name: text(id).to_owned(),
        instances: lengths.len() as u64,
        share: if time > 0 { total as f64 / time as f64 } else { 0.0 },
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
