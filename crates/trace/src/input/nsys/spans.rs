//! Times of rows: from nanoseconds since the start of the recording to those of the day.

use crate::damage::{Damage, DamageReport};
use crate::time::Ns;

/// Converts the times of rows, and counts the impossible ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// When the recording started, in ns since 1970; 0 if the export does not say so.
    pub(super) start: i64,
}

impl Clock {
    /// The time of a row.
    pub(super) fn at(self, start: Option<i64>, damage: &mut DamageReport) -> Option<Ns> {
        let Some(start) = start else {
            damage.count(Damage::EventWithoutTimestamp, None);
            return None;
        };
        let at = self.start.checked_add(start);
        if at.is_none_or(|at| at < 0) {
            damage.count(Damage::NegativeTimestamp, None);
        }
        at.filter(|at| *at >= 0).map(Ns)
    }

    /// Start and length of a row.
    pub(super) fn span(self, start: Option<i64>, end: Option<i64>, damage: &mut DamageReport) -> Option<(Ns, Ns)> {
        if (start, end) == (Some(0), Some(0)) {
            // CUPTI writes this for work whose end it has not seen.
            damage.count(Damage::EventWithoutTimestamp, None);
            return None;
        }
        let at = self.at(start, damage)?;
        let end = end.and_then(|end| self.start.checked_add(end));
        match end.map(|end| end.saturating_sub(at.0)) {
            Some(length) if length >= 0 => Some((at, Ns(length))),
            Some(_) => {
                damage.count(Damage::NegativeDuration, None);
                None
            }
            None => {
                damage.count(Damage::InvalidDuration, None);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_counted() {
        let clock = Clock { start: 1_000 };
        let mut damage = DamageReport::default();
        assert_eq!(clock.span(Some(5), Some(8), &mut damage), Some((Ns(1_005), Ns(3))));
        assert_eq!(clock.span(Some(5), Some(5), &mut damage), Some((Ns(1_005), Ns(0))));
        for (start, end, kind) in [
            (None, Some(1), Damage::EventWithoutTimestamp),
            (Some(0), Some(0), Damage::EventWithoutTimestamp),
            (Some(9), Some(8), Damage::NegativeDuration),
            (Some(9), None, Damage::InvalidDuration),
            (Some(9), Some(i64::MAX), Damage::InvalidDuration),
            (Some(9), Some(i64::MIN), Damage::NegativeDuration),
            (Some(-2_000), Some(9), Damage::NegativeTimestamp),
            (Some(i64::MAX), Some(i64::MAX), Damage::NegativeTimestamp),
        ] {
            let before = damage.get(kind).count;
            assert_eq!(clock.span(start, end, &mut damage), None, "{start:?} {end:?}");
            assert_eq!(damage.get(kind).count, before + 1, "{start:?} {end:?}");
        }
    }
}
