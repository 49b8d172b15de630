//! How much later each rank of a group enters its calls than its peers.

use std::collections::BTreeMap;

use super::{EntryRank, FEWEST_CALLS};
use crate::operations::calls::Calls;
use crate::operations::calls::groups::CallGroup;
use crate::operations::calls::host_clocks::{common, lengths};
use crate::statistics::median_time;
use crate::time::Ns;

/// A rank that is later, or earlier, in more than this share of the calls may have a different clock.
const ONE_SIDED: f64 = 0.99;

/// The lateness of a group's ranks.
pub(super) struct Lateness {
    /// The number of calls that all ranks have.
    pub(super) calls: u64,
    /// By rank, in the order of the group: what follows from the times alone.
    pub(super) ranks: Vec<EntryRank>,
    /// Whether all times are on one clock, or on clocks whose offsets are subtracted.
    pub(super) is_one_clock: bool,
    /// Whether it follows from how long each rank was in its calls, and from no clock.
    pub(super) is_by_length: bool,
}

/// Compares the ranks of a group after subtracting the offsets of their hosts' clocks; `None` for a single rank.
pub(super) fn measure_group(calls: &Calls, group: &CallGroup, offsets: &BTreeMap<String, Ns>) -> Option<Lateness> {
    let mut times = common(calls, group);
    let n = group.ranks.len();
    if n < 2 {
        return None;
    }
    let hosts: Vec<Option<&String>> = group.ranks.iter().map(|rank| calls.hosts.get(rank)).collect();
    let is_known = hosts.iter().all(Option::is_some);
    // All ranks leave a call at once: who is in it for the shortest time came last, whatever the clocks say.
    let by_length = lengths(calls, group);
    if by_length.len() as u64 >= FEWEST_CALLS && 2 * by_length.len() >= times.len() {
        let (at, entered): (Vec<Vec<Ns>>, Vec<Vec<Ns>>) = by_length
            .into_iter()
            .map(|(at, lengths)| (at, lengths.into_iter().map(|length| Ns::ZERO - length).collect()))
            .unzip();
        let ranks = measure_ranks(&entered, &at, n);
        return Some(Lateness { calls: at.len() as u64, ranks, is_one_clock: true, is_by_length: true });
    }
    for row in &mut times {
        for (time, host) in row.iter_mut().zip(&hosts) {
            let offset = host.and_then(|host| offsets.get(host)).copied().unwrap_or_default();
            *time = *time - offset;
        }
    }
    let ranks = measure_ranks(&times, &times, n);
    Some(Lateness { calls: times.len() as u64, ranks, is_one_clock: is_known, is_by_length: false })
}

/// Compares ranks by their times in each call. Each row is sorted once: the others of a rank are the sorted row without its own time. `at`: when each rank
/// entered the call.
fn measure_ranks(times: &[Vec<Ns>], at: &[Vec<Ns>], ranks: usize) -> Vec<EntryRank> {
    let mut found = vec![EntryRank::default(); ranks];
    let mut lags: Vec<Vec<Ns>> = vec![Vec::with_capacity(times.len()); ranks];
    let mut last = vec![0_u64; ranks];
    let mut sorted = Vec::with_capacity(ranks);
    for (row, at) in times.iter().zip(at) {
        sorted.clone_from(row);
        sorted.sort_unstable();
        for (member, time) in row.iter().enumerate() {
            let own = sorted.partition_point(|other| other < time);
            let latest = if own + 1 == ranks { sorted[own.saturating_sub(1)] } else { sorted[ranks - 1] };
            let rank = &mut found[member];
            let after = *time - latest;
            if after > Ns::ZERO {
                last[member] += 1;
                rank.added_ns += after;
            }
            let lag = *time - median_without(&sorted, own);
            if lag > rank.largest_lag_ns {
                (rank.largest_lag_ns, rank.largest_at_ns) = (lag, at[member]);
            }
            lags[member].push(lag);
        }
    }
    for ((rank, mut lags), last) in found.iter_mut().zip(lags).zip(last) {
        let Some(of_all) = Some(lags.len() as f64).filter(|of_all| *of_all > 0.0) else { continue };
        let quarter = |at: usize| median_time(&mut lags[at * lags.len() / 4..(at + 1) * lags.len() / 4].to_vec());
        rank.lag_by_quarter_ns = [quarter(0), quarter(1), quarter(2), quarter(3)];
        let share = |is: fn(&Ns) -> bool| lags.iter().filter(|lag| is(lag)).count() as f64 / of_all;
        rank.is_one_sided = share(|lag| *lag > Ns::ZERO) > ONE_SIDED || share(|lag| *lag < Ns::ZERO) > ONE_SIDED;
        rank.last_share = last as f64 / of_all;
        rank.lag_ns = median_time(&mut lags);
    }
    found
}

/// The median of sorted times without one of them: the mean of the middle two for an even number, 0 for none.
fn median_without(sorted: &[Ns], one: usize) -> Ns {
    let other = |at: usize| sorted.get(if at < one { at } else { at + 1 }).copied().unwrap_or_default();
    let others = sorted.len().saturating_sub(1);
    let upper = other(others / 2);
    if others == 0 || !others.is_multiple_of(2) { upper } else { Ns(other(others / 2 - 1).0.midpoint(upper.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::calls::host_clocks::test_job;

    /// Five calls of four ranks, worked out by hand.
    #[test]
    fn ranks_are_compared_with_the_median_of_their_peers() {
        let rows = vec![vec![0, 10, 20, 90], vec![5, 5, 5, 5], vec![0, 0, 30, 10], vec![40, 1, 2, 3], vec![7, 7, 0, 7]];
        let (calls, groups) = test_job(&[(&[0, 1, 2, 3], rows)]);
        let found = measure_group(&calls, &groups[0], &BTreeMap::new()).unwrap();
        let us = |time: Ns| time.0 / 1_000;
        // Rank 3 against the median of the others: 90 and 10, 5 and 5, 10 and 0, 3 and 2, 7 and 7.
        let last = &found.ranks[3];
        assert_eq!((us(last.lag_ns), us(last.largest_lag_ns), us(last.largest_at_ns)), (1, 80, 90));
        assert_eq!((last.last_share, us(last.added_ns)), (0.2, 70));
        // Rank 0: 0 and 20, 5 and 5, 0 and 10, 40 and 2, 7 and 7.
        let first = &found.ranks[0];
        assert_eq!((us(first.lag_ns), us(first.largest_lag_ns), us(first.added_ns)), (0, 38, 37));
        assert_eq!(first.lag_by_quarter_ns.map(us), [-20, 0, -10, 19]);
        assert!(found.ranks.iter().all(|rank| !rank.is_one_sided));
    }

    /// All leave at once. Rank 1 comes 5 µs late on a clock that is 3 s ahead; its peers are in each call 5 µs longer.
    #[test]
    fn lengths_need_no_clocks() {
        let rows: Vec<Vec<i64>> = (0..20).map(|at| vec![at * 100, 3_000_005 + at * 100, at * 100]).collect();
        let (mut calls, groups) = test_job(&[(&[0, 1, 2], rows)]);
        for (rank, took) in [(0, 9), (1, 4), (2, 9)] {
            calls.streams[rank].calls.iter_mut().for_each(|call| call.took = Some(Ns(took * 1_000)));
        }
        let found = measure_group(&calls, &groups[0], &BTreeMap::new()).unwrap();
        assert!(found.is_by_length && found.is_one_clock);
        let lags: Vec<i64> = found.ranks.iter().map(|rank| rank.lag_ns.0 / 1_000).collect();
        // Rank 0 against the median of 4 and 9 µs, rank 1 against that of 9 and 9 µs.
        assert_eq!(lags, [-2, 5, -2]);
        assert_eq!(found.ranks[1].largest_at_ns, Ns(3_000_005_000));
        // With a length that is missing on one rank, the clocks are all that there is.
        calls.streams[2].calls.iter_mut().for_each(|call| call.took = None);
        assert!(!measure_group(&calls, &groups[0], &BTreeMap::new()).unwrap().is_by_length);
    }

    #[test]
    fn equal_times_are_no_other_clock() {
        let (calls, groups) = test_job(&[(&[0, 1], vec![vec![3, 3]; 20]), (&[2, 3], vec![vec![3, 4]; 20])]);
        let sides =
            |group| measure_group(&calls, group, &BTreeMap::new()).unwrap().ranks.into_iter().map(|of| of.is_one_sided);
        assert_eq!(sides(&groups[0]).collect::<Vec<_>>(), [false, false]);
        assert_eq!(sides(&groups[1]).collect::<Vec<_>>(), [true, true]);
    }
}
