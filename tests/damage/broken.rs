//! The traces of `testdata/broken`: the report on each, and what remains of it.
//!
//! The expected report is beside each file; it follows from what was done to the file, not from reading it.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use nccl_stacks::damage::Cost;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::store::Store;
use serde_json::Value;

use crate::support::pack::gunzip;
use crate::support::program::{has, run, stderr, stderr_of, stdout, testdata, trace_of};

/// The files and their expected reports.
fn cases() -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/broken");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| !file.to_str().unwrap().contains(".report."));
    files.sort();
    assert!(files.len() >= 30, "{}", files.len());
    let with_report = |file: PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        let report = file.with_file_name(format!("{}.report.json", name.split('.').next().unwrap()));
        (file.clone(), serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap())
    };
    files.into_iter().map(with_report).collect()
}

/// The damage of a store's trace: kind, count, the first three offsets, and the bytes lost.
fn found(store: &Store) -> BTreeSet<(String, u64, Vec<u64>, u64)> {
    let tallies = store.traces[0].damage.iter().filter(|(d, tally)| d.cost != Cost::None && tally.count > 0);
    tallies.map(|(d, tally)| (d.name.to_owned(), tally.count, tally.offsets().collect(), tally.bytes)).collect()
}

fn wanted(report: &Value) -> BTreeSet<(String, u64, Vec<u64>, u64)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let kinds = report["kinds"].as_array().unwrap().iter();
    kinds
        .map(|kind| {
            let offsets = kind["offsets"].as_array().unwrap().iter().map(number).collect();
            (kind["kind"].as_str().unwrap().to_owned(), number(&kind["count"]), offsets, number(&kind["bytes"]))
        })
        .collect()
}

#[test]
fn damage_is_reported_and_the_rest_is_read() {
    for (file, report) in cases() {
        for (threads, chunk) in [(1, 1 << 20), (1, 1), (3, 100), (2, 700)] {
            let (threads, chunk) = (NonZero::new(threads), NonZero::new(chunk));
            let loaded = load(&file, LoadOptions { threads, chunk, ..LoadOptions::default() }, |_| {}).unwrap();
            let name = file.display();
            assert_eq!(found(&loaded.store), wanted(&report), "{name}, {chunk:?}");
            assert_eq!(loaded.store.events, report["events"].as_u64().unwrap(), "{name}, {chunk:?}");
        }
    }
}

#[test]
fn whole_events_have_their_stacks() {
    for (file, report) in cases() {
        let file = file.to_str().unwrap();
        let answer = run(&[file, "--format", "json"]);
        let is_unknown = wanted(&report).iter().any(|(kind, ..)| UNKNOWN.contains(&kind.as_str()));
        assert_eq!(answer.status.code(), Some(if is_unknown { 6 } else { 0 }), "{file}: {}", stderr(&answer));
        let json: Value = serde_json::from_str(&stdout(&answer)).unwrap();
        let stacks = json["stacks"].as_array().unwrap();
        let kernels: u64 = stacks.iter().map(|stack| stack["count"].as_u64().unwrap()).sum();
        assert_eq!(kernels, report["attributed"].as_u64().unwrap(), "{file}");
        for stack in stacks {
            let frames: Vec<&str> = stack["frames"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
            assert_eq!(frames, ["train.py(3): main", "c10d::allreduce_", "cudaLaunchKernelExC"], "{file}");
        }
        assert_eq!(stderr(&answer).contains("Lost in all: unknown"), is_unknown, "{file}: {}", stderr(&answer));
        if is_unknown {
            assert!(json["damage"]["lost_bytes"].is_null() && json["damage"]["lost_share"].is_null(), "{file}");
            continue;
        }
        let lost = json["damage"]["lost_bytes"].as_u64().unwrap();
        assert_eq!(lost, wanted(&report).iter().map(|(.., bytes)| bytes).sum::<u64>(), "{file}");
        let share = lost as f64 / json["damage"]["text_bytes"].as_f64().unwrap();
        assert!((json["damage"]["lost_share"].as_f64().unwrap() - share).abs() < 1e-9, "{file}");
        assert_eq!(stderr(&answer).contains("Lost in all: "), lost > 0, "{file}: {}", stderr(&answer));
    }
}

/// Kinds after which nobody knows what is missing.
const UNKNOWN: &[&str] =
    &["trace_truncated", "compressed_cut_off", "compressed_corrupt", "compressed_checksum", "json_structure"];

/// The last value is in the tables, and that there were two is counted.
#[test]
fn a_key_that_arguments_have_twice_is_counted() {
    let event =
        |args: &str| format!(r#""ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {args}"#);
    for (args, count) in [(r#"{"n": 1, "m": 3, "n": 2}"#, 1), (r#"{"n": 2, "m": 3}"#, 0)] {
        let (_folder, path) = trace_of(&[&event(args)]);
        let query = "SELECT value FROM stats WHERE name = 'json_duplicate_argument'; SELECT int_value FROM args WHERE key = 'args.n'";
        let answer = run(&["sql", &path, query, "--format", "csv"]);
        assert!(answer.status.success(), "{}", stderr(&answer));
        let numbers: Vec<String> =
            stdout(&answer).lines().map(str::to_owned).filter(|line| line.parse::<u64>().is_ok()).collect();
        assert_eq!(numbers, [count.to_string(), "2".to_owned()], "{args}");
    }
}

/// Kinds that are no fault of the file, and those that only appear when all arguments are read.
const NOT_STRICT: &[&str] = &["json_duplicate_key", "json_text_time", "json_documents"];
const OF_ARGUMENTS: &[&str] = &["not_a_number", "deep_arguments"];

#[test]
fn strict_loading_refuses_all_that_is_no_json() {
    for (file, report) in cases() {
        let is_fine = wanted(&report).iter().all(|(kind, ..)| NOT_STRICT.contains(&kind.as_str()));
        let name = file.to_str().unwrap();
        let answer = run(&["sql", name, "SELECT 1", "--strict"]);
        assert_eq!(answer.status.success(), is_fine, "{name}: {}", stderr(&answer));
        if !is_fine {
            has(&stderr(&answer), "damaged, and --strict was given");
            assert!(stdout(&answer).is_empty());
        }
        // The main job does not parse arguments that it does not need.
        let main = run(&[name, "--strict"]);
        assert_eq!(main.status.success(), is_fine || OF_ARGUMENTS.iter().any(|case| name.contains(case)), "{name}");
    }
}

/// A repaired file is JSON to another parser, has no damage but what was lost, which its header says, and holds the events that were read.
#[test]
fn repaired_files_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    for (file, report) in cases() {
        let out = folder.path().join("whole.json");
        for more in [&[][..], &["--lanes"]] {
            let (name, to) = (file.to_str().unwrap(), out.to_str().unwrap());
            let answer = run(&[&["repair", name, "--output", to], more].concat());
            let text = std::fs::read(&out).unwrap();
            let json: Value = serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let events = json["traceEvents"].as_array().unwrap();
            assert_eq!(events.len() as u64, report["events"].as_u64().unwrap(), "{name}");
            let before = load(&file, LoadOptions::default(), |_| {}).unwrap().store;
            let after = load(&out, LoadOptions::default(), |_| {}).unwrap().store;
            let damage = &after.traces[0].damage;
            let is_lost = |cost| matches!(cost, Cost::Lost | Cost::Doubtful);
            assert!(damage.faults().all(|(of, _)| is_lost(of.cost)), "{name}");
            let code = if damage.faults().count() > 0 { 6 } else { 0 };
            assert_eq!(answer.status.code(), Some(code), "{name}: {}", stderr(&answer));
            // It says the same again.
            let again = after.traces[0].damage.carried(None, 0);
            assert_eq!(again.is_some(), before.traces[0].damage.carried(None, 0).is_some(), "{name}: {again:?}");
            if again.is_some() {
                assert!(damage.damaged_bytes(0) >= before.traces[0].text_bytes, "{name}");
            }
            let slices = |store: &Store| {
                let row = |slice| {
                    (
                        store.slices.ts(slice),
                        store.slices.dur(slice),
                        store.strings.get(store.slices.name(slice)).map(str::to_owned),
                    )
                };
                store.slices.ids().map(row).collect::<Vec<_>>()
            };
            assert_eq!(slices(&before), slices(&after), "{name}");
            std::fs::remove_file(&out).unwrap();
        }
    }
}

/// Nearly all that is left of it can be read, and half of what there was cannot: a copy, and a copy of that, have lost the share that the trace has.
#[test]
fn copies_say_which_share_of_the_trace_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [repaired, again, exported, whole] = ["repaired.json", "again.json", "exported.json", "whole.json"].map(path);
    let damage = |trace: &str| {
        let found: Value = serde_json::from_slice(&run(&[trace, "--json"]).stdout).unwrap();
        ["text_bytes", "lost_bytes", "lost_share"].map(|field| found["damage"][field].clone())
    };
    let trace = testdata("broken/two_documents.json");
    stderr_of(&["repair", &trace, "--output", &repaired], 6);
    stderr_of(&["repair", &repaired, "--output", &again], 6);
    stderr_of(&["export", &trace, "--trace", &exported], 0);
    let of_trace = damage(&trace);
    assert!(of_trace[1].as_u64().unwrap() > 0, "{of_trace:?}");
    for copy in [&repaired, &again, &exported] {
        assert_eq!(damage(copy), of_trace, "{copy}");
    }
    // What has lost nothing has its own size.
    let trace = testdata("costs.json");
    stderr_of(&["repair", &trace, "--output", &whole], 0);
    assert_eq!(damage(&whole)[0], std::fs::metadata(&whole).unwrap().len());
}

/// What is written of a damaged trace lacks the same as the trace, and says so: the same verdict, window and exit code from the file, from its repair, from an export of all of
/// it, and from its part.
#[test]
fn copies_of_a_damaged_trace_say_its_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [cut, repaired, exported, part] = ["cut.json", "repaired.json", "exported.json", "part.json"].map(path);
    let mut compared = 0;
    for trace in ["sglang_decode.json.gz", "ddp_backward.json.gz"] {
        let whole = gunzip(&std::fs::read(testdata(trace)).unwrap());
        for sixth in 1..6 {
            std::fs::write(&cut, &whole[..whole.len() * sixth / 6]).unwrap();
            let of_file = run(&[&cut, "--json"]);
            if of_file.status.code() != Some(6) || of_file.stdout.is_empty() {
                continue;
            }
            stderr_of(&["repair", &cut, "--output", &repaired], 6);
            let done = run(&["export", &cut, "--trace", &exported]);
            assert!(matches!(done.status.code(), Some(0 | 6)), "{}", stderr(&done));
            stderr_of(&["part", &cut, "--output", &part], 6);
            let json = |output: &std::process::Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
            let wanted = json(&of_file);
            for copy in [&repaired, &exported, &part] {
                let of_copy = run(&[copy, "--json"]);
                assert_eq!(of_copy.status.code(), Some(6), "{trace} {sixth} {copy}: {}", stderr(&of_copy));
                let found = json(&of_copy);
                for field in ["verdict", "summary"] {
                    assert_eq!(found[field], wanted[field], "{trace} {sixth} {copy}");
                }
            }
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared}");
}
