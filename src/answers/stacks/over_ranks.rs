//! How ranks differ in what a stack's kernels cost: a sum over all ranks hides an outlier.

use std::sync::Arc;

use serde::Serialize;

use crate::answers::cost::Totals;
use crate::operations::outliers::{Judged, MAD_LIMIT, judge_by_deviations};

/// How many outliers are listed on each side.
const NAMED: usize = 4;

/// A stack compared over the ranks that have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverRanks {
    /// The number of ranks that have it.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub ranks: u64,
    /// The number of all ranks.
    #[cfg_attr(test, schemars(range(min = 2)))]
    pub ranks_in_all: u64,
    /// The number of kernels of a rank.
    pub count: Limits,
    /// How long they ran, in ns.
    pub gpu_time_ns: Limits,
    /// How long no compute kernel ran beside them, in ns.
    pub exposed_ns: Limits,
    /// The rank with the least GPU time; its trace if the rank is unknown. A collective is shortest on the rank that the others wait for.
    pub shortest: String,
    /// The rank with the most GPU time.
    pub longest: String,
    /// The number of ranks whose kernels ran much longer or shorter than those of most ranks.
    pub outliers_found: u64,
    /// The most extreme outliers: up to 4 shorter ones, shortest first, then up to 4 longer ones, longest first.
    #[cfg_attr(test, schemars(length(max = 8)))]
    pub outliers: Vec<RankOutlier>,
}

/// The minimum, mean and maximum over the ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limits {
    /// The smallest.
    pub min: i64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: i64,
}

/// A rank that differs from most ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankOutlier {
    /// The rank, or the trace if its rank is unknown.
    pub rank: String,
    /// What its kernels cost.
    #[serde(flatten)]
    pub totals: Totals,
}

/// What a stack costs on a rank.
#[derive(Debug)]
pub(super) struct OfRank {
    pub(super) rank: Arc<str>,
    pub(super) totals: Totals,
}

impl OverRanks {
    /// Compares the ranks that have a stack. `None` if there is only one rank.
    pub(super) fn compare(ranks: Vec<OfRank>, in_all: u64) -> Option<Self> {
        if in_all < 2 {
            return None;
        }
        let limits = |of: fn(&Totals) -> i64| {
            let values = || ranks.iter().map(|rank| of(&rank.totals));
            Some(Limits {
                min: values().min()?,
                mean: values().map(|value| value as f64).sum::<f64>() / ranks.len() as f64,
                max: values().max()?,
            })
        };
        let by = |rank: &&OfRank| (rank.totals.gpu_time_ns, std::cmp::Reverse(rank.rank.clone()));
        let name = |rank: &OfRank| rank.rank.to_string();
        let (outliers_found, named) = outliers(&ranks);
        Some(OverRanks {
            shortest: ranks.iter().min_by_key(|rank| (rank.totals.gpu_time_ns, rank.rank.clone())).map(name)?,
            longest: ranks.iter().max_by_key(by).map(name)?,
            outliers_found,
            outliers: named,
            ranks: ranks.len() as u64,
            ranks_in_all: in_all,
            count: limits(|of| of.count as i64)?,
            gpu_time_ns: limits(|of| of.gpu_time_ns.0)?,
            exposed_ns: limits(|of| of.exposed_ns.0)?,
        })
    }
}

/// Totals that differ by less than this share of their median are alike: no two GPUs run the same kernels for exactly as long.
const ALIKE: f64 = 0.1;

/// The number of outliers by median absolute deviation on both sides, and the ones to list.
fn outliers(ranks: &[OfRank]) -> (u64, Vec<RankOutlier>) {
    let times: Vec<f64> = ranks.iter().map(|rank| rank.totals.gpu_time_ns.as_f64()).collect();
    let Some(judged) = judge_by_deviations(&times, ALIKE / MAD_LIMIT) else { return (0, Vec::new()) };
    let mut far: Vec<(&OfRank, &Judged)> = ranks.iter().zip(&judged).filter(|(_, judged)| judged.is_far()).collect();
    far.sort_by(|(a, _), (b, _)| (a.totals.gpu_time_ns, &a.rank).cmp(&(b.totals.gpu_time_ns, &b.rank)));
    let shorter = far.partition_point(|(_, judged)| judged.score < 0.0);
    let longer = far[shorter..].iter().rev().take(NAMED);
    let outlier = |(rank, _): &(&OfRank, &Judged)| RankOutlier { rank: rank.rank.to_string(), totals: rank.totals };
    (far.len() as u64, far[..shorter].iter().take(NAMED).chain(longer).map(outlier).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    fn ranks(times: &[i64]) -> Vec<OfRank> {
        let rank = |(at, time): (usize, &i64)| OfRank {
            rank: Arc::from(format!("rank {at}")),
            totals: Totals { count: 2, gpu_time_ns: Ns(*time), exposed_ns: Ns(*time / 2), critical: None },
        };
        times.iter().enumerate().map(rank).collect()
    }

    /// The median of the six is 101.5 and their deviation 1.4826 × 1.5. 20 is an outlier; 110 exceeds the deviation limit too, but is within a tenth
    /// of the median.
    #[test]
    fn ranks_that_differ_are_named() {
        let over = OverRanks::compare(ranks(&[100, 101, 102, 103, 20, 110]), 8).unwrap();
        assert_eq!((over.ranks, over.ranks_in_all), (6, 8));
        assert_eq!((over.gpu_time_ns.min, over.gpu_time_ns.max, over.count.max), (20, 110, 2));
        assert_eq!(over.exposed_ns.mean, (50 + 50 + 51 + 51 + 10 + 55) as f64 / 6.0);
        let named: Vec<&str> = over.outliers.iter().map(|outlier| outlier.rank.as_str()).collect();
        assert_eq!((named, over.outliers_found), (vec!["rank 4"], 1));
        assert_eq!((&*over.shortest, &*over.longest), ("rank 4", "rank 5"));
        // Of 20 ranks, six are shorter, of which four are listed, and two are longer.
        let times = [&[10, 11, 12, 13, 14, 15][..], &[100; 12], &[882, 881]].concat();
        let over = OverRanks::compare(ranks(&times), 20).unwrap();
        let named: Vec<&str> = over.outliers.iter().map(|outlier| outlier.rank.as_str()).collect();
        assert_eq!(
            (named, over.outliers_found),
            (vec!["rank 0", "rank 1", "rank 2", "rank 3", "rank 18", "rank 19"], 8)
        );
        assert!(OverRanks::compare(ranks(&[1, 1, 900]), 3).unwrap().outliers.is_empty());
        assert_eq!(OverRanks::compare(ranks(&[1]), 1), None);
    }
}
