//! Bounds for CI: how much an answer may have, or how much more the second of two may have than the first.

use super::cost::Order;
use crate::time::{Ns, parse_nanos};

/// `exposed>+5%`, `waited>20%`, `caused(rank=3)>2ms`, `late>+10`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub of: Bounded,
    /// The only rank that it is about, of what ranks have.
    pub rank: Option<u32>,
    /// Whether the limit is for the growth from the first answer to the second: a share is then of the first one's value.
    pub is_growth: bool,
    pub limit: Limit,
    /// As the user wrote it.
    pub text: String,
}

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounded {
    /// What kernels cost, in a diff of stacks.
    Cost(Order),
    /// How long a step is: the GPU span of a trace, or the mean over ranks.
    Step,
    /// For how much of that no kernel ran.
    Idle,
    Waited,
    /// What others waited for a rank.
    Caused,
    Late,
}

/// The most that is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    Time(Ns),
    /// A number of times or of kernels.
    Count(f64),
    /// Of the time of measured collectives, or for a growth of the first value.
    Share(f64),
}

const WORDS: &[(&str, Bounded)] = &[
    ("count", Bounded::Cost(Order::Count)),
    ("gpu", Bounded::Cost(Order::GpuTime)),
    ("exposed", Bounded::Cost(Order::Exposed)),
    ("mean", Bounded::Cost(Order::Mean)),
    ("step", Bounded::Step),
    ("idle", Bounded::Idle),
    ("waited", Bounded::Waited),
    ("caused", Bounded::Caused),
    ("late", Bounded::Late),
];

impl Bound {
    /// A bound on what ranks may wait: `waited>20%`, `caused(rank=3)>2ms`, `late(rank=0)>10`.
    pub fn on_ranks(text: &str) -> Result<Self, String> {
        let expected = "expected is a bound such as 'waited>20%', 'caused(rank=3)>2ms' or 'late>10'";
        Self::parse(text, expected, |bound| bound.is_of_waiting() && !bound.is_growth)
    }

    /// A bound on the second of two answers: on the growth of what stacks cost, `exposed>+5%`, or on what ranks wait, `waited>+5%`, `late>10`.
    pub fn on_changes(text: &str) -> Result<Self, String> {
        let expected = format!(
            "`{text}` is not a bound; write what and by how much it may grow: 'exposed>+5%', 'gpu>+2ms', 'mean>+10us', 'count>+0', 'step>+5%', 'idle>+2%'"
        );
        // Without the sign, a bound on costs could be read as one on the total.
        Self::parse(text, &expected, |bound| bound.is_of_waiting() || bound.is_growth)
    }

    fn parse(text: &str, expected: &str, is_asked: fn(&Self) -> bool) -> Result<Self, String> {
        let expected = || expected.to_owned();
        let (what, limit) = text.split_once('>').ok_or_else(expected)?;
        let (what, rank) = match what.trim().split_once('(') {
            Some((what, of)) => {
                let rank = of.trim().strip_suffix(')').and_then(|of| of.trim().strip_prefix("rank"));
                let rank = rank.and_then(|of| of.trim().strip_prefix('=')?.trim().parse().ok()).ok_or_else(expected)?;
                (what.trim(), Some(rank))
            }
            None => (what.trim(), None),
        };
        let (_, of) = *WORDS.iter().find(|(word, _)| *word == what).ok_or_else(expected)?;
        let limit = limit.trim();
        let (limit, is_growth) = limit.strip_prefix('+').map_or((limit, false), |growth| (growth.trim(), true));
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let limit = match (limit.strip_suffix('%'), of) {
            // Kernels have no fractions.
            (None, Bounded::Cost(Order::Count)) => {
                Limit::Count(f64::from(limit.parse::<u32>().map_err(|_| expected())?))
            }
            (_, Bounded::Late) => Limit::Count(number(limit).ok_or_else(expected)?),
            (Some(percent), _) => Limit::Share(number(percent).ok_or_else(expected)? / 100.0),
            (None, _) => Limit::Time(Some(parse_nanos(limit)?).filter(|time| *time >= Ns::ZERO).ok_or_else(expected)?),
        };
        let bound = Bound { of, rank, is_growth, limit, text: text.to_owned() };
        if is_asked(&bound) && !(bound.is_of_stacks() && rank.is_some()) { Ok(bound) } else { Err(expected()) }
    }

    /// Whether only a comparison of ranks has it.
    pub fn is_of_ranks(&self) -> bool {
        self.rank.is_some() || self.is_of_waiting()
    }

    /// Whether it is on what ranks wait for each other.
    pub fn is_of_waiting(&self) -> bool {
        matches!(self.of, Bounded::Waited | Bounded::Caused | Bounded::Late)
    }

    /// Whether only a comparison of stacks has it.
    pub fn is_of_stacks(&self) -> bool {
        matches!(self.of, Bounded::Cost(_))
    }

    /// As what its numbers are shown.
    pub fn measure(&self) -> Order {
        match self.of {
            Bounded::Cost(measure) => measure,
            Bounded::Late => Order::Count,
            Bounded::Step | Bounded::Idle | Bounded::Waited | Bounded::Caused => Order::GpuTime,
        }
    }

    /// Whether a value is beyond it; a share is of `whole`.
    pub(super) fn is_exceeded(&self, value: f64, whole: f64) -> bool {
        value > self.most(whole, 1.0)
    }

    /// Whether a value grows by more, each divided by a number of units. What was 0 may not grow by any share.
    pub(super) fn is_growth_exceeded(&self, [before, after]: [f64; 2], [units_before, units_after]: [u64; 2]) -> bool {
        let (units_before, units_after) = (units_before as f64, units_after as f64);
        // Multiplied out, so that no ratio of sums is rounded.
        let (first, second) = (before * units_after, after * units_before);
        second - first > self.most(first, units_before * units_after)
    }

    fn most(&self, whole: f64, units: f64) -> f64 {
        match self.limit {
            Limit::Time(limit) => limit.as_f64() * units,
            Limit::Count(limit) => limit * units,
            Limit::Share(share) => whole * share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_on_growth() {
        for (text, before, after, exceeded) in [
            ("exposed>+5%", 1000, 1050, false),
            ("exposed>+5%", 1000, 1051, true),
            ("exposed > +5 %", 1000, 900, false),
            ("gpu>+0%", 1000, 1000, false),
            ("gpu>+0%", 0, 1, true),
            ("gpu>+900%", 0, 1, true),
            ("gpu>+1us", 0, 1000, false),
            ("gpu>+1us", 0, 1001, true),
            ("count>+0", 10, 10, false),
        ] {
            let found = Bound::on_changes(text).unwrap().is_growth_exceeded([before, after].map(f64::from), [1, 1]);
            assert_eq!(found, exceeded, "{text} {before} {after}");
        }
        let wrong = "|exposed|exposed>5%|exposed<+5%|cost>+5%|exposed>+x%|exposed>+-5%|count>+1ms|gpu>+-1|gpu>+NaN%";
        for text in wrong.split('|') {
            assert!(Bound::on_changes(text).is_err(), "{text}");
        }
    }
}
