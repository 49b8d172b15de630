//! The time spans that shares refer to: on each GPU, from the first start to the last end of the work launched in a window.
//!
//! A scheduler that runs ahead launches a step while the GPU still runs the previous one. Then the time the CPU spent in the step does not measure
//! what the GPU did for it. So a window chosen by launches is measured on the GPU, over the work launched in it, on all streams and including kernels
//! that the question does not ask for.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::FixedState;

use crate::attribution::busy::Busy;
use crate::attribution::exposure::{Activity, GpuActivity};
use crate::attribution::launches;
use crate::attribution::launches::{Launched, WindowOn};
use crate::id::{GpuId, SliceId};
use crate::store::Store;
use crate::time::{Ns, Window};

/// The span of each GPU, and the activity to measure in it.
#[derive(Debug)]
pub(crate) struct GpuSpans<'a> {
    of: BTreeMap<GpuId, Window>,
    all: &'a GpuActivity,
    /// The work launched in the window, if the window is measured by it.
    own: Option<Own>,
}

/// The work launched in a window.
#[derive(Debug)]
struct Own {
    kernels: HashSet<SliceId, FixedState>,
    activity: GpuActivity,
}

impl<'a> GpuSpans<'a> {
    /// The spans of the work launched in a window. For the whole trace, for a window on kernel starts, and if nothing was launched: the window
    /// itself, with everything that runs in it.
    pub(crate) fn find(store: &Store, all: &'a GpuActivity, window: Window, on: WindowOn) -> Self {
        let whole = within_trace(store, window);
        let same = || GpuSpans { of: all.of.keys().map(|gpu| (*gpu, whole)).collect(), all, own: None };
        if !is_by_launches(window, on) {
            return same();
        }
        let launches = launches::for_work(store, store.kernels.clone());
        let own = launched_in(store, &launches.kernels, window);
        if own.is_empty() { same() } else { GpuSpans::of_kernels(store, all, own) }
    }

    /// The spans of these kernels, which must be in order.
    pub(super) fn of_kernels(store: &Store, all: &'a GpuActivity, own: Vec<SliceId>) -> Self {
        let activity = all.of_kernels(store, own.iter().copied());
        let of = spans_of(store, &own);
        GpuSpans { of, all, own: Some(Own { kernels: own.into_iter().collect(), activity }) }
    }

    /// The span around all GPUs' spans; `None` if the spans are the window itself.
    pub(crate) fn work(&self) -> Option<Window> {
        self.own.as_ref().and_then(|_| self.of.values().copied().reduce(Window::around))
    }

    /// Each GPU's span, all activity on it, and the activity that counts.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Window, &Activity, &Activity)> {
        let counted = self.own.as_ref().map_or(self.all, |own| &own.activity);
        self.of.iter().filter_map(|(gpu, span)| Some((*span, self.all.of.get(gpu)?, counted.of.get(gpu)?)))
    }

    pub(crate) fn count(&self, store: &Store, kernel: SliceId) -> bool {
        match &self.own {
            Some(own) => own.kernels.contains(&kernel),
            None => self.on(store.gpu_of(kernel)).contains(store.slices.ts(kernel)),
        }
    }

    /// How long any of the kernels, each with its time, ran within the spans. Kernels that overlap on one GPU count once.
    pub(crate) fn busy(&self, store: &Store, kernels: impl Iterator<Item = (SliceId, Ns)>) -> Ns {
        let mut by_gpu: BTreeMap<GpuId, Vec<(Ns, Ns)>> = BTreeMap::new();
        for (kernel, time) in kernels {
            by_gpu.entry(store.gpu_of(kernel)).or_default().push((store.slices.ts(kernel), time));
        }
        let of_gpu = |(gpu, spans): (GpuId, Vec<(Ns, Ns)>)| {
            let Window { start, end } = self.on(gpu);
            Busy::from_spans(spans).within(start, end)
        };
        by_gpu.into_iter().map(of_gpu).sum()
    }

    /// For how long something was the case on a GPU while no kernel ran on it.
    pub(super) fn idle_with(&self, of: impl Iterator<Item = (GpuId, Window)>) -> Ns {
        let mut by_gpu: BTreeMap<GpuId, Vec<(Ns, Ns)>> = BTreeMap::new();
        for (gpu, Window { start, end }) in of.filter(|(_, of)| of.start < of.end) {
            by_gpu.entry(gpu).or_default().push((start, end - start));
        }
        let of_gpu = |(gpu, mut spans): (GpuId, Vec<(Ns, Ns)>)| {
            spans.sort_unstable();
            let (Window { start, end }, ran) = (self.on(gpu), self.all.of.get(&gpu)?.any());
            Some(Busy::from_spans(spans).without(&ran, start, end))
        };
        by_gpu.into_iter().filter_map(of_gpu).sum()
    }

    /// The span of a GPU; empty if it ran none of the work.
    pub(super) fn on(&self, gpu: GpuId) -> Window {
        self.of.get(&gpu).copied().unwrap_or(Window { start: Ns::ZERO, end: Ns::ZERO })
    }

    pub(crate) fn gpus(&self) -> u64 {
        self.of.len() as u64
    }

    pub(crate) fn length(&self) -> Ns {
        self.of.values().map(|span| span.duration()).sum()
    }
}

/// Whether a window is measured by the work launched in it: not for the whole trace, nor for a window on kernel starts.
pub(crate) fn is_by_launches(window: Window, on: WindowOn) -> bool {
    window != Window::ALL && on == WindowOn::Launch
}

/// The kernels launched in a window. Kernels without a launch count only if no kernel has one.
pub(crate) fn launched_in(store: &Store, kernels: &[Launched], window: Window) -> Vec<SliceId> {
    let inside = || kernels.iter().filter(|launched| window.contains(launched.at(store, WindowOn::Launch)));
    let has_calls = inside().any(|launched| launched.call.is_some());
    inside().filter(|launched| launched.call.is_some() == has_calls).map(|launched| launched.kernel).collect()
}

/// On each GPU, from the first start to the last end of these kernels.
pub(crate) fn spans_of(store: &Store, kernels: &[SliceId]) -> BTreeMap<GpuId, Window> {
    let mut of: BTreeMap<GpuId, Window> = BTreeMap::new();
    for kernel in kernels.iter().copied() {
        let span = store.slices.window(kernel);
        of.entry(store.gpu_of(kernel)).and_modify(|known| *known = known.around(span)).or_insert(span);
    }
    of
}

/// The window itself, or the span of the trace if the window is all of it.
pub(crate) fn within_trace(store: &Store, window: Window) -> Window {
    if window == Window::ALL { store.span } else { window }
}
