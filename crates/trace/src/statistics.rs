//! Robust statistics, which a few outliers do not move: the median, and the deviation from it.
//!
//! The median of an even number of values is the mean of the two in the middle ([`middle`] has both).

use std::cmp::Ordering;

use crate::time::Ns;

/// The middle of a slice of values, which is now partly ordered.
#[derive(Debug)]
pub struct Middle<'v, T> {
    /// The lower of the two middle values; the middle value if their number is odd.
    pub lower: T,
    pub upper: T,
    /// The values above, unordered.
    pub above: &'v mut [T],
}

/// Selects the middle of a slice, which is faster than sorting it. `None` if it is empty.
pub fn middle<T: Copy>(values: &mut [T], compare: impl Fn(&T, &T) -> Ordering) -> Option<Middle<'_, T>> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let (below, upper, above) = values.select_nth_unstable_by(count / 2, &compare);
    let upper = *upper;
    let lower = below.iter().copied().max_by(&compare).filter(|_| count.is_multiple_of(2)).unwrap_or(upper);
    Some(Middle { lower, upper, above })
}

/// The median; 0 if there are no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    middle(&mut values, f64::total_cmp).map_or(0.0, |middle| f64::midpoint(middle.lower, middle.upper))
}

/// The median of times, exact also for times since 1970, which a float is not. Reorders the slice; zero if it is empty.
pub fn median_time(times: &mut [Ns]) -> Ns {
    middle(times, Ns::cmp).map_or(Ns::ZERO, |middle| Ns(middle.lower.0.midpoint(middle.upper.0)))
}

/// The sample standard deviation; 0 for fewer than two values.
pub fn std_dev(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len();
    let mean = values.clone().sum::<f64>() / count as f64;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 }
}

/// The weighted median of (value, weight) pairs: half of the weight is on either side. 0 if there are none.
pub fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    for (value, weight) in &values {
        sum += weight;
        if sum >= half {
            return *value;
        }
    }
    values.last().map_or(0.0, |(value, _)| *value)
}

/// The quantile of a share, interpolated linearly between the two nearest values. 0 if there are no values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// The median of some values, and how far they deviate from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    pub median: f64,
    /// The median absolute deviation: the median of the distances from the median.
    pub distance: f64,
}

impl Deviation {
    /// The standard deviation of a normal distribution, in median absolute deviations.
    pub const SCALE: f64 = 1.4826;

    /// Measures some values; zeros if there are none.
    pub fn measure(values: impl IntoIterator<Item = f64, IntoIter: Clone>) -> Self {
        let values = values.into_iter();
        let median = median(values.clone());
        Deviation { median, distance: self::median(values.map(|value| (value - median).abs())) }
    }

    /// The standard deviation that a normal distribution with this distance has.
    pub fn standard(&self) -> f64 {
        Self::SCALE * self.distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_counts_are_between_the_middle_two() {
        assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0]), median([])), (2.0, 2.5, 0.0));
        let time = |times: &[i64]| median_time(&mut times.iter().copied().map(Ns).collect::<Vec<_>>());
        assert_eq!((time(&[30, 10, 20]), time(&[40, 10, 5, 20]), time(&[])), (Ns(20), Ns(15), Ns::ZERO));
        assert_eq!(time(&[i64::MAX, i64::MAX - 2]), Ns(i64::MAX - 1));
    }

    #[test]
    fn the_middle_has_both_values() {
        let mut values = [5, 1, 4, 2];
        let middle = middle(&mut values, i32::cmp).unwrap();
        assert_eq!((middle.lower, middle.upper, &*middle.above), (2, 4, &[5][..]));
        assert!(super::middle(&mut [], i32::cmp).is_none());
    }

    #[test]
    fn half_of_the_weight_is_on_either_side() {
        assert_eq!(weighted_median(vec![(3.0, 1.0), (1.0, 5.0), (2.0, 1.0)]), 1.0);
        assert_eq!((weighted_median(vec![(1.0, 1.0), (2.0, 1.0)]), weighted_median(Vec::new())), (1.0, 0.0));
    }

    #[test]
    fn deviations_are_those_of_a_calculation_by_hand() {
        // Distances 21.5, 362.5, 21.5 and 37.5.
        let measured = Deviation::measure([122.0, 506.0, 165.0, 106.0]);
        assert_eq!((measured.median, measured.distance), (143.5, 29.5));
        assert_eq!(measured.standard(), 1.4826 * 29.5);
        assert_eq!(quantile(&[122.0, 506.0, 165.0, 106.0], 0.25), 118.0);
    }
}
