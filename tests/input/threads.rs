//! Neither the number of threads nor the division of the text among them changes the result, and the result
//! equals that of an independent JSON parser.

use std::io::Cursor;
use std::num::NonZero;
use std::path::Path;

use proptest::prelude::*;

use crate::support::facts::facts;
use crate::support::random::{Random, damage, is_long, rounds};
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::attribution::{AttributionOptions, Attributor, launches};
use nccl_stacks::damage::Damage;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::event::ids::{EventIds, PythonCaller};
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load, load_input};
use nccl_stacks::store::Store;

fn read(bytes: &[u8], args: ArgsWanted, threads: usize, chunk: usize) -> Result<Store, String> {
    let (threads, chunk) = (NonZero::new(threads), NonZero::new(chunk));
    let options = LoadOptions { args, threads, chunk, ..LoadOptions::default() };
    let input = from_reader("text".to_owned(), None, Box::new(Cursor::new(bytes.to_vec())));
    input.and_then(|input| load_input(input, options, |_| {})).map(|loaded| loaded.store).map_err(|e| e.to_string())
}

fn facts_of(bytes: &[u8], args: ArgsWanted, threads: usize, chunk: usize) -> Result<String, String> {
    read(bytes, args, threads, chunk).map(|store| facts(&store))
}

/// The first line that is not the same.
fn differs(got: &Result<String, String>, want: &Result<String, String>) -> String {
    let (Ok(got), Ok(want)) = (got, want) else { return format!("{:?} or {:?}", got.is_ok(), want.is_ok()) };
    let pair = got.lines().zip(want.lines()).find(|(got, want)| got != want);
    pair.map_or_else(|| "length".to_owned(), |(got, want)| format!("{got} instead of {want}"))
}

/// A chunk larger than any of the texts here.
const WHOLE: usize = 8 << 20;

/// The texts of the small traces.
fn testdata() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let traces = files.iter().filter(|file| file.to_str().is_some_and(|name| name.contains(".json")));
    traces.map(|file| crate::support::read_text(file).into_bytes()).collect()
}

#[test]
fn every_way_of_dividing_reads_the_same() {
    let mut random = Random(7);
    for bytes in testdata() {
        for args in [ArgsWanted::All, ArgsWanted::COLLECTIVES] {
            let want = facts_of(&bytes, args, 1, WHOLE);
            assert!(want.is_ok());
            for threads in [1, 2, 3, 8] {
                let chunk = 1 + random.below(bytes.len());
                assert!(facts_of(&bytes, args, threads, chunk) == want, "{threads} threads, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn damaged_traces_read_the_same_too() {
    let mut random = Random(11);
    let mut errors = 0;
    for whole in testdata() {
        let rounds = rounds(if whole.len() > 200_000 { 1 } else { 8 });
        for round in 0..rounds {
            let bytes = damage(&whole, &mut random);
            let want = facts_of(&bytes, ArgsWanted::All, 1, WHOLE);
            errors += usize::from(want.is_err());
            let (threads, chunk) = (1 + random.below(4), 1 + random.below(2_000));
            let got = facts_of(&bytes, ArgsWanted::All, threads, chunk);
            let differs = differs(&got, &want);
            assert!(got == want, "round {round}, {threads} threads, chunks of {chunk}: {differs}");
        }
    }
    assert!(errors > rounds(1), "{errors}");
}

/// Arguments full of text that looks like events: every guess about where an event begins is wrong, and nothing that a thread
/// read by one (threads, names, tracks that do not exist) may remain.
#[test]
fn wrong_guesses_leave_nothing() {
    let decoy = r#"{"a":1},{"ph":"X","ts":5,"dur":9,"pid":666,"tid":"ghost","name":"decoy","cat":"decoys"}"#;
    let late = r#"{"a":1},{"ph":"X","ts":5,"dur":9,"pid":777,"tid":1,"name":"late"}"#;
    let mut events = Vec::new();
    for i in 0..200 {
        let decoys = vec![decoy; i % 7].join(",");
        events.push(format!(
            r#"{{"ph":"X","ts":{i},"dur":1,"pid":1,"tid":{},"name":"name {}","args":{{"list":[{decoys}]}}}}"#,
            i % 3,
            i % 11
        ));
    }
    let text = format!(r#"{{"traceEvents":[{}],"trailer":[{late},{late}]}}"#, events.join(",\n"));
    let want = facts_of(text.as_bytes(), ArgsWanted::COLLECTIVES, 1, WHOLE);
    assert!(want.as_ref().is_ok_and(|facts| !facts.contains("ghost") && !facts.contains("decoys")));
    assert!(want.as_ref().is_ok_and(|facts| !facts.contains("pid: 777")));
    for threads in [1, 2, 5] {
        for chunk in [10, 100, 300, 999, 5_000] {
            let got = facts_of(text.as_bytes(), ArgsWanted::COLLECTIVES, threads, chunk);
            assert!(got == want, "{threads} threads, chunks of {chunk}");
        }
    }
}

/// Text after the trace is not of it and counted, however it is divided.
#[test]
fn what_comes_after_the_first_trace_is_counted() {
    let trace = |ts| format!(r#"{{"traceEvents":[{{"ph":"X","ts":{ts},"dur":1,"pid":1,"tid":1,"name":"a"}}]}}"#);
    let text: String = (1_000..2_000).map(trace).collect();
    let junk = format!("{text}\0\0junk");
    let first = trace(1_000).len() as u64;
    for (threads, chunk) in [(1, WHOLE), (1, 200), (4, 100)] {
        let store = read(junk.as_bytes(), ArgsWanted::COLLECTIVES, threads, chunk).unwrap();
        assert_eq!(store.slices.len(), 1);
        let after = store.damage.get(Damage::TrailingBytes);
        assert_eq!((after.first_offset, after.bytes), (Some(first), junk.len() as u64 - first));
    }
}

/// pzstd writes a frame without text before each frame with text.
#[test]
fn zstd_may_begin_with_a_frame_to_skip() {
    let text = r#"[{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a"}]"#;
    let skipped = b"\x50\x2a\x4d\x18\x04\0\0\0size";
    let bytes = [&skipped[..], &zstd::encode_all(text.as_bytes(), 1).unwrap()].concat();
    assert_eq!(read(&bytes, ArgsWanted::COLLECTIVES, 1, WHOLE).unwrap().slices.len(), 1);
}

/// Several threads attribute kernels in parts, each with its own call tree. The parts end where call paths repeat, and the operators of the
/// forward pass are long before them.
#[test]
fn attribution_is_the_same_in_threads() {
    const KERNELS: usize = 5_000;
    let frames = ["step", "train", "exchange", "reduce", "gather", "scatter", "wait"];
    let event = |category: &str, name: &str, ts: usize, dur: usize, args: String| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        )
    };
    let mut events = vec![event("python_function", "model.py(1): forward", 0, 10 * KERNELS, String::new())];
    for i in 0..KERNELS {
        let (ts, frame) = (100_000 + 100 * i, format!("train.py(7): {}", frames[i % frames.len()]));
        let number = |thread: usize| format!(r#""Sequence number":{i},"Fwd thread id":{thread}"#);
        events.push(event("cpu_op", "aten::mul", 10 * i, 5, number(0)));
        events.push(event("python_function", &frame, ts, 90, String::new()));
        events.push(event("cpu_op", "MulBackward", ts + 10, 70, number(1)));
        events.push(event("cuda_runtime", "cudaLaunchKernel", ts + 20, 10, format!(r#""correlation":{}"#, i + 1)));
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{},"dur":9,"args":{{"correlation":{}}}}}"#,
            ts + 50,
            i + 1
        ));
    }
    let text = format!("[{}]", events.join(","));
    let attributed = |threads| {
        let store = read(text.as_bytes(), ArgsWanted::COLLECTIVES, threads, WHOLE).unwrap();
        let wanted = Wanted::collectives();
        let launches = launches::find(&store, &choose(&store, &wanted));
        let attributor = Attributor::new(&store, &wanted, Captured::default());
        attributor.attribute(launches.kernels.iter(), AttributionOptions::default())
    };
    let one = attributed(1);
    assert_eq!(one.kernels.len(), KERNELS);
    for (i, row) in one.kernels.iter().enumerate() {
        let frames_of = |path| one.paths.call_path(path).frames;
        let frame = format!("train.py(7): {}", frames[i % frames.len()]);
        assert_eq!(frames_of(row.path.unwrap()), [&frame, "MulBackward", "cudaLaunchKernel"]);
        assert_eq!(frames_of(row.forward.unwrap()), ["model.py(1): forward", "aten::mul"]);
    }
    for threads in [2, 3, 8] {
        let several = attributed(threads);
        assert!(several.kernels == one.kernels, "{threads} threads");
        assert_eq!(several.paths.len(), one.paths.len());
    }
}

#[test]
fn real_traces_read_the_same() {
    let Some(shared) = crate::support::shared() else { return };
    for (number, (name, path)) in crate::support::real_traces(&shared).into_iter().enumerate() {
        let facts_with = |threads| {
            let options =
                LoadOptions { args: ArgsWanted::COLLECTIVES, threads: NonZero::new(threads), ..LoadOptions::default() };
            facts(&load(&path, options, |_| {}).unwrap().store)
        };
        let want = facts_with(1);
        // By day one of both for each trace.
        let all = [2, 8];
        for threads in if is_long() { &all[..] } else { &all[number % 2..][..1] } {
            assert!(facts_with(*threads) == want, "{name}: {threads} threads");
        }
    }
}

/// One event, and the ways in which it can be written.
#[derive(Debug, Clone)]
struct Written {
    name: String,
    category: String,
    pid: u32,
    tid: u32,
    ts: i64,
    dur: i64,
    /// Keys of ids and their values.
    ids: Vec<(&'static str, u64)>,
    /// Another argument: its position among these, and its value.
    other: Option<(usize, serde_json::Value)>,
    /// The order of keys and the spaces.
    style: usize,
}

impl Written {
    fn text(&self) -> String {
        let json = |text: &str| {
            let plain = serde_json::to_string(text).unwrap();
            // As Python writes it: all but ASCII as \uXXXX.
            let ascii = plain.chars().map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) }).collect();
            if self.style.is_multiple_of(2) { plain } else { ascii }
        };
        let micros = |nanos: i64| format!("{}.{:03}", nanos / 1000, nanos % 1000);
        let mut args: Vec<String> = self.ids.iter().map(|(key, id)| format!(r#""{key}": {id}"#)).collect();
        if let Some((at, other)) = &self.other {
            args.insert(at % (args.len() + 1), format!(r#""other": {other}"#));
        }
        let mut fields = [
            r#""ph": "X""#.to_owned(),
            format!(r#""cat": {}"#, json(&self.category)),
            format!(r#""name": {}"#, json(&self.name)),
            format!(r#""pid": {}, "tid": {}"#, self.pid, self.tid),
            format!(r#""ts": {}, "dur": {}"#, micros(self.ts), micros(self.dur)),
            format!(r#""args": {{{}}}"#, args.join(if self.style.is_multiple_of(3) { ", " } else { ",\n      " })),
        ];
        fields.rotate_left(self.style % 5);
        let between = [", ", ",", ",\n    ", " ,\t"][self.style % 4];
        format!("{{{}}}", fields.join(between))
    }
}

/// The keys that are loaded.
const IDS: &[&str] = &[
    "External id",
    "correlation",
    "Python id",
    "Python parent id",
    "Sequence number",
    "Fwd thread id",
    "graph id",
    "graph node id",
    "stream",
];

/// The ids that an event of a category has; a value that does not fit is none. Nor is a stream that the thread is already.
fn ids_of(category: &str, args: &serde_json::Value, tid: i64) -> EventIds {
    let number = |key: &str| args[key].as_i64();
    let id = |key: &str| number(key).unwrap_or(0);
    // The store keeps this number plus one, so the largest becomes the one before it.
    let below_the_largest = |number: i64| number.min(i64::MAX - 1);
    match category {
        "python_function" => {
            let python_caller = match number("Python parent id") {
                None => PythonCaller::Unknown,
                Some(0) => PythonCaller::Nobody,
                Some(number) => PythonCaller::Frame(below_the_largest(number)),
            };
            EventIds::Python { python_id: id("Python id"), python_caller }
        }
        "cuda_runtime" => EventIds::Call { correlation: id("correlation") },
        "kernel" | "gpu_memcpy" => {
            let graph_node_id = id("graph node id");
            let graph_id = if graph_node_id == 0 { 0 } else { id("graph id") };
            let stream = number("stream").map(below_the_largest).filter(|stream| *stream != tid);
            let (correlation, external_id) = (id("correlation"), id("External id"));
            EventIds::Gpu { correlation, external_id, graph_id, graph_node_id, stream }
        }
        _ => {
            let sequence_number = number("Sequence number").map(below_the_largest);
            let forward_thread = if sequence_number.is_none() { 0 } else { id("Fwd thread id") };
            EventIds::Operator { external_id: id("External id"), sequence_number, forward_thread }
        }
    }
}

fn escaped(c: char) -> String {
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Events within a second from this microsecond on: one that is farther from all others would be left out.
fn written(first: i64) -> impl Strategy<Value = Written> {
    let name = prop_oneof!["[a-z:]{1,12}", "[ -~]{1,20}", ".{1,8}", Just("\\\"{[".to_owned())];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i64>().prop_map(Into::into),
        ".{0,6}".prop_map(Into::into),
        Just("correlation".into()),
        Just("\"Python id\": 7, ".into()),
    ];
    let other = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::hash_map("[a-z]{1,3}|correlation|External id|ph", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    let times = (first..first + 900_000, 0i64..10_000_000);
    let category = prop_oneof![
        prop::sample::select(vec!["python_function", "cpu_op", "cuda_runtime", "kernel", "gpu_memcpy"])
            .prop_map(str::to_owned),
        "[a-z_]{1,9}",
    ];
    let id = prop_oneof![0u64..99, 4_000_000_000u64..5_000_000_000, any::<u64>()];
    let ids = (prop::sample::subsequence(IDS.to_vec(), 0..6).prop_shuffle(), prop::collection::vec(id, 6))
        .prop_map(|(keys, values)| keys.into_iter().zip(values).collect());
    let other = proptest::option::of((0usize..6, other));
    (name, category, 0u32..5, 1u32..4, times, ids, other, 0usize..60).prop_map(
        |(name, category, pid, tid, (ts, dur), ids, other, style)| Written {
            name,
            category,
            pid,
            tid,
            ts,
            dur,
            ids,
            other,
            style,
        },
    )
}

type Row = (i64, i64, String, String, i64, String);

fn rows_of(store: &Store) -> Vec<Row> {
    let slices = &store.slices;
    let mut rows: Vec<Row> = (slices.ids())
        .map(|slice| {
            let text = |id| store.strings.get(id).unwrap().to_owned();
            let thread = store.thread_of(slice).unwrap();
            let tid = store.tracks.thread(thread).tid;
            let (name, category) = (text(slices.name(slice)), text(slices.category(slice)));
            (slices.ts(slice).0, slices.dur(slice).0, name, category, tid, format!("{:?}", store.ids(slice)))
        })
        .collect();
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(500) as u32))]

    #[test]
    fn events_are_what_serde_json_reads(
        kinds in (0i64..1_000_000_000_000_000).prop_flat_map(|first| prop::collection::vec(written(first), 1..6)),
        order in prop::collection::vec(0usize..6, 1..60),
        chunk in 1usize..3000,
    ) {
        // The same few events again and again, as in real traces, so that layouts are recognised.
        let events: Vec<String> = order.iter().map(|i| kinds[i % kinds.len()].text()).collect();
        let text = format!("[{}]", events.join(",\n"));
        let nanos = |value: &serde_json::Value| (value.as_f64().unwrap() * 1000.0).round() as i64;
        let parsed: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let mut want: Vec<Row> = parsed
            .iter()
            .map(|event| {
                let text = |key: &str| event[key].as_str().unwrap().to_owned();
                let tid = event["tid"].as_i64().unwrap();
                let ids = format!("{:?}", ids_of(&text("cat"), &event["args"], tid));
                (nanos(&event["ts"]), nanos(&event["dur"]), text("name"), text("cat"), tid, ids)
            })
            .collect();
        want.sort();
        let store = read(text.as_bytes(), ArgsWanted::COLLECTIVES, 2, chunk).unwrap();
        prop_assert_eq!(rows_of(&store), want);
    }
}

/// What is wrong with the first part of an event says nothing of the whole of it, wherever the text is divided.
#[test]
fn a_broken_argument_is_the_same_wherever_the_text_is_divided() {
    let event = |name: &str, args: &str| {
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":1,"dur":2,"args":{{{args}}}}}"#)
    };
    let text = format!("[{},\n{}]", event("a", r#""External id":null 8,"x":1"#), event("b", r#""x":2"#));
    let want = facts_of(text.as_bytes(), ArgsWanted::All, 1, WHOLE).unwrap();
    assert!(want.contains("json_args_syntax Tally { count: 1,"), "{want}");
    for chunk in 1..text.len() {
        assert_eq!(facts_of(text.as_bytes(), ArgsWanted::All, 2, chunk).unwrap(), want, "chunks of {chunk}");
    }
}
