//! `nccl-stacks record` around a job of several processes: what is recorded says which rank is left out, which is late, and by which
//! algorithm; also while the job runs, and after everything was killed.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::recorder::jobs::built;
use crate::support::program::{has, stderr, stdout};

fn nccl_stacks() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"));
    command.env_remove("RANK").env_remove("NCCL_PROFILER_PLUGIN").env("LD_LIBRARY_PATH", built().path("new"));
    command
}

/// `record` into a folder, and the job that it is to run.
fn recording(folder: &Path, options: &[&str], job: &[&str]) -> Command {
    let mut command = nccl_stacks();
    command.args(["record", "--dir"]).arg(folder).args(options).arg("--").args(job);
    command
}

/// The same of a program that was compiled for these tests, with small rings.
fn recording_of(program: &str, folder: &Path, options: &[&str], job: &[&str]) -> Command {
    let program = built().path(program);
    recording(folder, &[&["--ring-size", "256K"], options].concat(), &[&[program.to_str().unwrap()], job].concat())
}

/// The variables that it prints instead.
fn variables(folder: &Path) -> Command {
    let mut command = nccl_stacks();
    command.args(["record", "--print-env", "--dir"]).arg(folder);
    command
}

/// Records a job; its output and the folder of its recordings.
fn record(options: &[&str], job: &[&str]) -> (Output, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (recording_of("job", folder.path(), options, job).output().unwrap(), folder)
}

/// What a command says of recordings, in JSON, and its exit code.
fn answer(command: &str, folder: &Path) -> (Value, Option<i32>) {
    let output = nccl_stacks().arg(command).arg(folder).args(["--json", "--quiet"]).output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    (found, output.status.code())
}

/// The line of what was said that begins so.
#[track_caller]
fn line<'a>(said: &'a str, begin: &str) -> &'a str {
    said.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_late_rank_is_named() {
    let (output, folder) = record(&[], &["4", "40", "late:2:3000"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    has(line(&stderr(&output), "ranks: "), "rank 2");
    let (of_ranks, code) = answer("ranks", folder.path());
    assert_eq!(code, Some(0));
    // Three ranks wait about 3 ms in each of 40 all-reduces; computers are noisy, and never early.
    let caused = [0, 1, 2, 3].map(|rank| of_ranks["ranks"][rank]["caused_ns"].as_i64().unwrap());
    assert!(caused[2] > 3 * 30 * 3_000_000, "{caused:?}");
    assert!([0, 1, 3].iter().all(|rank| caused[*rank] < caused[2] / 4), "{caused:?}");
    let (records, _) = answer("records", folder.path());
    let census = records["census"].as_array().unwrap();
    let all_reduces = census.iter().find(|row| row["collective"] == "all_reduce").unwrap();
    for (what, want) in [("algorithms", "RING"), ("protocols", "SIMPLE"), ("channels", "2")] {
        assert_eq!(all_reduces[what], serde_json::json!({want: 160}), "{all_reduces}");
    }
    assert_eq!((&all_reduces["count"], &all_reduces["timed"]), (&160.into(), &160.into()), "{all_reduces}");
    assert_eq!(answer("hang", folder.path()).1, Some(0));
}

#[test]
fn a_rank_that_is_left_out_is_named_after_all_were_killed() {
    for options in [&[][..], &["--events", "calls"], &["--events", "coll,kernel-channels"]] {
        let (output, folder) = record(options, &["4", "30", "out:1:12"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(line(&said, "hang: ").to_lowercase().contains("rank 1"), "{options:?}: {said}");
        let (hung, _) = answer("hang", folder.path());
        let groups = hung["hung"].as_array().unwrap().iter().chain(hung["lagging"].as_array().unwrap());
        let missing: Vec<&Value> = groups.map(|group| &group["missing_ranks"]).collect();
        assert_eq!(missing, [&serde_json::json!([1])], "{options:?}: {hung}");
        // The processes are gone: nothing says whether the others had waited for long.
        assert_eq!((&hung["culprits"], &hung["outcome"]), (&serde_json::json!([]), &"unclear".into()), "{hung}");
        let verdict = hung["verdict"][0].as_str().unwrap();
        assert!(verdict.starts_with("Unclear: the processes are gone"), "{verdict}");
        has(verdict, "for rank 1 in ");
    }
}

/// A job that is recorded into a folder and goes on.
fn started(folder: &Path, job: &[&str]) -> Child {
    recording_of("job", folder, &[], job).stderr(std::process::Stdio::null()).spawn().unwrap()
}

/// The files of a job that runs are read one after the other, and the job goes on in between.
#[test]
fn a_job_that_moves_is_not_said_to_hang() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = started(folder.path(), &["4", "4000", "late:1:10000"]);
    std::thread::sleep(Duration::from_secs(1));
    let mut said = Vec::new();
    for _ in 0..4 {
        let output = nccl_stacks().arg("hang").arg(folder.path()).args(["--quiet", "--wait", "1s"]).output().unwrap();
        said.push((output.status.code(), stdout(&output)));
    }
    assert!(running.try_wait().unwrap().is_none(), "it was over before it was asked");
    stop(&mut running, folder.path());
    assert!(said.iter().all(|(code, _)| *code == Some(0)), "{said:?}");
    assert!(said.iter().any(|(_, text)| text.starts_with("The job runs: ")), "{said:?}");
}

/// Stops a command, which forwards the signal, and the job's ranks, which are orphans then; its exit code.
fn stop(running: &mut Child, folder: &Path) -> Option<i32> {
    // SAFETY: a process of this test.
    unsafe { libc::kill(running.id() as i32, libc::SIGTERM) };
    let ended = running.wait().unwrap();
    kill_all(folder);
    ended.code()
}

/// Kills the processes of a job's recordings.
fn kill_all(folder: &Path) {
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let pid = name.strip_suffix(".ncclrec").and_then(|name| name.rsplit('-').next()?.parse::<i32>().ok());
        if let Some(pid) = pid {
            // SAFETY: a process of this test.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

#[test]
fn a_job_that_hangs_is_read_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = started(folder.path(), &["3", "30", "stay:2:5"]);
    let begun = Instant::now();
    let found = loop {
        let output = nccl_stacks().arg("hang").arg(folder.path()).args(["--json", "--quiet"]).output().unwrap();
        let said = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        let groups = ["hung", "lagging"].into_iter().flat_map(|key| said[key].as_array().cloned().unwrap_or_default());
        let missing: Vec<Value> = groups.map(|group| group["missing_ranks"].clone()).collect();
        if missing == [serde_json::json!([2])] || begun.elapsed() > Duration::from_secs(30) {
            break missing;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let code = stop(&mut running, folder.path());
    assert_eq!((&found[..], code), (&[serde_json::json!([2])][..], Some(128 + libc::SIGTERM)));
}

#[test]
fn the_jobs_output_and_exit_code_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let job = ["sh", "-c", "echo out; echo err >&2; exit 7"];
    let output = recording(folder.path(), &[], &job).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"out\n"[..]));
    assert!(stderr(&output).starts_with("err\nNothing was recorded into "), "{}", stderr(&output));
    let missing = recording(folder.path(), &[], &["/no/such/job"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).starts_with("error: /no/such/job: cannot be run: "), "{}", stderr(&missing));
}

/// A shell that reads the variables records without the command around it.
#[test]
fn variables_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let printed = variables(folder.path()).output().unwrap();
    assert!(printed.status.success(), "{}", stderr(&printed));
    let script = format!("{}exec '{}' 2 3", String::from_utf8(printed.stdout).unwrap(), built().path("job").display());
    let run = Command::new("sh").arg("-c").arg(script).env("LD_LIBRARY_PATH", built().path("new")).status().unwrap();
    assert!(run.success());
    assert_eq!(recordings(folder.path()).len(), 2);
    // A profiler that the user chose stays.
    let own = variables(folder.path()).env("NCCL_PROFILER_PLUGIN", "/opt/theirs.so").output().unwrap();
    assert!(!stdout(&own).contains("NCCL_PROFILER_PLUGIN"));
    has(&stderr(&own), "/opt/theirs.so");
}

/// The names of the recordings in a folder, in order.
fn recordings(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".ncclrec")).collect();
    names.sort();
    names
}

/// What a job's scripts know from Megatrace is written beside the recordings, of the same calls.
#[test]
fn megatraces_files_are_written_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("logs")).unwrap();
    let mut job = recording_of("job", &at("records"), &["--no-report"], &["2", "5"]);
    let output = job.env("NCCL_MEGATRACE_ENABLE", "1").env("NCCL_MEGATRACE_LOG_PATH", at("logs")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    for rank in 0..2 {
        let log = std::fs::read_to_string(at(&format!("logs/rank_{rank}.log"))).unwrap();
        assert_eq!(log.lines().filter(|line| line.contains(" Fun ncclAllReduce Data 1048576 ")).count(), 5, "{log}");
    }
    let (of_logs, _) = answer("records", &at("logs"));
    assert_eq!(of_logs["census"][0]["count"], 10, "{of_logs}");
}

/// A file has 512 communicators; of those beyond nobody is seen to wait.
#[test]
fn a_job_with_more_communicators_than_a_file_holds_is_not_said_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let said = stderr(&recording_of("linked", folder.path(), &[], &["cycle 600 0"]).output().unwrap());
    assert!(line(&said, "hang: ").starts_with("hang: Cannot say whether the job hangs"), "{said}");
    ["hang: ", "records: "]
        .into_iter()
        .for_each(|of| has(line(&said, of), "88 communicators for which there was no room"));
}

/// One process with all ranks: interceptor and plugin know its communicators by different names, and record the same operations.
#[test]
fn a_process_with_all_ranks_has_each_operation_once() {
    for (options, algorithm, is_known) in [(&[][..], "RING", true), (&["--events", "calls"], "", false)] {
        let (output, folder) = record(options, &["2", "10", "all:0:0"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let (records, _) = answer("records", folder.path());
        let census = records["census"].as_array().unwrap();
        assert_eq!((census.len(), &census[0]["count"], &census[0]["ranks"]), (1, &20.into(), &2.into()), "{records}");
        assert_eq!(census[0]["communicator"].is_string(), is_known, "{records}");
        let algorithms = if is_known { serde_json::json!({algorithm: 20}) } else { serde_json::json!({}) };
        assert_eq!(census[0]["algorithms"], algorithms, "{records}");
    }
}

/// A call that fails is in what is said at the end.
#[test]
fn failing_calls_are_said_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = recording_of("linked", folder.path(), &[], &["init 0 8 5 A", "reduce 0 1 0"]);
    let said = stderr(&job.env("FAKE_NCCL_RESULT", "ncclAllReduce:5").env("RANK", "0").output().unwrap());
    let failed = "ncclAllReduce failed on rank 0 with error 5 (ncclInvalidUsage).";
    ["hang: ", "records: "].into_iter().for_each(|of| has(line(&said, of), failed));
}

/// Of the events of all steps the rings hold only the last, and of the calls all: a ring of calls is four times as large, and a step makes fewer.
#[test]
fn channels_do_not_overwrite_calls() {
    let folder = tempfile::tempdir().unwrap();
    let job = built().path("job");
    let job = [job.to_str().unwrap(), "2", "200"];
    let said = stderr(&recording(folder.path(), &["--ring-size", "16K"], &job).output().unwrap());
    let covered = line(&said, "Covered: ");
    assert!(covered.starts_with("Covered: all calls, and NCCL's events of the last "), "{said}");
    assert!(covered.ends_with("is in no answer. Larger rings: --ring-size"), "{said}");
    let (records, _) = answer("records", folder.path());
    assert_eq!(records["census"][0]["count"], 400, "{records}");
    let (hang, code) = answer("hang", folder.path());
    assert_eq!((&hang["outcome"], code), (&"clear".into(), Some(0)), "{hang}");
}

/// Why nothing was recorded, as far as it is known.
#[test]
fn nothing_recorded_has_its_reason() {
    let said = |job: &str, off: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = recording(folder.path(), &[], &["sh", "-c", job]);
        stderr(&command.env("NCCL_STACKS_RECORD", off).output().unwrap())
    };
    has(&said("true", "0"), "NCCL_STACKS_RECORD turns recording off.");
    has(&said("true", "1"), "no process called NCCL, or NCCL is linked statically");
    let full = said(": > \"$NCCL_STACKS_DIR/n-1.E28.ncclrec-failed\"", "1");
    has(&full, "1 process could not record: the disk is full. Free space there");
    assert!(!full.contains("no process called NCCL"), "{full}");
}

/// A job runs whether it can be recorded or not.
#[test]
fn a_job_that_cannot_be_recorded_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    std::fs::create_dir(at("open")).unwrap();
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::create_dir_all(at("taken").join("libnccl_stacks_recorder.so").join("full")).unwrap();
    let (file, open) = (at("file").join("below"), at("open"));
    let (blank, colon, taken) = (at("with blank"), at("with:colon"), at("taken"));
    let own = at("own");
    let cases = [
        (&file, &own, "cannot be written"),
        (&PathBuf::from("/proc"), &own, "cannot be written"),
        (&open, &own, "others could replace the recordings in this folder: everybody may write it"),
        (&own, &taken, "cannot be written"),
        (&own, &blank, "with a space or a colon"),
        (&own, &colon, "with a space or a colon"),
        (&own, &open, "others could replace the recorder's library in this folder: everybody may write it"),
    ];
    for (dir, library, why) in cases {
        let record = || {
            let mut command = nccl_stacks();
            command.arg("record").arg("--dir").arg(dir).arg("--library-dir").arg(library).env_remove("LD_PRELOAD");
            command
        };
        let output = record().args(["--", "sh", "-c", "echo out; exit 7"]).output().unwrap();
        let said = stderr(&output);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"out\n"[..]), "{said}");
        assert!(said.starts_with("The job runs unrecorded: ") && said.contains(why), "{dir:?}: {said}");
        let printed = record().arg("--print-env").output().unwrap();
        assert!(!printed.status.success() && printed.stdout.is_empty(), "{dir:?}: {}", stderr(&printed));
    }
    // A folder of recordings may have any name, and one that others may write is taken if the user says so.
    for (dir, options) in [(&blank, &[][..]), (&open, &["--shared-dir"])] {
        let output = recording(dir, options, &["true"]).output().unwrap();
        assert!(!stderr(&output).contains("unrecorded"), "{}", stderr(&output));
    }
}

/// A command that is not there is said as by a shell, and nothing about recordings.
#[test]
fn a_command_that_is_not_there_ends_as_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    for (command, code, why) in [("no-such-command", 127, "No such file"), ("/etc/passwd", 126, "Permission denied")] {
        let output = recording(folder.path(), &[], &[command]).output().unwrap();
        let said = stderr(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
        has(&said, &format!("error: {command}: cannot be run: {why}"));
    }
}

/// Folders and parents by owner and mode, each with whether the job is recorded into it. Only root can give folders away.
#[test]
fn folders_that_others_can_change_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let set = |path: &Path, owner: u32, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(path, Some(owner), None)
    };
    let user = std::fs::metadata(folder.path()).unwrap().uid();
    let (parent, own) = (folder.path().join("parent"), folder.path().join("parent/own"));
    std::fs::create_dir_all(&own).unwrap();
    let other = 4242;
    for (of_parent, of_own, refused) in [
        ((user, 0o755), (user, 0o755), None),
        ((user, 0o1777), (user, 0o700), None),
        ((user, 0o1775), (user, 0o755), None),
        ((user, 0o755), (user, 0o775), Some("its group may write it")),
        ((user, 0o755), (user, 0o757), Some("everybody may write it")),
        ((user, 0o755), (user, 0o1777), Some("everybody may write it")),
        ((user, 0o777), (user, 0o755), Some("everybody may write into")),
        ((user, 0o775), (user, 0o755), Some("the group of")),
        ((user, 0o755), (other, 0o755), Some("it belongs to user 4242")),
        ((other, 0o755), (user, 0o755), Some("belongs to user 4242")),
        ((other, 0o1777), (user, 0o755), Some("belongs to user 4242")),
    ] {
        if set(&parent, of_parent.0, of_parent.1).and(set(&own, of_own.0, of_own.1)).is_err() {
            eprintln!("skipped: only root can give a folder to another user");
            continue;
        }
        for (option, refused) in [(None, refused), (Some("--shared-dir"), None)] {
            let printed = variables(&own).args(option).output().unwrap();
            let said = stderr(&printed);
            let case = format!("{of_parent:?} {of_own:?} {option:?}: {said}");
            assert_eq!(printed.status.success(), refused.is_none(), "{case}");
            assert!(refused.is_none_or(|why| said.contains(why) && said.contains("--shared-dir")), "{case}");
        }
    }
}

/// The library that processes of the job load is none that somebody else could have put there: not in the folder of the recordings, however it is
/// shared, and what is in the user's own folder is looked at again before each use.
#[test]
fn a_library_that_others_can_change_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (own, shared) = (folder.path().join("own"), folder.path().join("shared"));
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(shared.join("libnccl_stacks_recorder.so"), "another").unwrap();
    let library = own.join("libnccl_stacks_recorder.so");
    let elsewhere = tempfile::tempdir().unwrap();
    let unpack = || {
        let mut command = variables(&shared);
        command.args(["--shared-dir", "--library-dir"]).arg(&own).env_remove("LD_PRELOAD");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        has(&stdout(&output), &format!("LD_PRELOAD={}\n", library.display()));
        std::fs::symlink_metadata(&library).unwrap()
    };
    let first = unpack();
    assert_eq!(unpack().ino(), first.ino(), "what is there already stays");
    std::fs::copy(&library, elsewhere.path().join("same.so")).unwrap();
    std::fs::remove_file(&library).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("same.so"), &library).unwrap();
    assert!(unpack().is_file(), "a link to the same library");
    for mode in [0o775, 0o757] {
        std::fs::set_permissions(&library, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(unpack().mode() & 0o777, 0o755, "{mode:o}");
    }
    // Only root can give a file away.
    if std::os::unix::fs::chown(&library, Some(4242), None).is_ok() {
        assert_eq!(unpack().uid(), first.uid());
    }
    std::fs::write(&library, "another").unwrap();
    assert_eq!(unpack().len(), first.len());
    assert_eq!(std::fs::read(shared.join("libnccl_stacks_recorder.so")).unwrap(), b"another");
}

/// Without a folder of the user's choice, the library goes into the user's cache.
#[test]
fn the_library_is_in_a_folder_of_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).join("nccl-stacks/libnccl_stacks_recorder.so");
    for (variable, name, below) in [("XDG_CACHE_HOME", "cache", "cache"), ("HOME", "home", "home/.cache")] {
        let mut command = variables(&folder.path().join("runs"));
        command.env_remove("XDG_CACHE_HOME").env_remove("LD_PRELOAD").env(variable, folder.path().join(name));
        has(&stdout(&command.output().unwrap()), &format!("LD_PRELOAD={}\n", at(below).display()));
        assert_eq!(std::fs::metadata(at(below).parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    }
    assert_eq!(std::fs::read_dir(folder.path().join("runs")).unwrap().count(), 0);
}

/// Old runs go before a new one begins: the oldest first, never one that still runs, and nothing that is no recording.
#[test]
fn old_runs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let recorded = || recordings(folder.path());
    let run = |options: &[&str]| {
        let before = recorded();
        let job = built().path("job");
        let options = [&["--ring-size", "16K"], options].concat();
        let output = recording(folder.path(), &options, &[job.to_str().unwrap(), "2", "5"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let new = recorded().into_iter().filter(|name| !before.contains(name)).collect::<Vec<_>>();
        // Runs are in the order of their operations.
        std::thread::sleep(Duration::from_millis(20));
        (new, stderr(&output))
    };
    let (first, second, third) = (run(&[]).0, run(&[]).0, run(&["--keep", "3"]).0);
    let all = |runs: &[&Vec<String>]| {
        let mut all = runs.iter().copied().flatten().cloned().collect::<Vec<_>>();
        all.sort();
        all
    };
    assert_eq!((first.len(), recorded()), (2, all(&[&first, &second, &third])));
    let (fourth, said) = run(&["--keep", "2"]);
    assert_eq!(recorded(), all(&[&third, &fourth]), "{said}");
    assert!(line(&said, "Removed: ").starts_with("Removed: 2 old runs, "), "{said}");
    // A run that goes on: the job waits for a rank that does not come.
    let mut running = started(folder.path(), &["2", "30", "stay:1:5"]);
    while recorded().len() < 6 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let goes_on = recorded().into_iter().filter(|name| !third.contains(name) && !fourth.contains(name)).collect();
    let (fifth, said) = run(&["--max-size", "0"]);
    assert_eq!(recorded(), all(&[&goes_on, &fifth]), "{said}");
    kill_all(folder.path());
    running.wait().unwrap();
    // Its processes are gone now, though nobody closed its files.
    let (sixth, said) = run(&["--keep", "1"]);
    assert_eq!(recorded(), sixth, "{said}");
    assert_eq!(std::fs::read(folder.path().join("notes.txt")).unwrap(), b"mine");
}

/// An archive of a folder has its recordings without their holes, and whatever else is there; and it is answered as the folder is.
#[test]
fn a_folder_is_collected_without_holes() {
    let (output, folder) = record(&[], &["3", "30", "out:1:12"]);
    assert_eq!(output.status.code(), Some(1));
    let long = "a".repeat(120);
    std::fs::write(folder.path().join(&long), "text of another program").unwrap();
    let of_folder = answer("hang", folder.path());
    for ending in ["tar", "tar.gz", "tar.zst"] {
        let elsewhere = tempfile::tempdir().unwrap();
        let archive = elsewhere.path().join(format!("incident.{ending}"));
        let output = nccl_stacks().args(["record", "--collect"]).arg(folder.path()).arg("-o").arg(&archive).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).starts_with("Collected: 4 files, 3 of them recordings with "), "{}", stderr(&output));
        let size = std::fs::metadata(&archive).unwrap().len();
        // A recording is 12.2 MB long, of which some 200 kB are in use.
        assert!(size < 1_500_000, "{ending}: {size}");
        let (of_archive, code) = answer("hang", &archive);
        let but_names = |answer: &Value| (answer["verdict"].clone(), answer["hung"].clone(), answer["lagging"].clone());
        assert_eq!((but_names(&of_archive), code), (but_names(&of_folder.0), of_folder.1), "{ending}");
        if ending == "tar" {
            let mut packed = tar::Archive::new(std::fs::File::open(&archive).unwrap());
            let names = packed.entries().unwrap().map(|member| {
                let mut member = member.unwrap();
                let name = member.path().unwrap().file_name().unwrap().to_owned();
                let length = std::io::copy(&mut member, &mut std::io::sink()).unwrap();
                assert_eq!(length, std::fs::metadata(folder.path().join(&name)).unwrap().len(), "{name:?}");
                name
            });
            let names: Vec<_> = names.collect();
            assert!(names.contains(&long.clone().into()) && names.len() == 4, "{names:?}");
        }
    }
    let mut zip = nccl_stacks();
    let refused = zip.args(["record", "--collect"]).arg(folder.path()).args(["-o", "a.zip"]).output().unwrap();
    has(&stderr(&refused), "name the archive .tar.zst, .tar.gz or .tar");
}

#[test]
fn rings_have_the_size_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |size: &str| variables(folder.path()).args(["--ring-size", size]).output().unwrap();
    for size in ["64G", "1025M", "4095", "0"] {
        let output = asked(size);
        assert_eq!(output.status.code(), Some(2), "{size}");
        has(&stderr(&output), "a ring has from 4K to 1G: 64 to 16,777,216 records of 64 bytes");
    }
    for (size, records) in [("4K", 64), ("1G", 1 << 24), ("256K", 4096)] {
        has(&stdout(&asked(size)), &format!("NCCL_STACKS_RING_RECORDS={records}\n"));
    }
}
