//! What slices there are: the names and kinds of their categories, the time range of those that count, and strays.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::Range;

use super::Name;
use super::order::Segment;
use super::slices::{Rows, Slices};
use super::strings::{StringId, Strings};
use super::tracks::{Track, Tracks};
use crate::id::{SliceId, TrackId};
use crate::names::category::CategoryKind;
use crate::parallel::in_parts;
use crate::time::{Ns, Window};

/// A call that ends later than the last start of anything by more than this many times what all starts span, and by more than [`APART`], is not waited for: a call of ten minutes in a
/// recording of milliseconds. In 24 real traces that is at most a 25th of the span.
const LONGEST: i64 = 10;

/// The first start and the last ends of some slices, see [`super::Store::bounds`] and [`super::Store::span`]. Without slices, starts are after ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    first: Ns,
    /// The first and the last start of the slices that count.
    starts: Window,
    ends: Ends,
}

/// Of no slices.
const NOTHING: Window = Window { start: Ns::MAX, end: Ns::MIN };

impl Default for Extent {
    fn default() -> Self {
        Extent { first: Ns::MAX, starts: NOTHING, ends: Ends::default() }
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
        let start = |slice: SliceId| slices.ts(slice);
        let counted = slices.ids().find(|id| counts(*id)).zip(slices.ids().rev().find(|id| counts(*id)));
        let starts = counted.map_or(NOTHING, |(first, last)| Window { start: start(first), end: start(last) });
        Extent { first: slices.ids().next().map_or(Ns::MAX, start), starts, ends }
    }

    #[inline]
    pub(super) fn add(&mut self, start: Ns, dur: Ns, counts: Counts) {
        self.first = self.first.min(start);
        if dur != Ns::ZERO && counts != Counts::No {
            self.widen(start);
        }
        self.ends.add(start, dur, counts);
    }

    /// Marks a slice as a kernel, which counts even if it is an instant.
    pub(super) fn add_kernel(&mut self, start: Ns) {
        self.widen(start);
        self.ends.add_kernel(start);
    }

    fn widen(&mut self, start: Ns) {
        self.starts = Window { start: self.starts.start.min(start), end: self.starts.end.max(start) };
    }

    /// The range of all slices; at least 1 ns.
    pub(super) fn bounds(&self) -> Window {
        if self.first == Ns::MAX {
            return Window::default();
        }
        let end = self.ends.0.into_iter().fold(self.first + Ns(1), Ns::max);
        Window { start: self.first, end }
    }

    /// The range of the slices that count; the bounds if there are none.
    pub(super) fn span(&self) -> Window {
        let Extent { starts, ends: Ends([_, call_end, work_end]), .. } = *self;
        if starts == NOTHING {
            return self.bounds();
        }
        let latest = starts.end + Ns(starts.duration().0.saturating_mul(LONGEST)).max(Ns(APART));
        let has_no_work = work_end == Ns::MIN;
        let end = if has_no_work || call_end <= latest { call_end.max(work_end) } else { work_end };
        Window { start: starts.start, end: end.max(starts.end).max(starts.start + Ns(1)) }
    }
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

/// At most one in so many slices is a stray, or one in all. Slices at time 0 may be more.
const ONE_IN: usize = 100;

/// So many slices, at equal distances in the file, show whether there may be any.
const SAMPLES: usize = 1_024;

/// Strays are at least so many ns from all others: what is nearer may be a short recording's own wait.
const APART: i64 = 1_000_000_000;

/// What a few slices say about each other proves nothing.
const ENOUGH: usize = 10;

/// So many slices after a call are asked whether they are within it.
const LOOKED_AT: usize = 64;

/// The rows of a trace that are strays, in order: slices that cannot be when they say, alone, farther from all others than these are long; and kernels that
/// cannot be as long as they say. `kind` is what a row is: kernels of no length count as well.
///
/// CUPTI writes 0 for a time that it did not collect, and one such kernel makes a window of 56 years, in which every share is 0.0 %. A recording is
/// one stretch of time, or a few that were joined. So a few slices apart from everything by more than everything takes are no part of it. Calls within
/// each other are: one wrong time would not be in the other. A barrier two minutes after the last step is of that recording.
pub(super) fn strays(rows: &Rows, segments: &[Segment], kind: impl Fn(usize) -> CategoryKind) -> Vec<u32> {
    let all = || segments.iter().flat_map(|segment| segment.rows.clone()).map(|row| row as usize);
    let count: usize = segments.iter().map(|segment| segment.rows.len()).sum();
    let sampled = all().step_by((count / SAMPLES).max(1)).map(|row| rows.ts[row]);
    let mut samples: Vec<i64> = sampled.filter(|ts| *ts != 0).collect();
    samples.sort_unstable();
    // At most one of a few may be a stray itself.
    let edge = (samples.len() / ONE_IN).max(usize::from(samples.len() >= ENOUGH));
    let (Some(low), Some(high)) = (samples.get(edge), samples.iter().rev().nth(edge)) else { return Vec::new() };
    let length = (high - low).max(APART);
    if count < ENOUGH {
        return Vec::new();
    }
    let mut strays = too_long(rows, all, length, &kind);
    let mut times = segments.iter().map(|segment| &rows.ts[segment.rows.start as usize..segment.rows.end as usize]);
    // One comparison decides for each: what is before the first time wraps around.
    let (first, span) = (low.saturating_sub(length), 2 * length as u64 + (high - low) as u64);
    let is_far = |ts: &i64| ts.wrapping_sub(first) as u64 > span;
    if times.any(|of| of.iter().any(is_far)) {
        // By start: the start, the end and the row of each.
        let span = |row: usize| (rows.ts[row], rows.ts[row].saturating_add(rows.dur.get(row).max(0)), row as u32);
        let counts = |row: &usize| rows.dur.get(*row) != 0 || kind(*row) == CategoryKind::Kernel;
        let mut spans: Vec<(i64, i64, u32)> = all().filter(counts).map(span).collect();
        spans.retain(|(.., row)| !strays.contains(row));
        spans.sort_unstable();
        let kept = without_strays(&spans);
        let apart = [&spans[..kept.start], &spans[kept.end..]].concat();
        let proven = within_each_other(rows, &apart, &kind);
        let is_near = |(start, end): (i64, i64), of: &Window| start < of.end.0 + APART && end > of.start.0 - APART;
        let is_stray = |(start, end, _): &&(i64, i64, u32)| !proven.iter().any(|of| is_near((*start, *end), of));
        strays.extend(apart.iter().filter(is_stray).map(|(.., row)| *row));
    }
    strays.sort_unstable();
    strays
}

/// The kernels that are longer than the whole trace by far, although others begin on their stream before they end.
fn too_long<I: Iterator<Item = usize>>(
    rows: &Rows,
    all: impl Fn() -> I,
    length: i64,
    kind: impl Fn(usize) -> CategoryKind,
) -> Vec<u32> {
    let least = length.saturating_mul(LONGEST);
    let is_kernel = |row: &usize| kind(*row) == CategoryKind::Kernel;
    let long = all().filter(|row| rows.dur.get(*row) > least).filter(is_kernel);
    let is_followed = |row: &usize| {
        let is_later = |next: usize| rows.track[next] == rows.track[*row] && rows.ts[next] > rows.ts[*row];
        all().any(|next| is_later(next) && rows.ts[next] - rows.ts[*row] < rows.dur.get(*row) && is_kernel(&next))
    };
    long.take(ENOUGH).filter(is_followed).map(|row| row as u32).collect()
}

/// The times of calls of a thread that have others within them.
fn within_each_other(rows: &Rows, spans: &[(i64, i64, u32)], kind: impl Fn(usize) -> CategoryKind) -> Vec<Window> {
    let is_of_thread =
        |row: u32| matches!(kind(row as usize), CategoryKind::Runtime | CategoryKind::Frame | CategoryKind::Cpu);
    let calls: Vec<(i64, i64, u32)> =
        spans.iter().copied().filter(|(start, _, row)| *start > 0 && is_of_thread(*row)).collect();
    let has_within = |(at, (start, end, row)): (usize, &(i64, i64, u32))| {
        let track = rows.track[*row as usize];
        let mut later = calls[at + 1..].iter().take_while(|next| next.0 < *end).take(LOOKED_AT);
        let is_within = |next: &(i64, i64, u32)| {
            rows.track[next.2 as usize] == track && next.0 > *start && next.1 <= *end && next.0 < next.1
        };
        later.any(is_within).then_some(Window { start: Ns(*start), end: Ns(*end) })
    };
    calls.iter().enumerate().filter_map(has_within).collect()
}

/// Which of these spans, by start, are no strays.
fn without_strays(spans: &[(i64, i64, u32)]) -> Range<usize> {
    let few = (spans.len() / ONE_IN).max(1);
    let mut kept = 0..spans.len();
    let mut end = i64::MIN;
    for at in 1..spans.len() {
        let (is_zero, start) = (spans[at - 1].0 == 0, spans[at].0);
        // From a start that was not collected to a true end is no length.
        end = end.max(if is_zero { 0 } else { spans[at - 1].1 });
        if at > few && !is_zero {
            break;
        }
        let rest = spans[spans.len() - 1 - few.min(spans.len() - 1 - at)].1.saturating_sub(start);
        if start.saturating_sub(end) > rest.max(0) && at * 2 < spans.len() {
            kept.start = at;
        }
    }
    let mut latest: Vec<i64> = spans[kept.start..].iter().map(|(_, end, _)| *end).collect();
    for at in 1..latest.len() {
        latest[at] = latest[at].max(latest[at - 1]);
    }
    let first = spans.get(kept.start).map_or(0, |(start, ..)| *start);
    for at in (spans.len().saturating_sub(few).max(kept.start + 1)..spans.len()).rev() {
        let before = latest[at - 1 - kept.start];
        if spans[at].0.saturating_sub(before) > before.saturating_sub(first) {
            kept.end = at;
        }
    }
    kept
}

/// The segments without these rows, which are in order. All events between two rows stay.
pub(super) fn without(segments: Vec<Segment>, rows_before: impl Fn(u32) -> u32, strays: &[u32]) -> Vec<Segment> {
    let mut parts = Vec::with_capacity(segments.len() + strays.len());
    for mut segment in segments {
        for stray in strays.iter().copied().filter(|row| segment.rows.contains(row)).collect::<Vec<_>>() {
            let marks = segment.marks.clone();
            let split = marks.clone().find(|mark| rows_before(*mark) > stray).unwrap_or(marks.end);
            parts.push(Segment { trace: segment.trace, rows: segment.rows.start..stray, marks: marks.start..split });
            segment = Segment { trace: segment.trace, rows: stray + 1..segment.rows.end, marks: split..marks.end };
        }
        parts.push(segment);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(spans: &[(i64, i64)]) -> Range<usize> {
        without_strays(&spans.iter().zip(0..).map(|((start, end), row)| (*start, *end, row)).collect::<Vec<_>>())
    }

    #[test]
    fn a_slice_apart_from_all_others_is_a_stray() {
        assert_eq!(kept(&[(0, 0), (1_000, 1_010), (1_020, 1_030), (1_050, 1_060)]), 1..4);
        assert_eq!(kept(&[(1_000, 1_010), (1_020, 1_030), (1_050, 1_060), (9_000, 9_001)]), 0..3);
        // Near by, or joined to the others by one that runs all the time.
        assert_eq!(kept(&[(970, 975), (1_000, 1_010), (1_020, 1_030), (1_050, 1_060)]), 0..4);
        assert_eq!(kept(&[(1, 990), (1_000, 1_010), (1_020, 1_030), (1_050, 1_060)]), 0..4);
        // A start that was not collected, of a slice whose end was.
        assert_eq!(kept(&[(0, 1_010), (1_000, 1_010), (1_020, 1_030), (1_050, 1_060)]), 1..4);
        // Two recordings in one file.
        assert_eq!(kept(&[(10, 20), (20, 30), (9_000, 9_010), (9_010, 9_020)]), 0..4);
    }

    #[test]
    fn many_without_a_time_are_strays() {
        let mut spans = vec![(0, 0); 4];
        spans.extend((0..6).map(|at| (1_000_000 + at * 10, 1_000_005 + at * 10)));
        assert_eq!(kept(&spans), 4..10);
        // Half of all says nothing about the rest.
        spans.truncate(8);
        assert_eq!(kept(&spans), 0..8);
    }
}
