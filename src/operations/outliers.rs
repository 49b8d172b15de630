//! Which of some values are unlike the others: more scaled median absolute deviations from the median than others are.
//!
//! Few values say little: below [`FEWEST`] nothing is an outlier.

use crate::statistics::Deviation;

/// Of fewer values none is an outlier.
pub const FEWEST: usize = 4;

/// Scores above this are outliers, by median absolute deviations (Iglewicz and Hoaglin): a limit for each of many values.
pub(crate) const MAD_LIMIT: f64 = 3.5;

/// The same limit for the largest of 4 to 15 values. What is judged is by how much the last of each group is late: the size of a difference
/// that has no sign, so half-normal. Of such sets 0.8 % have a larger score (150,000 or more were drawn for each number). At 3.5 it would be 17
/// to 40 %: a deviation of few values is often small by chance, more so for an odd number, where the median's own deviation is 0.
const LARGEST_OF_FEW: [f64; 12] = [21.3, 24.6, 14.3, 15.0, 11.4, 11.7, 10.1, 10.2, 9.1, 9.1, 8.5, 8.6];

/// The same for 16 values and more, and for 32 and more, up to 1,024.
const LARGEST_OF_MANY: [f64; 2] = [8.1, 6.9];

/// Where values are nearly equal, what differs by nothing would be an outlier: deviations are at least this share of the median.
const LEAST: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// How many scaled deviations it is above the median.
    pub score: f64,
    /// Above this score it is an outlier.
    pub limit: f64,
}

impl Judged {
    /// Whether it is too large to be like the others.
    pub fn is_outlier(&self) -> bool {
        self.score > self.limit
    }

    /// Whether it is too large, or too small.
    pub(crate) fn is_far(&self) -> bool {
        self.score.abs() > self.limit
    }
}

/// Judges each of some values by the limit of the largest; `None` for too few. Deviations are at least 2 % of the median.
pub fn judge_largest(values: &[f64]) -> Option<Vec<Judged>> {
    (values.len() >= FEWEST).then(|| judge(values, LEAST, limit_of_largest(values.len())))
}

/// Judges each value by its deviation from the median, with deviations that are at least a share of the median; `None` for too few.
pub(crate) fn judge_by_deviations(values: &[f64], least: f64) -> Option<Vec<Judged>> {
    (values.len() >= FEWEST).then(|| judge(values, least, MAD_LIMIT))
}

/// The score that the largest of so many healthy values hardly ever has.
fn limit_of_largest(values: usize) -> f64 {
    let of_many = LARGEST_OF_MANY[usize::from(values >= 32)];
    values.checked_sub(FEWEST).and_then(|at| LARGEST_OF_FEW.get(at)).copied().unwrap_or(of_many)
}

/// The score of a value, which need not be one of them, among those that [`judge_largest`] judges.
pub(crate) fn score_among(values: &[f64], value: f64) -> f64 {
    let (center, scale) = center_and_scale(values, LEAST);
    (value - center) / scale
}

fn center_and_scale(values: &[f64], least: f64) -> (f64, f64) {
    let measured = Deviation::measure(values.iter().copied());
    (measured.median, measured.standard().max(measured.median.abs() * least).max(f64::MIN_POSITIVE))
}

fn judge(values: &[f64], least: f64, limit: f64) -> Vec<Judged> {
    let (center, scale) = center_and_scale(values, least);
    values.iter().map(|value| Judged { score: (value - center) / scale, limit }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;

    fn outliers(values: &[f64]) -> Vec<usize> {
        let judged = judge_largest(values).unwrap();
        (0..values.len()).filter(|at| judged[*at].is_outlier()).collect()
    }

    #[test]
    fn the_one_that_differs_is_found() {
        let values = [122.0, 1506.0, 165.0, 106.0];
        assert_eq!(outliers(&values), [1]);
        assert_eq!(outliers(&[10.0, 11.0, 12.0, 11.5, 10.5]), [0_usize; 0]);
        assert!(judge_largest(&values[..3]).is_none());
        assert_eq!(outliers(&[5.0; 6]), [0_usize; 0]);
        // Small values are not outliers: no rank waits for one that is early.
        assert_eq!(outliers(&[100.0, 101.0, 102.0, 103.0, 5.0]), [0_usize; 0]);
    }

    #[test]
    fn scores_are_those_of_a_calculation_by_hand() {
        // Median 143.5; deviations 21.5, 362.5, 21.5, 37.5, whose median is 29.5.
        let score = judge_largest(&[122.0, 506.0, 165.0, 106.0]).unwrap()[1].score;
        assert!((score - 362.5 / (1.4826 * 29.5)).abs() < 1e-9, "{score}");
    }

    /// The simulation of the limits: differences without a sign, of which none is an outlier.
    #[test]
    fn healthy_values_hardly_ever_have_an_outlier() {
        let mut random = Random(5);
        for (n, sets) in (4..=16).chain([24, 32]).map(|n| (n, 10_000)).chain([(256, 1000)]) {
            let mut drawn = |_| outliers(&(0..n).map(|_| random.normal().abs()).collect::<Vec<_>>());
            let named = (0..sets).map(&mut drawn).filter(|found| !found.is_empty()).count() as f64;
            // Two standard errors of 1 % of 10,000 are 0.2 %.
            assert!(named / f64::from(sets) < 0.012, "{named} of {sets} sets of {n}");
        }
    }
}
