//! What slices there are: the names and kinds of their categories, found in one pass over the rows, and the time range of those that count.

use std::collections::BTreeSet;
use std::num::NonZero;

use super::Name;
use super::slices::{Rows, Slices};
use super::strings::{StringId, Strings};
use super::tracks::{Track, Tracks};
use crate::id::{SliceId, TrackId};
use crate::names::category::CategoryKind;
use crate::parallel::in_parts;
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

/// The kind of each text as a category, by [`StringId`].
pub(super) fn category_kinds(categories: &BTreeSet<StringId>, strings: &Strings) -> Vec<CategoryKind> {
    let mut kinds = vec![CategoryKind::Cpu; categories.last().map_or(1, |id| id.0 as usize + 1)];
    for id in categories {
        kinds[id.0 as usize] = strings.get(*id).map_or(CategoryKind::Cpu, CategoryKind::from_name);
    }
    kinds
}

/// The minimum number of rows per thread.
const MIN_ROWS: usize = 1 << 16;

/// The names of slices, and their last ends.
#[derive(Default)]
pub(super) struct Named {
    /// See [`super::Store::names`]; indexed by [`StringId`] until the end.
    pub(super) names: Vec<Name>,
    pub(super) ends: Ends,
}

impl Named {
    /// Takes all rows except the dropped ones, which are sorted. `kinds` is indexed by category.
    pub(super) fn find(
        rows: &Rows,
        dropped: &[u32],
        kinds: &[CategoryKind],
        counted: &Counted,
        threads: NonZero<usize>,
    ) -> Self {
        let parts = in_parts(rows.len(), MIN_ROWS, threads, |part| {
            let (first, last) = (part.start, part.end);
            let from = dropped.partition_point(|row| (*row as usize) < first);
            let (mut named, mut dropped) = (Named::default(), dropped[from..].iter().peekable());
            for row in first..last {
                if dropped.next_if(|dropped| **dropped as usize == row).is_none() {
                    named.add(rows, row, kinds, counted);
                }
            }
            named
        });
        let mut named = parts.into_iter().reduce(Named::join).unwrap_or_default();
        named.names.retain(|name| name.id != StringId::NULL && (name.of_kernel || name.of_cpu || name.of_gpu));
        named
    }

    #[inline]
    fn add(&mut self, rows: &Rows, row: usize, kinds: &[CategoryKind], counted: &Counted) {
        let (ts, kind) = (Ns(rows.ts[row]), kinds[rows.category[row].0 as usize]);
        self.ends.add(ts, Ns(rows.dur.get(row)), counted.counts(kind, TrackId(rows.track[row])));
        let id = rows.name[row].0 as usize;
        self.make_room_for(id + 1);
        let name = &mut self.names[id];
        match kind {
            CategoryKind::Kernel => {
                name.of_kernel = true;
                self.ends.add_kernel(ts);
            }
            CategoryKind::Runtime | CategoryKind::Frame | CategoryKind::Cpu => name.of_cpu = true,
            CategoryKind::Gpu => name.of_gpu = true,
        }
    }

    fn make_room_for(&mut self, names: usize) {
        let known = self.names.len();
        self.names.extend((known..names).map(|id| Name { id: StringId(id as u32), ..Name::default() }));
    }

    fn join(mut self, other: Named) -> Self {
        self.make_room_for(other.names.len());
        for (name, more) in self.names.iter_mut().zip(other.names) {
            name.of_kernel |= more.of_kernel;
            name.of_cpu |= more.of_cpu;
            name.of_gpu |= more.of_gpu;
        }
        self.ends.join(other.ends);
        self
    }
}
