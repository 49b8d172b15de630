//! Moments at which a recorder can harm a job, or lose what it does: each is made to happen, in a process of its own, many times.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nccl_stacks_recorder_format::Communicator;

use crate::recorder::jobs::{Job, RECORDER, built};
use crate::recorder::recording::Recording;

/// How often each moment is made to happen.
const RUNS: usize = 20;

/// Longer than any of these jobs takes on a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a job; `None` if it does not end. Then it and the processes that it forked are killed.
pub(crate) fn end_of(command: &mut Command) -> Option<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            // SAFETY: the group is that of the child, which has not been waited for.
            unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
            child.wait().unwrap();
            return None;
        }
        sleep(Duration::from_millis(1));
    }
    Some(child.wait_with_output().unwrap())
}

/// A job at one of these moments, on a system with these properties.
fn job(arguments: &[&str], system: &[(&str, &str)]) -> Job {
    let mut job = Job::assemble(&built().path("hazards"), arguments);
    let preload = format!("{RECORDER}:{}", built().path("libslow.so").display());
    job.command.env("LD_PRELOAD", preload).env_remove("FAKE_NCCL_LOG").envs(system.iter().copied());
    job
}

/// Runs it; what it printed. It ends, and well.
fn lines(job: &mut Job) -> Vec<String> {
    let output = end_of(&mut job.command).unwrap_or_else(|| panic!("{:?} does not end", job.command));
    assert!(output.status.success() && output.stderr.is_empty(), "{:?}: {output:?}", job.command);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The counts of the reductions that were recorded.
fn reductions(recording: &Recording) -> Vec<u64> {
    let calls = recording.calls().into_iter().filter(|(name, _)| *name == "ncclAllReduce");
    calls.map(|(_, record)| record.a).collect()
}

/// Whether this may be the communicator with this rank, size and address. The rank of one that is split is its key here.
fn fits(about: &Communicator<'_>, (address, rank, size): (u64, i32, i32)) -> bool {
    let is_known = about.rank >= 0 && about.size >= 0;
    let is_split = about.color != 0;
    (if is_known { (about.rank, about.size) == (rank, size) } else { is_split })
        && (!is_split || about.key == rank)
        && (about.address == 0 || about.address == address)
}

/// Each call was for the communicator that the job says, or for one that nobody knows; those for the first one are always known.
fn calls_are_for_their_communicators(job: &Job, printed: &[String]) {
    let recording = job.recording();
    let known = recording.communicators();
    let mut counts = Vec::new();
    for line in printed {
        let mut words = line.split(' ');
        let mut number = |radix| i64::from_str_radix(words.next().unwrap(), radix).unwrap();
        let (count, address) = (number(10).cast_unsigned(), number(16).cast_unsigned());
        let (rank, size) = (number(10) as i32, number(10) as i32);
        let calls = recording.calls();
        let (_, call) = calls.iter().find(|(name, call)| *name == "ncclAllReduce" && call.a == count).unwrap();
        let about = known.get(usize::from(call.communicator).wrapping_sub(1));
        assert!(about.is_none_or(|about| fits(about, (address, rank, size))), "{line}: {about:?}");
        assert!(address != known[0].address || call.communicator == 1, "{line}: {about:?}");
        counts.push(count);
    }
    let mut recorded = reductions(&recording);
    recorded.sort_unstable();
    counts.sort_unstable();
    assert_eq!(recorded, counts);
}

/// The made NCCL stops a process that hands it a communicator that is gone, or what never was one.
#[test]
fn a_stale_handle_is_noticed() {
    let mut job = Job::new(&["init 0 2 1 A", "destroy 0", "reduce 0 1 0"]);
    let output = job.command.env_remove("LD_PRELOAD").output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ncclAllReduce: 0x"), "{output:?}");
}

/// A child's handle is where the caller keeps it, not where NCCL wrote it: that may be anything by now.
#[test]
fn a_variable_that_held_a_child_is_the_callers() {
    for run in 0..RUNS {
        let variant = ["garbage", "other", "unmapped"][run % 3];
        // What makes the children returns 7, or 0.
        let returned = if run % 2 == 0 { "4:7" } else { "4:0" };
        let mut job = job(&["stale", variant], &[("FAKE_NCCL_NONBLOCKING", returned)]);
        let printed = lines(&mut job);
        assert_eq!(printed.len(), 8);
        calls_are_for_their_communicators(&job, &printed);
    }
}

#[test]
fn children_that_come_later_are_not_mistaken_for_each_other() {
    for run in 0..RUNS {
        let returned = if run % 2 == 0 { "4:7" } else { "4:0" };
        let mut job = job(&["pending"], &[("FAKE_NCCL_NONBLOCKING", returned)]);
        let printed = lines(&mut job);
        assert_eq!(printed.len(), 300);
        calls_are_for_their_communicators(&job, &printed);
    }
}

/// The memory of each child is that of the one before.
#[test]
fn a_child_that_two_threads_use_first_is_one_communicator() {
    for _ in 0..RUNS {
        let mut job = job(&["twice"], &[("FAKE_NCCL_NONBLOCKING", "0:7")]);
        let printed = lines(&mut job);
        assert_eq!(printed.len(), 200);
        calls_are_for_their_communicators(&job, &printed);
    }
}

/// One for which there was no room is not mistaken for one that is still awaited.
#[test]
fn a_child_that_the_file_has_no_room_for_is_nobody_else() {
    for _ in 0..RUNS {
        let mut job = job(&["full"], &[("FAKE_NCCL_NONBLOCKING", "1:7")]);
        let printed = lines(&mut job);
        assert_eq!(printed.len(), 2);
        calls_are_for_their_communicators(&job, &printed);
    }
}

#[test]
fn a_process_that_is_forked_while_the_file_is_created_has_its_own() {
    for run in 0..RUNS {
        let slow = ["open:20", "fallocate:20"][run % 2];
        let mut job = job(&["fork"], &[("SLOW", slow)]);
        assert_eq!(lines(&mut job), ["0"]);
        let mut counts: Vec<Vec<u64>> = job.recordings().iter().map(reductions).collect();
        counts.sort_unstable();
        assert_eq!(counts, [[1], [2]], "{slow}");
    }
}

#[test]
fn a_thread_that_is_cancelled_in_its_first_call_leaves_nobody_waiting() {
    for run in 0..RUNS {
        let slow = ["open:20", "fallocate:20"][run % 2];
        let mut job = job(&["cancel"], &[("SLOW", slow)]);
        assert!(lines(&mut job).is_empty());
        assert!(reductions(&job.recording()).contains(&3), "{slow}");
    }
}

#[test]
fn a_signals_handler_may_call_nccl_while_the_file_is_created() {
    for run in 0..RUNS {
        let arguments: &[&str] = if run % 2 == 0 { &["signal"] } else { &["signal", "plugin"] };
        let slow = ["open:0", "fallocate:0"][run / 2 % 2];
        let mut job = job(arguments, &[("RAISE", "1"), ("SLOW", slow)]);
        assert!(lines(&mut job).is_empty());
        assert_eq!(reductions(&job.recording()), [1], "{arguments:?} {slow}");
    }
}

#[test]
fn a_reservation_that_is_interrupted_is_made_again() {
    for _ in 0..RUNS {
        let mut job = job(&["plain"], &[("INTERRUPT", "2")]);
        assert!(lines(&mut job).is_empty());
        assert_eq!(reductions(&job.recording()), [1, 2, 3]);
    }
}

#[test]
fn who_calls_rarely_is_not_overwritten_by_who_calls_much() {
    for _ in 0..RUNS {
        let mut job = job(&["rare"], &[]);
        assert!(lines(&mut job).is_empty());
        let recording = job.recording();
        let rare = recording.calls().into_iter().map(|(_, call)| (call.b, call.a)).filter(|call| call.0 >= 100);
        let mut rare: Vec<(u64, u64)> = rare.collect();
        rare.sort_unstable();
        let all: Vec<(u64, u64)> = (100..=108).flat_map(|stream| (1..=20).map(move |count| (stream, count))).collect();
        assert_eq!(rare.len(), all.len());
        assert_eq!(rare, all);
    }
}

/// The log's name can be guessed, and its folder may be one that others write to.
#[test]
fn a_link_in_the_place_of_megatraces_log_is_not_followed() {
    for run in 0..RUNS {
        let mut job = Job::new(&["init 0 2 1 A", "reduce 0 5 0"]);
        let (logs, victim) = (job.folder.path().join("logs"), job.folder.path().join("victim"));
        fs::create_dir(&logs).unwrap();
        symlink(&victim, logs.join("rank_3.log")).unwrap();
        let is_there = run % 2 == 0;
        if is_there {
            fs::write(&victim, "precious").unwrap();
        }
        job.command.env("NCCL_MEGATRACE_ENABLE", "1").env("NCCL_MEGATRACE_LOG_PATH", &logs).env("RANK", "3");
        let output = job.run();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && said.lines().count() == 1, "{said}");
        assert!(said.contains("[ERROR]") && said.contains("the log there is a link"), "{said}");
        assert_eq!(fs::read_to_string(&victim).ok(), is_there.then(|| "precious".to_owned()));
        assert_eq!(reductions(&job.recording()), [5]);
    }
}

/// A command as a user to whom permissions apply: root may always.
fn as_a_user(command: &mut Command) -> &mut Command {
    // SAFETY: has no condition.
    if unsafe { libc::geteuid() } == 0 { command.uid(65534).gid(65534) } else { command }
}

fn make_readable(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
}

/// A mapped file that becomes shorter kills who writes to it.
#[test]
fn the_file_of_a_process_that_lives_is_not_truncated_by_accident() {
    let job = job(&["live"], &[]);
    let folder = job.folder.path().to_owned();
    for (name, from) in [
        ("libnccl.so.2", built().path("new/libnccl.so.2")),
        ("hazards", built().path("hazards")),
        ("recorder.so", RECORDER.into()),
    ] {
        fs::copy(from, folder.join(name)).unwrap();
        make_readable(&folder.join(name));
    }
    make_readable(&folder);
    let mut command = Command::new(folder.join("hazards"));
    command.arg("live").env("LD_PRELOAD", folder.join("recorder.so")).env("LD_LIBRARY_PATH", &folder);
    command.env("NCCL_STACKS_DIR", folder.join("records")).env("NCCL_STACKS_RING_RECORDS", "4096");
    let mut child = as_a_user(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let file = fs::read_dir(folder.join("records")).unwrap().next().unwrap().unwrap().path();
    let mut shell = Command::new("sh");
    let shell = as_a_user(shell.args(["-c", ": > \"$0\""]).arg(&file)).stderr(Stdio::null()).status().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() && !shell.success(), "{status:?} after {shell:?}");
    assert_eq!(reductions(&job.recording()), (1..=4000).collect::<Vec<u64>>());
}
