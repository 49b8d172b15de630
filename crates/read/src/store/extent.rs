//! The time range of slices.

use super::slices::Slices;
use super::tracks::{Track, Tracks};
use crate::id::{SliceId, TrackId};
use crate::names::category::CategoryKind;
use crate::time::{Ns, Window};

/// A call that ends later than the last start of anything by more than this many times what all starts span is not waited for: a call of ten minutes in a recording of
/// milliseconds. In 24 real traces that is at most a 25th of the span.
const LONGEST: i64 = 10;

/// The first start and the last end of some slices, with and without instants. See [`super::Store::bounds`] and [`super::Store::span`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    all: Option<Window>,
    /// Of the slices that count: their starts, and the last end of those that are no calls.
    starts: Option<Window>,
    work_end: Option<Ns>,
    /// The last end of calls.
    call_end: Option<Ns>,
}

/// What counts for the span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// Neither kernels nor calls of threads that launch them, such as what a data loader does.
    No,
    Call,
    Work,
}

impl Extent {
    /// Includes a slice.
    #[inline]
    pub(super) fn add(&mut self, start: Ns, dur: Ns, counts: Counts) {
        let end = start + dur.max(Ns::ZERO);
        widen(&mut self.all, start, end);
        if dur != Ns::ZERO && counts != Counts::No {
            widen(&mut self.starts, start, start);
            let last = if counts == Counts::Call { &mut self.call_end } else { &mut self.work_end };
            *last = (*last).max(Some(end));
        }
    }

    /// Marks a slice as a kernel, which counts even if it is an instant.
    pub(super) fn add_kernel(&mut self, start: Ns) {
        widen(&mut self.starts, start, start);
        self.work_end = self.work_end.max(Some(start + Ns(1)));
    }

    /// Includes all slices of another extent.
    pub(super) fn join(&mut self, other: &Extent) {
        for (mine, theirs) in [(&mut self.all, other.all), (&mut self.starts, other.starts)] {
            if let Some(Window { start, end }) = theirs {
                widen(mine, start, end);
            }
        }
        self.work_end = self.work_end.max(other.work_end);
        self.call_end = self.call_end.max(other.call_end);
    }

    /// The range of all slices; at least 1 ns.
    pub(super) fn bounds(&self) -> Window {
        self.all.map_or(Window::default(), |all| Window { end: all.end.max(all.start + Ns(1)), ..all })
    }

    /// The range of the slices that count; the bounds if there are none.
    pub(super) fn span(&self) -> Window {
        let Some(starts) = self.starts else { return self.bounds() };
        let latest = starts.end + Ns(starts.duration().0.saturating_mul(LONGEST)).max(Ns(1));
        let call_end = self.call_end.filter(|end| self.work_end.is_none() || *end <= latest);
        let end = call_end.max(self.work_end).unwrap_or_default().max(starts.end).max(starts.start + Ns(1));
        Window { start: starts.start, end }
    }
}

fn widen(window: &mut Option<Window>, start: Ns, end: Ns) {
    let known = window.get_or_insert(Window { start, end });
    *known = Window { start: known.start.min(start), end: known.end.max(end) };
}

/// What counts, by track.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Whether it belongs to a thread that calls the GPU's runtime, or to a trace without kernels or without such calls.
    is_of_launching: Vec<bool>,
}

impl Counted {
    pub(super) fn find(tracks: &Tracks, slices: &Slices, kernels: &[SliceId], runtime_calls: &[SliceId]) -> Self {
        let traces = tracks.tracks.iter().map(|track| track.trace.row() + 1).max().unwrap_or_default();
        let (mut has_kernels, mut has_calls) = (vec![false; traces], vec![false; traces]);
        let mut launches = vec![false; tracks.threads.len()];
        let trace = |slice: SliceId| tracks.track(slices.track(slice)).trace.row();
        kernels.iter().for_each(|kernel| has_kernels[trace(*kernel)] = true);
        for call in runtime_calls {
            has_calls[trace(*call)] = true;
            if let Some(thread) = tracks.thread_of(slices.track(*call)) {
                launches[thread.row()] = true;
            }
        }
        let is_of_launching = |track: &Track| {
            let has_both = has_kernels[track.trace.row()] && has_calls[track.trace.row()];
            !has_both || track.owner.thread().is_some_and(|thread| launches[thread.row()])
        };
        Counted { is_of_launching: tracks.tracks.iter().map(is_of_launching).collect() }
    }

    #[inline]
    pub(super) fn counts(&self, kind: CategoryKind, track: TrackId) -> Counts {
        match kind {
            CategoryKind::Kernel | CategoryKind::Gpu => Counts::Work,
            CategoryKind::Runtime => Counts::Call,
            CategoryKind::Frame | CategoryKind::Cpu if self.is_of_launching[track.row()] => Counts::Call,
            CategoryKind::Frame | CategoryKind::Cpu => Counts::No,
        }
    }
}
