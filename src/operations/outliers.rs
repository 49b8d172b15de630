//! Which of some values are unlike the others: three statistics for one question.
//!
//! Few values say little: below [`FEWEST`] nothing is an outlier.

use serde::Serialize;

use crate::statistics::{Deviation, median, quantile};

/// Of fewer values none is an outlier.
pub const FEWEST: usize = 4;

/// By which statistic outliers are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outliers {
    /// More scaled median absolute deviations above the median than the largest of as many healthy values is in 99 of 100 jobs: 21.3 of four
    /// values, 6.9 of 32.
    #[default]
    Mad,
    /// More than 1.5 interquartile ranges above the third quartile (Tukey).
    Iqr,
    /// Grubbs' test at 5 %, one by one. Its table is for 4 to 30 values; more are judged as by [`mad`](Outliers::Mad).
    Grubbs,
}

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

/// Interquartile ranges above the third quartile.
const FENCE: f64 = 1.5;

/// Critical values of Grubbs' one-sided test at 5 % for 4 to 30 values.
const GRUBBS: [f64; 27] = [
    1.462, 1.671, 1.822, 1.938, 2.032, 2.110, 2.176, 2.234, 2.285, 2.331, 2.372, 2.409, 2.443, 2.475, 2.504, 2.531,
    2.557, 2.580, 2.603, 2.624, 2.644, 2.663, 2.681, 2.698, 2.714, 2.730, 2.745,
];

/// A value that was judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// How far it is above the others in units of the statistic; [`Judged::limit`] is where outliers begin.
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

impl Outliers {
    /// Judges each of some values; `None` for too few. Deviations are at least 2 % of the median.
    pub fn judge(self, values: &[f64]) -> Option<Vec<Judged>> {
        if values.len() < FEWEST {
            return None;
        }
        Some(match self {
            Outliers::Grubbs if values.len() < FEWEST + GRUBBS.len() => grubbs(values),
            Outliers::Mad | Outliers::Grubbs => mad(values, LEAST, limit_of_largest(values.len())),
            Outliers::Iqr => iqr(values),
        })
    }
}

/// Judges each value by its deviation from the median, with deviations that are at least a share of the median; `None` for too few.
pub(crate) fn judge_by_deviations(values: &[f64], least: f64) -> Option<Vec<Judged>> {
    (values.len() >= FEWEST).then(|| mad(values, least, MAD_LIMIT))
}

/// The score that the largest of so many healthy values hardly ever has.
fn limit_of_largest(values: usize) -> f64 {
    let of_many = LARGEST_OF_MANY[usize::from(values >= 32)];
    values.checked_sub(FEWEST).and_then(|at| LARGEST_OF_FEW.get(at)).copied().unwrap_or(of_many)
}

/// The score of a value, which need not be one of them, among those that [`Outliers::Mad`] judges.
pub(crate) fn score_among(values: &[f64], value: f64) -> f64 {
    let (center, scale) = center_and_scale(values, LEAST);
    (value - center) / scale
}

fn center_and_scale(values: &[f64], least: f64) -> (f64, f64) {
    let measured = Deviation::measure(values.iter().copied());
    (measured.median, at_least(measured.standard(), measured.median, least))
}

fn mad(values: &[f64], least: f64, limit: f64) -> Vec<Judged> {
    let (center, scale) = center_and_scale(values, least);
    values.iter().map(|value| Judged { score: (value - center) / scale, limit }).collect()
}

fn iqr(values: &[f64]) -> Vec<Judged> {
    let (first, third) = (quantile(values, 0.25), quantile(values, 0.75));
    let range = at_least(third - first, median(values.iter().copied()), LEAST);
    values.iter().map(|value| Judged { score: (value - third) / range, limit: FENCE }).collect()
}

/// The largest is judged; if it is an outlier, the next without it, and so on.
fn grubbs(values: &[f64]) -> Vec<Judged> {
    let mut judged = vec![Judged { score: 0.0, limit: f64::INFINITY }; values.len()];
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    while let (Some(last), Some(limit)) = (order.last(), order.len().checked_sub(FEWEST).and_then(|at| GRUBBS.get(at)))
    {
        let n = order.len() as f64;
        let mean = order.iter().map(|at| values[*at]).sum::<f64>() / n;
        let variance = order.iter().map(|at| (values[*at] - mean).powi(2)).sum::<f64>() / (n - 1.0);
        judged[*last] =
            Judged { score: (values[*last] - mean) / at_least(variance.sqrt(), mean, LEAST), limit: *limit };
        if !judged[*last].is_outlier() {
            for at in &order {
                let deviation = at_least(variance.sqrt(), mean, LEAST);
                judged[*at] = Judged { score: (values[*at] - mean) / deviation, limit: *limit };
            }
            break;
        }
        order.pop();
    }
    judged
}

fn at_least(scale: f64, center: f64, share: f64) -> f64 {
    scale.max(center.abs() * share).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;

    fn outliers(by: Outliers, values: &[f64]) -> Vec<usize> {
        let judged = by.judge(values).unwrap();
        (0..values.len()).filter(|at| judged[*at].is_outlier()).collect()
    }

    #[test]
    fn each_statistic_finds_the_one_that_differs() {
        let values = [122.0, 1506.0, 165.0, 106.0];
        for by in [Outliers::Mad, Outliers::Iqr, Outliers::Grubbs] {
            assert_eq!(outliers(by, &values), [1], "{by:?}");
            assert_eq!(outliers(by, &[10.0, 11.0, 12.0, 11.5, 10.5]), [0_usize; 0], "{by:?}");
            assert!(by.judge(&values[..3]).is_none(), "{by:?}");
            assert_eq!(outliers(by, &[5.0; 6]), [0_usize; 0], "{by:?}");
            // Small values are not outliers: no rank waits for one that is early.
            assert_eq!(outliers(by, &[100.0, 101.0, 102.0, 103.0, 5.0]), [0_usize; 0], "{by:?}");
        }
    }

    #[test]
    fn scores_are_those_of_a_calculation_by_hand() {
        // Median 143.5; deviations 21.5, 362.5, 21.5, 37.5, whose median is 29.5.
        let of_mad = Outliers::Mad.judge(&[122.0, 506.0, 165.0, 106.0]).unwrap()[1].score;
        assert!((of_mad - 362.5 / (1.4826 * 29.5)).abs() < 1e-9, "{of_mad}");
        // Quartiles 118 and 250.25.
        let of_iqr = Outliers::Iqr.judge(&[122.0, 506.0, 165.0, 106.0]).unwrap()[1].score;
        assert!((of_iqr - (506.0 - 250.25) / 132.25).abs() < 1e-9, "{of_iqr}");
        // Mean 224.75, standard deviation 189.1.
        let of_grubbs = Outliers::Grubbs.judge(&[122.0, 506.0, 165.0, 106.0]).unwrap()[1];
        assert!((of_grubbs.score - 1.487).abs() < 0.001 && of_grubbs.is_outlier(), "{of_grubbs:?}");
    }

    #[test]
    fn grubbs_finds_several_and_leaves_many_to_mad() {
        let mut values: Vec<f64> = (0..20).map(|at| 100.0 + f64::from(at)).collect();
        values.extend([900.0, 4000.0]);
        assert_eq!(outliers(Outliers::Grubbs, &values), [20, 21]);
        let many: Vec<f64> = (0..40).map(|at| if at == 7 { 5000.0 } else { 100.0 + f64::from(at) }).collect();
        assert_eq!(outliers(Outliers::Grubbs, &many), [7]);
    }

    /// The simulation of the limits: differences without a sign, of which none is an outlier.
    #[test]
    fn healthy_values_hardly_ever_have_an_outlier() {
        let mut random = Random(5);
        for (n, sets) in (4..=16).chain([24, 32]).map(|n| (n, 10_000)).chain([(256, 1000)]) {
            let mut drawn = |_| outliers(Outliers::Mad, &(0..n).map(|_| random.normal().abs()).collect::<Vec<_>>());
            let named = (0..sets).map(&mut drawn).filter(|found| !found.is_empty()).count() as f64;
            // Two standard errors of 1 % of 10,000 are 0.2 %.
            assert!(named / f64::from(sets) < 0.012, "{named} of {sets} sets of {n}");
        }
    }
}
