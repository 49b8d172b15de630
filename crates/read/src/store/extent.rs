//! The time range of slices.

use super::slices::Slices;
use super::tracks::{Track, Tracks};
use crate::id::{SliceId, TrackId};
use crate::names::category::CategoryKind;
use crate::time::{Ns, Window};

/// A call that ends later than the last start of anything by more than this many times what all starts span is not waited for: a call of ten minutes in a recording of
/// milliseconds. In 24 real traces that is at most a 25th of the span.
const LONGEST: i64 = 10;

/// The first start and the last end of some slices, with and without instants. See [`super::Store::bounds`] and [`super::Store::span`]. Every slice of a trace is added, so
/// that nothing here is an option: without slices, starts are after ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    all: Window,
    /// Of the slices that count: their starts, and the last end of those that are no calls.
    starts: Window,
    work_end: Ns,
    /// The last end of calls.
    call_end: Ns,
}

/// Of no slices.
const NOTHING: Window = Window { start: Ns::MAX, end: Ns::MIN };

impl Default for Extent {
    fn default() -> Self {
        Extent { all: NOTHING, starts: NOTHING, work_end: Ns::MIN, call_end: Ns::MIN }
    }
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
            *last = (*last).max(end);
        }
    }

    /// Marks a slice as a kernel, which counts even if it is an instant.
    pub(super) fn add_kernel(&mut self, start: Ns) {
        widen(&mut self.starts, start, start);
        self.work_end = self.work_end.max(start + Ns(1));
    }

    /// Includes all slices of another extent.
    pub(super) fn join(&mut self, other: &Extent) {
        widen(&mut self.all, other.all.start, other.all.end);
        widen(&mut self.starts, other.starts.start, other.starts.end);
        self.work_end = self.work_end.max(other.work_end);
        self.call_end = self.call_end.max(other.call_end);
    }

    /// The range of all slices; at least 1 ns.
    pub(super) fn bounds(&self) -> Window {
        if self.all == NOTHING {
            return Window::default();
        }
        Window { end: self.all.end.max(self.all.start + Ns(1)), ..self.all }
    }

    /// The range of the slices that count; the bounds if there are none.
    pub(super) fn span(&self) -> Window {
        let Extent { starts, work_end, call_end, .. } = *self;
        if starts == NOTHING {
            return self.bounds();
        }
        let latest = starts.end + Ns(starts.duration().0.saturating_mul(LONGEST)).max(Ns(1));
        let has_no_work = work_end == Ns::MIN;
        let end = if has_no_work || call_end <= latest { call_end.max(work_end) } else { work_end };
        Window { start: starts.start, end: end.max(starts.end).max(starts.start + Ns(1)) }
    }
}

#[inline]
fn widen(window: &mut Window, start: Ns, end: Ns) {
    *window = Window { start: window.start.min(start), end: window.end.max(end) };
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
