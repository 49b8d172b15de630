//! Ranks that are not here, and what that leaves to be said: who is missing first, savings as upper bounds, and nobody named for what a missing rank may do as well.

use serde_json::{Value, json};

use crate::job::{How, Job, Late, When};
use crate::ranks::inputs::Files;
use crate::support::program::{has, refused, run, stderr, stdout, trace_of, verdict_of};

/// Four ranks, of which rank 2 is late in each layer.
fn late() -> Job {
    late_at(When::EveryLayer)
}

fn late_at(when: When) -> Job {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Late { rank: 2, extra_ns: 300_000, how, when };
    Job { tp: 4, steps: 4, layers: 4, late: Some(late), ..Job::default() }
}

fn answer(command: &str, traces: &[String], code: i32) -> Value {
    let args = [command, "--quiet", "--json"].into_iter().chain(traces.iter().map(String::as_str));
    let output = run(&args.collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(code), "{command}: {}{}", stdout(&output), stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{command}: {}", stderr(&output)))
}

fn first(answer: &Value) -> &str {
    answer["verdict"][0].as_str().unwrap()
}

/// The late rank is missing: its peers wait for it, which is no transfer, and nothing says to send less. With all ranks nothing of that is said. It is late in one
/// step: where all like collectives wait alike, nothing shows that they do.
#[test]
fn waiting_for_a_rank_that_is_not_here_is_no_transfer() {
    let files = Files::new(&late_at(When::Once { step: 2 }));
    let whole = answer("ranks", &files.ranks(&[0, 1, 2, 3]), 0);
    assert!(whole["absent"].is_null() && !whole.to_string().contains("Not here"), "{}", whole["verdict"]);
    let found = answer("ranks", &files.ranks(&[0, 1, 3]), 0);
    assert_eq!(found["absent"]["ranks"], json!([2]));
    let said = first(&found);
    assert!(said.starts_with("Not here: rank 2. At least "), "{said}");
    has(said, "is waiting for it, or a slow transfer");
    // What the three waited for the fourth, as it is known with all of them.
    let waited: i64 = [0, 1, 3].iter().map(|rank| whole["ranks"][rank]["waited_ns"].as_i64().unwrap()).sum::<i64>();
    let bound = found["absent"]["waited_ns"].as_i64().unwrap();
    assert!(bound <= waited && bound * 10 >= waited * 7, "{bound} of {waited}");
    let path = found["critical_path"]["kinds"].as_array().unwrap();
    assert!(path.iter().any(|of| of["kind"] == "absent" && of["path_ns"].as_i64().unwrap() > 0), "{path:?}");
    assert!(!found["findings"].to_string().contains("send less"), "{}", found["findings"]);
    assert!(verdict_of(&found).contains("would be at most "), "{}", verdict_of(&found));
    let rules = answer("what-if", &files.ranks(&[0, 1, 3]), 0);
    assert_eq!(rules["missing_ranks"], json!([2]));
    assert!(first(&rules).starts_with("Not here: rank 2. "), "{rules}");
}

/// Of four ranks two are here, one of them late: a missing rank may be as late. With three it is named, since no collective is seen to wait for the fourth.
#[test]
fn a_late_rank_of_a_minority_is_not_said_to_delay_the_job() {
    let files = Files::new(&late());
    let found = answer("ranks", &files.ranks(&[0, 2]), 0);
    let verdict = verdict_of(&found);
    let said = "Rank 2 takes ";
    assert!(verdict.contains(said) || verdict.contains("rank 2 takes "), "{verdict}");
    has(&verdict, "; whether that delays the job depends on what ranks 1 and 3 did, which is unknown.");
    assert_eq!(found["reruns"]["findings"][0]["is_proven"], json!(false));
    let found = answer("ranks", &files.ranks(&[0, 2, 3]), 0);
    assert_eq!(found["reruns"]["findings"][0]["is_proven"], json!(true), "{}", found["reruns"]);
    let verdict = verdict_of(&found);
    assert!(verdict.contains("mlp as fast on rank 2 as on its peers") && verdict.contains("at most −"), "{verdict}");
}

/// A file without a byte is a missing rank, wherever it is asked about.
#[test]
fn an_empty_file_is_a_missing_rank() {
    let files = Files::new(&late());
    let traces = files.ranks(&[0, 1, 2, 3]);
    std::fs::write(&traces[2], "").unwrap();
    for command in ["ranks", "what-if"] {
        let found = answer(command, &traces, 6);
        assert!(first(&found).starts_with("Not here: rank 2. "), "{command}: {found}");
    }
}

/// Runs with other ranks are not comparable: what waits for a missing one counts as transfer.
#[test]
fn runs_with_other_ranks_are_not_comparable() {
    let files = Files::new(&late());
    let folder = |name: &str, ranks: &[u32]| {
        let folder = std::path::Path::new(files.root()).join(name);
        std::fs::create_dir(&folder).unwrap();
        for (rank, path) in ranks.iter().zip(files.ranks(ranks)) {
            std::fs::copy(path, folder.join(format!("rank{rank}.json"))).unwrap();
        }
        folder.to_str().unwrap().to_owned()
    };
    let (some, all) = (folder("some", &[0, 3]), folder("all", &[0, 1, 2, 3]));
    let said = |before: &str, after: &str| stdout(&run(&["diff", "--ranks", "--quiet", before, after]));
    let not =
        "Not comparable: ranks 1 and 2 are here only after. Waiting for a rank that is not here counts as transfer.";
    assert!(said(&some, &all).starts_with(not), "{}", said(&some, &all));
    assert!(!said(&all, &all).contains("Not comparable"), "{}", said(&all, &all));
}

const LAUNCH: &str = r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":5,"args":{"correlation":1}"#;
const KERNEL: &str = r#""ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":10,"dur":20,"args":{"correlation":1,"stream":7,"device":0}"#;

fn path_of(events: &[&str]) -> Value {
    let (_folder, path) = trace_of(events);
    let output = run(&[&path, "--json", "--quiet", "--sort", "critical", "--kernel-name", "*"]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    answer["critical_path_ns"].clone()
}

/// A call of 900 µs, in which no work ends: 10 µs are its own, and nobody knows what it waits for. If the kernel ends 7 µs before it returns, it waits for that; so it does for the device, of
/// which what comes after the wake-up is the profiler's.
#[test]
fn a_long_wait_without_an_end_is_unknown() {
    let wait = r#""ph":"X","cat":"cuda_runtime","name":"cudaStreamSynchronize","pid":1,"tid":1,"ts":40,"dur":900"#;
    let path = path_of(&[LAUNCH, KERNEL, wait]);
    assert_eq!((&path["blocked-unknown"], &path["cpu"]), (&json!(890_000), &json!(50_000)), "{path}");
    let until = KERNEL.replace("\"dur\":20", "\"dur\":923");
    let path = path_of(&[LAUNCH, &until, wait]);
    assert_eq!((&path["compute"], &path["idle"]), (&json!(923_000), &json!(7_000)), "{path}");
    assert!(path["blocked-unknown"].is_null(), "{path}");
    let device = wait.replace("Stream", "Device");
    let early = KERNEL.replace("\"dur\":20", "\"dur\":500");
    let path = path_of(&[LAUNCH, &early, &device]);
    // 5 to 9.1 µs after an end such a call returns.
    assert_eq!((&path["compute"], &path["profiler"]), (&json!(500_000), &json!(420_900)), "{path}");
}

/// Without another rank that does the same nothing is like its peers.
#[test]
fn one_rank_has_no_peers() {
    let files = Files::new(&late());
    let trace = &files.ranks(&[0])[0];
    let no_peer = "rank 0 like peers: rank 0 has no peer here";
    refused(&["what-if", "--quiet", trace, "--if", "rank 0 like peers"], 1, no_peer);
}
