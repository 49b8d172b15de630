//! Perfetto's order of events: by time; at equal times ends first, then slices from the longest to the shortest, then the
//! rest; what is still equal stays as in the file.
//!
//! One exception follows from how Perfetto streams: as long as a file is in time order and no `X` has been met, it keeps the
//! file's order at equal times too. [`Watch`] finds out during reading up to which time that holds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use super::raw::Mark;
use super::raw::RawKind;
use super::slices::Narrow;

/// Watches the times of the events of a stretch of the file.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    /// The time of the first event, and whether it is an `X`.
    first: Option<(i64, bool)>,
    earliest: i64,
    latest: i64,
    seen_complete: bool,
    /// From this time on the rule for equal times holds: if no `X` was met before the stretch, and if one was.
    rule_from: [i64; 2],
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            first: None,
            earliest: i64::MAX,
            latest: i64::MIN,
            seen_complete: false,
            rule_from: [i64::MAX, i64::MAX],
        }
    }
}

impl Watch {
    /// The next event of the file.
    #[inline]
    pub(super) fn see(&mut self, ts: i64, is_complete: bool) {
        self.seen_complete |= is_complete;
        if self.first.is_none() {
            self.first = Some((ts, is_complete));
        } else if ts <= self.latest {
            self.see_late(ts);
        }
        self.earliest = self.earliest.min(ts);
        self.latest = self.latest.max(ts);
    }

    fn see_late(&mut self, ts: i64) {
        let is_late = ts < self.latest;
        for (seen_before, rule_from) in [false, true].into_iter().zip(&mut self.rule_from) {
            if is_late || seen_before || self.seen_complete {
                *rule_from = ts.min(*rule_from);
            }
        }
    }

    /// The stretch behind this one.
    pub(super) fn join(&mut self, next: &Watch) {
        let Some((first, first_is_complete)) = next.first else { return };
        if self.first.is_none() {
            *self = next.clone();
            return;
        }
        for (seen_before, rule_from) in [false, true].into_iter().zip(&mut self.rule_from) {
            let seen = seen_before || self.seen_complete;
            if next.earliest < self.latest || (first == self.latest && (seen || first_is_complete)) {
                *rule_from = next.earliest.min(*rule_from);
            }
            *rule_from = next.rule_from[usize::from(seen)].min(*rule_from);
        }
        self.seen_complete |= next.seen_complete;
        self.earliest = self.earliest.min(next.earliest);
        self.latest = self.latest.max(next.latest);
    }

    /// From which time on the rule for equal times holds, if this is the whole file.
    pub(super) fn rule_from(&self) -> i64 {
        self.rule_from[0]
    }
}

/// A stretch of the file: the events that it brought, in order of time, equal times in the file's order.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    /// Which of the store's traces it is of. They come one after the other.
    pub(super) trace: usize,
    pub(super) rows: Range<u32>,
    pub(super) marks: Range<u32>,
}

/// The next event: a slice by its row, or anything else by its place among the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Slice(u32),
    Mark(u32),
}

/// All events in order. Files consist of a few long runs in order, which are merged here by always going on with the one whose
/// next event is the earliest.
pub(super) struct Sequence {
    stretches: Vec<Stretch>,
    /// The stretches that follow each other in order, the next one last.
    runs: Vec<Vec<usize>>,
    heads: BinaryHeap<Reverse<Head>>,
    /// The run that is being gone through, and how far: no other has anything to say up to there.
    current: Option<(usize, Key)>,
    /// By trace.
    rule_from: Vec<i64>,
    group: Vec<Next>,
}

/// The time of an event and the number of its stretch: at equal times the earlier stretch goes first.
type Key = (i64, usize);

/// The next event of a run, and the run's number.
type Head = (Key, usize);

/// What is known of the events while they are put in order.
#[derive(Clone, Copy)]
pub(super) struct Events<'a> {
    pub(super) ts: &'a [i64],
    pub(super) dur: &'a Narrow,
    pub(super) marks: &'a [Mark],
}

impl Stretch {
    /// A mark knows how many rows are before it.
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

impl Sequence {
    pub(super) fn new(stretches: Vec<Stretch>, rule_from: Vec<i64>, events: Events<'_>) -> Self {
        let mut runs = runs(&stretches, events);
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            run.reverse();
            if let Some(stretch) = run.last().copied()
                && let Some((ts, _)) = stretches[stretch].next(events)
            {
                heads.push(Reverse(((ts, stretch), number)));
            }
        }
        Sequence { stretches, runs, heads, current: None, rule_from, group: Vec::new() }
    }

    /// The events of a trace's next moment, in order, and which trace it is. None are left if there are none. Of several traces
    /// that have events at the same time the first one goes first.
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
        if self.group.len() > 1 && now >= self.rule_from[trace] {
            self.group.sort_by_key(|next| match next {
                Next::Mark(mark) if events.marks[*mark as usize].kind == RawKind::End => i64::MIN,
                Next::Mark(_) => i64::MAX,
                // Those of unknown length count as if they had none.
                Next::Slice(row) => i64::MAX - events.dur.get(*row as usize).max(0),
            });
        }
        (trace, &self.group)
    }

    #[inline]
    fn peek(&mut self, events: Events<'_>) -> Option<(i64, usize, Next)> {
        loop {
            if let Some((run, limit)) = self.current {
                while let Some(stretch) = self.runs[run].last().copied() {
                    match self.stretches[stretch].next(events) {
                        Some((ts, next)) if (ts, stretch) <= limit => {
                            return Some((ts, self.stretches[stretch].trace, next));
                        }
                        Some((ts, _)) => {
                            self.heads.push(Reverse(((ts, stretch), run)));
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
            && let Some(stretch) = self.runs[run].last()
        {
            self.stretches[*stretch].pass(next);
        }
    }
}

/// The stretches that have events, as few runs: each stretch follows one that it does not overlap.
fn runs(stretches: &[Stretch], events: Events<'_>) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut ends: BTreeSet<(i64, usize)> = BTreeSet::new();
    for (number, stretch) in stretches.iter().enumerate() {
        let (Some((first, _)), Some(last)) = (stretch.next(events), stretch.last(events)) else { continue };
        // Of those that it may follow the one that ends last, so that the others are left for earlier ones.
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
    use crate::store::raw::Raw;
    use crate::store::slices::Rows;
    use proptest::prelude::*;

    /// The rule as it reads, event by event.
    fn rule_from_of(events: &[(i64, bool)]) -> i64 {
        let (mut latest, mut seen_complete, mut rule_from) = (i64::MIN, false, i64::MAX);
        for (ts, is_complete) in events {
            seen_complete |= is_complete;
            if *ts < latest || (seen_complete && *ts == latest) {
                rule_from = rule_from.min(*ts);
            }
            latest = latest.max(*ts);
        }
        rule_from
    }

    proptest! {
        #[test]
        fn stretches_join_to_the_whole(
            stretches in prop::collection::vec(prop::collection::vec((0i64..6, prop::bool::weighted(0.2)), 0..5), 0..5)
        ) {
            let mut whole = Watch::default();
            for stretch in &stretches {
                let mut watch = Watch::default();
                stretch.iter().for_each(|(ts, is_complete)| watch.see(*ts, *is_complete));
                whole.join(&watch);
            }
            prop_assert_eq!(whole.rule_from(), rule_from_of(&stretches.concat()));
        }

        #[test]
        fn merging_is_sorting(
            stretches in prop::collection::vec(prop::collection::vec((0i64..30, 0i64..3, 0..3), 0..9), 0..9),
            rule_from in 0i64..40,
        ) {
            let (mut rows, mut marks, mut all, mut bounds) = (Rows::default(), Vec::new(), Vec::new(), Vec::new());
            for events in &stretches {
                let mut events = events.clone();
                events.sort_by_key(|(ts, ..)| *ts);
                let (first_row, first_mark) = (rows.len() as u32, marks.len() as u32);
                for (ts, dur, kind) in events {
                    let kind = [RawKind::Complete, RawKind::End, RawKind::FlowStart][kind as usize];
                    let raw = Raw { ts, value: dur, kind, ..Raw::default() };
                    if kind == RawKind::Complete {
                        all.push((raw, Next::Slice(rows.len() as u32)));
                        rows.push(&raw, None);
                    } else {
                        all.push((raw, Next::Mark(marks.len() as u32)));
                        marks.push(Mark::new(&raw, rows.len() as u32));
                    }
                }
                bounds.push(Stretch { trace: 0, rows: first_row..rows.len() as u32, marks: first_mark..marks.len() as u32 });
            }
            all.sort_by_key(|(raw, _)| (raw.ts, match raw.kind {
                _ if raw.ts < rule_from => 0,
                RawKind::End => 0,
                RawKind::Complete => 100 - raw.value,
                _ => 100,
            }));
            let events = Events { ts: &rows.ts, dur: &rows.dur, marks: &marks };
            let mut sequence = Sequence::new(bounds, vec![rule_from], events);
            let mut got = Vec::new();
            while let (_, group) = sequence.next_group(events)
                && !group.is_empty()
            {
                got.extend_from_slice(group);
            }
            prop_assert_eq!(got, all.iter().map(|(_, next)| *next).collect::<Vec<_>>());
        }
    }
}
