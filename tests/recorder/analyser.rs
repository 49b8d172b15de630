//! An analysis of Megatrace's logs as its documentation describes it, which knows only the documented form of lines. Jobs with a slow rank, and with
//! a rank that stops, write these logs as the recorder does by default; the analysis has to find the rank, and so have our own commands.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::recorder::jobs::{Job, built};
use crate::support::program::{has, run, stderr};

/// A line of a log. The count of elements is not used.
#[derive(Debug, Clone)]
struct Call {
    saves: u64,
    /// ns.
    time: i64,
    rank: u32,
    function: String,
    stream: String,
    number: u64,
    group: i64,
}

/// The calls of all `rank_<R>.log`.
fn read(folder: &Path) -> Vec<Call> {
    let form = r"^\[save_count (\d+)\] \[(\d+)\.(\d{9})\] \[Rank (\d+)\] Fun (\w+) Data \d+ stream (0x[0-9a-f]+|\(nil\)) opCount (\d+) groupHash (-?\d+)$";
    let form = regex::Regex::new(form).unwrap();
    let mut calls = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let found = form.captures(line).unwrap_or_else(|| panic!("no line of the documented form: {line}"));
            let number = |at: usize| found[at].parse::<i64>().unwrap();
            calls.push(Call {
                saves: number(1).cast_unsigned(),
                time: number(2) * 1_000_000_000 + number(3),
                rank: u32::try_from(number(4)).unwrap(),
                function: found[5].to_owned(),
                stream: found[6].to_owned(),
                number: number(7).cast_unsigned(),
                group: number(8),
            });
        }
    }
    calls
}

/// Who comes last: how often, by rank, among the calls with the same group, function and `opCount` of all ranks.
fn latest(calls: &[Call]) -> BTreeMap<u32, usize> {
    let ranks: BTreeSet<u32> = calls.iter().map(|call| call.rank).collect();
    let mut groups: BTreeMap<(i64, &str, u64), Vec<&Call>> = BTreeMap::new();
    for call in calls {
        groups.entry((call.group, &call.function, call.number)).or_default().push(call);
    }
    let mut latest = BTreeMap::new();
    for group in groups.values().filter(|group| group.len() == ranks.len()) {
        *latest.entry(group.iter().max_by_key(|call| call.time).unwrap().rank).or_default() += 1;
    }
    latest
}

/// The suspects of a hang: on a stream, the ranks whose last call of their last save has the smallest `opCount`, if that is not everybody's.
fn suspects(calls: &[Call]) -> BTreeSet<u32> {
    let mut saves: BTreeMap<u32, u64> = BTreeMap::new();
    for call in calls {
        let last = saves.entry(call.rank).or_default();
        *last = call.saves.max(*last);
    }
    let mut last: BTreeMap<(&str, u32), &Call> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.saves == saves[&call.rank]) {
        let known = last.entry((&call.stream, call.rank)).or_insert(call);
        if call.number > known.number {
            *known = call;
        }
    }
    let mut suspects = BTreeSet::new();
    for stream in last.keys().map(|(stream, _)| *stream).collect::<BTreeSet<_>>() {
        let of_stream =
            || last.iter().filter(|((of, _), _)| *of == stream).map(|((_, rank), call)| (call.number, *rank));
        let (smallest, largest) = (of_stream().min().unwrap().0, of_stream().max().unwrap().0);
        suspects
            .extend(of_stream().filter(|(number, _)| *number == smallest && smallest < largest).map(|(_, rank)| rank));
    }
    suspects
}

/// A job of four ranks that asks for Megatrace's logs and chooses no form; the folder of these does not exist yet.
fn job(arguments: &[&str]) -> (Job, PathBuf) {
    let job = Job::assemble(&built().path("job"), arguments)
        .env("NCCL_MEGATRACE_ENABLE", "1")
        .env("NCCL_MEGATRACE_SENSTIME", "100");
    let logs = job.folder.path().join("logs");
    (job.env("NCCL_MEGATRACE_LOG_PATH", &logs), logs)
}

/// What one of our commands says of the logs, in JSON.
fn answer(command: &str, logs: &Path) -> Value {
    let output = run(&[command, logs.to_str().unwrap(), "--json", "--quiet"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

#[test]
fn a_slow_rank_is_found_by_the_documented_analysis_and_by_ours() {
    let (mut job, logs) = job(&["4", "30", "late:2:10000"]);
    job.run();
    let calls = read(&logs);
    assert_eq!(calls.len(), 4 * 30);
    // On a busy machine others may come last now and then.
    let latest = latest(&calls);
    assert!(latest.get(&2).copied().unwrap_or_default() > 20 && latest.values().sum::<usize>() == 30, "{latest:?}");
    assert_eq!(suspects(&calls), BTreeSet::new());

    // These logs do not say on which hosts the ranks ran: who is always late may have another clock. The recordings of the same job say it.
    let ranks = answer("ranks", &logs);
    let group = &ranks["groups"][0];
    assert_eq!((&group["last_rank"], &group["calls"]), (&2.into(), &30.into()), "{ranks:#}");
    assert!(group["lag_ns"].as_i64().unwrap() > 8_000_000, "{ranks:#}");
    assert_eq!(group["not_judged"], "a rank is later in nearly every call, which may be its clock");
    let ranks = answer("ranks", &job.folder.path().join("records"));
    let verdict = ranks["verdict"][0].as_str().unwrap();
    assert!(verdict.starts_with("Rank 2 enters NCCL a median "), "{verdict}");
}

#[test]
fn a_rank_that_stops_is_found_by_the_documented_analysis_and_by_ours() {
    let (mut job, logs) = job(&["4", "30", "stay:1:12"]);
    let mut running = job.command.process_group(0).spawn().unwrap();
    // Twelve calls of each rank, and one more of three.
    let lines = || {
        let files = std::fs::read_dir(&logs).into_iter().flatten();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count()).sum::<usize>()
    };
    let begun = Instant::now();
    while lines() < 4 * 12 + 3 && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the group is that of the child, which has not been waited for.
    unsafe { libc::kill(-running.id().cast_signed(), libc::SIGKILL) };
    running.wait().unwrap();
    let calls = read(&logs);
    assert_eq!(calls.len(), 4 * 12 + 3);
    assert_eq!(suspects(&calls), BTreeSet::from([1]));

    let hang = answer("hang", &logs);
    assert_eq!(hang["outcome"], "lagging");
    let verdict = hang["verdict"][0].as_str().unwrap();
    has(verdict, "Rank 1 lags by 1 operation: 12 against 13 on ranks 0, 2 and 3.");
}
