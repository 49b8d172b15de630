//! One trace in several spellings: numbers as JSON or as text, times in microseconds or nanoseconds. What is asked has the same answer.
//! The traces are those of `testdata/README.md`, respelled here by way of `serde_json`.

use crate::support::program::{run, run_json, scratch, stderr, stderr_of, stdout, testdata};
use nccl_stacks::damage::Damage;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::store::Store;
use nccl_stacks::time::{Ns, TimeRule};
use serde_json::{Value, json};

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(testdata(name)).unwrap()).unwrap()
}

/// A trace with its events changed, as a file.
fn changed(mut trace: Value, change: impl FnMut(&mut Value)) -> (tempfile::TempDir, String) {
    trace["traceEvents"].as_array_mut().unwrap().iter_mut().for_each(change);
    scratch("trace.json", trace.to_string().as_bytes())
}

/// Writes each number of the arguments, and each list, as XSigma does.
fn arguments_as_text(event: &mut Value) {
    // Kineto's names of threads and processes are no metadata of operators.
    if event["ph"] == "M" {
        return;
    }
    for value in event.get_mut("args").and_then(Value::as_object_mut).into_iter().flat_map(|args| args.values_mut()) {
        if matches!(value, Value::Number(_) | Value::Array(_) | Value::Bool(_)) {
            *value = Value::from(value.to_string());
        }
    }
}

/// The answer without what names the file and how long its text is.
fn answer(args: &[&str]) -> Value {
    let output = run_json(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    let mut answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let members = answer.as_object_mut().unwrap();
    ["trace", "traces"].iter().for_each(|key| drop(members.remove(*key)));
    answer["damage"].as_object_mut().unwrap().remove("text_bytes");
    for kind in answer["damage"]["kinds"].as_array_mut().unwrap() {
        kind.as_object_mut().unwrap().remove("trace");
    }
    answer
}

/// All ids are read as numbers: correlation, External id, Python ids, sequence numbers and forward threads; and so are the sizes of collectives.
#[test]
fn numbers_may_be_text() {
    for name in ["metadata_pytorch.json", "costs.json", "forward_backward.json", "strangers.json", "evidence.json"] {
        let (_folder, file) = changed(read(name), arguments_as_text);
        assert_ne!(read(name), serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()).unwrap());
        assert_eq!(answer(&[&file]), answer(&[&testdata(name)]), "{name}");
    }
    let (_folder, file) = changed(read("replay/trace.json"), arguments_as_text);
    let (_capture, capture) = changed(read("replay/capture_traces/capture.json"), arguments_as_text);
    let ours = testdata("replay/capture_traces/capture.json");
    assert_eq!(
        answer(&[&file, "--capture-trace", &capture]),
        answer(&[&testdata("replay/trace.json"), "--capture-trace", &ours])
    );
}

/// Half of the events of each kind, so that the reader, which learns how events look, meets both in one file.
#[test]
fn spellings_may_be_mixed() {
    let mut number = 0;
    let (_folder, file) = changed(read("metadata_pytorch.json"), |event| {
        number += 1;
        if number % 2 == 0 {
            arguments_as_text(event);
        }
    });
    assert_eq!(answer(&[&file]), answer(&[&testdata("metadata_pytorch.json")]));
}

/// The steps of `metadata_pytorch.json` and `metadata_xsigma.json` have the same collectives; of the frames, only Python's are missing.
#[test]
fn xsigma_has_the_collectives_of_pytorch() {
    let groups = |name: &str| -> Vec<(Value, Value, Value, Value, Vec<String>)> {
        let is_python = |frame: &str| frame.contains(".py(") || frame.starts_with("nn.Module");
        let group = |stack: &Value| {
            let frames = stack["frames"].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap().to_owned());
            let cost = &stack["cost"];
            (
                stack["count"].clone(),
                cost["gpu_time"]["total_ns"].clone(),
                cost["exposed_ns"].clone(),
                stack["messages"].clone(),
                frames.filter(|frame| !is_python(frame)).collect(),
            )
        };
        answer(&[&testdata(name)])["stacks"].as_array().unwrap().iter().map(group).collect()
    };
    let (pytorch, xsigma) = (groups("metadata_pytorch.json"), groups("metadata_xsigma.json"));
    assert_eq!(pytorch, xsigma);
    let costs: Vec<_> = pytorch.iter().map(|group| (&group.0, &group.1, &group.2)).collect();
    // Two buckets of gradients in each of two steps, and a collective of the forward pass.
    let want = [(2, 100_000, 100_000), (2, 400_000, 320_000), (2, 200_000, 200_000)];
    let want = want.map(|(count, time, exposed)| (json!(count), json!(time), json!(exposed)));
    assert_eq!(costs, want.iter().map(|(count, time, exposed)| (count, time, exposed)).collect::<Vec<_>>());
    // Elements of 4 bytes: 8192 and 4096 of the buckets, 2048 of the other.
    let bytes: Vec<_> = xsigma.iter().map(|group| (&group.3["bytes"]["min"], &group.3["bytes"]["max"])).collect();
    let want = [8192, 32_768, 16_384].map(|bytes| json!(bytes));
    assert_eq!(bytes, want.iter().map(|bytes| (bytes, bytes)).collect::<Vec<_>>());
}

/// Times a thousand times as large and `--ts-unit ns` are the same trace; so is a cut of it, whose text still has nanoseconds.
#[test]
fn times_may_be_nanoseconds() {
    let in_nanoseconds = |event: &mut Value| {
        for key in ["ts", "dur"] {
            if let Some(time) = event.get(key).and_then(Value::as_f64) {
                event[key] = json!((time * 1000.0) as i64);
            }
        }
    };
    for name in ["costs.json", "metadata_pytorch.json", "metadata_xsigma.json", "begin_end_async.json"] {
        let (folder, file) = changed(read(name), in_nanoseconds);
        let ns = |args: &[&str]| run(&[args, &["--ts-unit", "ns"]].concat());
        let query = "select ts, dur, name from slice";
        assert_eq!(stdout(&ns(&["sql", &file, query])), stdout(&run(&["sql", &testdata(name), query])), "{name}");
        if name == "begin_end_async.json" {
            continue;
        }
        assert_eq!(answer(&[&file, "--ts-unit", "ns"]), answer(&[&testdata(name)]), "{name}");
        let cut = |trace: &str, unit: &[&str]| {
            let cut = folder.path().join(format!("cut_{}.json", unit.len())).to_string_lossy().into_owned();
            let window = ["--start-ts", "1ms", "--duration", "9ms"];
            stderr_of(&[&["export", trace, "--trace", &cut][..], &window, unit].concat(), 0);
            answer(&[&[&cut as &str][..], unit].concat())
        };
        assert_eq!(cut(&file, &["--ts-unit", "ns"]), cut(&testdata(name), &[]), "{name}");
    }
}

/// A counter is kept by its own time, which the copy has to read in the same unit.
#[test]
fn cuts_keep_events_without_a_table_by_their_time() {
    let counter = |ts: i64| json!({"ph": "C", "name": "memory", "pid": 1, "tid": 1, "ts": ts, "args": {"bytes": 1}});
    let trace = json!({"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "first", "pid": 1, "tid": 1, "ts": 1000, "dur": 9000, "args": {}},
        counter(1500), counter(3_500_000), counter(9500),
    ]});
    let (folder, file) = scratch("trace.json", trace.to_string().as_bytes());
    let cut = folder.path().join("cut.json").to_string_lossy().into_owned();
    let args = ["export", &file, "--trace", &cut, "--start-ts", "1000", "--duration", "2us", "--ts-unit", "ns"];
    stderr_of(&args, 0);
    let kept: Value = serde_json::from_slice(&std::fs::read(&cut).unwrap()).unwrap();
    let counters = kept["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "C");
    assert_eq!(counters.map(|event| event["ts"].as_i64().unwrap()).collect::<Vec<_>>(), [1500]);
}

fn store(name: &str, time: TimeRule) -> Store {
    load(testdata(name), LoadOptions { time, ..LoadOptions::default() }, |_| {}).unwrap().store
}

/// `testdata/README.md` has the times of `metadata_xplane.json`.
#[test]
fn times_of_the_xplane_exporter() {
    let store = store("metadata_xplane.json", TimeRule::Nanoseconds);
    let mut slices: Vec<_> = store
        .slices
        .ids()
        .map(|slice| (store.slices.ts(slice).0, store.slices.dur(slice).0, store.slice_name(slice)))
        .collect();
    slices.retain(|(_, _, name)| !name.starts_with("cuda"));
    let all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    assert_eq!(
        slices,
        [
            (1000, 9000, "train_step"),
            (2000, 2500, "conv2d"),
            (3000, 1500, "conv2d_kernel"),
            (5000, 2000, "allreduce"),
            (6000, 2750, all_reduce),
        ]
    );
    assert_eq!(TimeRule::Nanoseconds.text_to_nanos(b"1.7e+18"), Some(Ns(1_700_000_000_000_000_000)));
}

/// What looks like nanoseconds is said, and not what Kineto writes with the same `displayTimeUnit`.
#[test]
fn the_unit_is_asked_for_where_it_is_probably_another() {
    let note = "its times are probably nanoseconds";
    let says = |args: &[&str]| stderr(&run(args)).matches(note).count();
    let xplane = testdata("metadata_xplane.json");
    assert_eq!(says(&[&xplane]), 1);
    assert_eq!(says(&["sql", &xplane, "select 1", "--quiet"]), 1);
    assert_eq!(says(&["sql", &xplane, "--query", "kernels"]), 1);
    assert_eq!(says(&["describe", &xplane]), 1);
    assert_eq!(says(&["describe", &xplane, "--ts-unit", "ns"]), 0);
    assert_eq!(says(&[&xplane, &testdata("costs.json")]), 1);
    for unit in ["us", "ns"] {
        assert_eq!(says(&[&xplane, "--ts-unit", unit]), 0);
    }
    let of_kineto = |mut trace: Value| {
        trace["displayTimeUnit"] = json!("ns");
        scratch("trace.json", trace.to_string().as_bytes())
    };
    let (_folder, kineto) = of_kineto(read("metadata_pytorch.json"));
    assert_eq!(says(&[&kineto]), 0);
    // One category is enough, and so is one field of Kineto's header.
    let mut with_category = read("metadata_xplane.json");
    with_category["traceEvents"][7]["cat"] = json!("kernel");
    let (_folder, with_category) = of_kineto(with_category);
    assert_eq!(says(&[&with_category]), 0);
    let mut with_header = read("metadata_xplane.json");
    with_header["deviceProperties"] = json!([{"id": 0}]);
    let (_folder, with_header) = of_kineto(with_header);
    assert_eq!(says(&[&with_header]), 0);
    let mut in_milliseconds = read("metadata_xplane.json");
    in_milliseconds["displayTimeUnit"] = json!("ms");
    let (_folder, in_milliseconds) = scratch("trace.json", in_milliseconds.to_string().as_bytes());
    assert_eq!(says(&[&in_milliseconds]), 0);
}

/// Values that are not what their keys promise are no numbers, and change nothing else. One set of arguments is nested too deeply to be
/// kept, which is counted.
#[test]
fn hostile_values_are_no_numbers() {
    let store = store("metadata_hostile.json", TimeRule::Exact);
    assert_eq!((store.events, store.kernels.len()), (96, 32));
    assert_eq!((store.damage.get(Damage::ArgsTooDeep).count, store.damage.faults().count()), (1, 1));
    let trace = testdata("metadata_hostile.json");
    let answer = answer(&[&trace, "--kernel-name", "kernel_*"]);
    assert_eq!(answer["coverage"]["kernels"], 32);
    assert_eq!(answer["coverage"]["attributed_by"], json!({"correlation": 32}));
    let numbered = answer["stacks"].as_array().unwrap().iter().filter(|stack| !stack["forward"].is_null()).count();
    assert_eq!(numbered, 0, "no operator has a valid sequence number");
}
