//! The form of `ranks` that other programs open, a trace with all ranks on one clock; of simulated jobs.

use crate::job;
use std::collections::{BTreeMap, HashMap};

use crate::support::pack::gunzip;
use crate::support::program::{stderr_of, stdout_of};
use serde_json::Value;

use job::{How, Job, Late, Offsets, When};

/// A job whose rank 2 is late, with clocks that differ.
fn late() -> Job {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Some(Late { rank: 2, extra_ns: 150_000, how, when: When::EveryLayer });
    Job { steps: 3, layers: 2, offsets: Offsets::Random { max_ns: 3_000_000 }, late, ..Job::default() }
}

fn jobs() -> Vec<(&'static str, Job)> {
    vec![
        ("late", late()),
        ("pipeline", Job { tp: 2, pp: 2, dp: 2, steps: 4, layers: 4, ..Job::default() }),
        ("lost", Job { lose: 3, steps: 3, ..late() }),
        ("graphs", Job { graphs: true, steps: 3, ..late() }),
        ("drift", Job { drift_ppm: 50.0, length_ns: 20_000_000_000, ..late() }),
        ("no stacks", Job { stacks: false, ..late() }),
    ]
}

/// A folder with the traces of a job.
pub(crate) fn written(job: &Job) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (rank, trace) in job.make().traces {
        std::fs::write(folder.path().join(format!("rank{rank}.json")), trace).unwrap();
    }
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn in_form(path: &str, form: &str) -> String {
    stdout_of(&["ranks", path, "--quiet", "--format", form])
}

fn json(path: &str) -> Value {
    serde_json::from_str(&in_form(path, "json")).unwrap()
}

/// A time in ns of a text in microseconds with three decimals.
fn nanos(value: &Value) -> i64 {
    let text = value.to_string();
    let (whole, decimals) = text.split_once('.').unwrap();
    assert!(decimals.len() <= 3, "{text}");
    whole.parse::<i64>().unwrap() * 1000 + format!("{decimals:0<3}").parse::<i64>().unwrap()
}

/// A slice, opened as Perfetto does.
#[derive(Clone)]
struct Slice {
    start: i64,
    end: i64,
    cat: String,
    name: String,
    rank: u64,
    parent: Option<String>,
    args: Value,
}

/// By category: the pairs that flows connect.
type Flows = BTreeMap<String, Vec<(Slice, Slice)>>;

/// What Perfetto makes of a trace: its slices and flows.
fn opened(text: &str) -> (Vec<Slice>, Flows) {
    let trace: Value = serde_json::from_str(text).unwrap();
    let mut events: Vec<&Value> =
        trace["traceEvents"].as_array().unwrap().iter().filter(|of| of["ph"] != "M").collect();
    // At equal times the longest slice first, then the rest.
    events.sort_by_key(|of| (nanos(&of["ts"]), if of["ph"] == "X" { -1 - nanos(&of["dur"]) } else { 0 }));
    let mut open: HashMap<(u64, u64), Vec<Slice>> = HashMap::new();
    let mut flows: HashMap<(String, u64), Slice> = HashMap::new();
    let (mut slices, mut pairs) = (Vec::new(), Flows::new());
    for event in events {
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let (start, cat) = (nanos(&event["ts"]), event["cat"].as_str().unwrap().to_owned());
        let stack = open.entry((pid, tid)).or_default();
        if event["ph"] == "X" {
            stack.retain(|slice| slice.end > start);
            let end = start + nanos(&event["dur"]);
            assert!(stack.iter().all(|slice| end <= slice.end), "slices of a thread overlap: {event}");
            let parent = stack.last().map(|slice| slice.cat.clone());
            let (name, args) = (event["name"].as_str().unwrap().to_owned(), event["args"].clone());
            stack.push(Slice { start, end, cat, name, rank: pid, parent, args });
            slices.extend(stack.last().cloned());
            continue;
        }
        let slice = stack.last().unwrap_or_else(|| panic!("a flow outside of any slice: {event}")).clone();
        assert!(slice.start <= start && start <= slice.end, "{event}");
        let key = (cat.clone(), event["id"].as_u64().unwrap());
        if event["ph"] == "s" {
            assert!(flows.insert(key, slice).is_none(), "a number that two flows have: {event}");
            continue;
        }
        let before = flows.remove(&key).unwrap_or_else(|| panic!("a flow without a start: {event}"));
        pairs.entry(cat).or_default().push((before, slice.clone()));
        if event["ph"] == "t" {
            flows.insert(key, slice);
        }
    }
    assert!(flows.is_empty(), "flows without an end");
    (slices, pairs)
}

#[test]
fn a_viewer_shows_every_kernel_once_and_all_waiting() {
    for (name, job) in jobs() {
        let (_folder, path) = written(&job);
        let (slices, _) = opened(&in_form(&path, "perfetto"));
        let report = json(&path);
        let of = |cat: &'static str| slices.iter().filter(move |slice| slice.cat == cat);
        for rank in report["ranks"].as_array().unwrap() {
            let own = |slice: &&Slice| slice.rank == rank["rank"].as_u64().unwrap();
            assert_eq!(of("kernel").filter(own).count() as u64, rank["kernels"].as_u64().unwrap(), "{name}");
            let said: i64 = of("kernel").filter(own).filter_map(|kernel| kernel.args["waited_ns"].as_i64()).sum();
            assert_eq!(said, rank["waited_ns"].as_i64().unwrap(), "{name}");
            let (count, drawn) =
                of("waiting").filter(own).fold((0, 0), |(count, sum), of| (count + 1, sum + of.end - of.start));
            // A slice of waiting starts 1 ns late and ends in its kernel, on whose GPU a clock may be faster.
            let lost = said - drawn;
            assert!((0..=10 * count).contains(&lost) && (job.drift_ppm > 0.0 || lost <= count), "{name}: {lost} ns");
        }
        assert!(of("waiting").all(|slice| slice.parent.as_deref() == Some("kernel")), "{name}");
        assert!(of("kernel").all(|slice| slice.parent.is_none()), "{name}");
        let path: i64 = of("critical path").map(|slice| slice.end - slice.start).sum();
        let has_sets = report["clock"]["sets"] != 1;
        assert!(path == report["critical_path"]["length_ns"].as_i64().unwrap() || has_sets, "{name}");
        assert!(slices.iter().any(|slice| slice.start == 0), "{name}: time begins at 0");
        let steps = of("step").filter(|slice| slice.rank == 0).count();
        assert_eq!(steps, report["steps"].as_array().unwrap().len(), "{name}");
    }
}

#[test]
fn flows_connect_launches_members_and_waiting() {
    for (name, job) in jobs() {
        let (_folder, path) = written(&job);
        let (slices, pairs) = opened(&in_form(&path, "perfetto"));
        assert_eq!(pairs.keys().collect::<Vec<_>>(), ["collective", "critical path", "launch", "waiting"], "{name}");
        let kernels = slices.iter().filter(|slice| slice.cat == "kernel").count();
        assert_eq!(pairs["launch"].len(), kernels, "{name}");
        for (launch, kernel) in &pairs["launch"] {
            assert!(launch.cat == "launch" && kernel.cat == "kernel" && launch.rank == kernel.rank, "{name}");
            assert!(launch.start <= kernel.start, "{name}");
        }
        for (before, after) in &pairs["collective"] {
            assert!(before.start <= after.start && before.rank != after.rank, "{name}");
            for field in ["group", "last_rank", "late_rank"] {
                assert_eq!(before.args[field], after.args[field], "{name}: {field}");
            }
        }
        let has_sets = json(&path)["clock"]["sets"] != 1;
        for (before, after) in &pairs["critical path"] {
            // By a nanosecond or two, where clocks drift.
            let gap = (before.end - after.start).abs();
            assert!(before.rank != after.rank && (gap <= 2 || has_sets), "{name}: the path has a gap of {gap} ns");
        }
        for (waiting, last) in &pairs["waiting"] {
            assert_eq!(waiting.name, format!("waiting for rank {}", last.rank), "{name}");
            assert!(waiting.cat == "waiting" && last.cat == "kernel", "{name}");
            assert!((waiting.end - last.start).abs() <= 10, "{name}: waiting ends where the last kernel starts");
        }
        if name == "late" {
            let matched = json(&path)["collectives"].as_u64().unwrap() as usize;
            assert_eq!(pairs["collective"].len(), kernels - matched, "each matched collective is one chain");
            let for_late = pairs["waiting"].iter().filter(|(_, last)| last.rank == 2).count();
            assert!(for_late * 10 > pairs["waiting"].len() * 9, "{for_late}");
        }
    }
}

#[test]
fn a_trace_is_packed_if_its_name_says_so() {
    let (folder, path) = written(&late());
    let file = folder.path().join("all.out.gz");
    let packed = || {
        stderr_of(&["ranks", &path, "--quiet", "--format", "perfetto", "--output", file.to_str().unwrap()], 0);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        bytes
    };
    let bytes = packed();
    assert_eq!(bytes, packed(), "the same every time");
    assert_eq!(gunzip(&bytes), in_form(&path, "perfetto").as_bytes());
}

#[test]
fn without_steps_there_are_spans_of_time() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, trace) in late().make().traces {
        let text = String::from_utf8(trace)
            .unwrap()
            .replace("ProfilerStep#", "something ")
            .replace("train_step", "some_function");
        std::fs::write(folder.path().join(format!("rank{rank}.json")), text).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let report = json(path);
    let steps = report["steps"].as_array().unwrap();
    assert!((20..=48).contains(&steps.len()), "{}", steps.len());
    assert!(steps[0]["name"].as_str().unwrap().starts_with("0.0"), "{}", steps[0]["name"]);
    for field in ["waited_ns", "caused_ns"] {
        let sum = |of: &Value| of[field].as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).sum::<i64>();
        assert_eq!(steps.iter().map(sum).sum::<i64>(), report["waited_ns"].as_i64().unwrap(), "{field}");
    }
}
