//! Perfetto's order of events: by time; at equal times ends first, then slices from the longest to the shortest, then the
//! rest; what is still equal stays as in the file.
//!
//! One exception follows from how Perfetto streams: as long as a file is in time order and no `X` has been met, it keeps the
//! file's order at equal times too. [`Watch`] finds out during reading up to which time that holds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::batch::{Batch, Raw, RawKind};

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

/// Hands out all events in order, each with its batch. Batches are in order each; files consist of a few long stretches in order,
/// which are merged here by always going on with the one whose next event is the earliest.
pub(super) fn in_order<'a>(batches: &'a [Batch], rule_from: i64, each: impl FnMut(&'a Batch, &'a Raw)) {
    let mut group = Group { rule_from, events: Vec::new(), each };
    let mut runs = runs(batches);
    let mut heads: BinaryHeap<Reverse<Head>> = BinaryHeap::new();
    for (number, run) in runs.iter_mut().enumerate() {
        heads.extend(run.first().map(|batch| Reverse(((batches[*batch].raws[0].ts, *batch), number, 0))));
        run.reverse();
    }
    while let Some(Reverse((_, number, mut from))) = heads.pop() {
        // Up to here no other run has anything to say; at equal times the earlier batch goes first.
        let limit = heads.peek().map_or((i64::MAX, usize::MAX), |Reverse((key, ..))| *key);
        let run = &mut runs[number];
        while let Some(batch) = run.last().copied() {
            let raws = &batches[batch].raws;
            let taken = raws[from..].iter().take_while(|raw| (raw.ts, batch) <= limit);
            from += taken.map(|raw| group.add(&batches[batch], raw)).count();
            if let Some(next) = raws.get(from) {
                heads.push(Reverse(((next.ts, batch), number, from)));
                break;
            }
            run.pop();
            from = 0;
        }
    }
    group.hand_out();
}

/// The next event of a run: its time and batch; the run's number; the event's place in the batch.
type Head = ((i64, usize), usize, usize);

/// The batches that have events, as few runs: each batch follows one that it does not overlap.
fn runs(batches: &[Batch]) -> Vec<Vec<usize>> {
    let mut runs: Vec<(i64, Vec<usize>)> = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        let (Some(first), Some(last)) = (batch.raws.first(), batch.raws.last()) else { continue };
        // Of those that it may follow the one that ends last, so that the others are left for earlier ones.
        match runs.iter_mut().filter(|(end, _)| *end <= first.ts).max_by_key(|(end, _)| *end) {
            Some((end, run)) => {
                *end = last.ts;
                run.push(number);
            }
            None => runs.push((last.ts, vec![number])),
        }
    }
    runs.into_iter().map(|(_, run)| run).collect()
}

/// Events of one time, which may have to change places.
struct Group<'a, F> {
    rule_from: i64,
    events: Vec<(&'a Batch, &'a Raw)>,
    each: F,
}

impl<'a, F: FnMut(&'a Batch, &'a Raw)> Group<'a, F> {
    #[inline]
    fn add(&mut self, batch: &'a Batch, raw: &'a Raw) {
        if self.events.last().is_some_and(|(_, last)| last.ts != raw.ts) {
            self.hand_out();
        }
        self.events.push((batch, raw));
    }

    #[inline]
    fn hand_out(&mut self) {
        if self.events.len() > 1 && self.events[0].1.ts >= self.rule_from {
            self.events.sort_by_key(|(_, raw)| match raw.kind {
                RawKind::End => i64::MIN,
                RawKind::Complete => i64::MAX - raw.value,
                _ => i64::MAX,
            });
        }
        for (batch, raw) in self.events.drain(..) {
            (self.each)(batch, raw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::args::ArgSetId;
    use crate::store::strings::StringId;
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

    fn raw(ts: i64, value: i64, kind: RawKind, track: u32) -> Raw {
        let (name, category, args) = (StringId::NULL, StringId::NULL, ArgSetId::NONE);
        Raw { ts, value, track, name, category, args, correlation: 0, kind, has_extra: false }
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
            batches in prop::collection::vec(prop::collection::vec((0i64..30, 0i64..3, 0..3), 0..9), 0..9),
            rule_from in 0i64..40,
        ) {
            let kinds = [RawKind::Complete, RawKind::End, RawKind::FlowStart];
            let mut track = 0;
            let batches: Vec<Batch> = batches
                .iter()
                .map(|events| {
                    let mut raws: Vec<Raw> = events
                        .iter()
                        .map(|(ts, value, kind)| {
                            track += 1;
                            raw(*ts, *value, kinds[*kind as usize], track)
                        })
                        .collect();
                    raws.sort_by_key(|raw| raw.ts);
                    Batch { raws, ..Batch::default() }
                })
                .collect();
            let mut want: Vec<Raw> = batches.iter().flat_map(|batch| batch.raws.iter().copied()).collect();
            want.sort_by_key(|raw| (raw.ts, match raw.kind {
                _ if raw.ts < rule_from => 0,
                RawKind::End => 0,
                RawKind::Complete => 100 - raw.value,
                _ => 100,
            }));
            let mut got = Vec::new();
            in_order(&batches, rule_from, |_, raw| got.push(raw.track));
            prop_assert_eq!(got, want.iter().map(|raw| raw.track).collect::<Vec<_>>());
        }
    }
}
