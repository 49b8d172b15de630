//! Busy times: overlapping spans merged into one, and how much of another span they cover.

use crate::time::Ns;

/// Spans of time in order, merged if they overlap or touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Start and end, half-open.
    spans: Vec<(Ns, Ns)>,
    /// `before[i]` is the total length of all spans before the `i`th.
    before: Vec<Ns>,
}

impl Busy {
    /// The union of spans, given as start and length, in any order.
    pub(crate) fn from_spans(spans: impl IntoIterator<Item = (Ns, Ns)>) -> Self {
        let mut sorted: Vec<(Ns, Ns)> = spans.into_iter().collect();
        sorted.sort_unstable();
        let mut busy = Busy::default();
        sorted.into_iter().for_each(|(start, dur)| busy.push(start, dur));
        busy
    }

    /// The union of both.
    pub(crate) fn with(&self, other: &Busy) -> Self {
        Busy::from_spans(self.spans.iter().chain(&other.spans).map(|(start, end)| (*start, *end - *start)))
    }

    /// Adds a span that starts no earlier than those before it. A span without a length covers nothing.
    pub(crate) fn push(&mut self, start: Ns, dur: Ns) {
        let end = start + dur;
        match self.spans.last_mut() {
            _ if dur <= Ns::ZERO => {}
            Some((_, last)) if start <= *last => *last = (*last).max(end),
            Some((first, last)) => {
                let before = self.before.last().copied().unwrap_or_default();
                self.before.push(before + (*last - *first));
                self.spans.push((start, end));
            }
            None => {
                self.before.push(Ns::ZERO);
                self.spans.push((start, end));
            }
        }
    }

    /// The end of the last span.
    pub(crate) fn end(&self) -> Option<Ns> {
        self.spans.last().map(|(_, end)| *end)
    }

    /// How much of a span is covered.
    pub(crate) fn within(&self, start: Ns, end: Ns) -> Ns {
        if end <= start { Ns::ZERO } else { self.until(end) - self.until(start) }
    }

    /// The parts of a span that are not covered.
    pub(crate) fn uncovered(&self, start: Ns, end: Ns) -> impl Iterator<Item = (Ns, Ns)> {
        let first = self.spans.partition_point(|(_, last)| *last <= start);
        let covered = self.spans[first..].iter().take_while(move |(begin, _)| *begin < end).copied();
        let mut from = start;
        covered.chain([(end, end)]).filter_map(move |(begin, last)| {
            let part = (from, begin.min(end));
            from = last;
            (part.0 < part.1).then_some(part)
        })
    }

    /// How much of a span is covered here, but not by others.
    pub(crate) fn without(&self, others: &Busy, start: Ns, end: Ns) -> Ns {
        let near = self.spans.partition_point(|(_, last)| *last <= start);
        let near = self.spans[near..].iter().take_while(|(first, _)| *first < end);
        let spans = near.map(|(first, last)| ((*first).max(start), (*last).min(end)));
        let mut from = others.spans.partition_point(|(_, last)| *last <= start);
        let alone = |(first, last): (Ns, Ns)| last - first - others.sweep(&mut from, first, last);
        spans.filter(|(first, last)| first < last).map(alone).sum()
    }

    /// How much of a span is covered, for spans in order of their starts. `from` is where the last search ended, 0 at first.
    pub(crate) fn sweep(&self, from: &mut usize, start: Ns, end: Ns) -> Ns {
        while self.spans.get(*from).is_some_and(|(_, last)| *last <= start) {
            *from += 1;
        }
        // A galloping search: the next position is usually near.
        let mut step = 1;
        while self.spans.get(*from + step).is_some_and(|(first, _)| *first < end) {
            step *= 2;
        }
        let near = &self.spans[*from..self.spans.len().min(*from + step + 1)];
        let Some(last) = near.partition_point(|(first, _)| *first < end).checked_sub(1) else { return Ns::ZERO };
        let covered = |at: usize| (near[at].1.min(end) - near[at].0.max(start)).max(Ns::ZERO);
        match last {
            0 => covered(0),
            // The spans between the first and the last are covered completely.
            _ => covered(0) + covered(last) + (self.before[*from + last] - self.before[*from + 1]),
        }
    }

    /// How much of the time up to a given one is covered.
    fn until(&self, time: Ns) -> Ns {
        match self.spans.partition_point(|(start, _)| *start < time) {
            0 => Ns::ZERO,
            after => {
                let (start, end) = self.spans[after - 1];
                self.before[after - 1] + (end.min(time) - start)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn union(spans: &[(i64, i64)]) -> Busy {
        Busy::from_spans(spans.iter().map(|(start, dur)| (Ns(*start), Ns(*dur))))
    }

    #[test]
    fn spans_are_put_together() {
        let busy = union(&[(10, 5), (0, 2), (12, 8), (30, 0), (20, 1), (40, 10)]);
        assert_eq!(busy.spans, [(0, 2), (10, 21), (40, 50)].map(|(start, end)| (Ns(start), Ns(end))));
        for (start, end, covered) in
            [(0, 100, 23), (1, 11, 2), (2, 10, 0), (15, 45, 11), (45, 45, 0), (46, 44, 0), (-5, 0, 0), (50, 60, 0)]
        {
            assert_eq!(busy.within(Ns(start), Ns(end)), Ns(covered), "{start}..{end}");
        }
        assert_eq!(union(&[(i64::MAX - 1, 5), (i64::MIN, 3)]).within(Ns::MIN, Ns::MAX), Ns(4));
        assert_eq!(union(&[]).within(Ns::ZERO, Ns(9)), Ns::ZERO);
    }

    proptest! {
        /// Compares with a check that looks at every nanosecond.
        #[test]
        fn covered_time_is_what_counting_every_nanosecond_gives(
            spans in prop::collection::vec((0_i64..200, -3_i64..30), 0..20),
            others in prop::collection::vec((0_i64..200, -3_i64..30), 0..20),
            kernels in prop::collection::vec((-20_i64..250, 0_i64..60), 1..10),
        ) {
            let covered = |spans: &[(i64, i64)]| {
                let mut is_covered = [false; 400];
                for (ts, dur) in spans {
                    (*ts..ts + dur).for_each(|ns| is_covered[ns as usize] = true);
                }
                is_covered
            };
            let (is_covered, by_others) = (covered(&spans), covered(&others));
            let (busy, others) = (union(&spans), union(&others));
            let mut kernels = kernels;
            kernels.sort_unstable();
            let mut from = 0;
            for (ts, dur) in kernels {
                let ns = (ts..ts + dur).filter(|ns| *ns >= 0 && is_covered[*ns as usize]).count();
                let (start, end) = (Ns(ts), Ns(ts + dur));
                prop_assert_eq!(busy.within(start, end), Ns(ns as i64));
                prop_assert_eq!(busy.sweep(&mut from, start, end), Ns(ns as i64));
                let uncovered: i64 = busy.uncovered(start, end).map(|(from, to)| (to - from).0).sum();
                prop_assert_eq!(uncovered, dur.max(0) - ns as i64);
                for (from, to) in busy.uncovered(start, end) {
                    prop_assert!(from < to && start <= from && to <= end);
                    prop_assert_eq!(busy.within(from, to), Ns::ZERO);
                }
                let alone = (ts.max(0)..ts + dur).filter(|ns| is_covered[*ns as usize] && !by_others[*ns as usize]);
                prop_assert_eq!(busy.without(&others, start, end), Ns(alone.count() as i64));
            }
        }
    }
}
