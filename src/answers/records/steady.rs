//! A value that repeats from operation to operation: its median and how certain that is. Single operations differ by many times, so that sums say little.

use crate::statistics::{Deviation, median};

/// With fewer values nothing is certain.
const FEWEST: usize = 16;

/// The standard error of a median is so many times that of a mean.
const OF_MEDIAN: f64 = 1.2533;

/// So many standard errors apart is not by chance: among 1,000 links one in 740 is, and a job has more than one operation of each.
const ERRORS: f64 = 3.0;

/// The median of at least 16 values, and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    pub median: f64,
    pub error: f64,
}

impl Steady {
    /// The median of some values; `None` if they are too few.
    pub(super) fn find(values: Vec<f64>) -> Option<Self> {
        let count = values.len();
        let deviation = Deviation::measure(values.iter().copied()).standard();
        let error = OF_MEDIAN * deviation / (count as f64).sqrt();
        (count >= FEWEST).then(|| Steady { median: median(values), error })
    }

    /// Whether it is less than a limit for certain.
    pub(super) fn is_below(&self, limit: f64) -> bool {
        self.median + ERRORS * self.error < limit
    }

    /// Whether it is more than a limit for certain.
    pub(super) fn is_above(&self, limit: f64) -> bool {
        self.median - ERRORS * self.error > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_and_values_that_differ_say_nothing() {
        assert_eq!(Steady::find(vec![1.0; 15]), None);
        let steady = Steady::find(vec![1.0; 16]).unwrap();
        assert!(steady.is_below(1.1) && !steady.is_below(1.0) && steady.is_above(0.9));
        // Half of them 1, half of them 9: the median is 5 within 1.2533 x 5.93 / 4.
        let apart = Steady::find((0..16).map(|at| if at % 2 == 0 { 1.0 } else { 9.0 }).collect()).unwrap();
        assert!(!apart.is_below(10.0) && apart.is_below(11.0), "{apart:?}");
    }
}
