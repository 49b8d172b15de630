//! Perfetto's order of events: by time; at equal times ends first, then slices from the longest to the shortest, then the
//! rest; otherwise in file order.
//!
//! One exception follows from how Perfetto streams: while a file is in time order and has had no `X`, events at equal times stay in
//! file order too. [`OrderWatch`] determines during reading up to which time that holds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use super::raw::Mark;
use super::raw::RawKind;
use super::slices::NarrowColumn;

/// Finds out up to which time a segment of the file keeps its order, from the times of its events.
#[derive(Debug, Clone)]
pub(super) struct OrderWatch {
    /// The time of the first event, and whether it is an `X`.
    first: Option<(i64, bool)>,
    earliest: i64,
    latest: i64,
    seen_complete: bool,
    /// From this time on, in ns, events at equal times are reordered: if there is no `X` before the segment, and if there is one.
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
    /// Takes the next event of the file.
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

    /// Appends the segment after this one.
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

    /// The time from which on events at equal times are reordered, in ns, if this is the whole file.
    pub(super) fn reorder_from(&self) -> i64 {
        self.reorder_from[0]
    }
}

/// The events of a segment of the file, in time order, at equal times in file order.
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

/// A k-way merge of all events into time order. Files consist of a few long runs in order; the merge always continues with the run
/// whose next event is the earliest.
pub(super) struct Merge {
    segments: Vec<Segment>,
    /// By run: its segments, the next one last.
    runs: Vec<Vec<usize>>,
    heads: BinaryHeap<Reverse<Head>>,
    /// The run that is being read, and up to where: no other run has an event before that.
    current: Option<(usize, Key)>,
    /// By trace, in ns.
    reorder_from: Vec<i64>,
    group: Vec<Next>,
}

/// The time of an event and the number of its segment: at equal times the earlier segment comes first.
type Key = (i64, usize);

/// The next event of a run, and the run's number.
type Head = (Key, usize);

/// The columns of the events that the order depends on.
#[derive(Clone, Copy)]
pub(super) struct Events<'a> {
    pub(super) ts: &'a [i64],
    pub(super) dur: &'a NarrowColumn,
    pub(super) marks: &'a [Mark],
}

impl Segment {
    /// Its next event. A mark has the number of rows before it.
    #[inline]
    fn next(&self, events: Events<'_>) -> Option<(i64, Next)> {
        let Range { start, end } = self.marks;
        if start < end {
            let mark = &events.marks[start as usize];
            if mark.rows_before <= self.rows.start {
                return Some((mark.ts, Next::Mark(start)));
            }
        }
        let Range { start, end } = self.rows;
        (start < end).then(|| (events.ts[start as usize], Next::Slice(start)))
    }

    #[inline]
    fn pass(&mut self, next: Next) {
        match next {
            Next::Slice(_) => self.rows.start += 1,
            Next::Mark(_) => self.marks.start += 1,
        }
    }

    fn last(&self, events: Events<'_>) -> Option<i64> {
        let row = self.rows.clone().last().map(|row| events.ts[row as usize]);
        row.max(self.marks.clone().last().map(|mark| events.marks[mark as usize].ts))
    }
}

impl Merge {
    pub(super) fn new(segments: Vec<Segment>, reorder_from: Vec<i64>, events: Events<'_>) -> Self {
        let mut runs = runs(&segments, events);
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            run.reverse();
            if let Some(segment) = run.last().copied()
                && let Some((ts, _)) = segments[segment].next(events)
            {
                heads.push(Reverse(((ts, segment), number)));
            }
        }
        Merge { segments, runs, heads, current: None, reorder_from, group: Vec::new() }
    }

    /// The events of a trace at the next time, in order, and the index of the trace. Empty at the end. If several traces have events
    /// at the same time, the first one comes first.
    #[inline]
    pub(super) fn next_group(&mut self, events: Events<'_>) -> (usize, &[Next]) {
        self.group.clear();
        let mut now = (i64::MIN, 0);
        while let Some((ts, trace, next)) = self.peek(events)
            && (self.group.is_empty() || now == (ts, trace))
        {
            now = (ts, trace);
            self.group.push(next);
            self.pass(next);
        }
        let (now, trace) = now;
        if self.group.len() > 1 && now >= self.reorder_from[trace] {
            self.group.sort_by_key(|next| match next {
                Next::Mark(mark) if events.marks[*mark as usize].kind == RawKind::End => i64::MIN,
                Next::Mark(_) => i64::MAX,
                // Slices of unknown length count as length 0.
                Next::Slice(row) => i64::MAX - events.dur.get(*row as usize).max(0),
            });
        }
        (trace, &self.group)
    }

    #[inline]
    fn peek(&mut self, events: Events<'_>) -> Option<(i64, usize, Next)> {
        loop {
            if let Some((run, limit)) = self.current {
                while let Some(segment) = self.runs[run].last().copied() {
                    match self.segments[segment].next(events) {
                        Some((ts, next)) if (ts, segment) <= limit => {
                            return Some((ts, self.segments[segment].trace, next));
                        }
                        Some((ts, _)) => {
                            self.heads.push(Reverse(((ts, segment), run)));
                            break;
                        }
                        None => drop(self.runs[run].pop()),
                    }
                }
            }
            let Reverse((_, run)) = self.heads.pop()?;
            let limit = self.heads.peek().map_or((i64::MAX, usize::MAX), |Reverse((key, _))| *key);
            self.current = Some((run, limit));
        }
    }

    #[inline]
    fn pass(&mut self, next: Next) {
        if let Some((run, _)) = self.current
            && let Some(segment) = self.runs[run].last()
        {
            self.segments[*segment].pass(next);
        }
    }
}

/// The segments that have events, in as few runs as possible: each segment follows one that it does not overlap.
fn runs(segments: &[Segment], events: Events<'_>) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut ends: BTreeSet<(i64, usize)> = BTreeSet::new();
    for (number, segment) in segments.iter().enumerate() {
        let (Some((first, _)), Some(last)) = (segment.next(events), segment.last(events)) else { continue };
        // Follow the run that ends last; runs that end earlier are left for earlier segments.
        let run = match ends.range(..=(first, usize::MAX)).next_back().copied() {
            Some(end) => {
                ends.remove(&end);
                end.1
            }
            None => {
                runs.push(Vec::new());
                runs.len() - 1
            }
        };
        runs[run].push(number);
        ends.insert((last, run));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::raw::RawEvent;
    use crate::store::slices::Rows;
    use proptest::prelude::*;

    /// The rule of this file's header, event by event.
    fn rule_from_of(events: &[(i64, bool)]) -> i64 {
        let (mut latest, mut seen_complete, mut reorder_from) = (i64::MIN, false, i64::MAX);
        for (ts, is_complete) in events {
            seen_complete |= is_complete;
            if *ts < latest || (seen_complete && *ts == latest) {
                reorder_from = reorder_from.min(*ts);
            }
            latest = latest.max(*ts);
        }
        reorder_from
    }

    proptest! {
        #[test]
        fn stretches_join_to_the_whole(
            segments in prop::collection::vec(prop::collection::vec((0i64..6, prop::bool::weighted(0.2)), 0..5), 0..5)
        ) {
            let mut whole = OrderWatch::default();
            for segment in &segments {
                let mut watch = OrderWatch::default();
                segment.iter().for_each(|(ts, is_complete)| watch.observe(*ts, *is_complete));
                whole.append(&watch);
            }
            prop_assert_eq!(whole.reorder_from(), rule_from_of(&segments.concat()));
        }

        #[test]
        fn merging_is_sorting(
            segments in prop::collection::vec(prop::collection::vec((0i64..30, 0i64..3, 0..3), 0..9), 0..9),
            reorder_from in 0i64..40,
        ) {
            let (mut rows, mut marks, mut all, mut bounds) = (Rows::default(), Vec::new(), Vec::new(), Vec::new());
            for events in &segments {
                let mut events = events.clone();
                events.sort_by_key(|(ts, ..)| *ts);
                let (first_row, first_mark) = (rows.len() as u32, marks.len() as u32);
                for (ts, dur, kind) in events {
                    let kind = [RawKind::Complete, RawKind::End, RawKind::FlowStart][kind as usize];
                    let raw = RawEvent { ts, value: dur, kind, ..RawEvent::default() };
                    if kind == RawKind::Complete {
                        all.push((raw, Next::Slice(rows.len() as u32)));
                        rows.push(&raw, None);
                    } else {
                        all.push((raw, Next::Mark(marks.len() as u32)));
                        marks.push(Mark::new(&raw, rows.len() as u32));
                    }
                }
                bounds.push(Segment { trace: 0, rows: first_row..rows.len() as u32, marks: first_mark..marks.len() as u32 });
            }
            all.sort_by_key(|(raw, _)| (raw.ts, match raw.kind {
                _ if raw.ts < reorder_from => 0,
                RawKind::End => 0,
                RawKind::Complete => 100 - raw.value,
                _ => 100,
            }));
            let events = Events { ts: &rows.ts, dur: &rows.dur, marks: &marks };
            let mut merge = Merge::new(bounds, vec![reorder_from], events);
            let mut got = Vec::new();
            while let (_, group) = merge.next_group(events)
                && !group.is_empty()
            {
                got.extend_from_slice(group);
            }
            prop_assert_eq!(got, all.iter().map(|(_, next)| *next).collect::<Vec<_>>());
        }
    }
}
