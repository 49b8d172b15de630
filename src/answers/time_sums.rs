//! Sums of durations that can be merged with those of other traces, on other machines, in any order: count, total, minimum and maximum, sum of
//! squares, and a histogram for the median and percentiles.
//!
//! All values are integers, so the order of merging changes no digit.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Ns;

/// The number of equal buckets in each power of two.
const DIVISIONS: u64 = 64;

/// The number of times in each bucket.
///
/// A time below 128 ns has a bucket of its own. Above, each power of two has 64 buckets of equal width, whose middle is within 1/128 (0.8 %) of every
/// time in it. A time `t` of `e + 7` binary digits is in bucket `64 e + (t >> e)`; a negative time is in `-1 -` the bucket of `-t`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: BTreeMap<i32, u64>,
}

impl Histogram {
    fn bucket(time: Ns) -> i32 {
        let size = time.0.unsigned_abs();
        let shift = (u64::BITS - size.leading_zeros()).saturating_sub(7);
        let bucket = (u64::from(shift) * DIVISIONS + (size >> shift)) as i32;
        if time < Ns::ZERO { -1 - bucket } else { bucket }
    }

    /// The middle of a bucket, in ns.
    fn middle(bucket: i32) -> f64 {
        let size = if bucket < 0 { -1 - bucket } else { bucket } as u64;
        let shift = (size / DIVISIONS).saturating_sub(1);
        let low = (size - shift * DIVISIONS) as f64;
        // Below 128 ns, a bucket holds a single time.
        let middle = if shift == 0 { low } else { (low + 0.5) * 2f64.powi(shift as i32) };
        if bucket < 0 { -middle } else { middle }
    }

    fn add(&mut self, time: Ns) {
        *self.buckets.entry(Self::bucket(time)).or_default() += 1;
    }

    fn merge(&mut self, other: &Histogram) {
        other.buckets.iter().for_each(|(bucket, times)| *self.buckets.entry(*bucket).or_default() += times);
    }

    /// The time at position `nth` in sorted order, in ns, within 0.8 %.
    fn nth(&self, nth: u64) -> f64 {
        let mut before = 0;
        let mut buckets = self.buckets.iter();
        let found = buckets.find(|(_, times)| {
            before += **times;
            before > nth
        });
        found.map_or(0.0, |(bucket, _)| Self::middle(*bucket))
    }
}

/// `812:3 813:5`: buckets with their counts.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (bucket, times)) in self.buckets.iter().enumerate() {
            let separator = if at > 0 { " " } else { "" };
            write!(f, "{separator}{bucket}:{times}")?;
        }
        Ok(())
    }
}

impl FromStr for Histogram {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bucket = |pair: &str| {
            let (bucket, times) = pair.split_once(':')?;
            let bucket = bucket.parse().ok().filter(|of| (Self::bucket(Ns::MIN)..=Self::bucket(Ns::MAX)).contains(of));
            Some((bucket?, times.parse().ok()?))
        };
        let buckets = text.split_ascii_whitespace().map(bucket).collect::<Option<_>>();
        Ok(Histogram { buckets: buckets.ok_or("not a histogram: expected bucket:count pairs separated by spaces")? })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSums {
    /// The number of durations.
    pub count: u64,
    /// Their sum.
    pub total_ns: Ns,
    /// The smallest; 0 if there are none.
    pub min_ns: Ns,
    /// The largest; 0 if there are none.
    pub max_ns: Ns,
    /// The sum of their squares, in ns².
    #[serde(rename = "squares_ns2", with = "text")]
    pub squares: u128,
    /// The number of durations in each bucket.
    #[serde(with = "text")]
    pub histogram: Histogram,
}

impl TimeSums {
    /// Sums up durations.
    pub fn from_times(times: impl IntoIterator<Item = Ns>) -> Self {
        let mut sums = TimeSums::default();
        times.into_iter().for_each(|time| sums.add(time));
        sums
    }

    pub fn add(&mut self, time: Ns) {
        (self.min_ns, self.max_ns) = match self.count {
            0 => (time, time),
            _ => (self.min_ns.min(time), self.max_ns.max(time)),
        };
        self.count += 1;
        self.total_ns += time;
        let size = u128::from(time.0.unsigned_abs());
        self.squares = self.squares.saturating_add(size * size);
        self.histogram.add(time);
    }

    pub fn merge(&mut self, other: &TimeSums) {
        if other.count == 0 {
            return;
        }
        (self.min_ns, self.max_ns) = match self.count {
            0 => (other.min_ns, other.max_ns),
            _ => (self.min_ns.min(other.min_ns), self.max_ns.max(other.max_ns)),
        };
        self.count = self.count.saturating_add(other.count);
        self.total_ns += other.total_ns;
        self.squares = self.squares.saturating_add(other.squares);
        self.histogram.merge(&other.histogram);
    }

    /// The mean of the middle durations, in ns, within 0.8 %; 0 if there are none.
    pub fn median(&self) -> f64 {
        match self.count {
            0 => 0.0,
            n @ (1 | 2) => self.total_ns.as_f64() / n as f64,
            n => self.within(f64::midpoint(self.histogram.nth((n - 1) / 2), self.histogram.nth(n / 2))),
        }
    }

    /// The smallest duration that at least 95 % do not exceed, within 0.8 %; 0 if there are none.
    pub fn p95(&self) -> Ns {
        let before = (self.count * 95).div_ceil(100).saturating_sub(1);
        Ns(self.within(self.histogram.nth(before)).round() as i64)
    }

    fn within(&self, time: f64) -> f64 {
        // Not `clamp`, which panics if a hostile part has its limits swapped.
        time.max(self.min_ns.as_f64()).min(self.max_ns.as_f64())
    }

    /// The sample standard deviation, in ns; 0 for fewer than two durations.
    pub fn std_dev(&self) -> f64 {
        if self.count > 1 { (self.variation() / (self.count - 1) as f64).sqrt() } else { 0.0 }
    }

    /// The sum of squared differences from the mean, in ns². Computed in integers where they fit, so that nothing is lost when times are long and
    /// nearly equal.
    fn variation(&self) -> f64 {
        let (n, total) = (u128::from(self.count), u128::from(self.total_ns.0.unsigned_abs()));
        let exact = || n.checked_mul(self.squares)?.checked_sub(total.checked_mul(total)?);
        match exact() {
            Some(exact) => exact as f64 / n as f64,
            None => (self.squares as f64 - total as f64 * total as f64 / n as f64).max(0.0),
        }
    }
}

/// Serialises values as strings, because JSON numbers have only 64 bits.
mod text {
    use super::{Deserialize, Deserializer, FromStr, Serializer, fmt};

    pub(super) fn serialize<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 128 is the first time in a bucket of two times, 256 in one of four: `64 e + (t >> e)` with e = 1 and 2.
    #[test]
    fn buckets_are_as_wide_as_documented() {
        let bucket = |time: i64| Histogram::bucket(Ns(time));
        assert_eq!([0, 1, 127].map(bucket), [0, 1, 127]);
        assert_eq!([128, 129, 130, 255].map(bucket), [128, 128, 129, 191]);
        assert_eq!([256, 259, 260].map(bucket), [192, 192, 193]);
        assert_eq!([-1, -128].map(bucket), [-2, -129]);
        assert_eq!([Histogram::middle(127), Histogram::middle(128), Histogram::middle(192)], [127.0, 129.0, 258.0]);
        assert_eq!([Histogram::middle(-2), Histogram::middle(-129)], [-1.0, -129.0]);
    }

    #[test]
    fn a_middle_is_within_one_percent() {
        let mut time = 1i64;
        while time < i64::MAX / 3 {
            for time in [time, time * 2 - 1, time * 3 / 2] {
                let error = (Histogram::middle(Histogram::bucket(Ns(time))) / time as f64 - 1.0).abs();
                assert!(error <= 1.0 / 128.0, "{time}: {error}");
            }
            time *= 2;
        }
        assert_eq!(Histogram::bucket(Ns::MAX), 56 * 64 + 127);
    }

    #[test]
    fn sums_are_equal_in_any_order_and_after_writing() {
        let (a, b, c) =
            (TimeSums::from_times([Ns(3), Ns(-70)]), TimeSums::from_times([]), TimeSums::from_times([Ns(1 << 40)]));
        let (mut ab, mut cb) = (a.clone(), c.clone());
        ab.merge(&b);
        ab.merge(&c);
        cb.merge(&b);
        cb.merge(&a);
        assert_eq!(ab, cb);
        assert_eq!((ab.count, ab.min_ns, ab.max_ns), (3, Ns(-70), Ns(1 << 40)));
        let text = serde_json::to_string(&ab).unwrap();
        assert!(text.contains(r#""squares_ns2":"1208925819614629174711085","histogram":"-71:1 3:1 2240:1""#), "{text}");
        assert_eq!(serde_json::from_str::<TimeSums>(&text).unwrap(), ab);
        for wrong in ["1", "1:", "a:1", "9999:1", "1:-1"] {
            assert!(wrong.parse::<Histogram>().is_err(), "{wrong}");
        }
    }
}
