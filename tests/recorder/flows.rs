//! A program that calls the flow extractor's functions, with and without the recorder: what it is answered, and what lies where the extractor writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nccl_stacks::answers::records::flows;
use nccl_stacks::records::{Keep, read_all};
use serde_json::{Value, json};

use crate::recorder::jobs::{Job, RECORDER, built};
use crate::support::program::{program, run, stderr, stdout};

/// NCCL's hash of an id of which each byte is 7.
const HASH: u64 = 2_474_940_877_224_741_099;

/// The program in a working directory.
fn alone(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(built().path("flows"));
    command.args(arguments).current_dir(folder).env("LD_LIBRARY_PATH", built().path("new"));
    command
}

/// The program under `nccl-stacks record` with these options, which writes its recordings into the folder `records`.
fn recorded(folder: &Path, options: &[&str], arguments: &[&str]) -> Output {
    let mut command = program();
    command.current_dir(folder).env("LD_LIBRARY_PATH", built().path("new")).env_remove("NCCL_PROFILER_PLUGIN");
    command.args(["record", "--ring-size", "256K", "--dir", "records"]).args(options).arg("--");
    let output = command.arg(built().path("flows")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn aggregate(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("output/unknown_topo/flow_rank{rank}.json"))
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Without the times.
fn timeless(mut line: Value) -> Value {
    for key in ["ts_ns", "dur_ns"] {
        line.as_object_mut().unwrap().remove(key);
    }
    line
}

/// What a step is: number of its operation, channel, step, direction, stage.
fn steps(file: &Value) -> Vec<(u64, u64, u64, &str, Option<&str>)> {
    let number = |step: &Value, key: &str| step[key].as_u64().unwrap();
    let step = |step: &'_ Value| (number(step, "opCount"), number(step, "channel"), number(step, "step"));
    let steps = file["steps"].as_array().unwrap().iter();
    steps
        .map(|line| {
            let (op_count, channel, step) = step(line);
            (op_count, channel, step, line["op"].as_str().unwrap(), line["stage"].as_str())
        })
        .collect()
}

#[test]
fn without_the_recorder_the_program_runs_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = alone(folder.path(), &["0"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(stdout(&output), "no extractor\n");
    // Nor with the recorder switched off.
    let off = [("LD_PRELOAD", RECORDER), ("NCCL_STACKS_RECORD", "0")];
    let output = alone(folder.path(), &["0"]).envs(off).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output), "4 0 0\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The steps that proxies were given, though no step of them was recorded: by default none is.
#[test]
fn with_it_both_ranks_have_files_whose_ends_pair() {
    let folder = tempfile::tempdir().unwrap();
    for rank in ["0", "1"] {
        // No communicator, one that is none of NCCL's, and the own one.
        assert_eq!(stdout(&recorded(folder.path(), &[], &[rank])), "4 4 0\n");
    }
    let files = [0, 1].map(|rank| json_of(&aggregate(folder.path(), rank)));
    for (rank, file) in files.iter().enumerate() {
        let other = 1 - rank;
        assert_eq!(file["rank"], rank);
        let meta = json!({
            "opCount": 0, "rank": rank, "channel": 0, "nsteps": 8, "nbytes": 65536, "chunkSize": 65536, "sliceSteps": 2, "chunkSteps": 4,
            "dtype": 7, "redOp": 2, "pattern": "RING_TWICE", "protocol": "SIMPLE", "ringPrev": other, "ringNext": other,
            "commHash": HASH, "seqNumber": 0,
        });
        assert_eq!(timeless(file["meta"].clone()), meta);
        assert!(file["meta"]["ts_ns"].as_i64().unwrap() > 1_700_000_000_000_000_000 && file["meta"]["dur_ns"].is_u64());
        // A ring receives first. The first half of its loop is the reduce-scatter.
        let mut expected = Vec::new();
        for op in ["RECV", "SEND"] {
            expected.extend(
                (0..8).map(|step| (0, 0, step, op, Some(if step < 4 { "reduce-scatter" } else { "allgather" }))),
            );
        }
        // Of each direction the first is 0 and the second 1, with 1 in the lowest bit: 1 and 3, at both ends.
        let pairs =
            if rank == 0 { [("SEND", 1), ("RECV", 1), ("SEND", 3)] } else { [("SEND", 1), ("RECV", 1), ("RECV", 3)] };
        for (op, number) in pairs {
            expected.extend((0..2).map(|step| (number, 2, step, op, Some("generic"))));
        }
        // The third all-reduce: the second was counted. Nothing shows which rank is the parent.
        expected.extend(["SEND", "RECV"].map(|op| (4, 1, 0, op, None)));
        assert_eq!(steps(file), expected);
    }
    let lines = files[0]["steps"].as_array().unwrap();
    let first = json!({
        "opCount": 0, "rank": 0, "channel": 0, "step": 0, "op": "RECV", "peer": 1, "bytes": 65536, "pattern": "RING_TWICE",
        "protocol": "SIMPLE", "stage": "reduce-scatter", "commHash": HASH, "seqNumber": 0,
    });
    let sent = json!({
        "opCount": 1, "rank": 0, "channel": 2, "step": 0, "op": "SEND", "peer": 1, "bytes": 1024, "pattern": "SEND",
        "protocol": "UNKNOWN", "stage": "generic", "commHash": HASH, "synthetic": true,
    });
    let up = json!({
        "opCount": 4, "rank": 0, "channel": 1, "step": 0, "op": "SEND", "peer": 1, "bytes": 512, "pattern": "TREE_UP_DOWN",
        "protocol": "LL", "commHash": HASH, "seqNumber": 2,
    });
    assert_eq!([&lines[0], &lines[16], &lines[22]], [&first, &sent, &up]);
    // Nothing is left of the files in the making.
    assert_eq!(fs::read_dir(folder.path().join("output/unknown_topo")).unwrap().count(), 2);

    let records = read_all(&[0, 1].map(|rank| aggregate(folder.path(), rank)), Keep::All, 1);
    assert!(
        records.files.iter().all(|file| file.skipped.is_empty() && file.repaired.is_empty()),
        "{:?}",
        records.files
    );
    let report = flows::report(&records).unwrap();
    let run = &report.runs[0];
    // 16, 6 and 2 of each rank: each send has its receive, with the same number.
    assert_eq!((report.runs.len(), run.size, run.steps), (1, Some(2), 48));
    assert_eq!((run.paired_steps, run.unpaired_steps, run.unpaired_by_op_count), (24, 0, 0));
    let said = run_records(folder.path());
    assert!(said.contains("48"), "{said}");
}

fn run_records(folder: &Path) -> String {
    let output = run(&["records", folder.join("output").to_str().unwrap(), "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// Steps that were recorded have times and bytes, and show the parent in a tree. The export of the recordings has the same lines.
#[test]
fn recorded_steps_have_times_and_the_export_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for rank in ["0", "1"] {
        recorded(folder.path(), &["--events", "calls,coll,p2p,proxy-ops,proxy-steps"], &[rank]);
    }
    let files = [0, 1].map(|rank| json_of(&aggregate(folder.path(), rank)));
    // Four transfers in each direction, each of which has one byte less than the one before.
    assert_eq!(files[0]["meta"]["trans_bytes"], 2 * (4 * 65_536 - 6));
    let lines = files[0]["steps"].as_array().unwrap();
    assert_eq!((&lines[0]["trans_bytes"], &lines[2]["trans_bytes"]), (&65_536.into(), &65_535.into()));
    let has_times = |line: &Value| line["ts_ns"].is_i64() && line["dur_ns"].is_i64();
    assert!(lines.iter().take(16).enumerate().all(|(at, line)| has_times(line) == (at % 2 == 0)), "{lines:#?}");
    // Rank 0 is the root; it receives from its child, and then sends to it.
    let tree = |rank: usize| steps(&files[rank]).split_off(22);
    assert_eq!(tree(0), [(4, 1, 0, "RECV", Some("tree-up")), (4, 1, 0, "SEND", Some("tree-down"))]);
    assert_eq!(tree(1), [(4, 1, 0, "SEND", Some("tree-up")), (4, 1, 0, "RECV", Some("tree-down"))]);

    let exported = folder.path().join("exported");
    let records = folder.path().join("records");
    let output = run(&["export", records.to_str().unwrap(), "--flows", exported.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    for (rank, file) in files.iter().enumerate() {
        let mut both = [json_of(&exported.join(format!("flow_rank{rank}.json"))), file.clone()];
        for file in &mut both {
            file["meta"] = timeless(file["meta"].take());
            file["steps"].as_array_mut().unwrap().iter_mut().for_each(|line| *line = timeless(line.take()));
        }
        let [exported, written] = both;
        assert_eq!(exported, written, "rank {rank}");
    }
}

#[test]
fn a_topology_names_the_folder_and_errors_are_results() {
    let folder = tempfile::tempdir().unwrap();
    let job = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut job = Job::assemble(&built().path("flows"), arguments).env("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN");
        job.command.envs(variables.iter().copied()).current_dir(folder.path());
        let lines = job.lines();
        lines.join("\n")
    };
    assert_eq!(job(&["1"], &[("NCCL_TOPO_FILE", "/no/such/nvlink_5GPU.v2.xml")]), "4 4 0");
    assert!(folder.path().join("output/nvlink_5GPU/flow_rank1.json").exists());
    // No operation is recorded: the extractor has no files to read then.
    assert_eq!(job(&["0", "nothing"], &[]), "4 4 2");
    assert!(!folder.path().join("output/unknown_topo").exists());
    // A folder in which nobody can write, root included.
    assert_eq!(job(&["1"], &[("NCCL_TOPO_FILE", &"x".repeat(127))]), "4 4 0");
    fs::write(folder.path().join("output/file"), "").unwrap();
    assert_eq!(job(&["1"], &[("NCCL_TOPO_FILE", "file.xml")]), "4 4 2");
    // A planted link in place of the file is replaced, and not followed.
    fs::create_dir(folder.path().join("output/unknown_topo")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("theirs"), aggregate(folder.path(), 1)).unwrap();
    assert_eq!(job(&["1"], &[]), "4 4 0");
    assert!(!folder.path().join("theirs").exists() && !aggregate(folder.path(), 1).is_symlink());
    // Nothing can be recorded.
    assert_eq!(job(&["1"], &[("NCCL_STACKS_DIR", "/nonexistent/records")]), "4 2 2");
}

/// Where no plugin is notified there are the calls, and what only the plugin knows is unknown.
#[test]
fn of_calls_alone_the_first_is_known() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(stdout(&recorded(folder.path(), &[], &["0", "calls"])), "4 4 0\n");
    let file = json_of(&aggregate(folder.path(), 0));
    let meta = json!({
        "opCount": 0, "rank": 0, "channel": 0, "nsteps": 0, "nbytes": 0, "chunkSize": 0, "sliceSteps": 1, "chunkSteps": 1, "dtype": 7,
        "redOp": 2, "pattern": "UNKNOWN", "protocol": "UNKNOWN", "ringPrev": -1, "ringNext": -1, "commHash": HASH, "peers": "unknown",
    });
    assert_eq!((timeless(file["meta"].clone()), &file["steps"]), (meta, &json!([])));
}

/// A patched NCCL is asked first. What it has written stays, and where it has nothing the file is made of the records.
#[test]
fn an_extractor_in_the_process_is_also_called() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, has_file) in [(0, false), (1, true)] {
        let extractor = built().path("libextractor.so");
        let preload = format!("{RECORDER}:{}", extractor.display());
        let mut job = Job::assemble(&built().path("flows"), &[&rank.to_string(), "known"]).env("LD_PRELOAD", preload);
        job.command.env("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN").current_dir(folder.path());
        let output = job.run();
        assert!(stderr(&output).ends_with(&format!("extractor: rank {rank}\n")), "{output:?}");
        assert_eq!(aggregate(folder.path(), rank).exists(), has_file);
    }
}
