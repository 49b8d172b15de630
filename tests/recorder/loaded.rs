//! The drop-ins as a job has them: the library is loaded into one, and writes what other programs would.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

use crate::recorder::jobs::Job;

/// A log without the times and the host.
fn lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    let cut = |line: &str| {
        let (saved, rest) = (line.find("[save_count").unwrap(), line.find(" [Rank").unwrap());
        format!("{}{}", line[saved..].split_once(" [").unwrap().0, &line[rest..])
    };
    text.lines().map(cut).collect()
}

fn job(steps: &[&str]) -> Job {
    let job = Job::new(steps).env("NCCL_MEGATRACE_ENABLE", "1").env("NCCL_MEGATRACE_SENSTIME", "60").env("RANK", "3");
    let folder = job.folder.path().join("logs");
    fs::create_dir(&folder).unwrap();
    job.env("NCCL_MEGATRACE_LOG_PATH", folder)
}

#[test]
fn megatraces_log_is_written_when_the_rank_is_silent_and_at_the_end() {
    let steps = ["init 0 2 1 A", "reduce 0 64 1", "reduce 0 65 0", "sleep 400", "start", "bcast 0 7 1", "end"];
    let mut job = job(&steps);
    job.lines();
    let log = job.folder.path().join("logs/rank_3.log");
    let rest = "[groupHash 0x20b485532cbd7f67]";
    let expected = [
        format!("[save_count 1] [Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 64] [stream 0x1] [opCount 1] {rest}"),
        format!(
            "[save_count 1] [Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 65] [stream (nil)] [opCount 1] {rest}"
        ),
        format!("[save_count 2] [Rank 3] [PCI unknown] [Func ncclBcast] [Data 7] [stream (nil)] [opCount 2] {rest}"),
    ];
    assert_eq!(lines(&log), expected);
}

/// As with Megatrace itself, which writes where it is loaded: one of its variables is enough, and `0` is a no.
#[test]
fn megatraces_variables_switch_its_log_on() {
    let steps = ["init 0 2 1 A", "reduce 0 64 1"];
    let run = |variables: &[(&str, &str)]| {
        let mut job = variables.iter().fold(job(&steps), |job, (name, value)| job.env(name, value));
        for name in ["NCCL_MEGATRACE_ENABLE", "NCCL_MEGATRACE_LOG_PATH", "NCCL_MEGATRACE_SENSTIME"] {
            if !variables.iter().any(|(own, _)| *own == name) {
                job.command.env_remove(name);
            }
        }
        let logs = job.folder.path().join("logs");
        job.command.current_dir(job.folder.path());
        job.lines();
        logs.join("rank_3.log").exists()
    };
    assert!(run(&[("NCCL_MEGATRACE_LOG_PATH", "logs")]));
    // Without a path it is the folder `logs` of the working directory.
    assert!(run(&[("NCCL_MEGATRACE_SENSTIME", "60")]) && run(&[("NCCL_MEGATRACE_ENABLE", "1")]));
    assert!(!run(&[]));
    assert!(!run(&[("NCCL_MEGATRACE_LOG_PATH", "logs"), ("NCCL_MEGATRACE_ENABLE", "0")]));
}

#[test]
fn megatraces_log_has_its_older_form_if_asked_to() {
    let mut job = job(&["init 0 2 1 A", "reduce 0 64 1"]).env("NCCL_STACKS_MEGATRACE_FORM", "L3");
    job.lines();
    let text = fs::read_to_string(job.folder.path().join("logs/rank_3.log")).unwrap();
    let (head, rest) = text.split_once(" [Rank 3] ").unwrap();
    assert!(head.starts_with("[save_count 1] ["), "{text}");
    // The hash of the id in decimal, by Python.
    assert_eq!(rest, "Fun ncclAllReduce Data 64 stream 0x1 opCount 1 groupHash 2356655097301008231\n");
}

/// A ring of 64 records has room for the last of 5,000 calls, which come faster than they are collected.
#[test]
fn calls_that_are_lost_are_a_warning_and_a_gap() {
    for (calls, is_lost) in [("20", false), ("5000", true)] {
        let loop_of = format!("threads 1 {calls} 0");
        let mut job = job(&["init 0 2 1 A", &loop_of])
            .env("NCCL_STACKS_RING_RECORDS", "64")
            .env("MEGATRACE_LOG_LEVEL", "WARN")
            .env("NCCL_MEGATRACE_SENSTIME", "10000");
        let said = String::from_utf8(job.run().stderr).unwrap();
        assert_eq!(said.contains("[WARN]") && said.contains("opCount has gaps"), is_lost, "{said}");
        let text = fs::read_to_string(job.folder.path().join("logs/rank_3.log")).unwrap();
        let last = text.lines().next_back().unwrap();
        // The last call has its own number in any case.
        assert!(last.contains(&format!("[opCount {calls}]")), "{last}");
        assert_eq!(text.lines().count() < calls.parse().unwrap(), is_lost);
    }
}

/// The flow extractor's switch: what comes meanwhile is counted and not recorded.
#[test]
fn a_program_may_switch_recording_off_and_on() {
    let steps = ["init 0 2 1 A", "reduce 0 1 1", "flows 0", "reduce 0 2 1", "flows 1", "reduce 0 3 1"];
    let mut job = Job::new(&steps);
    job.lines();
    let recording = job.recording();
    let reductions = recording.calls().into_iter().filter(|(name, _)| *name == "ncclAllReduce");
    let numbers: Vec<(u64, u64)> = reductions.map(|(_, call)| (call.a, call.c >> 32)).collect();
    assert_eq!(numbers, [(1, 1), (3, 3)]);
    assert_eq!(recording.header().left_out, 1);
    // It is also counted if it was off from the first call on.
    for (steps, left_out) in
        [(&["flows 0", "init 0 2 1 A", "reduce 0 1 1"][..], 1), (&["init 0 2 1 A", "reduce 0 1 1", "flows 0"][..], 0)]
    {
        let mut job = Job::new(steps);
        job.lines();
        assert_eq!(job.recording().header().left_out, left_out);
    }
}

#[test]
fn a_kill_loses_what_came_after_the_last_silence() {
    let mut job = job(&["init 0 2 1 A", "reduce 0 64 1", "sleep 400", "reduce 0 65 1", "kill"]);
    assert!(!job.command.output().unwrap().status.success());
    assert_eq!(lines(&job.folder.path().join("logs/rank_3.log")).len(), 1);
    // The recording has both.
    assert_eq!(job.recordings().len(), 1);
}

#[test]
fn a_child_has_a_log_of_its_own() {
    let mut job = job(&["init 0 2 1 A", "reduce 0 64 1", "fork", "reduce 0 70 1"]);
    job.run();
    let mut counts: Vec<(bool, usize)> = fs::read_dir(job.folder.path().join("logs"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.ends_with("rank_3.log"), lines(&path).len()))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(false, 1), (true, 2)]);
}

#[test]
fn without_a_folder_or_a_rank_there_is_a_line_if_asked_for() {
    let steps = ["init 0 2 1 A", "reduce 0 64 1"];
    let mut silent = job(&steps).env("NCCL_MEGATRACE_LOG_PATH", "/nonexistent");
    silent.lines();
    for (name, value, expected) in
        [("NCCL_MEGATRACE_LOG_PATH", "/nonexistent", "[Rank: 3] [ERROR]"), ("RANK", "", "[Rank: -1] [ERROR]")]
    {
        let mut job = job(&steps).env(name, value).env("MEGATRACE_LOG_LEVEL", "ERROR");
        let said = String::from_utf8(job.run().stderr).unwrap();
        assert!(said.lines().count() == 1 && said.contains(expected), "{said}");
        assert_eq!(fs::read_dir(job.folder.path().join("logs")).unwrap().count(), 0);
    }
}
