//! `nccl-stacks record` around a job of several processes: what is recorded says which rank is left out, which is late, and by which
//! algorithm; also while the job runs, and after everything was killed.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::recorder::jobs::built;
use crate::support::program::stdout;

fn nccl_stacks() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"));
    command.env_remove("RANK").env_remove("NCCL_PROFILER_PLUGIN").env("LD_LIBRARY_PATH", built().path("new"));
    command
}

/// Records a job; its output and the folder of its recordings.
fn record(options: &[&str], job: &[&str]) -> (Output, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = nccl_stacks()
        .args(["record", "--ring-size", "256K", "--dir"])
        .arg(folder.path())
        .args(options)
        .arg("--")
        .arg(built().path("job"))
        .args(job)
        .output()
        .unwrap();
    (output, folder)
}

/// What a command says of recordings, in JSON, and its exit code.
fn answer(command: &str, folder: &Path) -> (Value, Option<i32>) {
    let output = nccl_stacks().arg(command).arg(folder).args(["--json", "--quiet"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}")), output.status.code())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_late_rank_is_named() {
    let (output, folder) = record(&[], &["4", "40", "late:2:3000"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    let said = stderr(&output);
    let ranks = said.lines().find(|line| line.starts_with("ranks: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(ranks.contains("rank 2"), "{said}");
    let (of_ranks, code) = answer("ranks", folder.path());
    assert_eq!(code, Some(0));
    // Three ranks wait about 3 ms in each of 40 all-reduces; computers are noisy, and never early.
    let caused = of_ranks["ranks"][2]["caused_ns"].as_i64().unwrap();
    assert!(caused > 3 * 30 * 3_000_000, "{caused}");
    assert!(
        (0..4)
            .filter(|rank| *rank != 2)
            .all(|rank| of_ranks["ranks"][rank]["caused_ns"].as_i64().unwrap() < caused / 4)
    );
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
        let hang = said.lines().find(|line| line.starts_with("hang: ")).unwrap_or_else(|| panic!("{said}"));
        assert!(hang.to_lowercase().contains("rank 1"), "{options:?}: {said}");
        let (hung, _) = answer("hang", folder.path());
        let groups = hung["hung"].as_array().unwrap().iter().chain(hung["lagging"].as_array().unwrap());
        let missing: Vec<&Value> = groups.map(|group| &group["missing_ranks"]).collect();
        assert_eq!(missing, [&serde_json::json!([1])], "{options:?}: {hung}");
        // The processes are gone: nothing says whether the others had waited for long.
        assert_eq!((&hung["culprits"], &hung["outcome"]), (&serde_json::json!([]), &"unclear".into()), "{hung}");
        let verdict = hung["verdict"][0].as_str().unwrap();
        assert!(
            verdict.starts_with("Unclear: the processes are gone") && verdict.contains("for rank 1 in "),
            "{verdict}"
        );
    }
}

/// A job that is recorded into a folder and goes on.
fn started(folder: &Path, job: &[&str]) -> Child {
    let mut command = nccl_stacks();
    command.args(["record", "--ring-size", "256K", "--dir"]).arg(folder).arg("--").arg(built().path("job")).args(job);
    command.stderr(std::process::Stdio::null()).spawn().unwrap()
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
    // SAFETY: a process of this test.
    unsafe { libc::kill(running.id() as i32, libc::SIGTERM) };
    running.wait().unwrap();
    kill_all(folder.path());
    assert!(said.iter().all(|(code, _)| *code == Some(0)), "{said:?}");
    assert!(said.iter().any(|(_, text)| text.starts_with("The job runs: ")), "{said:?}");
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
    // The command forwards the signal, and the job's ranks are orphans then.
    // SAFETY: a process of this test.
    unsafe { libc::kill(running.id() as i32, libc::SIGTERM) };
    let ended = running.wait().unwrap();
    kill_all(folder.path());
    assert_eq!(found, [serde_json::json!([2])]);
    assert_eq!(ended.code(), Some(128 + libc::SIGTERM));
}

#[test]
fn the_jobs_output_and_exit_code_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let output = nccl_stacks()
        .args(["record", "--dir"])
        .arg(folder.path())
        .args(["--", "sh", "-c", "echo out; echo err >&2; exit 7"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"out\n"[..]));
    assert!(stderr(&output).starts_with("err\nNothing was recorded into "), "{}", stderr(&output));
    let missing =
        nccl_stacks().args(["record", "--dir"]).arg(folder.path()).args(["--", "/no/such/job"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).starts_with("error: /no/such/job: cannot be run: "), "{}", stderr(&missing));
}

/// A shell that reads the variables records without the command around it.
#[test]
fn variables_for_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let printed = nccl_stacks().args(["record", "--print-env", "--dir"]).arg(folder.path()).output().unwrap();
    assert!(printed.status.success(), "{}", stderr(&printed));
    let script = format!("{}exec '{}' 2 3", String::from_utf8(printed.stdout).unwrap(), built().path("job").display());
    let run = Command::new("sh").arg("-c").arg(script).env("LD_LIBRARY_PATH", built().path("new")).status().unwrap();
    assert!(run.success());
    let count = std::fs::read_dir(folder.path())
        .unwrap()
        .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "ncclrec"));
    assert_eq!(count.count(), 2);
    // A profiler that the user chose stays.
    let own = nccl_stacks()
        .env("NCCL_PROFILER_PLUGIN", "/opt/theirs.so")
        .args(["record", "--print-env", "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&own.stdout).contains("NCCL_PROFILER_PLUGIN"));
    assert!(stderr(&own).contains("/opt/theirs.so"), "{}", stderr(&own));
}

/// What a job's scripts know from NCCL's example profiler plugin and from Megatrace is written beside the recordings, of the same calls.
#[test]
fn other_recorders_files_are_written_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("logs")).unwrap();
    let output = nccl_stacks()
        .args(["record", "--no-report", "--ring-size", "256K", "--dir"])
        .arg(at("records"))
        .arg("--")
        .arg(built().path("job"))
        .args(["2", "5"])
        .env("NCCL_PROFILE_DUMP_FILE", at("dump"))
        .env("NCCL_MEGATRACE_ENABLE", "1")
        .env("NCCL_MEGATRACE_LOG_PATH", at("logs"))
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    for rank in 0..2 {
        // The hash of job.c in decimal.
        let dump = std::fs::read(at(&format!("dump_2474940877224741099_{rank}.json"))).unwrap();
        let events: Vec<Value> = serde_json::from_slice(&dump).unwrap();
        let of = |category: &str, phase: &str| {
            events.iter().filter(|event| event["cat"] == category && event["ph"] == phase).collect::<Vec<_>>()
        };
        assert!(events.iter().all(|event| event["ts"].as_f64().is_some_and(|ts| ts > 0.0)), "rank {rank}");
        for (category, count) in [("GROUP_API", 5), ("COLL_API", 5), ("COLL", 5), ("GPU", 10)] {
            assert_eq!((of(category, "b").len(), of(category, "e").len()), (count, count), "{category}");
        }
        let coll = &of("COLL", "b")[4]["args"];
        assert_eq!(
            (&coll["Algorithm"], &coll["Protocol"], &coll["Count"], &coll["Rank"]),
            (&"RING".into(), &"SIMPLE".into(), &(1 << 20).into(), &rank.into()),
            "{coll}"
        );
        let log = std::fs::read_to_string(at(&format!("logs/rank_{rank}.log"))).unwrap();
        assert_eq!(log.lines().filter(|line| line.contains("[Func ncclAllReduce] [Data 1048576]")).count(), 5, "{log}");
    }
    let (of_logs, _) = answer("records", &at("logs"));
    assert_eq!(of_logs["census"][0]["count"], 10, "{of_logs}");
}

/// The line of what was said that begins so.
fn line<'a>(said: &'a str, begin: &str) -> &'a str {
    said.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{said}"))
}

/// A file has 512 communicators; of those beyond nobody is seen to wait.
#[test]
fn a_job_with_more_communicators_than_a_file_holds_is_not_said_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = nccl_stacks()
        .args(["record", "--ring-size", "256K", "--dir"])
        .arg(folder.path())
        .arg("--")
        .arg(built().path("linked"))
        .arg("cycle 600 0")
        .output()
        .unwrap();
    let said = stderr(&output);
    let hang = line(&said, "hang: ");
    assert!(hang.starts_with("hang: Cannot say whether the job hangs"), "{said}");
    assert!(hang.contains("88 communicators for which there was no room"), "{said}");
    assert!(line(&said, "records: ").contains("88 communicators for which there was no room"), "{said}");
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
    let output = nccl_stacks()
        .args(["record", "--ring-size", "256K", "--dir"])
        .arg(folder.path())
        .arg("--")
        .arg(built().path("linked"))
        .args(["init 0 8 5 A", "reduce 0 1 0"])
        .env("FAKE_NCCL_RESULT", "ncclAllReduce:5")
        .env("RANK", "0")
        .output()
        .unwrap();
    let said = stderr(&output);
    let failed = "ncclAllReduce failed on rank 0 with error 5 (ncclInvalidUsage).";
    assert!(line(&said, "hang: ").contains(failed) && line(&said, "records: ").contains(failed), "{said}");
}

/// Why nothing was recorded, as far as it is known.
#[test]
fn nothing_recorded_has_its_reason() {
    let said = |job: &str, off: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = nccl_stacks();
        command.args(["record", "--dir"]).arg(folder.path()).args(["--", "sh", "-c", job]);
        stderr(&command.env("NCCL_STACKS_RECORD", off).output().unwrap())
    };
    assert!(said("true", "0").contains("NCCL_STACKS_RECORD turns recording off."));
    let nothing = said("true", "1");
    assert!(nothing.contains("no process called NCCL, or NCCL is linked statically"), "{nothing}");
    let full = said(": > \"$NCCL_STACKS_DIR/n-1.E28.ncclrec-failed\"", "1");
    assert!(full.contains("1 process could not record: No space left on device."), "{full}");
    assert!(!full.contains("no process called NCCL"), "{full}");
}

/// A job runs whether it can be recorded or not.
#[test]
fn a_job_that_cannot_be_recorded_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    std::fs::create_dir_all(at("taken").join("libnccl_stacks_recorder.so").join("full")).unwrap();
    std::fs::create_dir(at("open")).unwrap();
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let cases = [
        (at("file").join("below"), "cannot be written"),
        (at("taken"), "cannot be written"),
        (at("open"), "this folder is writable for everybody"),
        (at("with blank"), "with a space or a colon"),
        (at("with:colon"), "with a space or a colon"),
    ];
    for (dir, why) in cases {
        let job = ["--", "sh", "-c", "echo out; exit 7"];
        let output =
            nccl_stacks().args(["record", "--dir"]).arg(&dir).args(job).env_remove("LD_PRELOAD").output().unwrap();
        let said = stderr(&output);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"out\n"[..]), "{said}");
        assert!(said.starts_with("The job runs unrecorded: ") && said.contains(why), "{dir:?}: {said}");
        let printed = nccl_stacks().args(["record", "--print-env", "--dir"]).arg(&dir).output().unwrap();
        assert!(!printed.status.success() && printed.stdout.is_empty(), "{dir:?}: {}", stderr(&printed));
    }
    // A folder that everybody may write, but where nobody may replace the files of others.
    std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let output = nccl_stacks().args(["record", "--dir"]).arg(at("open")).args(["--", "true"]).output().unwrap();
    assert!(!stderr(&output).contains("unrecorded"), "{}", stderr(&output));
}

/// What somebody else could make another library is replaced, and what is safe stays.
#[test]
fn a_library_that_others_can_change_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libnccl_stacks_recorder.so");
    let elsewhere = tempfile::tempdir().unwrap();
    let unpack = || {
        let output = nccl_stacks().args(["record", "--print-env", "--dir"]).arg(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
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
}

#[test]
fn rings_have_the_size_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |size: &str| {
        let arguments = ["record", "--print-env", "--ring-size", size, "--dir"];
        nccl_stacks().args(arguments).arg(folder.path()).output().unwrap()
    };
    for size in ["64G", "1025M", "4095", "0"] {
        let output = asked(size);
        assert_eq!(output.status.code(), Some(2), "{size}");
        let said = stderr(&output);
        assert!(said.contains("a ring has from 4K to 1G: 64 to 16,777,216 records of 64 bytes"), "{size}: {said}");
    }
    for (size, records) in [("4K", 64), ("1G", 1 << 24), ("256K", 4096)] {
        let variables = String::from_utf8(asked(size).stdout).unwrap();
        assert!(variables.contains(&format!("NCCL_STACKS_RING_RECORDS={records}\n")), "{size}: {variables}");
    }
}
