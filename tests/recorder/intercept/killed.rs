//! Processes that are killed: whatever was complete before is in the file.

use std::array::from_fn;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nccl_stacks_recorder_format::Kind;

use crate::recorder::jobs::Job;
use crate::recorder::recording::Recording;
use crate::recorder::stress::runs;

/// How many calls of each thread have returned, as the driver says in a shared page.
fn returned(page: &Path) -> [u64; THREADS] {
    let bytes = fs::read(page).unwrap_or_default();
    let word = |at: usize| bytes.get(8 * at..8 * at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()));
    from_fn(word)
}

/// The most threads that call.
const THREADS: usize = 3;

/// Kills the driver so many times while it calls.
fn kill(times: u64) {
    let (mut with_calls, mut all_calls, mut incomplete) = (0, 0, 0);
    for run in 0..times {
        let mut job = Job::new(&["init 0 2 1 A"]);
        let page = job.folder.path().join("page");
        let threads = if run % 2 == 0 { 1 } else { THREADS };
        job.command
            .arg(format!("count {} {threads}", page.display()))
            .env_remove("FAKE_NCCL_LOG")
            .stdout(Stdio::null());
        job.command.env("NCCL_STACKS_RING_RECORDS", "256");
        let mut child = job.command.spawn().unwrap();
        // From before the first call to 3 ms after it: by steps that are no multiple of anything.
        let (begin, wait) = (Instant::now(), Duration::from_nanos(run * 7_919_917 % 3_000_000));
        while run % 10 != 0 && returned(&page) == [0; THREADS] {
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
        let waited = Instant::now();
        while waited.elapsed() < wait {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let done = returned(&page);
        let Some(recording) = job.recordings().pop() else {
            assert_eq!(done, [0; THREADS]);
            continue;
        };
        for (thread, done) in done.into_iter().enumerate() {
            is_recorded(&recording, thread, done);
            all_calls += done;
        }
        assert!(recording.incomplete <= threads && !recording.header().is_closed);
        with_calls += u64::from(done != [0; THREADS]);
        incomplete += recording.incomplete;
    }
    println!("{times} runs, {with_calls} with calls, {all_calls} calls, {incomplete} half written records");
    assert!(with_calls > times / 2);
}

/// The last calls of a thread are there without a gap, up to the last that returned or one that was begun.
fn is_recorded(recording: &Recording, thread: usize, done: u64) {
    let stream = 100 + thread as u64;
    let calls = recording.calls().into_iter().filter(|(name, call)| *name == "ncclAllReduce" && call.b == stream);
    let counts: Vec<u64> = calls.map(|(_, call)| call.a).collect();
    let last = counts.last().copied().unwrap_or(0);
    assert!(last == done || last == done + 1, "{done} calls returned, {last} recorded");
    // The ring's size less the slot that may be half written.
    let kept = (last.min(255)) as usize;
    assert!(counts.len() >= kept.saturating_sub(2), "{} of {last}", counts.len());
    let first = last + 1 - counts.len() as u64;
    assert_eq!(counts, (first..=last).collect::<Vec<u64>>());
}

#[test]
fn what_was_complete_before_a_kill_is_read() {
    kill(60);
}

#[test]
#[ignore = "takes half a minute"]
fn what_was_complete_before_a_kill_is_read_1000_times() {
    kill(runs(1000));
}

#[test]
fn a_call_that_never_returned_is_known() {
    let mut job = Job::new(&["init 0 4 2 A"]).env("FAKE_NCCL_HANG", "ncclCommInitRank:-1");
    let mut child = job.command.spawn().unwrap();
    // The made NCCL writes its line, and waits.
    let begin = Instant::now();
    while job.log().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    // As it is read while the process lives, and after it was killed.
    let alive = job.recording();
    child.kill().unwrap();
    child.wait().unwrap();
    for recording in [alive, job.recording()] {
        let all = recording.communicators();
        assert_eq!((all.len(), all[0].rank, all[0].size, all[0].address, all[0].ended), (1, 2, 4, 0, 0));
        assert_eq!(recording.records.len(), 1);
        let record = recording.records[0].1;
        assert_eq!((record.kind, record.communicator, record.c), (Kind::Call, 1, 2));
    }
}
