//! How much later each rank of a group enters its calls than its peers.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::Calls;
use super::groups::CallGroup;
use super::matched::matched;
use crate::statistics::median_time;
use crate::time::Ns;

/// A rank that is later, or earlier, in more than this share of the calls may have another clock.
const ONE_SIDED: f64 = 0.99;

/// How many calls of a group are looked at for the clocks of hosts.
const SAMPLES: usize = 1000;

/// The most rounds of medians. Two suffice where every group has all hosts; where only neighbours call together it takes more.
const ROUNDS: usize = 200;

/// A round that moves no clock further than this is the last.
const STILL: Ns = Ns(1_000);

/// The ranks of a group.
pub(super) struct Lateness {
    /// How many calls are on all ranks.
    pub(super) calls: u64,
    /// By rank, in the order of the group.
    pub(super) ranks: Vec<RankLateness>,
    /// Whether all times are on one clock, or on clocks whose differences are subtracted.
    pub(super) is_one_clock: bool,
}

/// A rank of a group.
#[derive(Default)]
pub(super) struct RankLateness {
    pub(super) lag: Ns,
    pub(super) by_quarter: [Ns; 4],
    pub(super) last_share: f64,
    pub(super) added: Ns,
    /// The largest lag, and when the rank entered that call, less the offset of its host.
    pub(super) largest: (Ns, Ns),
    /// Whether it is later in nearly every call, or earlier.
    pub(super) is_one_sided: bool,
}

/// Compares the ranks of a group, once the offsets of their hosts' clocks are subtracted; `None` for one rank.
pub(super) fn of_group(calls: &Calls, group: &CallGroup, offsets: &BTreeMap<String, Ns>) -> Option<Lateness> {
    let mut times = common(calls, group);
    let n = group.ranks.len();
    if n < 2 {
        return None;
    }
    let hosts: Vec<Option<&String>> = group.ranks.iter().map(|rank| calls.hosts.get(rank)).collect();
    let is_known = hosts.iter().all(Option::is_some);
    for row in &mut times {
        for (time, host) in row.iter_mut().zip(&hosts) {
            let offset = host.and_then(|host| offsets.get(host)).copied().unwrap_or_default();
            *time = Ns(time.0.saturating_sub(offset.0));
        }
    }
    Some(Lateness { calls: times.len() as u64, ranks: of_ranks(&times, n), is_one_clock: is_known })
}

/// By call that all ranks have: when each enters it.
fn common(calls: &Calls, group: &CallGroup) -> Vec<Vec<Ns>> {
    let streams: Vec<_> = group.streams.iter().map(|at| &calls.streams[*at]).collect();
    let Some(reference) = streams.iter().copied().max_by_key(|stream| stream.calls.len()) else { return Vec::new() };
    let mut rows: Vec<Vec<Ns>> = reference.calls.iter().map(|_| Vec::with_capacity(streams.len())).collect();
    for (member, stream) in streams.iter().enumerate() {
        for (of_reference, own) in matched(reference, stream) {
            // A row that lacks an earlier member stays short.
            if rows[of_reference].len() == member {
                rows[of_reference].push(stream.calls[own].time);
            }
        }
    }
    rows.retain(|row| row.len() == streams.len());
    rows
}

/// By rank, of so many ranks. Each row is sorted once, whatever the number of ranks: what the others of each have is the sorted row without it.
fn of_ranks(times: &[Vec<Ns>], ranks: usize) -> Vec<RankLateness> {
    let mut found: Vec<RankLateness> = (0..ranks).map(|_| RankLateness::default()).collect();
    let mut lags: Vec<Vec<Ns>> = vec![Vec::with_capacity(times.len()); ranks];
    let mut last = vec![0_u64; ranks];
    let mut sorted = Vec::with_capacity(ranks);
    for row in times {
        sorted.clone_from(row);
        sorted.sort_unstable();
        for (member, time) in row.iter().enumerate() {
            let own = sorted.partition_point(|other| other < time);
            let latest = if own + 1 == ranks { sorted[own.saturating_sub(1)] } else { sorted[ranks - 1] };
            let rank = &mut found[member];
            let after = *time - latest;
            if after > Ns::ZERO {
                last[member] += 1;
                rank.added += after;
            }
            let lag = *time - median_without(&sorted, own);
            if lag > rank.largest.0 {
                rank.largest = (lag, *time);
            }
            lags[member].push(lag);
        }
    }
    for ((rank, mut lags), last) in found.iter_mut().zip(lags).zip(last) {
        let Some(of_all) = Some(lags.len() as f64).filter(|of_all| *of_all > 0.0) else { continue };
        let quarter = |at: usize| median_time(&mut lags[at * lags.len() / 4..(at + 1) * lags.len() / 4].to_vec());
        rank.by_quarter = [quarter(0), quarter(1), quarter(2), quarter(3)];
        let share = |is: fn(&Ns) -> bool| lags.iter().filter(|lag| is(lag)).count() as f64 / of_all;
        rank.is_one_sided = share(|lag| *lag > Ns::ZERO) > ONE_SIDED || share(|lag| *lag < Ns::ZERO) > ONE_SIDED;
        rank.last_share = last as f64 / of_all;
        rank.lag = median_time(&mut lags);
    }
    found
}

/// The median of some sorted times but one, the middle of two; zero of none.
fn median_without(sorted: &[Ns], one: usize) -> Ns {
    let other = |at: usize| sorted.get(if at < one { at } else { at + 1 }).copied().unwrap_or_default();
    let others = sorted.len().saturating_sub(1);
    let upper = other(others / 2);
    if others == 0 || !others.is_multiple_of(2) { upper } else { Ns(other(others / 2 - 1).0.midpoint(upper.0)) }
}

/// The hosts of a group's ranks, and some of its calls: when each rank enters them.
type Sample<'c> = (Vec<&'c String>, Vec<Vec<Ns>>);

/// The offsets to begin with: each host's against one that calls together with it, and so on. Hosts that nothing connects begin anew.
fn chained<'c>(samples: &[Sample<'c>]) -> BTreeMap<&'c String, Ns> {
    let mut offsets: BTreeMap<&String, Ns> = BTreeMap::new();
    let hosts: BTreeSet<&String> = samples.iter().flat_map(|(hosts, _)| hosts.iter().copied()).collect();
    for host in hosts {
        offsets.entry(host).or_default();
        let mut known = 0;
        while known < offsets.len() {
            known = offsets.len();
            for (hosts, times) in samples.iter().filter(|(_, times)| !times.is_empty()) {
                let Some(base) = hosts.iter().position(|host| offsets.contains_key(host)) else { continue };
                for (member, host) in hosts.iter().enumerate() {
                    if !offsets.contains_key(host) {
                        let mut ahead: Vec<Ns> = times.iter().map(|row| row[member] - row[base]).collect();
                        offsets.insert(host, offsets[hosts[base]] + median_time(&mut ahead));
                    }
                }
            }
        }
    }
    offsets
}

/// How far the clock of each host is ahead of that of the first, by name: by rounds of medians over all ranks that call together with
/// ranks of other hosts. A whole host that is late cannot be distinguished from its clock, and is not called late; one late rank of
/// several does not move the median.
pub(super) fn host_offsets(calls: &Calls, groups: &[CallGroup]) -> BTreeMap<String, Ns> {
    let host = |rank: &u32| calls.hosts.get(rank);
    let is_wide = |group: &&CallGroup| {
        let hosts: Option<BTreeSet<&String>> = group.ranks.iter().map(host).collect();
        hosts.is_some_and(|hosts| hosts.len() > 1)
    };
    let mut samples: Vec<Sample<'_>> = Vec::new();
    for group in groups.iter().filter(is_wide) {
        let times = common(calls, group);
        let step = times.len().div_ceil(SAMPLES).max(1);
        let hosts = group.ranks.iter().filter_map(host).collect();
        samples.push((hosts, times.into_iter().step_by(step).collect()));
    }
    let mut offsets = chained(&samples);
    for _ in 0..ROUNDS {
        let mut left: BTreeMap<&String, Vec<Ns>> = BTreeMap::new();
        for (hosts, times) in &samples {
            let mut differences: Vec<Vec<Ns>> = vec![Vec::with_capacity(times.len()); hosts.len()];
            for row in times {
                let aligned: Vec<Ns> =
                    row.iter().zip(hosts).map(|(time, host)| Ns(time.0.saturating_sub(offsets[host].0))).collect();
                let middle = median_time(&mut aligned.clone());
                let of_member = aligned.iter().zip(&mut differences);
                of_member.for_each(|(time, of)| of.push(Ns(time.0.saturating_sub(middle.0))));
            }
            for (host, mut differences) in hosts.iter().zip(differences) {
                left.entry(host).or_default().push(median_time(&mut differences));
            }
        }
        let mut moved = Ns::ZERO;
        for (host, mut left) in left {
            let by = median_time(&mut left);
            *offsets.entry(host).or_default() += by;
            moved = moved.max(by).max(Ns::ZERO - by);
        }
        if moved <= STILL {
            break;
        }
    }
    let first = offsets.values().next().copied().unwrap_or_default();
    offsets.into_iter().map(|(host, offset)| (host.clone(), Ns(offset.0.saturating_sub(first.0)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::recorded::calls::{Call, Stream};
    use crate::ranks::recorded::groups::Role;

    /// A job of ranks on hosts of the same numbers, and groups that call together. By group a row for each call: when each of its ranks
    /// enters it, in µs.
    fn job(groups: &[(&[u32], Vec<Vec<i64>>)]) -> (Calls, Vec<CallGroup>) {
        let mut calls = Calls::default();
        let mut found = Vec::new();
        for (ranks, rows) in groups {
            let mut streams = Vec::new();
            for (member, rank) in ranks.iter().enumerate() {
                calls.hosts.insert(*rank, format!("host{rank}"));
                let call = |(at, row): (usize, &Vec<i64>)| Call {
                    time: Ns(row[member] * 1_000),
                    kind: 0,
                    number: Some(at as i64),
                };
                let of_rank = rows.iter().enumerate().map(call).collect();
                streams.push(calls.streams.len());
                calls.streams.push(Stream { rank: *rank, calls: of_rank, ..Stream::default() });
            }
            found.push(CallGroup { role: Role::Named, ranks: ranks.to_vec(), streams });
        }
        (calls, found)
    }

    /// Five calls of four ranks, worked out by hand.
    #[test]
    fn ranks_are_compared_with_the_median_of_their_peers() {
        let rows = vec![vec![0, 10, 20, 90], vec![5, 5, 5, 5], vec![0, 0, 30, 10], vec![40, 1, 2, 3], vec![7, 7, 0, 7]];
        let (calls, groups) = job(&[(&[0, 1, 2, 3], rows)]);
        let found = of_group(&calls, &groups[0], &BTreeMap::new()).unwrap();
        let us = |time: Ns| time.0 / 1_000;
        // Rank 3: 90 to 10, 5 to 5, 10 to 0, 3 to 2, 7 to 7.
        let last = &found.ranks[3];
        assert_eq!((us(last.lag), us(last.largest.0), us(last.largest.1)), (1, 80, 90));
        assert_eq!((last.last_share, us(last.added)), (0.2, 70));
        // Rank 0: 0 to 20, 5 to 5, 0 to 10, 40 to 2, 7 to 7.
        let first = &found.ranks[0];
        assert_eq!((us(first.lag), us(first.largest.0), us(first.added)), (0, 38, 37));
        assert_eq!(first.by_quarter.map(us), [-20, 0, -10, 19]);
        assert!(found.ranks.iter().all(|rank| !rank.is_one_sided));
    }

    #[test]
    fn equal_times_are_no_other_clock() {
        let (calls, groups) = job(&[(&[0, 1], vec![vec![3, 3]; 20]), (&[2, 3], vec![vec![3, 4]; 20])]);
        let sides =
            |group| of_group(&calls, group, &BTreeMap::new()).unwrap().ranks.into_iter().map(|of| of.is_one_sided);
        assert_eq!(sides(&groups[0]).collect::<Vec<_>>(), [false, false]);
        assert_eq!(sides(&groups[1]).collect::<Vec<_>>(), [true, true]);
    }

    /// Only neighbours call together, so that the first and the last host are compared through all others.
    #[test]
    fn clocks_are_compared_along_a_row_of_hosts() {
        let ahead = [0, 3_600_000_000, -50_000, 7_000_000, 20_000, 900_000_000, 1_000, -3_600_000_000];
        let rows = |a: usize, b: usize| (0..20).map(|at| vec![at * 1_000 + ahead[a], at * 1_000 + ahead[b]]).collect();
        let pairs: Vec<[u32; 2]> = (0..7).map(|host| [host, host + 1]).collect();
        let groups: Vec<(&[u32], Vec<Vec<i64>>)> =
            pairs.iter().map(|pair| (&pair[..], rows(pair[0] as usize, pair[1] as usize))).collect();
        let (calls, groups) = job(&groups);
        let offsets = host_offsets(&calls, &groups);
        for (host, ahead) in ahead.iter().enumerate() {
            let offset = offsets[&format!("host{host}")].0 / 1_000;
            assert!((offset - ahead).abs() < 20, "host{host}: {offset} of {ahead} µs");
        }
    }
}
