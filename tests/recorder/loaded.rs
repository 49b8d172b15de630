//! The drop-ins as a job has them: the library is loaded into one, and writes what other programs would.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

use crate::jobs::Job;

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
