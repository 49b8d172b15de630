//! Who enters NCCL late: on made jobs, and on real logs by another computation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::fmt::Write as _;

use nccl_stacks::ranks::recorded::entries::EntryReport;
use nccl_stacks::ranks::recorded::outliers::Outliers;
use nccl_stacks::records::{Keep, read_all};

use crate::megatrace::Logs;
use crate::support::program::{run, stdout};
use crate::support::random::Random;

/// How a job of eight ranks is made: pairs of neighbours call together on one stream, all ranks on another.
#[derive(Clone, Copy)]
struct Made {
    /// How much later this rank enters the calls of its pair, in µs.
    slow: Option<(usize, i64)>,
    /// How far the clock of the second host, with ranks 4 to 7, is ahead, in µs.
    ahead: i64,
    with_hosts: bool,
    /// Every so many calls one is missing on rank 5.
    lost: Option<u64>,
}

const PLAIN: Made = Made { slow: None, ahead: 0, with_hosts: true, lost: None };

impl Made {
    fn logs(self) -> Logs {
        let mut random = Random(1);
        let mut texts: Vec<String> = vec![String::new(); 8];
        // When each pair is ready for its next call, in µs.
        let mut ready = [0_i64; 4];
        for number in 0..2000_u64 {
            for (rank, text) in texts.iter_mut().enumerate() {
                let pair = &mut ready[rank / 2];
                *pair += if rank % 2 == 0 { 1000 + random.below(300) as i64 } else { 0 };
                let late = self.slow.filter(|(slow, _)| *slow == rank).map_or(0, |(_, late)| late);
                let jitter = random.below(200) as i64 - 100;
                let ahead = if rank < 4 { 0 } else { self.ahead };
                let time = 1_700_000_000_000_000 + *pair + late + jitter + ahead;
                if !self.lost.is_some_and(|every| rank == 5 && number % every == every / 2) {
                    self.line(text, rank, time, "AllReduce", 4096, 1, number);
                }
                if number % 40 == 39 {
                    let all = 1_700_000_000_000_000 + ready.iter().max().unwrap() + 100 + ahead + jitter;
                    self.line(text, rank, all, "ReduceScatter", 1 << 20, 2, number / 40);
                }
            }
        }
        let names: Vec<String> = (0..8).map(|rank| format!("rank_{rank}.log")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
        Logs::of(&files)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a line")]
    fn line(self, text: &mut String, rank: usize, us: i64, function: &str, count: u64, stream: u64, number: u64) {
        let (seconds, nanoseconds) = (us / 1_000_000, us % 1_000_000 * 1000);
        let host = if self.with_hosts { format!("[10.0.0.{0}] [host-{0}] ", rank / 4) } else { String::new() };
        // Pairs have a hash of their own, all ranks another.
        let hash = if stream == 1 { 100 + rank as u64 / 2 } else { 99 };
        writeln!(
            text,
            "{host}[save_count 1] [{seconds}.{nanoseconds:09}] [Rank {rank}] [PCI 0] [Func nccl{function}] [Data {count}] \
             [stream {stream:#x}] [opCount {}] [groupHash {hash:#018x}]",
            number + 1
        )
        .unwrap();
    }

    fn report(self, outliers: Outliers) -> EntryReport {
        EntryReport::of(&self.logs().read(Keep::All), outliers)
    }
}

fn slow(report: &EntryReport) -> Vec<u32> {
    report.slow.iter().map(|slow| slow.rank).collect()
}

#[test]
fn the_slow_rank_is_named_by_each_statistic() {
    for outliers in [Outliers::Mad, Outliers::Iqr, Outliers::Grubbs] {
        assert_eq!(slow(&PLAIN.report(outliers)), [0_u32; 0], "{outliers:?}");
        let report = Made { slow: Some((6, 400)), ..PLAIN }.report(outliers);
        assert_eq!(slow(&report), [6], "{outliers:?}");
        assert_eq!(report.slow[0].peers, [7]);
        let row = &report.ranks[report.slow[0].row];
        // 400 µs but for the jitter of two ranks, whose difference is at most 200 µs and 0 in the median.
        assert!((390_000..410_000).contains(&row.lag.0), "{}", row.lag.0);
        assert_eq!((row.calls, row.last_share), (2000, 1.0));
    }
}

#[test]
fn a_host_with_another_clock_is_not_slow() {
    // An hour, and less than the calls are apart.
    for ahead in [3_600_000_000, 300, -300] {
        let report = Made { ahead, slow: Some((1, 500)), ..PLAIN }.report(Outliers::Mad);
        assert_eq!(slow(&report), [1], "{ahead}");
        assert_eq!(report.clock.method, "hosts");
        let offset = report.clock.hosts[1].offset.0;
        assert!((offset - ahead * 1000).abs() < 100_000, "{offset} of {ahead} µs");
    }
    let report = Made { ahead: 700, ..PLAIN }.report(Outliers::Mad);
    assert_eq!(slow(&report), [0_u32; 0]);
}

#[test]
fn without_hosts_a_constant_lag_may_be_a_clock() {
    let report = Made { slow: Some((2, 5000)), with_hosts: false, ..PLAIN }.report(Outliers::Mad);
    assert_eq!(report.clock.method, "unknown");
    assert!(report.clock.doubtful_ranks.contains(&2), "{:?}", report.clock.doubtful_ranks);
    assert_eq!(slow(&report), [0_u32; 0]);
}

#[test]
fn a_lost_call_costs_its_own_comparison() {
    let report = Made { slow: Some((6, 400)), lost: Some(100), ..PLAIN }.report(Outliers::Mad);
    assert_eq!(slow(&report), [6]);
    let of_five = report.ranks.iter().find(|row| row.rank == 5 && row.calls > 100).unwrap();
    assert_eq!(of_five.calls, 1980);
    // The other rank of the pair has 20 calls more.
    assert_eq!(report.not_compared["that some rank of the group lacks"], 20);
}

/// The medians of the real log by a computation of its own: the i-th call of the busiest stream of two ranks.
#[test]
fn the_real_slow_rank_is_named() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/megatrace/rank2_slow_8ranks_generation2.tar.gz");
    let records = read_all(std::slice::from_ref(&path), Keep::All, 1);
    let report = EntryReport::of(&records, Outliers::Mad);
    assert_eq!(slow(&report), [2]);
    assert_eq!(report.slow[0].peers, [3]);
    let mut streams: HashMap<(u32, u64), Vec<i64>> = HashMap::new();
    for operation in &records.operations {
        let key = (operation.rank.unwrap().0, operation.stream_handle.unwrap());
        streams.entry(key).or_default().push(operation.enqueued.unwrap().0);
    }
    let busiest =
        |rank: u32| streams.iter().filter(|(key, _)| key.0 == rank).map(|(_, times)| times).max_by_key(|of| of.len());
    for (pair, documented) in [((0, 1), 122), ((2, 3), 506), ((4, 5), 165), ((6, 7), 106)] {
        let (first, second) = (busiest(pair.0).unwrap(), busiest(pair.1).unwrap());
        let mut lags: Vec<i64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
        lags.sort_unstable();
        let median = (lags[(lags.len() - 1) / 2] + lags[lags.len() / 2]).div_euclid(2);
        assert_eq!((median as f64 / 1000.0).round() as i64, documented, "{pair:?}");
        let row = report.ranks.iter().find(|row| row.rank == pair.0).unwrap();
        assert_eq!((row.lag.0, row.calls), (median, lags.len() as u64), "{pair:?}");
    }
    let layout = report.layout.as_ref().unwrap();
    assert_eq!((layout.tensor, layout.pipeline, layout.data), (2, 4, 1));
    let row = &report.ranks[report.slow[0].row];
    assert_eq!((row.calls, (row.last_share * 100.0).round()), (9191, 75.0));
    let text = stdout(&run(&["ranks", path.to_str().unwrap(), "--quiet"]));
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("Rank 2 enters NCCL a median 505.962 µs after rank 3"), "{first}");
}

#[test]
fn the_layout_of_the_real_job_is_found() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/megatrace/TP2PP4DP8_64ranks_generation1.tar.gz");
    let report = EntryReport::of(&read_all(&[path], Keep::All, 1), Outliers::Mad);
    let layout = report.layout.as_ref().unwrap();
    assert_eq!((layout.tensor, layout.pipeline, layout.data), (2, 4, 8));
    let data: Vec<&Vec<u32>> =
        report.groups.iter().map(|group| &group.ranks).filter(|ranks| ranks.len() == 8).collect();
    assert_eq!(data.len(), 8);
    assert!(data.contains(&&(17..32).step_by(2).collect()), "{data:?}");
    // Rank 4 came once 2.478 s after rank 5, and rank 8 211 ms after rank 9, which the median does not see.
    let delays: Vec<(u32, i64)> = report.delays.iter().map(|delay| (delay.rank, delay.lag.0 / 1_000_000)).collect();
    assert_eq!(delays, [(4, 2478), (8, 211)]);
    // Each statistic draws its line elsewhere; rank 24 is beyond all of them.
    let named: Vec<(u32, usize)> = report.slow.iter().map(|slow| (slow.rank, slow.named_by.len())).collect();
    assert_eq!(named, [(2, 2), (24, 3), (48, 2)]);
}
