//! The time range of slices.

use super::slices::Slices;
use super::tracks::{Track, Tracks};
use crate::id::{SliceId, TrackId};
use crate::names::category::CategoryKind;
use crate::time::{Ns, Window};

/// A call that ends later than the last start of anything by more than this many times what all starts span is not waited for: a call of ten minutes in a recording of
/// milliseconds. In 24 real traces that is at most a 25th of the span.
const LONGEST: i64 = 10;

/// The first start and the last end of some slices, with and without instants. See [`super::Store::bounds`] and [`super::Store::span`]. Without slices, starts are after
/// ends.
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
    No = 0,
    Call = 1,
    Work = 2,
}

/// The last ends of slices, by what counts ([`Counts`]).
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends([Ns; 3]);

impl Default for Ends {
    fn default() -> Self {
        Ends([Ns::MIN; 3])
    }
}

impl Ends {
    /// Includes a slice. Its times are those of an event that was read, so that their sum fits.
    #[inline]
    pub(super) fn add(&mut self, start: Ns, dur: Ns, counts: Counts) {
        let last = &mut self.0[if dur == Ns::ZERO { Counts::No } else { counts } as usize];
        *last = (*last).max(Ns(start.0 + dur.0.max(0)));
    }

    /// As [`Extent::add_kernel`].
    #[inline]
    pub(super) fn add_kernel(&mut self, start: Ns) {
        self.0[Counts::Work as usize] = self.0[Counts::Work as usize].max(start + Ns(1));
    }

    pub(super) fn join(&mut self, other: Ends) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine = (*mine).max(theirs));
    }
}

impl Extent {
    /// Of slices with these ends. As ids follow the order of starts, only the first and the last slices are looked at for these.
    pub(super) fn find(ends: Ends, slices: &Slices, counts: impl Fn(SliceId) -> bool) -> Self {
        let Ends([_, call_end, work_end]) = ends;
        let start = |slice: Option<SliceId>| slice.map(|slice| slices.ts(slice));
        let window = |first: Option<Ns>, last: Option<Ns>| match first.zip(last) {
            Some((start, end)) => Window { start, end },
            None => NOTHING,
        };
        let starts =
            window(start(slices.ids().find(|id| counts(*id))), start(slices.ids().rev().find(|id| counts(*id))));
        let last_start = start(slices.ids().next_back());
        let all = window(start(slices.ids().next()), ends.0.into_iter().max().max(last_start));
        Extent { all, starts, work_end, call_end }
    }

    /// Includes a slice. Its times are those of an event that was read, so that their sum fits.
    #[inline]
    pub(super) fn add(&mut self, start: Ns, dur: Ns, counts: Counts) {
        let end = Ns(start.0 + dur.0.max(0));
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
