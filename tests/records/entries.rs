//! Who enters NCCL late: on made jobs, and on real logs by another computation.

use std::collections::HashMap;
use std::fmt::Write as _;

use nccl_stacks::answers::entries::EntryReport;
use nccl_stacks::id::RankId;
use nccl_stacks::records::{Keep, read_all};

use crate::records::megatrace::Logs;
use crate::support::program::{has, refused, run, stderr, stderr_of, stdout, testdata};
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
    /// The call in which rank 6 stops for two seconds.
    stopped: Option<u64>,
}

const PLAIN: Made = Made { slow: None, ahead: 0, with_hosts: true, lost: None, stopped: None };

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
                *pair += if rank == 6 && self.stopped.is_some_and(|at| number == at + 1) { 2_000_000 } else { 0 };
                let late = self.slow.filter(|(slow, _)| *slow == rank).map_or(0, |(_, late)| late);
                let late = late + if rank == 6 && self.stopped == Some(number) { 2_000_000 } else { 0 };
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
        Logs::new(&files)
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

    fn report(self) -> EntryReport {
        EntryReport::compare(&self.logs().read(Keep::All))
    }
}

fn slow(report: &EntryReport) -> Vec<u32> {
    report.slow.iter().map(|slow| slow.rank).collect()
}

#[test]
fn the_slow_rank_is_named() {
    assert_eq!(slow(&PLAIN.report()), [0_u32; 0]);
    let report = Made { slow: Some((6, 400)), ..PLAIN }.report();
    assert_eq!(slow(&report), [6]);
    assert_eq!(report.slow[0].peers, [7]);
    let row = &report.ranks[report.slow[0].row];
    // 400 µs but for the jitter of two ranks, whose difference is at most 200 µs and 0 in the median.
    assert!((390_000..410_000).contains(&row.lag_ns.0), "{}", row.lag_ns.0);
    assert_eq!((row.calls, row.last_share), (2000, 1.0));
}

#[test]
fn a_host_with_another_clock_is_not_slow() {
    // An hour, and less than the calls are apart.
    for ahead in [3_600_000_000, 300, -300] {
        let report = Made { ahead, slow: Some((1, 500)), ..PLAIN }.report();
        assert_eq!(slow(&report), [1], "{ahead}");
        assert_eq!(report.clock.method, "hosts");
        let offset = report.clock.hosts[1].offset_ns.0;
        assert!((offset - ahead * 1000).abs() < 100_000, "{offset} of {ahead} µs");
    }
    let report = Made { ahead: 700, ..PLAIN }.report();
    assert_eq!(slow(&report), [0_u32; 0]);
}

#[test]
fn without_hosts_a_constant_lag_may_be_a_clock() {
    let report = Made { slow: Some((2, 5000)), with_hosts: false, ..PLAIN }.report();
    assert_eq!(report.clock.method, "unknown");
    assert!(report.clock.doubtful_ranks.contains(&2), "{:?}", report.clock.doubtful_ranks);
    assert_eq!(slow(&report), [0_u32; 0]);
}

#[test]
fn a_lost_call_costs_its_own_comparison() {
    let report = Made { slow: Some((6, 400)), lost: Some(100), ..PLAIN }.report();
    assert_eq!(slow(&report), [6]);
    let of_five = report.ranks.iter().find(|row| row.rank == 5 && row.calls > 100).unwrap();
    assert_eq!(of_five.calls, 1980);
    // The other rank of the pair has 20 calls more.
    assert_eq!(report.not_compared["that some rank of the group lacks"], 20);
}

/// A file for each of several ranks, and files of one rank that follow each other within an input, are one run.
#[test]
fn two_runs_at_once_are_named() {
    let (early, late) = (PLAIN.logs(), Made { ahead: 3_600_000_000, ..PLAIN }.logs());
    let path = |logs: &Logs, rank: usize| logs.folder().join(format!("rank_{rank}.log")).display().to_string();
    let named = |inputs: &[String]| {
        let args: Vec<&str> = ["ranks"].into_iter().chain(inputs.iter().map(String::as_str)).collect();
        stderr(&run(&args)).lines().filter(|line| line.starts_with("There are ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let of_one: Vec<String> = (0..8).map(|rank| path(&early, rank)).collect();
    assert_eq!(named(&of_one), [""; 0]);
    // Ranks 4 to 7 of the second run are an hour later; those before them at the same time.
    let [first, second] = [path(&early, 5), path(&late, 5)];
    let found = named(&[first.clone(), path(&early, 4), second.clone(), path(&late, 0)]);
    let [line] = &found[..] else { panic!("{found:?}") };
    let name = |logs: &Logs| logs.folder().file_name().unwrap().to_string_lossy().into_owned();
    let [early, late] = [&early, &late].map(name);
    // Ranks below 4 of both are at one time.
    let wanted = format!(
        "There are 2 runs at the same time. This is run 2 ({late}, ranks 0, 5). With --run 1: {early}, ranks 4-5."
    );
    assert_eq!(*line, wanted);
    let both = tempfile::tempdir().unwrap();
    // A log that was rotated goes on with its numbers; one that begins anew is of another run.
    let text = std::fs::read_to_string(&first).unwrap();
    let (one, other) = text.split_at(text.len() / 2 + text[text.len() / 2..].find('\n').unwrap() + 1);
    for (name, part) in [("rank_5.log.1", one), ("rank_5.log", other)] {
        std::fs::write(both.path().join(name), part).unwrap();
    }
    assert_eq!(named(&[both.path().display().to_string()]), [""; 0]);
    std::fs::copy(&second, both.path().join("rank_5.log")).unwrap();
    assert_eq!(named(&[both.path().display().to_string()]).len(), 1);
}

/// When that was is counted on one clock, whatever the clock of its host.
#[test]
fn a_delay_is_named_with_its_time() {
    for ahead in [0, 3_600_000_000, -3_600_000_000] {
        let report = Made { stopped: Some(1000), ahead, ..PLAIN }.report();
        let [delay] = &report.delays[..] else { panic!("{:?}", report.delays) };
        assert!(delay.rank == 6 && (1_999_000_000..2_001_000_000).contains(&delay.lag_ns.0), "{ahead}: {delay:?}");
        // A thousand calls of 1 to 1.3 ms each, and the two seconds themselves.
        assert!((3_000_000_000..3_400_000_000).contains(&delay.after_ns.0), "{ahead}: {:?}", delay.after_ns);
    }
}

/// A job on one host whose records name no groups: pairs call together, and all streams are equal. By rank its pair, and how late it is in µs.
fn unnamed(pair_of: &[usize], late: &[i64], random: &mut Random) -> EntryReport {
    let mut texts: Vec<String> = vec![String::new(); pair_of.len()];
    let mut ready = vec![0_i64; pair_of.len()];
    for number in 0..120 {
        ready.iter_mut().for_each(|pair| *pair += 1000 + random.below(1200) as i64);
        for (rank, text) in texts.iter_mut().enumerate() {
            let us = 10_000_000 + ready[pair_of[rank]] + late[rank] + random.below(200) as i64 - 100;
            let (seconds, nanoseconds) = (1_700_000_000 + us / 1_000_000, us % 1_000_000 * 1000);
            writeln!(
                text,
                "[10.0.0.1] [host-a] [save_count 1] [{seconds}.{nanoseconds:09}] [Rank {rank}] [PCI 0] [Func ncclAllReduce] \
                 [Data 4096] [stream 0x1] [opCount {number}] [groupHash 0x0000000000000000]"
            )
            .unwrap();
        }
    }
    let names: Vec<String> = (0..texts.len()).map(|rank| format!("rank_{rank}.log")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    EntryReport::compare(&Logs::new(&files).read(Keep::All))
}

/// Pairs of ranks with any numbers.
fn random_pairs(ranks: usize, random: &mut Random) -> Vec<usize> {
    let mut pair_of: Vec<usize> = (0..ranks).map(|rank| rank / 2).collect();
    (1..ranks).rev().for_each(|at| pair_of.swap(at, random.below(at + 1)));
    pair_of
}

/// Lags of real ranks, roughly normal (the sum of six), with this standard deviation in µs.
fn usual_lags(ranks: usize, us: i64, random: &mut Random) -> Vec<i64> {
    let unit = |random: &mut Random| (0..6).map(|_| random.below(2001) as i64 - 1000).sum::<i64>();
    // The variance of each of the six is 1000² / 3.
    (0..ranks).map(|_| unit(random) * us * 1000 / 1_414_214).collect()
}

#[test]
fn groups_without_names_are_found_whatever_the_numbers_of_their_ranks() {
    let mut random = Random(2);
    let (mut healthy, mut named, mut wrong) = (0, 0, 0);
    for _ in 0..60 {
        let pair_of = random_pairs(8, &mut random);
        let mut late = usual_lags(8, 70, &mut random);
        let report = unnamed(&pair_of, &late, &mut random);
        let mut pairs: Vec<Vec<u32>> = vec![Vec::new(); 4];
        (0..8).for_each(|rank| pairs[pair_of[rank as usize]].push(rank));
        pairs.sort();
        let found: Vec<Vec<u32>> = report.groups.iter().map(|group| group.ranks.clone()).collect();
        assert_eq!((found, report.layout), (pairs, None));
        healthy += u32::from(!report.slow.is_empty());
        let rank = random.below(8);
        late[rank] += 4000;
        let of_late = slow(&unnamed(&pair_of, &late, &mut random));
        named += u32::from(of_late.contains(&(rank as u32)));
        wrong += u32::from(of_late.iter().any(|named| *named != rank as u32));
    }
    assert!(healthy <= 1 && named >= 57 && wrong <= 1, "{healthy} healthy, {named} late, {wrong} wrong of 60");
}

/// Four pairs, and a rank that calls the same with none of them.
#[test]
fn a_rank_that_keeps_step_with_no_other_is_not_compared() {
    let report = unnamed(&[0, 1, 2, 0, 4, 3, 1, 2, 3], &[0; 9], &mut Random(5));
    let groups: Vec<&[u32]> = report.groups.iter().map(|group| &group.ranks[..]).collect();
    assert_eq!(groups, [[0, 3], [1, 6], [2, 7], [5, 8]]);
    assert_eq!((report.compared, report.not_compared["on streams in step with no other"]), (8 * 120, 120));
}

/// Inspector's lines of a rank, which it counts within each communicator: so many calls of communicators in turn.
fn inspector(place: u32, calls: u64, communicators: u64) -> String {
    let line = |at: u64| {
        let hash = 0xa + at % communicators;
        format!(
            "{{\"header\":{{\"id\":\"0x{hash:016x}\",\"rank\":{place},\"n_ranks\":null}},\"coll_perf\":{{\"coll\":\"AllReduce\",\
             \"coll_sn\":{at},\"coll_msg_size_bytes\":4096,\"event_trace_ts\":{{\"coll_start_ts\":{}}}}}}}\n",
            1_760_000_000_000_000 + at * 1000 + u64::from(place) * (at % 3)
        )
    };
    (0..calls).map(line).collect()
}

#[test]
fn ranks_that_nothing_says_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, text) in [
        ("a.txt", inspector(0, 40, 2)),
        ("b.txt", inspector(1, 40, 2)),
        ("both.txt", inspector(0, 40, 2) + &inspector(1, 40, 2)),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let [a, b, both] = ["a.txt", "b.txt", "both.txt"].map(path);
    let unknown = run(&["ranks", &a, &b]);
    assert_eq!((unknown.status.code(), stdout(&unknown)), (Some(3), String::new()));
    let said = stderr(&unknown);
    has(&said, "it is unknown which ranks of the job recorded this (NCCL Inspector)");
    has(&said, "--rank 3=FILE");
    let known = run(&["ranks", &a, &b, "--rank", "4=a.txt", "--rank", "9=b.txt", "--json", "--quiet"]);
    let answer: serde_json::Value = serde_json::from_slice(&known.stdout).unwrap();
    assert_eq!(answer["ranks_here"], serde_json::json!([4, 9]), "{}", stderr(&known));
    assert_eq!((&answer["calls"], &answer["compared"]), (&80.into(), &80.into()));
    let one = stdout(&run(&["ranks", &a, "--rank", "4=a.txt", "--quiet"]));
    assert!(one.starts_with("Only calls of rank 4 are here"), "{one}");
    assert!(!one.contains("Clocks"), "{one}");
    for (args, message) in [
        (["ranks", &both, "--rank", "0=both.txt"], "--rank 0=both.txt: its records are of several ranks"),
        (["ranks", &a, "--rank", "0=c.txt"], "--rank 0=c.txt: no such file is among those given"),
        (
            ["ranks", &testdata("records/megatrace"), "--fail-if", "waited>1%"],
            "--fail-if: the records have only the times",
        ),
    ] {
        refused(&args, 2, message);
    }
}

/// With one communicator its ranks are those of the job, in whatever files they are.
#[test]
fn the_ranks_of_the_only_communicator_are_those_of_the_job() {
    for (calls, why) in [
        (40, "a rank is later in nearly every call, which may be its clock"),
        // One or two are no nearly every call.
        (2, "its ranks have too few calls in common"),
    ] {
        // Rank 1 comes 2 µs after rank 0 in each call that is looked at.
        let text = inspector(0, calls * 3, 1) + &inspector(1, calls * 3, 1);
        let lines: Vec<&str> = text.lines().skip(2).step_by(3).collect();
        let logs = Logs::new(&[("both.txt", &(lines.join("\n") + "\n"))]);
        let report = EntryReport::compare(&logs.read(Keep::All));
        assert_eq!((&report.ranks_here[..], report.compared), (&[0, 1][..], calls * 2));
        assert_eq!(report.groups[0].not_judged, Some(why));
        assert_eq!(report.clock.doubtful_ranks.is_empty(), calls == 2);
    }
}

/// Numbers in three files that say that more is missing than 64 bits can count.
#[test]
fn what_is_missing_may_be_more_than_can_be_counted() {
    let line = |rank: u32, number: i64| {
        format!(
            "[save_count 1] [1700000000.00000000{rank}] [Rank {rank}] Fun AllReduce Data 4096 stream 0xab opCount {number}\n"
        )
    };
    let texts: Vec<String> = (0..3).map(|rank| line(rank, 1) + &line(rank, i64::MAX)).collect();
    let names = ["rank_0.log", "rank_1.log", "rank_2.log"];
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in names.iter().zip(&texts) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for command in ["ranks", "records"] {
        stderr_of(&[command, folder.path().to_str().unwrap()], 0);
    }
}

/// Too few calls are no proof that nothing is alike.
#[test]
fn few_calls_are_said_to_be_few() {
    let line = |rank: u32, at: u64| {
        format!("[{}.000000007] [Rank {rank}] Fun AllReduce Data 4096 stream 0xab\n", 1_700_000_100 + at)
    };
    let texts: Vec<String> = (0..2).map(|rank| (0..5).map(|at| line(rank, at)).collect()).collect();
    let logs = Logs::new(&[("rank_0.log", &texts[0]), ("rank_1.log", &texts[1])]);
    let report = EntryReport::compare(&logs.read(Keep::All));
    let not_compared: Vec<(&str, u64)> = report.not_compared.into_iter().collect();
    assert_eq!((report.calls, not_compared), (10, vec![("on streams with few calls", 10)]));
}

/// The medians of the real log by a computation of its own: the i-th call of the busiest stream of two ranks.
#[test]
fn the_real_slow_rank_is_named() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/megatrace/rank2_slow_8ranks_generation2.tar.gz");
    let records = read_all(std::slice::from_ref(&path), Keep::All, 1);
    let report = EntryReport::compare(&records);
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
        assert_eq!((row.lag_ns.0, row.calls), (median, lags.len() as u64), "{pair:?}");
    }
    let layout = report.layout.as_ref().unwrap();
    assert_eq!((layout.tensor, layout.pipeline, layout.data), (2, 4, 1));
    let row = &report.ranks[report.slow[0].row];
    assert_eq!((row.calls, (row.last_share * 100.0).round()), (9191, 75.0));
    // What was overwritten precedes the answer, here and of what was recorded.
    let lost = "Left out: 32,684 calls that were overwritten in memory before they were written.";
    for (command, next) in
        [("ranks", "Rank 2 enters NCCL a median 506.0 µs after rank 3"), ("records", "114,097 operations")]
    {
        let text = stdout(&run(&[command, path.to_str().unwrap(), "--quiet"]));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(lost));
        assert!(lines.next().unwrap().starts_with(next), "{text}");
    }
}

/// The same job with other numbers for its ranks: its groups and its slow rank are the same.
#[test]
fn the_real_slow_rank_is_named_whatever_its_number() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/megatrace/rank2_slow_8ranks_generation2.tar.gz");
    let mut records = read_all(&[path], Keep::All, 1);
    let ranks: Vec<u32> = records.operations.iter().map(|operation| operation.rank.unwrap().0).collect();
    let mut random = Random(20);
    for _ in 0..20 {
        let mut new: Vec<u32> = (0..8).collect();
        (1..8).rev().for_each(|at| new.swap(at, random.below(at + 1)));
        for (operation, rank) in records.operations.iter_mut().zip(&ranks) {
            operation.rank = Some(RankId(new[*rank as usize]));
        }
        let report = EntryReport::compare(&records);
        assert_eq!(slow(&report), [new[2]], "{new:?}");
        assert_eq!(report.slow[0].peers, [new[3]], "{new:?}");
        assert_eq!(report.ranks[report.slow[0].row].lag_ns.0 / 1000, 505, "{new:?}");
        for pair in [[0, 1], [2, 3], [4, 5], [6, 7]] {
            let mut pair = pair.map(|rank: usize| new[rank]);
            pair.sort_unstable();
            assert!(report.groups.iter().any(|group| group.is_busiest && group.ranks == pair), "{new:?}: {pair:?}");
        }
    }
}

#[test]
fn the_layout_of_the_real_job_is_found() {
    let Some(shared) = crate::support::shared() else { return };
    let path = shared.join("records/megatrace/TP2PP4DP8_64ranks_generation1.tar.gz");
    let report = EntryReport::compare(&read_all(&[path], Keep::All, 1));
    let layout = report.layout.as_ref().unwrap();
    assert_eq!((layout.tensor, layout.pipeline, layout.data), (2, 4, 8));
    let groups =
        |is_busiest| report.groups.iter().filter(move |group| group.is_busiest == is_busiest).map(|group| &group.ranks);
    assert!(groups(true).cloned().eq((0..64).step_by(2).map(|rank| vec![rank, rank + 1])));
    // Which of a stage's 16 ranks reduce their gradients together does not show in 50 calls, which they make at the same time.
    assert!(groups(false).cloned().eq((0..64).step_by(16).map(|rank| (rank..rank + 16).collect::<Vec<_>>())));
    // Rank 4 came once 2.48 s after rank 5, and rank 8 211 ms after rank 9, which the median does not see.
    let delays: Vec<(u32, i64)> = report.delays.iter().map(|delay| (delay.rank, delay.lag_ns.0 / 1_000_000)).collect();
    assert_eq!(delays, [(4, 2478), (8, 211)]);
    // All pairs are judged together, by one limit, whatever their stage. The latest four are ranks 2, 10, 24 and 48, by 621, 561, 506 and
    // 395 µs. If healthy lags are half-normal, 32 with a median of 147 µs have one of 621 µs in 13 % of jobs: none of the four is named.
    let mut lags: Vec<(u32, i64, f64)> =
        report.ranks.iter().filter_map(|row| Some((row.rank, row.lag_ns.0, row.score?))).collect();
    lags.sort_by_key(|(_, lag, _)| -lag);
    assert_eq!(lags.len(), 32);
    let latest: Vec<(u32, i64)> = lags[..4].iter().map(|(rank, lag, _)| (*rank, (lag + 500) / 1000)).collect();
    assert_eq!(latest, [(2, 621), (10, 561), (24, 506), (48, 395)]);
    assert!(lags.windows(2).all(|pair| pair[0].2 >= pair[1].2), "{lags:?}");
    let limits: Vec<Option<f64>> = report.ranks.iter().filter(|row| row.score.is_some()).map(|row| row.limit).collect();
    assert!(limits.iter().all(|limit| *limit == Some(6.9)), "{limits:?}");
    assert_eq!(slow(&report), [0_u32; 0]);
}
