//! A job that does everything at once that jobs do: it prints the same and ends the same way with the recorder as without it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::recorder::hazards::end_of;
use crate::recorder::jobs::{Job, built};
use crate::recorder::recording::Recording;
use crate::support::random::{is_long, rounds};

/// How often the long tests do what they do: `NCCL_STACKS_STRESS_RUNS`, or so many times.
pub(crate) fn runs(unless_said: u64) -> u64 {
    std::env::var("NCCL_STACKS_STRESS_RUNS").map_or(unless_said, |runs| runs.parse().unwrap())
}

/// Every fourth job has the logs of other programs written, too.
fn job(seed: u64, seconds: &str) -> Job {
    let mut job = Job::assemble(&built().path("stress"), &[&seed.to_string(), seconds]);
    job.command.env_remove("FAKE_NCCL_LOG").env("STRESS_PLUGGED", built().path("libplugged.so"));
    // What makes communicators of others returns 7, or 0.
    job.command.env("FAKE_NCCL_NONBLOCKING", if seed.is_multiple_of(3) { "1:0" } else { "1:7" });
    if seed % 4 == 1 {
        let folder = job.folder.path().to_owned();
        job.command.env("NCCL_MEGATRACE_ENABLE", "1").env("NCCL_MEGATRACE_LOG_PATH", &folder).env("RANK", "3");
        job.command.env("NCCL_MEGATRACE_SENSTIME", "1");
    }
    job.command.env("NCCL_PROFILE_EVENT_MASK", "4095");
    job
}

fn ended(job: &mut Job, seed: u64) -> Output {
    end_of(&mut job.command).unwrap_or_else(|| panic!("seed {seed}: {:?} does not end", job.command))
}

/// What is recorded of communicators agrees with itself: a child of the made NCCL has its key as rank and half of its parent's size, and nobody
/// uses one that has ended.
fn is_consistent(recording: &Recording, seed: u64) {
    let all = recording.communicators();
    let of = |number: u16| all.get(usize::from(number).wrapping_sub(1));
    for about in all.iter().filter(|about| about.color > 0 && about.rank >= 0) {
        assert_eq!(about.rank, about.key, "seed {seed}: {about:?}");
        // The parent's entry may have become another one's.
        let parent = of(about.parent).filter(|parent| parent.made <= about.made && parent.size >= 0);
        assert!(parent.is_none_or(|parent| about.size == parent.size / 2), "seed {seed}: {about:?} of {parent:?}");
    }
    let ends = ["ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort"];
    for (name, call) in recording.calls().into_iter().filter(|(name, _)| !ends.contains(name)) {
        let has_ended =
            of(call.communicator).is_some_and(|of| of.made <= call.time && of.ended != 0 && of.ended < call.time);
        assert!(!has_ended, "seed {seed}: {name} at {} for {:?}", call.time, of(call.communicator));
    }
}

/// What a job does is the same with the recorder as without, and the recorder says what it did.
fn is_the_same(seed: u64, seconds: &str) {
    let (mut without, mut with) = (job(seed, seconds), job(seed, seconds));
    without.command.env_remove("LD_PRELOAD");
    let (without, got) = (ended(&mut without, seed), ended(&mut with, seed));
    assert!(without.status.code().is_some() && without.stderr.is_empty(), "seed {seed}: {without:?}");
    assert_eq!(got, without, "seed {seed}");
    let recordings = with.recordings();
    assert!(recordings.iter().any(|one| one.calls().len() > 100), "seed {seed}");
    for recording in &recordings {
        assert_eq!(recording.header().lost, 0, "seed {seed}");
        is_consistent(recording, seed);
    }
}

#[test]
fn a_job_is_the_same_with_the_recorder_as_without() {
    let seconds = if is_long() { "2" } else { "0.25" };
    for seed in 0..4 {
        is_the_same(seed, seconds);
    }
}

#[test]
#[ignore = "takes half an hour"]
fn a_job_is_the_same_with_the_recorder_as_without_200_times() {
    let (next, runs) = (AtomicU64::new(0), runs(200));
    scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for seed in
                    std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed))).take_while(|seed| *seed < runs)
                {
                    is_the_same(seed, "5");
                }
            });
        }
    });
}

/// Kills the job and its children at some moment of each run.
fn kill(times: u64) {
    let mut files = 0;
    for seed in 0..times {
        let mut job = job(seed, "5");
        job.command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = job.command.spawn().unwrap();
        // By steps that are no multiple of anything.
        sleep(Duration::from_nanos(seed * 7_919_917 % 150_000_000));
        // SAFETY: the group is that of the child, which has not been waited for.
        unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
        child.wait().unwrap();
        let Ok(folder) = fs::read_dir(job.folder.path().join("records")) else { continue };
        for recording in job.recordings() {
            // One for each thread that was killed while it wrote.
            assert!(recording.incomplete <= 16, "seed {seed}: {}", recording.incomplete);
            assert_eq!(recording.header().lost, 0, "seed {seed}");
        }
        files += folder.count();
    }
    println!("{times} runs, {files} files");
    assert!(files as u64 > times / 2);
}

#[test]
fn a_job_that_is_killed_leaves_what_can_be_read() {
    kill(rounds(10) as u64);
}

#[test]
#[ignore = "takes five minutes"]
fn a_job_that_is_killed_leaves_what_can_be_read_1000_times() {
    kill(runs(1000));
}
