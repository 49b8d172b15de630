//! Perfetto's order of events: by time; at equal times ends first, then slices from the longest to the shortest, then the
//! rest; what is still equal stays as in the file.
//!
//! One exception follows from how Perfetto streams: as long as a file is in time order and no `X` has been met, it keeps the
//! file's order at equal times too. [`Watch`] finds out during reading up to which time that holds.

use super::replay::{Raw, RawKind};

/// Watches the times of events in file order.
#[derive(Debug)]
pub(super) struct Watch {
    latest: i64,
    seen_complete: bool,
    /// From this time on the rule for equal times holds.
    rule_from: i64,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { latest: i64::MIN, seen_complete: false, rule_from: i64::MAX }
    }
}

impl Watch {
    /// The next event of the file.
    pub(super) fn see(&mut self, ts: i64, is_complete: bool) {
        self.seen_complete |= is_complete;
        if ts < self.latest || (self.seen_complete && ts == self.latest) {
            self.rule_from = self.rule_from.min(ts);
        }
        self.latest = self.latest.max(ts);
    }

    /// The events' numbers in order.
    pub(super) fn sort(&self, raws: &[Raw], kinds: &[RawKind]) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..raws.len() as u32).collect();
        let ts = |i: u32| raws[i as usize].ts;
        sorted.sort_by_key(|i| ts(*i));
        let mut from = sorted.partition_point(|i| ts(*i) < self.rule_from);
        while from < sorted.len() {
            let now = ts(sorted[from]);
            let equal = sorted[from..].iter().take_while(|i| ts(**i) == now).count();
            if equal > 1 {
                sorted[from..from + equal].sort_by_key(|i| match kinds[*i as usize] {
                    RawKind::End => i64::MIN,
                    RawKind::Complete => i64::MAX - raws[*i as usize].value,
                    _ => i64::MAX,
                });
            }
            from += equal;
        }
        sorted
    }
}
