//! How much later each rank of a group enters its calls than its peers.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::Calls;
use super::groups::{CallGroup, median};
use super::matched::matched;
use crate::time::Ns;

/// A rank that is later, or earlier, in this share of the calls may have another clock.
const ONE_SIDED: f64 = 0.99;

/// How many calls of a group are looked at for the clocks of hosts.
const SAMPLES: usize = 1000;

/// Rounds of medians; two suffice where every group has all hosts.
const ROUNDS: usize = 10;

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
    /// The largest lag, and when the rank entered that call.
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
    let ranks = (0..n).map(|member| rank_lateness(&times, member)).collect();
    Some(Lateness { calls: times.len() as u64, ranks, is_one_clock: is_known })
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

fn rank_lateness(times: &[Vec<Ns>], member: usize) -> RankLateness {
    if times.is_empty() {
        return RankLateness::default();
    }
    let mut lags = Vec::with_capacity(times.len());
    let (mut last, mut added) = (0_u64, 0_i64);
    let mut largest = (Ns::ZERO, Ns::ZERO);
    let mut others = Vec::new();
    for row in times {
        others.clear();
        others.extend(row.iter().enumerate().filter(|(at, _)| *at != member).map(|(_, time)| *time));
        let latest = others.iter().max().copied().unwrap_or_default();
        let after = row[member].0.saturating_sub(latest.0);
        if after > 0 {
            last += 1;
            added = added.saturating_add(after);
        }
        let lag = Ns(row[member].0.saturating_sub(median(&mut others).0));
        if lag > largest.0 {
            largest = (lag, row[member]);
        }
        lags.push(lag);
    }
    let quarter = |at: usize| median(&mut lags[at * lags.len() / 4..(at + 1) * lags.len() / 4].to_vec());
    let by_quarter = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let later = lags.iter().filter(|lag| **lag > Ns::ZERO).count() as f64 / lags.len() as f64;
    let last_share = last as f64 / lags.len() as f64;
    RankLateness {
        is_one_sided: !(1.0 - ONE_SIDED..=ONE_SIDED).contains(&later),
        lag: median(&mut lags),
        by_quarter,
        last_share,
        largest,
        added: Ns(added),
    }
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
    let mut samples: Vec<(Vec<&String>, Vec<Vec<Ns>>)> = Vec::new();
    for group in groups.iter().filter(is_wide) {
        let times = common(calls, group);
        let step = times.len().div_ceil(SAMPLES).max(1);
        let hosts = group.ranks.iter().filter_map(host).collect();
        samples.push((hosts, times.into_iter().step_by(step).collect()));
    }
    let mut offsets: BTreeMap<&String, Ns> =
        samples.iter().flat_map(|(hosts, _)| hosts.iter().map(|host| (*host, Ns::ZERO))).collect();
    for _ in 0..ROUNDS {
        let mut left: BTreeMap<&String, Vec<Ns>> = BTreeMap::new();
        for (hosts, times) in &samples {
            let mut differences: Vec<Vec<Ns>> = vec![Vec::with_capacity(times.len()); hosts.len()];
            for row in times {
                let aligned: Vec<Ns> =
                    row.iter().zip(hosts).map(|(time, host)| Ns(time.0.saturating_sub(offsets[host].0))).collect();
                let middle = median(&mut aligned.clone());
                let of_member = aligned.iter().zip(&mut differences);
                of_member.for_each(|(time, of)| of.push(Ns(time.0.saturating_sub(middle.0))));
            }
            for (host, mut differences) in hosts.iter().zip(differences) {
                left.entry(host).or_default().push(median(&mut differences));
            }
        }
        for (host, mut left) in left {
            let offset = offsets.entry(host).or_default();
            *offset = Ns(offset.0.saturating_add(median(&mut left).0));
        }
    }
    let first = offsets.values().next().copied().unwrap_or_default();
    offsets.into_iter().map(|(host, offset)| (host.clone(), Ns(offset.0.saturating_sub(first.0)))).collect()
}
