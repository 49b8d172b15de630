//! The schemas in `schema/` against the program's output: every answer fits, and an answer changed in any one field does not.

use crate::answers::ranks_forms::written;
use crate::job;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::program::{run, stderr, testdata, trace_of};
use crate::support::random::is_long;
use crate::support::schema::{Schema, read};
use job::{How, Job, Late, When};
use serde_json::{Value, json};

/// The names of the schemas of answers.
fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    let names = names.iter().map(|name| name.strip_suffix(".schema.json").unwrap().to_owned());
    names.filter(|name| name != "common").collect()
}

fn validator(name: &str) -> Schema {
    Schema::new(read(name)).unwrap_or_else(|why| panic!("{name}{why}"))
}

/// The program's answer in JSON; `None` if it finds nothing.
fn answer(args: &[&str]) -> Option<Value> {
    let output = run(&[args, &["--format", "json"]].concat());
    match output.status.code() {
        // What is found nowhere may have been in what is missing of a file that is cut off.
        Some(3 | 6) if output.stdout.is_empty() => None,
        // Where no kernel has a launch, the rest is reported all the same.
        Some(0 | 3 | 4 | 6) => Some(serde_json::from_slice(&output.stdout).unwrap()),
        _ => panic!("{args:?}: {}", stderr(&output)),
    }
}

/// What each keyword lets pass and what not, by the specification of JSON Schema, and schemas that are wrong themselves.
#[test]
fn the_validator_follows_the_specification() {
    let draft = "https://json-schema.org/draft/2020-12/schema";
    let schema = |keywords: Value| {
        let mut schema = keywords;
        schema["$schema"] = draft.into();
        Schema::new(schema)
    };
    let pair = json!({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false});
    let closed = json!({"properties": {"a": {"type": "null"}}, "additionalProperties": false});
    let map = json!({"additionalProperties": {"$ref": "#/$defs/one"}, "$defs": {"one": {"const": 1}}});
    for (keywords, fitting, others) in [
        (
            json!({"type": "integer"}),
            vec![json!(1), json!(-1), json!(1.0), json!(u64::MAX)],
            vec![json!(1.5), json!("1")],
        ),
        (json!({"type": "number"}), vec![json!(1), json!(1.5)], vec![json!(null), json!(true)]),
        (json!({"type": ["string", "null"]}), vec![json!(""), json!(null)], vec![json!(0), json!([])]),
        (json!({"type": "object"}), vec![json!({})], vec![json!([])]),
        (json!({"type": "array"}), vec![json!([])], vec![json!({})]),
        (json!({"type": "boolean"}), vec![json!(false)], vec![json!(0)]),
        (json!({"enum": ["a", null]}), vec![json!("a"), json!(null)], vec![json!("b"), json!(false)]),
        (json!({"const": "a"}), vec![json!("a")], vec![json!("aa"), json!(["a"])]),
        (json!({"minimum": 1, "maximum": 2}), vec![json!(1), json!(2.0), json!("x")], vec![json!(0), json!(2.1)]),
        (
            json!({"minItems": 1, "maxItems": 2}),
            vec![json!([1]), json!([1, 2]), json!({})],
            vec![json!([]), json!([1, 2, 3])],
        ),
        (json!({"minProperties": 1}), vec![json!({"a": 1}), json!([])], vec![json!({})]),
        (json!({"pattern": "^a[0-9]"}), vec![json!("a1b"), json!(7)], vec![json!("ba1"), json!("a")]),
        (json!({"required": ["a"]}), vec![json!({"a": null, "b": 1}), json!("a")], vec![json!({"b": 1})]),
        (closed, vec![json!({}), json!({"a": null}), json!(1)], vec![json!({"a": 1}), json!({"b": null})]),
        (map, vec![json!({"x": 1, "y": 1})], vec![json!({"x": 1, "y": 2})]),
        (json!({"propertyNames": {"pattern": "^x"}}), vec![json!({"x1": 0})], vec![json!({"x1": 0, "y": 0})]),
        (json!({"items": {"type": "null"}}), vec![json!([]), json!([null]), json!(1)], vec![json!([null, 1])]),
        (pair, vec![json!([]), json!([1]), json!([1, "a"])], vec![json!(["a"]), json!([1, 2]), json!([1, "a", null])]),
        (json!({"anyOf": [{"type": "null"}, {"const": 1}]}), vec![json!(null), json!(1)], vec![json!(2)]),
        (json!({"oneOf": [{"minimum": 2}, {"maximum": 3}]}), vec![json!(1), json!(4)], vec![json!(2), json!(3)]),
        (json!({"type": "string", "minimum": 3, "const": "a"}), vec![json!("a")], vec![json!(4), json!("b")]),
    ] {
        let schema = schema(keywords.clone()).unwrap();
        for value in fitting {
            assert_eq!(schema.check(&value), Ok(()), "{keywords}");
        }
        for value in others {
            assert!(schema.check(&value).is_err(), "{keywords} lets pass {value}");
        }
    }
    for wrong in [
        json!({"typ": "string"}),
        json!({"type": "text"}),
        json!({"type": ["string", "string"]}),
        json!({"required": "a"}),
        json!({"properties": {"a": {"format": "date"}}}),
        json!({"$ref": "#/$defs/a"}),
        json!({"items": [{}]}),
        json!({"anyOf": []}),
        json!({"pattern": "("}),
        json!({"minItems": -1}),
        json!({"enum": [0.5]}),
        json!({"$defs": {"unused": {"oneOf": [{"maximum": "1"}]}}}),
    ] {
        assert!(schema(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(Schema::new(json!({"$schema": "http://json-schema.org/draft-07/schema#"})).is_err());
}

/// Where this variable names a folder, the answers are written to it, for `.ci/nightly`.
const KEEP: &str = "NCCL_STACKS_KEEP_ANSWERS";

fn assert_fits(schema: &Schema, answer: &Value, args: &[&str]) {
    if let Err(why) = schema.check(answer) {
        panic!("{args:?}\n{why}");
    }
    if let Some(folder) = std::env::var_os(KEEP) {
        let file = tempfile::Builder::new().prefix("answer-").suffix(".json").tempfile_in(folder).unwrap();
        serde_json::to_writer(&file, answer).unwrap();
        file.keep().unwrap();
    }
}

/// The traces in `testdata/`, without the ranks of jobs and what was recorded beside them: other commands answer about these.
fn small_traces() -> Vec<String> {
    let (mut traces, mut folders) = (Vec::new(), vec![PathBuf::from(testdata(""))]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                None if path.is_dir() && !path.ends_with("ranks") && !path.ends_with("records") => folders.push(path),
                // The expected report on a broken trace.
                _ if path.to_str().unwrap().contains(".report.") => {}
                Some("json" | "gz") => traces.push(path.to_str().unwrap().to_owned()),
                _ => {}
            }
        }
    }
    traces.sort();
    traces
}

/// Answers that few inputs give.
#[test]
fn rare_answers_fit() {
    let fits = |schema: &str, args: &[&str]| {
        let args = [args, &["--quiet"]].concat();
        let answer = answer(&args).unwrap();
        assert_fits(&validator(schema), &answer, &args);
        answer
    };
    let (trace, records) = (testdata("records/job/rank0.json.gz"), testdata("records/job/records"));
    let joined = fits("stacks", &[&trace, "--records", &records]);
    assert_eq!(joined["records"]["kernels_with"], joined["coverage"]["kernels"]);
    assert!(joined["stacks"][0]["recorded"]["proxy"]["steps"].as_u64().unwrap() > 0);
    // The costs of many ranks.
    let over = &fits("stacks", &["testdata/ranks"])["stacks"][0]["over_ranks"];
    assert_eq!((&over["ranks_in_all"], &over["outliers"][0]["rank"]), (&4.into(), &"rank 2".into()));
    // Of processes that could not record there is nothing but the reason.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("n-1.E28.ncclrec-failed"), "").unwrap();
    ["hang", "records"].iter().for_each(|name| _ = fits(name, &[name, folder.path().to_str().unwrap()]));
    // A trace of another job is left out, and named.
    let (folder, path) = written(&Job { steps: 2, layers: 2, ..Job::default() });
    let (_, other) = Job { tp: 8, steps: 2, layers: 2, ..Job::default() }.make().traces.swap_remove(7);
    std::fs::write(folder.path().join("rank7.json"), other).unwrap();
    assert_eq!(fits("ranks", &["ranks", &path])["refused"].as_array().unwrap().len(), 1);
    let Some(shared) = crate::support::shared() else { return };
    let cases = shared.join("records/flows/cases.tar.gz");
    assert_eq!(fits("records", &["records", cases.to_str().unwrap()])["flows"]["runs"].as_array().unwrap().len(), 31);
}

#[test]
fn answers_on_all_small_traces_fit() {
    let stacks = validator("stacks");
    let mut traces = 0;
    for (at, trace) in small_traces().into_iter().enumerate() {
        // No collective; all but the second have no kernels at all.
        let without = [
            "begin_end_async.json",
            "metadata_hostile.json",
            "metadata_xplane.json",
            "22_tf_timeline.json",
            "28_bazel_profile.json",
            "75_hpu_collective_comm.json",
            "77_ascend_trace_view.json",
            "whole_model.json",
            "capture.json",
            "17b_negative_ts.json",
            "64_gloo_cpu.json",
        ];
        let has_stacks = !without.iter().any(|name| trace.ends_with(name));
        traces += usize::from(has_stacks);
        // Each trace with some of them, and each of them with some traces; at night all.
        let is_chosen = |number: usize| is_long() || (number + at).is_multiple_of(5);
        for (_, flags) in [
            &[][..],
            &["--sort", "gpu", "--limit", "1"],
            &["--sort", "exposed", "--min-share", "20"],
            &["--sort", "mean", "--limit", "9"],
            &["--stack-depth", "2"],
            &["--stack-depth", "0", "--exact-names"],
            &["--window-on", "kernel"],
            &["--forward-stacks", "off", "--family", "all-collectives"],
            &["--group-by", "module,shape,forward", "--limit", "9"],
            &["--group-by", "stack,step,arg:grid,size"],
        ]
        .into_iter()
        .enumerate()
        .filter(|(number, _)| is_chosen(*number))
        {
            let args = [&[trace.as_str()], flags].concat();
            let answer = answer(&args);
            assert_eq!(answer.is_some(), has_stacks, "{args:?}");
            if let Some(answer) = answer {
                assert_fits(&stacks, &answer, &args);
            }
        }
    }
    assert_eq!(traces, 100);
}

#[test]
fn descriptions_fit() {
    let schema = validator("describe");
    let mut files = small_traces();
    files.extend(["ranks", "records/job", "records/hang", "records/pair", "records/megatrace"].map(testdata));
    if let Some(shared) = crate::support::shared() {
        let folder = |name: &str| shared.join(name).to_str().unwrap().to_owned();
        let real = crate::support::real_traces(&shared);
        let real = real.iter().step_by(if is_long() { 1 } else { 3 });
        files.extend(real.map(|(_, trace)| trace.to_str().unwrap().to_owned()));
        files.extend(["records/flight_recorder", "records/nccl_ras", "records/nsys"].map(folder));
    }
    let mut answers = 0;
    for file in &files {
        let args = ["describe", file.as_str(), "--quiet"];
        if let Some(answer) = answer(&args) {
            assert_fits(&schema, &answer, &args);
            answers += 1;
        }
    }
    assert_eq!(answers, files.len());
}

#[test]
fn answers_for_windows_fit() {
    let stacks = validator("stacks");
    let two = testdata("two_matches.json");
    let server = testdata("sglang_decode.json.gz");
    for args in [
        &[two.as_str(), "--function-name", "train.py(40): train_step", "--index", "1"][..],
        &[&two, "--start-ts", "2.7ms", "--duration", "1ns"],
        &[&server, "--function-name", "%forward_batch_generation", "--index", "0"],
    ] {
        assert_fits(&stacks, &answer(args).unwrap(), args);
    }
    // The launch begins in this window of one ns, and its kernel runs for 60 µs after it.
    let short = answer(&[&two, "--start-ts", "2.7ms", "--duration", "1ns"]).unwrap();
    assert_eq!((&short["summary"]["wall_ns"], &short["summary"]["kernel_names_found"]), (&60_000.into(), &1.into()));
    assert_eq!(short["summary"]["window"], serde_json::json!({"start_ns": 2_700_000, "end_ns": 2_700_001}));
    // A trace in which nothing takes any time.
    let (_folder, instant) = trace_of(&[
        r#""ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":9,"tid":9,"ts":5,"dur":0,"args":{"correlation":1}"#,
        r#""ph":"X","name":"ncclX","cat":"kernel","pid":0,"tid":7,"ts":5,"dur":0,"args":{"correlation":1}"#,
    ]);
    let nothing = answer(&[&instant]).unwrap();
    assert_fits(&stacks, &nothing, &[&instant]);
    assert_eq!(nothing["stacks"][0]["cost"]["share_of_window"], 0.0);
}

#[test]
fn answers_on_real_traces_fit() {
    let Some(shared) = crate::support::shared() else { return };
    let stacks = validator("stacks");
    let mut answers = 0;
    for (_, trace) in crate::support::real_traces(&shared) {
        let trace = trace.to_str().unwrap();
        let args = [trace, "--family", "all-collectives"];
        if let Some(answer) = answer(&args) {
            assert_fits(&stacks, &answer, &args);
            answers += 1;
        }
    }
    assert!(answers >= if is_long() { 15 } else { 12 }, "{answers}");
}

#[test]
fn answers_on_two_traces_fit() {
    let schema = validator("diff");
    let traces = small_traces();
    let (mut answers, mut changes) = (0, 0);
    // Each trace with itself and with several others, half of these pairs the other way round.
    for (at, first) in traces.iter().enumerate() {
        for (apart, second) in traces[at..].iter().step_by(if is_long() { 7 } else { 31 }).enumerate() {
            let (before, after) = if apart % 2 == 0 { (first, second) } else { (second, first) };
            let args = ["diff", before, after, "--stack-depth", "3"];
            if let Some(answer) = answer(&args) {
                assert_fits(&schema, &answer, &args);
                answers += 1;
                changes += answer["changes"].as_array().unwrap().len();
            }
        }
    }
    assert!(answers > 75 && changes > answers, "{answers} and {changes}");
}

fn late(rank: u32, extra_ns: i64, how: How, when: When) -> Option<Late> {
    Some(Late { rank, extra_ns, how, when })
}

fn cpu(function: &str) -> How {
    How::Cpu { function: function.to_owned() }
}

/// Jobs whose ranks are late for all reasons, and such as leave fields empty.
fn rank_jobs() -> Vec<Job> {
    let mlp = || late(2, 150_000, cpu("mlp.py(50): mlp"), When::EveryLayer);
    let with = |late| Job { steps: 6, layers: 4, late, ..Job::default() };
    let kernel = How::Gpu { kernel: "flash_fwd_kernel".to_owned() };
    vec![
        with(mlp()),
        with(late(1, 200_000, kernel.clone(), When::EveryLayer)),
        with(late(1, 4_000_000, kernel, When::Once { step: 3 })),
        with(late(3, 0, How::SlowCpu { factor: 1.3 }, When::EveryLayer)),
        with(late(0, 400_000, How::Lag, When::EveryLayer)),
        with(late(2, 3_000_000, cpu("gc.py(3): collect"), When::Once { step: 3 })),
        Job { graphs: true, ..with(mlp()) },
        Job { tp: 2, pp: 2, dp: 2, ..with(late(1, 150_000, cpu("mlp.py(50): mlp"), When::EveryLayer)) },
        Job { missing: vec![1], lose: 4, ..with(mlp()) },
        Job { missing: vec![1, 2, 3], ..with(None) },
        Job { drift_ppm: 50.0, length_ns: 20_000_000_000, ..with(mlp()) },
        Job { stacks: false, ..with(None) },
    ]
}

#[test]
fn answers_on_many_ranks_fit() {
    let schema = validator("ranks");
    let mut seen = BTreeSet::new();
    for job in rank_jobs() {
        let (_folder, path) = written(&job);
        for flags in [&["--limit", "1"], &["--clock", "none"], &["--clock", "trust"]] {
            // Clocks that drift so fast cannot be trusted.
            if job.drift_ppm > 0.0 && flags[1] == "trust" {
                continue;
            }
            let args = [&["ranks", path.as_str(), "--quiet"], &flags[..]].concat();
            let answer = answer(&args).unwrap();
            assert_fits(&schema, &answer, &args);
            for finding in answer["reruns"]["findings"].as_array().unwrap() {
                let part = finding["part"].as_str().unwrap();
                seen.insert(format!("{part} {}", finding["extent"].as_str().unwrap()));
            }
            seen.insert(format!("clock {}", answer["clock"]["method"].as_str().unwrap()));
        }
    }
    let reasons = ["cpu everywhere", "cpu pieces", "gpu pieces"];
    let clocks = ["clock align", "clock trust", "clock none", "clock refused"];
    for name in reasons.into_iter().chain(clocks) {
        assert!(seen.contains(name), "none has {name}: {seen:?}");
    }
}

/// Real logs whose groups, layout and hosts are unknown, and made ones that name all of these.
#[test]
fn answers_on_calls_fit() {
    let schema = validator("ranks-entries");
    let mut folders = vec![testdata("records/megatrace")];
    if let Some(shared) = crate::support::shared() {
        let real = ["rank2_slow_8ranks_generation2.tar.gz", "TP2PP4DP8_64ranks_generation1.tar.gz"];
        folders.extend(real.map(|name| shared.join("records/megatrace").join(name).to_str().unwrap().to_owned()));
    }
    for folder in &folders {
        let args = ["ranks", folder.as_str(), "--quiet"];
        let answer = answer(&args).unwrap();
        assert_fits(&schema, &answer, &args);
        assert_eq!(answer["slow"].as_array().unwrap().is_empty(), folder.contains("64ranks"), "{args:?}");
    }
}

/// The fields of a schema that are maps by names from a trace; every other object always has the same fields.
fn maps(schema: &Value, found: &mut BTreeSet<String>) {
    for (key, inner) in schema.as_object().into_iter().flatten() {
        if inner["additionalProperties"].is_object() {
            found.insert(key.clone());
        }
        maps(inner, found);
    }
}

/// All values that differ from one in a single spot: a field less, a field more, a value of another type.
fn mutants(value: &Value, is_map: bool, maps: &BTreeSet<String>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let wrong = match value {
        Value::String(_) => json!(1),
        Value::Object(_) => json!([]),
        Value::Array(_) => json!({}),
        _ => json!("text"),
    };
    // A text may replace null; a list never.
    found.push((format!(" is {wrong}"), if value.is_null() { json!([]) } else { wrong }));
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                if !is_map {
                    let mut less = fields.clone();
                    less.remove(key);
                    found.push((format!("/{key} is gone"), less.into()));
                }
                for (what, mutant) in mutants(inner, !is_map && maps.contains(key), maps) {
                    let mut other = fields.clone();
                    other.insert(key.clone(), mutant);
                    found.push((format!("/{key}{what}"), other.into()));
                }
            }
            let mut more = fields.clone();
            more.insert("unheard of".to_owned(), if is_map { json!(0) } else { json!(1) });
            found.push(("/unheard of".to_owned(), more.into()));
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                for (what, mutant) in mutants(item, false, maps) {
                    let mut other = items.clone();
                    other[at] = mutant;
                    found.push((format!("/{at}{what}"), other.into()));
                }
            }
        }
        _ => {}
    }
    found
}

#[test]
fn what_differs_in_one_field_does_not_fit() {
    let costs = testdata("costs.json");
    let replay = testdata("replay/trace.json");
    let (ranks, records) = (testdata("ranks"), testdata("records/pair"));
    let dumps = testdata("records/hang");
    // A later run, without rank 3.
    let (_folder, later) = written(&Job { missing: vec![3], steps: 2, layers: 2, ..Job::default() });
    for (name, args) in [
        ("stacks", &[costs.as_str(), "--sort", "gpu", "--limit", "2"][..]),
        ("stacks", &[&replay, "--limit", "1"]),
        ("diff", &["diff", &costs, &replay]),
        ("ranks", &["ranks", &ranks, "--quiet"]),
        ("ranks-diff", &["diff", &ranks, &later, "--ranks", "--quiet"]),
        ("records", &["records", &records, "--quiet"]),
        ("ranks-entries", &["ranks", &testdata("records/megatrace"), "--quiet"]),
        ("hang", &["hang", &dumps, "--quiet"]),
        ("describe", &["describe", &replay, &costs, &records, "--quiet"]),
    ] {
        let schema = validator(name);
        let answer = answer(args).unwrap();
        assert_fits(&schema, &answer, args);
        let mut fields = BTreeSet::new();
        maps(&read(name), &mut fields);
        let mutants = mutants(&answer, false, &fields);
        assert!(mutants.len() > 40, "{}", mutants.len());
        for (what, mutant) in mutants {
            assert!(schema.check(&mutant).is_err(), "{name}: {what} is let pass");
        }
    }
    let mut other = answer(&[&costs]).unwrap();
    for (field, value) in [("version", json!(1)), ("schema", json!("nccl-stacks/diff")), ("stacks_found", json!(-1))] {
        let right = std::mem::replace(&mut other[field], value);
        assert!(validator("stacks").check(&other).is_err(), "{field}");
        other[field] = right;
    }
}

/// Every object of a schema, wherever it is.
fn objects<'a>(schema: &'a Value, path: &str, found: &mut Vec<(String, &'a Value)>) {
    match schema {
        Value::Object(fields) => {
            if schema.get("type") == Some(&json!("object")) {
                found.push((path.to_owned(), schema));
            }
            fields.iter().for_each(|(key, inner)| objects(inner, &format!("{path}/{key}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| objects(item, path, found)),
        _ => {}
    }
}

#[test]
fn schemas_describe_every_field_and_leave_none_open() {
    for name in names() {
        let schema = read(&name);
        assert!(Schema::new(schema.clone()).is_ok(), "{name}");
        let mut found = Vec::new();
        objects(&schema, &name, &mut found);
        for (path, object) in found {
            assert!(object["description"].is_string(), "{path}");
            let Some(properties) = object.get("properties").and_then(Value::as_object) else {
                assert!(object["additionalProperties"].is_object(), "{path} is a map");
                continue;
            };
            assert_eq!(object["additionalProperties"], json!(false), "{path}");
            let required: Vec<&str> =
                object["required"].as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect();
            assert_eq!(required.len(), properties.len(), "{path}: all fields are always there");
            for (field, property) in properties {
                assert!(required.contains(&field.as_str()), "{path}/{field}");
                let description = property["description"].as_str().unwrap_or_default();
                assert!(description.ends_with('.'), "{path}/{field} has no description");
                assert!(!field.ends_with("_ns") || description.contains(" ns"), "{path}/{field}: the unit");
            }
        }
    }
}
