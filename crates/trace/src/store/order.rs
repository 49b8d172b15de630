//! Perfetto's order of events: by time; at equal times ends first, then slices from longest to shortest, then the rest; otherwise by file order.
//!
//! There is one exception, due to how Perfetto streams: while a file is in time order and has had no `X`, events at equal times also stay in file
//! order. [`OrderWatch`] determines during reading up to which time that holds.

use std::ops::Range;

use super::raw::{Mark, RawKind};
use super::slices::Rows;
use crate::id::TrackId;
use crate::names::category::CategoryKind;

/// Determines from event times up to when a segment of the file keeps its order.
#[derive(Debug, Clone)]
pub(super) struct OrderWatch {
    /// The time of the first event, and whether it is an `X`.
    first: Option<(i64, bool)>,
    earliest: i64,
    latest: i64,
    seen_complete: bool,
    /// The time in ns from which events at equal times are reordered: if no `X` precedes the segment, and if one does.
    reorder_from: [i64; 2],
}

impl Default for OrderWatch {
    fn default() -> Self {
        OrderWatch {
            first: None,
            earliest: i64::MAX,
            latest: i64::MIN,
            seen_complete: false,
            reorder_from: [i64::MAX, i64::MAX],
        }
    }
}

impl OrderWatch {
    #[inline]
    pub(super) fn observe(&mut self, ts: i64, is_complete: bool) {
        self.seen_complete |= is_complete;
        if self.first.is_none() {
            self.first = Some((ts, is_complete));
        } else if ts <= self.latest {
            self.observe_late(ts);
        }
        self.earliest = self.earliest.min(ts);
        self.latest = self.latest.max(ts);
    }

    fn observe_late(&mut self, ts: i64) {
        let is_late = ts < self.latest;
        for (seen_before, reorder_from) in [false, true].into_iter().zip(&mut self.reorder_from) {
            if is_late || seen_before || self.seen_complete {
                *reorder_from = ts.min(*reorder_from);
            }
        }
    }

    pub(super) fn append(&mut self, next: &OrderWatch) {
        let Some((first, first_is_complete)) = next.first else { return };
        if self.first.is_none() {
            *self = next.clone();
            return;
        }
        for (seen_before, reorder_from) in [false, true].into_iter().zip(&mut self.reorder_from) {
            let seen = seen_before || self.seen_complete;
            if next.earliest < self.latest || (first == self.latest && (seen || first_is_complete)) {
                *reorder_from = next.earliest.min(*reorder_from);
            }
            *reorder_from = next.reorder_from[usize::from(seen)].min(*reorder_from);
        }
        self.seen_complete |= next.seen_complete;
        self.earliest = self.earliest.min(next.earliest);
        self.latest = self.latest.max(next.latest);
    }

    /// The time in ns from which events at equal times are reordered, if this is the whole file.
    pub(super) fn reorder_from(&self) -> i64 {
        self.reorder_from[0]
    }
}

/// The events of a segment of the file, in time order; at equal times in file order.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// The index of its trace. Traces come one after the other.
    pub(super) trace: usize,
    pub(super) rows: Range<u32>,
    pub(super) marks: Range<u32>,
}

/// The next event: a slice by its row, or any other event by its index among the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Slice(u32),
    Mark(u32),
}

/// An event in order, with the fields that nesting needs.
///
/// In merged traces, several places of the file have the same times. So these fields are copied while each segment is read from end to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ordered {
    /// In ns.
    pub(super) ts: i64,
    index: u32,
    /// Eight times the index of the trace, plus the [`CategoryKind`] of a slice or [`MARK`].
    trace_and_kind: u32,
    track: u32,
    /// For a slice: the 32 bits of its length, see [`Ordered::dur`].
    dur: u32,
}

/// In place of a [`CategoryKind`]: the event is a mark.
const MARK: u32 = 7;

impl Ordered {
    #[inline]
    pub(super) fn event(self) -> Next {
        if self.trace_and_kind & 7 == MARK { Next::Mark(self.index) } else { Next::Slice(self.index) }
    }

    #[inline]
    pub(super) fn trace(self) -> usize {
        (self.trace_and_kind >> 3) as usize
    }

    #[inline]
    pub(super) fn is_of(self, kind: CategoryKind) -> bool {
        self.trace_and_kind & 7 == kind as u32
    }

    #[inline]
    pub(super) fn track(self) -> TrackId {
        TrackId(self.track)
    }

    /// The length of a slice, in ns.
    #[inline]
    pub(super) fn dur(self, rows: &Rows) -> i64 {
        rows.dur.widened(self.dur, self.index as usize)
    }
}

/// The inputs that the order depends on.
#[derive(Clone, Copy)]
pub(super) struct Events<'a> {
    pub(super) rows: &'a Rows,
    pub(super) marks: &'a [Mark],
    /// By category.
    pub(super) kinds: &'a [CategoryKind],
    /// By trace: the time in ns from which events at equal times are reordered.
    pub(super) reorder_from: &'a [i64],
}

/// The approximate number of events in a stretch: with their surroundings they fit into a processor core's own cache.
pub(super) const STRETCH: usize = 1 << 14;

/// How many events per stretch are sampled to divide the time.
const SAMPLES: usize = 1 << 7;

/// Divides the events into stretches of time, so that several threads can order one each.
pub(super) struct Stretches {
    /// The remaining parts of the segments, in file order.
    segments: Vec<Segment>,
    /// The segments that began before the end of the latest stretch and have events left, in file order.
    begun: Vec<usize>,
    /// The others, with their first times in ns, the earliest last.
    ahead: Vec<(i64, usize)>,
    /// The ends of the stretches in ns, the first one last. One more stretch follows the last end.
    ends: Vec<i64>,
    is_over: bool,
}

impl Stretches {
    pub(super) fn new(segments: Vec<Segment>, stretch: usize, events: Events<'_>) -> Self {
        let step = (stretch / SAMPLES).max(1);
        let mut samples = Vec::new();
        let mut ahead = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            samples.extend(segment.rows.clone().step_by(step).map(|row| events.rows.ts[row as usize]));
            samples.extend(segment.marks.clone().step_by(step).map(|mark| events.marks[mark as usize].ts));
            ahead.extend(segment.first(events).map(|first| (first, number)));
        }
        ahead.sort_unstable_by(|a, b| b.cmp(a));
        samples.sort_unstable();
        let mut ends: Vec<i64> = samples.chunks((stretch / step).max(1)).skip(1).map(|chunk| chunk[0]).collect();
        ends.dedup();
        ends.reverse();
        Stretches { segments, begun: Vec::new(), ahead, ends, is_over: false }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len() + usize::from(!self.is_over)
    }

    /// The next stretch: the parts of segments in it, in file order. `None` after the last.
    pub(super) fn next(&mut self, events: Events<'_>) -> Option<Vec<Segment>> {
        if self.is_over {
            return None;
        }
        let end = self.ends.pop();
        self.is_over = end.is_none();
        let is_in = |ts: i64| end.is_none_or(|end| ts < end);
        let before = self.begun.len();
        while let Some((_, number)) = self.ahead.pop_if(|(first, _)| is_in(*first)) {
            self.begun.push(number);
        }
        if self.begun.len() > before {
            self.begun.sort_unstable();
        }
        let mut parts = Vec::with_capacity(self.begun.len());
        self.begun.retain(|number| {
            let segment = &mut self.segments[*number];
            let part = segment.take(is_in, events);
            if !part.is_empty() {
                parts.push(part);
            }
            !segment.is_empty()
        });
        Some(parts)
    }
}

impl Segment {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.marks.is_empty()
    }

    fn first(&self, events: Events<'_>) -> Option<i64> {
        let row = (!self.rows.is_empty()).then(|| events.rows.ts[self.rows.start as usize]);
        let mark = (!self.marks.is_empty()).then(|| events.marks[self.marks.start as usize].ts);
        row.into_iter().chain(mark).min()
    }

    /// Removes and returns the leading events that are in a stretch.
    fn take(&mut self, is_in: impl Fn(i64) -> bool, events: Events<'_>) -> Segment {
        let rows = &events.rows.ts[self.rows.start as usize..self.rows.end as usize];
        let marks = &events.marks[self.marks.start as usize..self.marks.end as usize];
        let row = self.rows.start + rows.partition_point(|ts| is_in(*ts)) as u32;
        let mark = self.marks.start + marks.partition_point(|mark| is_in(mark.ts)) as u32;
        let taken = Segment { trace: self.trace, rows: self.rows.start..row, marks: self.marks.start..mark };
        (self.rows.start, self.marks.start) = (row, mark);
        taken
    }

    /// Appends the events, in file order. A mark holds the number of rows before it.
    fn append_to(&self, ordered: &mut Vec<Ordered>, events: Events<'_>) {
        let trace = (self.trace as u32) << 3;
        let mut row = self.rows.start;
        for index in self.marks.clone() {
            let mark = &events.marks[index as usize];
            let before = mark.rows_before.clamp(row, self.rows.end);
            append_rows(row..before, trace, ordered, events);
            row = before;
            ordered.push(Ordered { ts: mark.ts, index, trace_and_kind: trace | MARK, track: 0, dur: 0 });
        }
        append_rows(row..self.rows.end, trace, ordered, events);
    }
}

#[inline]
fn append_rows(rows: Range<u32>, trace: u32, ordered: &mut Vec<Ordered>, events: Events<'_>) {
    let range = rows.start as usize..rows.end as usize;
    let Rows { ts, dur, track, category, .. } = events.rows;
    let (ts, dur, track) = (&ts[range.clone()], &dur.small()[range.clone()], &track[range.clone()]);
    let columns = ts.iter().zip(dur).zip(track.iter().zip(&category[range]));
    ordered.extend(rows.zip(columns).map(|(index, ((ts, dur), (track, category)))| Ordered {
        ts: *ts,
        index,
        trace_and_kind: trace | events.kinds[category.0 as usize] as u32,
        track: *track,
        dur: *dur,
    }));
}

/// Sorts the events of a stretch into `ordered`, which is cleared first. Events of several traces at the same time follow the order of the traces.
pub(super) fn order(stretch: &[Segment], events: Events<'_>, ordered: &mut Vec<Ordered>) {
    ordered.clear();
    ordered.reserve(stretch.iter().map(|segment| segment.rows.len() + segment.marks.len()).sum());
    stretch.iter().for_each(|segment| segment.append_to(ordered, events));
    // Files consist of a few long sorted runs, which this sort finds and merges. It is stable: equal times keep the file order.
    ordered.sort_by_key(|event| event.ts);
    for group in ordered.chunk_by_mut(|a, b| a.ts == b.ts && a.trace() == b.trace()) {
        if group.len() > 1 && group[0].ts >= events.reorder_from[group[0].trace()] {
            group.sort_by_key(|event| match event.event() {
                Next::Mark(mark) if events.marks[mark as usize].kind == RawKind::End => i64::MIN,
                Next::Mark(_) => i64::MAX,
                // Slices of unknown length count as length 0.
                Next::Slice(_) => i64::MAX - event.dur(events.rows).max(0),
            });
        }
    }
}
