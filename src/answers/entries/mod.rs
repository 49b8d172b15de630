//! Which ranks enter NCCL late: ranks compared at the same calls, from records that only have the time of entry.
//!
//! A call of a group cannot end before its last member has entered. A rank's lag to its peers is not how long they wait, because their GPUs may
//! be busy with work queued earlier. But a rank that enters late in most calls, and much later than the last ranks of all other groups of its
//! size, has a slower CPU or waits for something that its peers do not wait for. The layout has no part in that: it only gives names.

pub mod document;
mod lateness;
pub mod sentences;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::entries::lateness::{Lateness, measure_group};
use crate::operations::calls::groups::{CallGroup, CallGroups, Role};
use crate::operations::calls::host_clocks::host_offsets;
use crate::operations::calls::layout::Layout;
use crate::operations::calls::{Calls, Stream};
use crate::operations::outliers::{FEWEST, Judged, judge_largest, score_among};
use crate::records::Records;
use crate::statistics::{Deviation, median_time};
use crate::time::Ns;

/// A rank with a shorter lag is not late.
const LEAST_LAG: Ns = Ns(20_000);

/// A rank that is later than this is slow where the lags of the job deviate by no more than [`CLOSE`], whatever its score. Few groups say
/// little of how far healthy ranks are apart; real jobs say more. In one of 64 ranks, 28 of 32 tensor parallel pairs are 146 µs apart (root mean
/// square; at most 273 µs), in another the three pairs without the slow rank 133 µs. With half-normal lags of 150 µs, four pairs have one
/// beyond this limit in 0.4 % of jobs.
const UNUSUAL: Ns = Ns(490_000);

/// Lags that deviate by more are of a job whose ranks may be further apart. If a job's healthy lags are 400 µs, 3 % of its sets of four deviate
/// by less and have one beyond [`UNUSUAL`]; from 16 groups on hardly any do.
const CLOSE: f64 = 50_000.0;

/// Groups with fewer common calls are not judged.
const FEWEST_CALLS: u64 = 16;

/// A single delay is reported if it is at least this many times the usual largest lag.
const DELAY_FACTOR: i64 = 10;

/// A shorter delay is not reported.
const LEAST_DELAY: Ns = Ns(100_000_000);

/// A slow rank is late in at least this many quarters of its calls.
const QUARTERS: usize = 3;

/// Which ranks enter late.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EntryReport {
    /// The number of calls read.
    pub calls: u64,
    /// The number of calls compared: those that all ranks of their group have.
    pub compared: u64,
    /// The number of calls not compared, by reason.
    pub not_compared: BTreeMap<&'static str, u64>,
    /// The ranks with calls here, ascending.
    pub ranks_here: Vec<u32>,
    /// How the model is divided over the ranks; `None` if the streams of calls do not show it.
    pub layout: Option<Layout>,
    /// The groups of ranks that call collectives together.
    pub groups: Vec<EntryGroup>,
    /// By group and rank.
    pub ranks: Vec<EntryRank>,
    /// The ranks that enter clearly later than the others compared with them, latest first. A rank may be late in several groups.
    pub slow: Vec<SlowRank>,
    /// Ranks that were once much later than usual, latest first.
    pub delays: Vec<Delay>,
    /// Whether any calls have numbers: without numbers, nothing shows which calls are missing from the records.
    pub has_numbers: bool,
    /// How the clocks compare.
    pub clock: EntryClock,
    /// What could not be used, by kind, each with its number, and in how many files.
    #[serde(skip)]
    pub left_out: Vec<(String, u64)>,
}

/// A group of ranks.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EntryGroup {
    /// Its purpose.
    pub role: Role,
    /// Whether no rank of it has a stream with more calls. It is compared with all groups of its size of which this is true, or with all of
    /// which it is false.
    pub is_busiest: bool,
    /// Its ranks.
    pub ranks: Vec<u32>,
    /// The stage of the pipeline; `None` if the layout is unknown.
    pub stage: Option<u32>,
    /// The number of calls that all of its ranks have.
    pub calls: u64,
    /// The rank with the largest median lag.
    pub last_rank: u32,
    /// That lag, in ns.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub lag_ns: Ns,
    /// Why its ranks are not judged; `None` if they are.
    pub not_judged: Option<&'static str>,
}

/// A rank in a group.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EntryRank {
    /// The rank.
    pub rank: u32,
    /// The index of the group in `groups`.
    pub group: usize,
    /// The handle of its stream, in hexadecimal.
    #[serde(serialize_with = "hexadecimal")]
    #[cfg_attr(test, schemars(with = "Option<String>", regex(pattern = "^0x[0-9a-f]+$")))]
    pub stream: Option<u64>,
    /// The number of calls compared.
    pub calls: u64,
    /// The median of how much later than the median of its peers it enters; negative if it is earlier.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub lag_ns: Ns,
    /// The same in each quarter of the calls, in ns.
    #[cfg_attr(test, schemars(with = "[i64; 4]"))]
    pub lag_by_quarter_ns: [Ns; 4],
    /// The share of the calls that it enters after all others.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub last_share: f64,
    /// How much later than the second to last rank, summed over these calls.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub added_ns: Ns,
    /// The largest lag.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub largest_lag_ns: Ns,
    /// When the rank entered that call: in ns on its own clock, minus the offset of its host.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub largest_at_ns: Ns,
    /// How many scaled median absolute deviations its lag is above the median; `None` if it is not judged.
    #[cfg_attr(test, schemars(extend("minimum" = null)))]
    pub score: Option<f64>,
    /// The score above which a rank is an outlier; `None` if it is not judged.
    #[cfg_attr(test, schemars(extend("minimum" = null)))]
    pub limit: Option<f64>,
    /// Whether it is later in nearly every call, or earlier in nearly every call.
    #[serde(skip)]
    is_one_sided: bool,
}

/// A rank that enters late.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SlowRank {
    /// The rank.
    pub rank: u32,
    /// The index of its row in `ranks`.
    pub row: usize,
    /// Its peers in the group.
    pub peers: Vec<u32>,
    /// The smallest and the largest lag among the others compared with it, in ns.
    #[cfg_attr(test, schemars(with = "(i64, i64)"))]
    pub others_lag_ns: (Ns, Ns),
    /// The number of others.
    pub others_count: u64,
}

/// A rank that was once much later than ranks usually are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Delay {
    /// The rank.
    pub rank: u32,
    /// The index of its row in `ranks`.
    pub row: usize,
    /// How much later than the median of its peers it entered.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub lag_ns: Ns,
    /// The time since the first call of any rank.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub after_ns: Ns,
    /// The median of the ranks' largest lags.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub usual_ns: Ns,
}

/// How the clocks compare.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EntryClock {
    /// `one-host`: all ranks are on one host. `hosts`: the offset of each host is subtracted. `unknown`: nothing shows the hosts of the ranks, and
    /// times are taken as they are.
    #[cfg_attr(test, schemars(extend("enum" = ["one-host", "hosts", "unknown"])))]
    pub method: &'static str,
    /// Whether the ranks of a group are compared by how long each was in the calls: all leave a call at once, so that no clock is needed.
    pub is_by_length: bool,
    /// How far the clock of each host is ahead, estimated from the calls of groups that span hosts, and subtracted.
    pub hosts: Vec<HostOffset>,
    /// Ranks that enter later in nearly every call than their peers, or earlier in nearly every call, on clocks not known to be one. Their clocks may
    /// be the reason.
    pub doubtful_ranks: Vec<u32>,
}

/// A host's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostOffset {
    /// The host.
    pub host: String,
    /// How far its clock is ahead of the first host's.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub offset_ns: Ns,
}

impl EntryReport {
    /// Compares the ranks in these records.
    pub fn compare(records: &Records) -> Self {
        let calls = Calls::from_records(records);
        let groups = CallGroups::find(&calls);
        let mut report = EntryReport {
            calls: calls.calls + calls.without_rank + calls.of_other_sources,
            ranks_here: calls.ranks.clone(),
            layout: groups.layout.clone(),
            left_out: super::records::left_out(records),
            ..EntryReport::default()
        };
        let offsets = host_offsets(&calls, &groups.groups);
        let mut seen = 0;
        for group in &groups.groups {
            seen += group.streams.iter().map(|at| calls.streams[*at].calls.len() as u64).sum::<u64>();
            report.add(&calls, group, &offsets);
        }
        for (reason, count) in [
            ("sends and receives", groups.point_to_point_calls),
            ("barriers and flags", groups.control_calls),
            ("on streams that no other rank has", groups.alone_calls),
            ("on streams with few calls", groups.few_calls),
            ("on streams in step with no other", groups.unclear_calls),
            ("that some rank of the group lacks", seen - report.compared),
            ("without a rank", calls.without_rank),
            ("from another source, which has fewer", calls.of_other_sources),
        ] {
            if count > 0 {
                report.not_compared.insert(reason, count);
            }
        }
        let hosts: BTreeSet<&String> = calls.hosts.values().collect();
        let all_known = calls.ranks.iter().all(|rank| calls.hosts.contains_key(rank));
        report.clock.method = match (all_known, hosts.len()) {
            (true, 1) => "one-host",
            (true, _) => "hosts",
            (false, _) => "unknown",
        };
        let offset = |rank: &u32| calls.hosts.get(rank).and_then(|host| offsets.get(host)).copied().unwrap_or_default();
        let began = |stream: &Stream| Some(stream.calls.first()?.time - offset(&stream.rank));
        let first = calls.streams.iter().filter_map(began).min();
        report.clock.hosts = offsets.into_iter().map(|(host, offset)| HostOffset { host, offset_ns: offset }).collect();
        report.has_numbers = calls.streams.iter().flat_map(|stream| &stream.calls).any(|call| call.number.is_some());
        report.judge();
        report.find_delays(first.unwrap_or_default());
        report
    }

    fn add(&mut self, calls: &Calls, group: &CallGroup, offsets: &BTreeMap<String, Ns>) {
        let Some(lateness) = measure_group(calls, group, offsets) else { return };
        let Lateness { calls: compared, ranks, is_one_clock, is_by_length } = lateness;
        self.clock.is_by_length |= is_by_length;
        let at = self.groups.len();
        self.compared += compared * group.ranks.len() as u64;
        let is_few = compared < FEWEST_CALLS;
        for (member, row) in ranks.iter().enumerate() {
            let stream = calls.streams[group.streams[member]].handle;
            let rank = group.ranks[member];
            self.ranks.push(EntryRank { rank, group: at, stream, calls: compared, ..row.clone() });
        }
        // Streams that wait for each other at every call show how their clocks differ; others show their ranks' other waits.
        let is_loose = group.role != Role::Named && !group.is_busiest;
        // With few calls, a single one is nearly all of them.
        let has_other_clock = |row: &EntryRank| !is_few && !is_one_clock && row.is_one_sided && !is_loose;
        let doubtful = ranks.iter().zip(&group.ranks).filter(|(row, _)| has_other_clock(row));
        let before = self.clock.doubtful_ranks.len();
        self.clock.doubtful_ranks.extend(doubtful.map(|(_, rank)| *rank));
        let not_judged = if is_few {
            Some("its ranks have too few calls in common")
        } else if is_loose && !is_one_clock {
            Some("it is unknown which of its ranks share a clock")
        } else if self.clock.doubtful_ranks.len() > before {
            Some("a rank is later in nearly every call, which may be its clock")
        } else {
            None
        };
        self.clock.doubtful_ranks.sort_unstable();
        self.clock.doubtful_ranks.dedup();
        let of_group = group.ranks.first().copied().unwrap_or_default();
        let last = ranks.iter().enumerate().max_by_key(|(_, row)| row.lag_ns);
        let (last_rank, lag) = last.map_or((of_group, Ns::ZERO), |(member, row)| (group.ranks[member], row.lag_ns));
        let stage = self.layout.as_ref().map(|layout| layout.stage_of(of_group));
        self.groups.push(EntryGroup {
            role: group.role,
            is_busiest: group.is_busiest,
            ranks: group.ranks.clone(),
            stage,
            calls: compared,
            last_rank,
            lag_ns: lag,
            not_judged,
        });
    }

    /// Compares the last rank of each group with those of all groups of its size, be they on the busiest streams or not; with few groups, all
    /// ranks with each other.
    fn judge(&mut self) {
        let mut pools: BTreeMap<(bool, usize), Vec<usize>> = BTreeMap::new();
        for (at, group) in self.groups.iter().enumerate().filter(|(_, group)| group.not_judged.is_none()) {
            pools.entry((group.is_busiest, group.ranks.len())).or_default().push(at);
        }
        for groups in pools.into_values() {
            self.judge_pool(&groups);
        }
        self.slow.sort_by_key(|slow| (std::cmp::Reverse(self.ranks[slow.row].lag_ns), slow.rank));
    }

    fn judge_pool(&mut self, groups: &[usize]) {
        let of_pool = |row: &EntryRank| {
            let group = &self.groups[row.group];
            groups.contains(&row.group) && (groups.len() < FEWEST || group.last_rank == row.rank)
        };
        let rows: Vec<usize> = (0..self.ranks.len()).filter(|at| of_pool(&self.ranks[*at])).collect();
        let values: Vec<f64> = rows.iter().map(|row| self.ranks[*row].lag_ns.0 as f64).collect();
        // The two ranks of a pair mirror each other: nothing shows which of them is normal.
        let is_few = groups.len() < FEWEST && groups.iter().all(|group| self.groups[*group].ranks.len() < FEWEST);
        let judged = judge_lags(&values).filter(|_| !is_few);
        let Some(judged) = judged else {
            for group in groups {
                self.groups[*group].not_judged = Some("there are too few others to compare with");
            }
            return;
        };
        let (mut slow, mut others): (Vec<usize>, Vec<Ns>) = (Vec::new(), Vec::new());
        for (at, judged) in rows.into_iter().zip(judged) {
            let row = &mut self.ranks[at];
            (row.score, row.limit) = (Some(judged.score), Some(judged.limit));
            let late = row.lag_by_quarter_ns.iter().filter(|lag| **lag > LEAST_LAG).count();
            match judged.is_outlier() && row.lag_ns > LEAST_LAG && late >= QUARTERS {
                true => slow.push(at),
                false => others.push(row.lag_ns),
            }
        }
        let range =
            (others.iter().min().copied().unwrap_or_default(), others.iter().max().copied().unwrap_or_default());
        for row in slow {
            let rank = self.ranks[row].rank;
            let peers = self.groups[self.ranks[row].group].ranks.iter().copied().filter(|peer| *peer != rank);
            let (peers, others_count) = (peers.collect(), others.len() as u64);
            self.slow.push(SlowRank { rank, row, peers, others_lag_ns: range, others_count });
        }
    }

    /// Finds single delays: the median misses a rank that stopped once for seconds.
    fn find_delays(&mut self, first: Ns) {
        let is_judged = |row: &EntryRank| self.groups[row.group].not_judged.is_none();
        let rows: Vec<usize> = (0..self.ranks.len()).filter(|at| is_judged(&self.ranks[*at])).collect();
        let mut largest: Vec<Ns> = rows.iter().map(|row| self.ranks[*row].largest_lag_ns).collect();
        let usual = median_time(&mut largest);
        let least = Ns(usual.0.saturating_mul(DELAY_FACTOR)).max(LEAST_DELAY);
        for row in rows.into_iter().filter(|row| self.ranks[*row].largest_lag_ns >= least) {
            let EntryRank { rank, largest_lag_ns: lag, largest_at_ns: largest_at, .. } = self.ranks[row];
            self.delays.push(Delay { rank, row, lag_ns: lag, after_ns: largest_at - first, usual_ns: usual });
        }
        self.delays.sort_by_key(|delay| (std::cmp::Reverse(delay.lag_ns), delay.rank));
    }
}

/// Judges lags by their deviations, and by what lags usually are.
fn judge_lags(lags: &[f64]) -> Option<Vec<Judged>> {
    let mut judged = judge_largest(lags)?;
    if Deviation::measure(lags.iter().copied()).standard() <= CLOSE {
        let unusual = score_among(lags, UNUSUAL.as_f64());
        judged.iter_mut().for_each(|of| of.limit = of.limit.min(unusual));
    }
    Some(judged)
}

fn hexadecimal<S: serde::Serializer>(handle: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    handle.map(|handle| format!("{handle:#x}")).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;

    /// The share of simulated jobs in which the last value is named, and that in which another is. Groups have lags of half-normal size, and the last
    /// one's is shifted.
    fn named(random: &mut Random, groups: usize, scale_us: f64, late_us: f64) -> (f64, f64) {
        const JOBS: usize = 4000;
        let (mut last, mut others) = (0, 0);
        for _ in 0..JOBS {
            let mut lags: Vec<f64> = (0..groups).map(|_| scale_us * 1e3 * random.normal()).collect();
            lags[groups - 1] += late_us * 1e3;
            lags.iter_mut().for_each(|lag| *lag = lag.abs());
            let judged = judge_lags(&lags).unwrap();
            let is_named = |at: usize| judged[at].is_outlier() && lags[at] > LEAST_LAG.as_f64();
            last += usize::from(is_named(groups - 1));
            others += usize::from((0..groups - 1).any(is_named));
        }
        (last as f64 / JOBS as f64, others as f64 / JOBS as f64)
    }

    /// At lags as in real jobs (150 µs), and at others.
    #[test]
    fn healthy_jobs_hardly_ever_have_a_slow_rank() {
        let mut random = Random(3);
        for groups in [4, 5, 6, 7, 8, 12, 16, 32, 64] {
            for scale in [5.0, 50.0, 150.0] {
                let (last, others) = named(&mut random, groups, scale, 0.0);
                // Two standard errors of 1 % of 4,000 are 0.3 %.
                assert!(last + others < 0.013, "{groups} groups at {scale} µs: {last} {others}");
            }
            // What UNUSUAL costs where ranks are further apart than they were in any real job.
            let (last, others) = named(&mut random, groups, 400.0, 0.0);
            assert!(last + others < 0.05, "{groups} groups: {last} {others}");
        }
    }

    /// In µs: how far healthy ranks are apart, and how late one is. The fewer groups there are, the later it must be.
    #[test]
    fn a_rank_that_is_late_is_named() {
        let mut random = Random(4);
        for (groups, scale, late) in [
            (4, 20.0, 600.0),
            (4, 100.0, 4000.0),
            (6, 100.0, 2500.0),
            (8, 100.0, 2000.0),
            (16, 100.0, 1000.0),
            (32, 100.0, 800.0),
        ] {
            let (last, _) = named(&mut random, groups, scale, late);
            assert!(last >= 0.95, "{groups} groups at {scale} µs, {late} µs late: {last}");
        }
    }

    /// Four pairs of a real job, of which the second was slowed down, in µs. By its four lags alone it would not be named: their score is 8.3.
    #[test]
    fn few_lags_are_judged_by_those_of_other_jobs_too() {
        let is_named = |lags: [f64; 4]| judge_lags(&lags.map(|us| us * 1e3)).unwrap()[1].is_outlier();
        assert!(is_named([122.0, 506.0, 165.0, 106.0]));
        assert!(!judge_largest(&[122.0, 506.0, 165.0, 106.0]).unwrap()[1].is_outlier());
        // Not as late as to be unusual; and a job whose ranks are further apart.
        assert!(!is_named([122.0, 480.0, 165.0, 106.0]));
        assert!(!is_named([122.0, 506.0, 265.0, 6.0]));
    }
}
