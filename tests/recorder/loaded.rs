//! The drop-ins as a job has them: the library is loaded into one, and writes what other programs would.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::recorder::jobs::{Job, built};

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
    // The hash of the id in decimal, by Python.
    let rest = "groupHash 2356655097301008231";
    let expected = [
        format!("[save_count 1] [Rank 3] Fun ncclAllReduce Data 64 stream 0x1 opCount 1 {rest}"),
        format!("[save_count 1] [Rank 3] Fun ncclAllReduce Data 65 stream (nil) opCount 1 {rest}"),
        format!("[save_count 2] [Rank 3] Fun ncclBcast Data 7 stream (nil) opCount 2 {rest}"),
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

/// The documented form is the default. Who chooses fields, which only the newer form has, gets that, unless a form is named.
#[test]
fn megatraces_log_has_the_form_of_its_documentation_unless_asked_otherwise() {
    let words = "[Rank 3] Fun ncclAllReduce Data 64 stream 0x1 opCount 1 groupHash 2356655097301008231\n";
    let brackets = "[Rank 3] [PCI unknown] [Func ncclAllReduce] [Data 64] [stream 0x1] [opCount 1] \
                    [groupHash 0x20b485532cbd7f67]\n";
    let (form, fields) = ("NCCL_STACKS_MEGATRACE_FORM", ("MEGATRACE_LOG_EXTRA_FIELDS", "JOB,ROUND"));
    let cases = [
        (&[][..], "[save_count 1] [", words),
        (&[(form, "L3")], "[save_count 1] [", words),
        (&[fields, (form, "l3")], "[save_count 1] [", words),
        (&[(form, "L6")], "[10.0.0.7] [", brackets),
        (&[(form, "l6")], "[10.0.0.7] [", brackets),
        (&[fields], "[10.0.0.7] [", brackets),
    ];
    for (variables, head, rest) in cases {
        let job = job(&["init 0 2 1 A", "reduce 0 64 1"]).env("MY_POD_IP", "10.0.0.7");
        let mut job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
        job.lines();
        let text = fs::read_to_string(job.folder.path().join("logs/rank_3.log")).unwrap();
        assert!(text.starts_with(head) && text.ends_with(rest), "{variables:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
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
        assert!(last.contains(&format!(" opCount {calls} ")), "{last}");
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

/// The text of a line of Megatrace's console, without its time and place. The rest has the documented form.
fn console(said: &str) -> String {
    let form = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\] (\[Rank: -?\d+\] \[[A-Z]+\]) \[\w+\.rs:\d+:\w+\] (.+)\n$";
    let found = regex::Regex::new(form).unwrap().captures(said).unwrap_or_else(|| panic!("{said}"));
    format!("{} {}", &found[1], &found[2])
}

/// As with Megatrace, an error is printed though nobody has set a level.
#[test]
fn without_a_rank_or_where_no_folder_can_be_made_there_is_an_error_on_the_console() {
    let steps = ["init 0 2 1 A", "reduce 0 64 1"];
    let folder = "NCCL_MEGATRACE_LOG_PATH";
    let cases = [
        // Of the path only the last part is made.
        (folder, "/nonexistent/logs", "[Rank: 3] [ERROR] cannot make the folder /nonexistent/logs: error 2"),
        (folder, "/proc/logs", "[Rank: 3] [ERROR] cannot make the folder /proc/logs: error 2"),
        (folder, "/dev/null", "[Rank: 3] [ERROR] no log in /dev/null: it cannot be created: error 20"),
        ("RANK", "", "[Rank: -1] [ERROR] no log: the environment does not say which rank this is"),
    ];
    for (name, value, expected) in cases {
        let of_level = |level: Option<&str>| {
            let job = job(&steps).env(name, value);
            let mut job = level.into_iter().fold(job, |job, level| job.env("MEGATRACE_LOG_LEVEL", level));
            let said = String::from_utf8(job.run().stderr).unwrap();
            assert_eq!(fs::read_dir(job.folder.path().join("logs")).unwrap().count(), 0);
            console(&said)
        };
        for level in [None, Some("ERROR"), Some("no level")] {
            assert_eq!(of_level(level), expected, "{level:?}");
        }
    }
    // Nobody has asked for the log.
    let mut job = Job::new(&steps);
    job.lines();
}

/// The folder is made with the first line, as Megatrace's users make it by hand.
#[test]
fn a_folder_that_is_missing_is_made() {
    for folder in ["new", "./logs"] {
        let mut job = job(&["init 0 2 1 A", "reduce 0 64 1"]);
        fs::remove_dir(job.folder.path().join("logs")).unwrap();
        match folder {
            "./logs" => job.command.env_remove("NCCL_MEGATRACE_LOG_PATH"),
            other => job.command.env("NCCL_MEGATRACE_LOG_PATH", other),
        };
        job.command.current_dir(job.folder.path());
        job.lines();
        let made = job.folder.path().join(folder);
        assert_eq!(lines(&made.join("rank_3.log")).len(), 1);
        assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777 & !0o755, 0);
    }
}

/// A call that has no NCCL to go to: the program gets an error, and Megatrace's line says why, once.
#[test]
fn a_function_that_cannot_be_found_is_an_error_on_the_console() {
    let steps = ["reduce 0 64 1", "reduce 0 65 1"];
    let run = |variables: &[(&str, &str)]| {
        let mut job = Job::assemble(&built().path("alone"), &steps).env("RANK", "3");
        job.command.envs(variables.iter().copied());
        let output = job.run();
        // `ncclInvalidUsage`.
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "! reduce 0 64 1: 5\n! reduce 0 65 1: 5\n");
        String::from_utf8(output.stderr).unwrap()
    };
    let expected = "[Rank: 3] [ERROR] Cannot find symbol ncclAllReduce";
    assert_eq!(console(&run(&[("NCCL_MEGATRACE_ENABLE", "1")])), expected);
    assert_eq!(console(&run(&[("MEGATRACE_LOG_LEVEL", "DEBUG")])), expected);
    for silent in [
        &[][..],
        &[("NCCL_MEGATRACE_ENABLE", "0"), ("MEGATRACE_LOG_LEVEL", "DEBUG")],
        &[("NCCL_MEGATRACE_ENABLE", "1"), ("NCCL_STACKS_RECORD", "0")],
    ] {
        assert_eq!(run(silent), "", "{silent:?}");
    }
}
