//! How far the clocks of hosts are apart, by when their ranks enter the same calls.
//!
//! The ends of collectives, by which [clocks](crate::operations::clocks) of GPUs are compared within microseconds, are not known here. Ranks
//! enter a call at various times, so that what is estimated is one offset for each host, and only medians over many calls count.

use std::collections::{BTreeMap, BTreeSet};

use super::Calls;
use super::groups::CallGroup;
use crate::statistics::median_time;
use crate::time::Ns;

/// How many calls of a group are looked at for the clocks of hosts.
const SAMPLES: usize = 1000;

/// The most rounds of medians. Two suffice where every group has all hosts; where only neighbours call together it takes more.
const ROUNDS: usize = 200;

/// A round that moves no clock further than this is the last.
const STILL: Ns = Ns(1_000);

/// By call that all ranks have: when each enters it.
pub(crate) fn common(calls: &Calls, group: &CallGroup) -> Vec<Vec<Ns>> {
    calls.rows(&group.streams, usize::MAX).into_iter().filter_map(|row| row.into_iter().collect()).collect()
}

/// By call that all ranks have and that ends on all of them at once: when each enters it, and how long it is in it.
pub(crate) fn lengths(calls: &Calls, group: &CallGroup) -> Vec<(Vec<Ns>, Vec<Ns>)> {
    let whole = |row: Vec<Option<Ns>>| row.into_iter().collect::<Option<Vec<Ns>>>();
    let times = calls.rows(&group.streams, usize::MAX);
    let lengths = calls.rows_of(&group.streams, usize::MAX, |call| call.took);
    times.into_iter().zip(lengths).filter_map(|(times, lengths)| Some((whole(times)?, whole(lengths)?))).collect()
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
pub(crate) fn host_offsets(calls: &Calls, groups: &[CallGroup]) -> BTreeMap<String, Ns> {
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
                let aligned: Vec<Ns> = row.iter().zip(hosts).map(|(time, host)| *time - offsets[host]).collect();
                let middle = median_time(&mut aligned.clone());
                let of_member = aligned.iter().zip(&mut differences);
                of_member.for_each(|(time, of)| of.push(*time - middle));
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
    offsets.into_iter().map(|(host, offset)| (host.clone(), offset - first)).collect()
}

/// A job of ranks on hosts of the same numbers, and groups that call together. By group a row for each call: when each of its ranks
/// enters it, in µs.
#[cfg(test)]
pub(crate) fn test_job(groups: &[(&[u32], Vec<Vec<i64>>)]) -> (Calls, Vec<CallGroup>) {
    let mut calls = Calls::default();
    let mut found = Vec::new();
    for (ranks, rows) in groups {
        let mut streams = Vec::new();
        for (member, rank) in ranks.iter().enumerate() {
            calls.hosts.insert(*rank, format!("host{rank}"));
            let call = |(at, row): (usize, &Vec<i64>)| super::Call {
                time: Ns(row[member] * 1_000),
                kind: 0,
                number: Some(at as i64),
                took: None,
            };
            let of_rank = rows.iter().enumerate().map(call).collect();
            streams.push(calls.streams.len());
            calls.streams.push(super::Stream { rank: *rank, calls: of_rank, ..super::Stream::default() });
        }
        found.push(CallGroup { role: super::groups::Role::Named, is_busiest: true, ranks: ranks.to_vec(), streams });
    }
    (calls, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only neighbours call together, so that the first and the last host are compared through all others.
    #[test]
    fn clocks_are_compared_along_a_row_of_hosts() {
        let ahead = [0, 3_600_000_000, -50_000, 7_000_000, 20_000, 900_000_000, 1_000, -3_600_000_000];
        let rows = |a: usize, b: usize| (0..20).map(|at| vec![at * 1_000 + ahead[a], at * 1_000 + ahead[b]]).collect();
        let pairs: Vec<[u32; 2]> = (0..7).map(|host| [host, host + 1]).collect();
        let groups: Vec<(&[u32], Vec<Vec<i64>>)> =
            pairs.iter().map(|pair| (&pair[..], rows(pair[0] as usize, pair[1] as usize))).collect();
        let (calls, groups) = test_job(&groups);
        let offsets = host_offsets(&calls, &groups);
        for (host, ahead) in ahead.iter().enumerate() {
            let offset = offsets[&format!("host{host}")].0 / 1_000;
            assert!((offset - ahead).abs() < 20, "host{host}: {offset} of {ahead} µs");
        }
    }
}
