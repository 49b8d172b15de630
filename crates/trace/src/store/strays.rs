//! Finds slices that cannot be when they say: alone, farther from all others than these are long.
//!
//! CUPTI writes 0 for a time that it did not collect, and one such kernel among times since 1970 makes a window of 56 years, in which every share is 0.0 %. A recording is
//! one stretch of time, or a few, such as cycles of a schedule that were joined. So a few slices apart from everything by more than everything takes are no part of it.

use std::ops::Range;

use super::order::Segment;
use super::slices::Rows;

/// At most one in so many slices is a stray, or one in all. Slices at time 0 may be more.
const ONE_IN: usize = 100;

/// So many slices, at equal distances in the file, show whether there may be any.
const SAMPLES: usize = 1_024;

/// Strays are at least so many ns from all others: what is nearer may be a short recording's own wait.
const APART: i64 = 1_000_000_000;

/// What a few slices say about each other proves nothing.
const ENOUGH: usize = 10;

/// The rows of strays among those of a trace, in order. `counts` says which rows of no length count as well.
pub(super) fn find(rows: &Rows, segments: &[Segment], counts: impl Fn(usize) -> bool) -> Vec<u32> {
    let all = || segments.iter().flat_map(|segment| segment.rows.clone()).map(|row| row as usize);
    let count: usize = segments.iter().map(|segment| segment.rows.len()).sum();
    let sampled = all().step_by((count / SAMPLES).max(1)).map(|row| rows.ts[row]);
    let mut samples: Vec<i64> = sampled.filter(|ts| *ts != 0).collect();
    samples.sort_unstable();
    let edge = samples.len() / ONE_IN;
    let (Some(low), Some(high)) = (samples.get(edge), samples.iter().rev().nth(edge)) else { return Vec::new() };
    let mut times = segments.iter().map(|segment| &rows.ts[segment.rows.start as usize..segment.rows.end as usize]);
    let length = (high - low).max(APART);
    // One comparison decides for each: what is before the first time wraps around.
    let (first, span) = (low.saturating_sub(length), 2 * length as u64 + (high - low) as u64);
    let is_far = |ts: &i64| ts.wrapping_sub(first) as u64 > span;
    if count < ENOUGH || !times.any(|of| of.iter().any(is_far)) {
        return Vec::new();
    }
    // By start: the start, the end and the row of each.
    let span = |row: usize| (rows.ts[row], rows.ts[row].saturating_add(rows.dur.get(row).max(0)), row as u32);
    let mut spans: Vec<(i64, i64, u32)> =
        all().filter(|row| rows.dur.get(*row) != 0 || counts(*row)).map(span).collect();
    spans.sort_unstable();
    let kept = without_strays(&spans);
    let mut strays: Vec<u32> = spans[..kept.start].iter().chain(&spans[kept.end..]).map(|(.., row)| *row).collect();
    strays.sort_unstable();
    strays
}

/// Those of these spans, by start, that are no strays.
fn without_strays(spans: &[(i64, i64, u32)]) -> Range<usize> {
    let few = (spans.len() / ONE_IN).max(1);
    let mut kept = 0..spans.len();
    let mut end = i64::MIN;
    for at in 1..spans.len() {
        end = end.max(spans[at - 1].1);
        let (is_zero, start) = (spans[at - 1].0 == 0, spans[at].0);
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
        assert_eq!(kept(&[(0, 990), (1_000, 1_010), (1_020, 1_030), (1_050, 1_060)]), 0..4);
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
