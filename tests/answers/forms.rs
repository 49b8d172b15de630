//! Every form of the answer: against goldens, against numbers that were worked out by hand in `testdata/README.md`, and as the tools read
//! it for which it is made.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::program::{json_of, program, rows, run, stderr, stdout, stdout_of, testdata, trace_of};
use inferno::flamegraph;
use quick_xml::events::Event;
use serde_json::Value;

/// A golden, and the arguments whose answer it is, run in the project's root.
const GOLDENS: &[(&str, &[&str])] = &[
    ("costs.text.txt", &["testdata/costs.json", "--format", "text"]),
    ("costs.table.txt", &["testdata/costs.json", "--format", "table"]),
    ("costs.script.txt", &["testdata/costs.json", "--format", "script"]),
    ("costs.verbose.txt", &["testdata/costs.json", "--verbose", "--full-stacks"]),
    ("costs.json", &["testdata/costs.json", "--format", "json"]),
    ("costs.csv", &["testdata/costs.json", "--format", "csv"]),
    ("costs.folded", &["testdata/costs.json", "--format", "folded"]),
    ("costs.speedscope.json", &["testdata/costs.json", "--format", "speedscope"]),
    ("costs.svg", &["testdata/costs.json", "--format", "svg"]),
    ("costs.kernels.txt", &["sql", "testdata/costs.json", "--query", "kernels", "--format", "table"]),
    ("costs.kernels.csv", &["sql", "testdata/costs.json", "--query", "kernels", "--format", "csv"]),
    ("costs.kernels.json", &["sql", "testdata/costs.json", "--query", "kernels", "--format", "json"]),
    ("costs.diff.txt", &["diff", "testdata/costs.json", "testdata/costs_later.json", "--format", "table"]),
    ("costs.diff.text.txt", &["diff", "testdata/costs.json", "testdata/costs_later.json", "--format", "text"]),
    ("costs.diff.csv", &["diff", "testdata/costs.json", "testdata/costs_later.json", "--format", "csv"]),
    ("costs.diff.json", &["diff", "testdata/costs.json", "testdata/costs_later.json", "--format", "json"]),
    ("sglang_decode.text.txt", &["testdata/sglang_decode.json.gz", "--format", "text"]),
    ("sglang_decode.table.txt", &["testdata/sglang_decode.json.gz", "--format", "table"]),
    ("sglang_decode.json", &["testdata/sglang_decode.json.gz", "--format", "json"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The program's own version is the only part of an answer that may change by itself.
fn without_version(text: &str) -> String {
    text.replace(concat!("nccl-stacks ", env!("CARGO_PKG_VERSION")), "nccl-stacks VERSION")
}

#[test]
fn every_form_is_its_golden() {
    let folder = root().join("tests/golden");
    let update = std::env::var_os("UPDATE_GOLDENS").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for (name, args) in GOLDENS {
        let output = program().args(*args).current_dir(root()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        let (got, path) = (without_version(&stdout(&output)), folder.join(name));
        if update {
            std::fs::write(&path, &got).unwrap();
        }
        let want = std::fs::read_to_string(&path).unwrap_or_default();
        if got != want {
            let line = got.lines().zip(want.lines()).take_while(|(got, want)| got == want).count();
            let at = |text: &str| text.lines().nth(line).unwrap_or("nothing").to_owned();
            wrong.push(format!("{name}, line {}\n  golden: {}\n  now:    {}", line + 1, at(&want), at(&got)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nIf this is as it should be: UPDATE_GOLDENS=1 cargo test --test program forms, then read git diff tests/golden",
        wrong.join("\n")
    );
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let known = GOLDENS.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(files.collect::<BTreeSet<_>>(), known.collect(), "every golden is used");
}

fn json(args: &[&str]) -> Value {
    json_of(&[args, &["--format", "json"]].concat())
}

/// The table of stacks in `testdata/README.md`, in its units: µs and GB/s.
struct Costs {
    caller: &'static str,
    count: u64,
    /// GPU time, mean, median, p95, min, max.
    time: [f64; 6],
    exposed: f64,
    /// Sum, median, p95, min and max of the launches' queue delays.
    delay: Option<[f64; 5]>,
    collective: &'static str,
    /// In 10^6 bytes: the smallest and the largest, and the number of kernels.
    megabytes: Option<(u64, u64, u64)>,
    /// Algbw, busbw, and the busbw of the fastest.
    bandwidth: Option<[f64; 3]>,
}

const COSTS: [Costs; 6] = [
    Costs {
        caller: "model.py(50): backward",
        count: 4,
        time: [500.0, 125.0, 100.0, 200.0, 100.0, 200.0],
        exposed: 200.0,
        delay: Some([60.0, 20.0, 20.0, 0.0, 20.0]),
        collective: r#"{"all_reduce":4}"#,
        megabytes: Some((10, 20, 4)),
        bandwidth: Some([120.0, 180.0, 300.0]),
    },
    Costs {
        caller: "decode.py(30): replay",
        count: 2,
        time: [30.0, 15.0, 15.0, 20.0, 10.0, 20.0],
        exposed: 20.0,
        delay: None,
        collective: r#"{"all_reduce":2}"#,
        megabytes: None,
        bandwidth: None,
    },
    Costs {
        caller: "model.py(20): forward",
        count: 2,
        time: [160.0, 80.0, 80.0, 100.0, 60.0, 100.0],
        exposed: 160.0,
        delay: Some([20.0, 10.0, 10.0, 10.0, 10.0]),
        collective: r#"{"all_gather":2}"#,
        megabytes: Some((16, 16, 2)),
        bandwidth: Some([200.0, 150.0, 200.0]),
    },
    Costs {
        caller: "pipeline.py(40): exchange",
        count: 2,
        time: [50.0, 25.0, 25.0, 40.0, 10.0, 40.0],
        exposed: 50.0,
        delay: Some([10.0, 5.0, 5.0, 5.0, 5.0]),
        collective: r#"{"send":2}"#,
        megabytes: Some((8, 8, 1)),
        bandwidth: Some([200.0, 200.0, 200.0]),
    },
    Costs {
        caller: "moe.py(60): dispatch",
        count: 1,
        time: [30.0; 6],
        exposed: 30.0,
        delay: Some([5.0; 5]),
        collective: r#"{"alltoall":1}"#,
        megabytes: Some((10, 10, 1)),
        bandwidth: Some([1000.0 / 3.0, 250.0, 250.0]),
    },
    Costs {
        caller: "optimizer.py(70): step",
        count: 1,
        time: [80.0; 6],
        exposed: 60.0,
        delay: Some([30.0; 5]),
        collective: r#"{"reduce_scatter":1}"#,
        megabytes: Some((32, 32, 1)),
        bandwidth: Some([400.0, 300.0, 300.0]),
    },
];

/// Some fields of an object, as numbers.
fn numbers<const N: usize>(object: &Value, fields: [&str; N]) -> [f64; N] {
    fields.map(|field| object[field].as_f64().unwrap_or_else(|| panic!("{field} of {object}")))
}

fn assert_near<const N: usize>(got: [f64; N], want: [f64; N], what: &str) {
    assert!(
        got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-9 * want.max(1.0)),
        "{what}: {got:?}, {want:?}"
    );
}

#[test]
fn costs_are_those_worked_out_by_hand() {
    let answer = json(&[&testdata("costs.json"), "--sort", "count"]);
    let stacks = answer["stacks"].as_array().unwrap();
    assert_eq!(stacks.len(), COSTS.len());
    for (stack, want) in stacks.iter().zip(&COSTS) {
        let (cost, messages) = (&stack["cost"], &stack["messages"]);
        assert_eq!((&stack["frames"][0], &stack["frames"][1]), (&"train.py(10): main".into(), &want.caller.into()));
        assert_eq!(stack["count"], want.count);
        let time = numbers(&cost["gpu_time"], ["total_ns", "mean_ns", "median_ns", "p95_ns", "min_ns", "max_ns"]);
        assert_near(time, want.time.map(|us| us * 1e3), want.caller);
        let rest = [want.exposed, want.time[0] - want.exposed].map(|us| us * 1e3);
        assert_near(numbers(cost, ["exposed_ns", "overlapped_ns"]), rest, want.caller);
        assert_near(numbers(cost, ["share_of_window"]), [want.time[0] / 2000.0], want.caller);
        match want.delay {
            None => assert!(cost["queue_delay"].is_null()),
            Some(delay) => {
                let got = numbers(&cost["queue_delay"], ["total_ns", "median_ns", "p95_ns", "min_ns", "max_ns"]);
                assert_near(got, delay.map(|us| us * 1e3), want.caller);
            }
        }
        assert_eq!(messages["collectives"].to_string(), want.collective);
        match want.megabytes {
            None => assert!(messages["bytes"].is_null()),
            Some((min, max, kernels)) => {
                let want_bytes = [min as f64 * 1e6, max as f64 * 1e6, kernels as f64];
                assert_near(numbers(&messages["bytes"], ["min", "max", "kernels"]), want_bytes, want.caller);
            }
        }
        match want.bandwidth {
            None => assert!(messages["bandwidth"].is_null()),
            Some(bandwidth) => {
                let fields = ["algorithm_gb_per_s", "bus_gb_per_s", "best_bus_gb_per_s"];
                assert_near(numbers(&messages["bandwidth"], fields), bandwidth, want.caller);
            }
        }
    }
    let first = &stacks[0]["cost"];
    assert_near(numbers(&first["gpu_time"], ["std_dev_ns"]), [50_000.0], "times of the first stack");
    assert_near(numbers(&first["queue_delay"], ["std_dev_ns"]), [10_000.0], "delays of the first stack");
    let group = &stacks[3]["messages"]["groups"][0];
    assert_eq!(group.to_string(), r#"{"description":"pp","kernels":1,"name":"7","ranks":"[0, 1]","size":2}"#);
    let fields = ["wall_ns", "busy_ns", "compute_ns", "collectives_ns", "exposed_ns"];
    let want = [2000.0, 1180.0, 650.0, 860.0, 530.0].map(|us| us * 1e3);
    assert_near(numbers(&answer["summary"], fields), want, "the window");
    assert_eq!(answer["coverage"]["attributed_by"].to_string(), r#"{"correlation":10,"graph-replay":2}"#);
    assert_eq!(answer["coverage"]["without_launch"]["before-trace"]["count"], 1);
    let kernels = rows(&testdata("costs.json"), "kernels", &[]);
    let number = |row: &Value, column: &str| row[column].as_f64().unwrap();
    let kernels: Vec<[f64; 2]> =
        kernels.iter().map(|row| [number(row, "Instances"), number(row, "Total Time (ns)") / 1e3]).collect();
    assert_eq!(kernels, [[6.0, 650.0], [7.0, 540.0], [2.0, 160.0], [1.0, 80.0], [3.0, 80.0]]);
}

#[test]
fn orders_and_limits() {
    let trace = testdata("costs.json");
    let callers = |args: &[&str]| -> Vec<String> {
        let answer = json(&[&[trace.as_str()], args].concat());
        let stacks = answer["stacks"].as_array().unwrap().iter();
        stacks.map(|stack| stack["frames"][1].as_str().unwrap().split('.').next().unwrap().to_owned()).collect()
    };
    assert_eq!(callers(&["--sort", "count"]), ["model", "decode", "model", "pipeline", "moe", "optimizer"]);
    // Equal ones stay in the order of their counts.
    assert_eq!(callers(&["--sort", "gpu"]), ["model", "model", "optimizer", "pipeline", "decode", "moe"]);
    assert_eq!(callers(&["--sort", "exposed"]), ["model", "model", "optimizer", "pipeline", "moe", "decode"]);
    assert_eq!(callers(&["--sort", "mean"]), ["model", "model", "optimizer", "moe", "pipeline", "decode"]);
    // Of 850 in all, 160 are 18.8 % and 80 are 9.4 %.
    assert_eq!(callers(&["--min-share", "9.5"]), ["model", "model"]);
    assert_eq!(callers(&["--min-share", "9.4%", "--sort", "mean"]), ["model", "model", "optimizer"]);
    let limited = json(&[&trace, "--sort", "gpu", "--limit", "2"]);
    let left_out = (&limited["stacks_found"], &limited["kernels_left_out"], &limited["coverage"]["kernels"]);
    assert_eq!(left_out, (&6.into(), &6.into(), &13.into()));
}

/// The stacks of folded output as its readers split them: frames, then a blank, then the weight.
fn folded(args: &[&str]) -> Vec<(Vec<String>, u64)> {
    let text = stdout_of(&[args, &["--format", "folded"]].concat());
    let stack = |line: &str| {
        let (frames, weight) = line.rsplit_once(' ').unwrap();
        (frames.split(';').map(str::to_owned).collect(), weight.parse().unwrap())
    };
    text.lines().map(stack).collect()
}

/// The total that inferno writes into its picture of a text.
fn total_of_inferno(text: &str) -> u64 {
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut flamegraph::Options::default(), text.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let (_, rest) = svg.split_once("total_samples=\"").unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn folded_stacks_are_read_by_inferno() {
    let trace = testdata("costs.json");
    for (weight, weights) in [
        ("count", vec![4, 2, 2, 2, 1, 1, 1]),
        ("gpu", vec![500_000, 30_000, 160_000, 50_000, 30_000, 80_000, 10_000]),
        ("exposed", vec![200_000, 20_000, 160_000, 50_000, 30_000, 60_000, 10_000]),
    ] {
        let args = [trace.as_str(), "--sort", "count", "--weight", weight];
        let found: Vec<u64> = folded(&args).into_iter().map(|(_, weight)| weight).collect();
        assert_eq!(found, weights);
        let text = stdout(&run(&[&args[..], &["--format", "folded"]].concat()));
        assert_eq!(total_of_inferno(&text), weights.iter().sum::<u64>());
    }
}

/// A trace with one stack of these names, outermost first, and an operator of the last name that a kernel belongs to.
fn named(callers: &[&str], operator: &str) -> (tempfile::TempDir, String) {
    let caller = |(at, name): (usize, &&str)| {
        format!(r#""ph":"X","name":"{name}","cat":"cpu_op","pid":9,"tid":9,"ts":{at},"dur":{}"#, 100 - 2 * at)
    };
    let mut events: Vec<String> = callers.iter().enumerate().map(caller).collect();
    events.push(format!(
        r#""ph":"X","name":"{operator}","cat":"cpu_op","pid":9,"tid":9,"ts":40,"dur":5,"args":{{"External id":7}}"#
    ));
    events.push(
        r#""ph":"X","name":"ncclX 7","cat":"kernel","pid":0,"tid":7,"ts":60,"dur":2,"args":{"External id":7}"#
            .to_owned(),
    );
    trace_of(&events)
}

#[test]
fn names_that_folded_text_cannot_hold_are_replaced() {
    let (_folder, trace) = named(&["a;b c", r"new\nline 5", "naïve <&> \\\"name\\\""], "op 12");
    let stacks = folded(&[&trace]);
    let want = ["a:b c", r"new\nline ", "naïve <&> \"name\"", "op 12", "ncclX_7"];
    assert_eq!(stacks, [(want.map(str::to_owned).to_vec(), 2000)]);
    assert_eq!(total_of_inferno(&stdout(&run(&[&trace, "--format", "folded"]))), 2000);
    let picture = svg(&[&trace, "--exact-names"]);
    let (texts, _) = read_xml(&picture);
    for name in ["a:b c", r"new\nline 5", "naïve <&> \"name\"", "op 12", "ncclX_7"] {
        assert!(texts.iter().any(|text| text.starts_with(&format!("{name} ("))), "{name}: {texts:?}");
    }
}

fn svg(args: &[&str]) -> String {
    stdout_of(&[args, &["--format", "svg"]].concat())
}

/// The texts of an XML document, and its number of elements. Fails if a tag is not closed, or closed by another.
fn read_xml(text: &str) -> (Vec<String>, usize) {
    let mut reader = quick_xml::Reader::from_str(text);
    let (mut texts, mut elements, mut open, mut current) = (Vec::new(), 0, 0_i32, String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(_) => (elements, open, current) = (elements + 1, open + 1, String::new()),
            Event::Empty(_) => elements += 1,
            Event::Text(part) => current.push_str(&part.decode().unwrap()),
            Event::GeneralRef(name) => current.push_str(match &*name.decode().unwrap() {
                "lt" => "<",
                "gt" => ">",
                "amp" => "&",
                "quot" => "\"",
                "apos" => "'",
                other => panic!("&{other};"),
            }),
            Event::End(_) => {
                open -= 1;
                texts.push(std::mem::take(&mut current));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0, "all elements are closed");
    (texts, elements)
}

#[test]
fn pictures_are_xml_with_all_names_and_the_same_every_time() {
    for trace in ["costs.json", "sglang_decode.json.gz", "replay/trace.json", "forward_backward.json"] {
        let path = testdata(trace);
        let picture = svg(&[&path, "--weight", "count"]);
        assert_eq!(picture, svg(&[&path, "--weight", "count"]), "{trace}");
        let (texts, elements) = read_xml(&picture);
        assert!(elements > 10, "{trace}");
        for (frames, _) in folded(&[&path, "--weight", "count"]) {
            for frame in frames {
                assert!(texts.iter().any(|text| text.starts_with(&format!("{frame} ("))), "{trace}: {frame}");
            }
        }
        assert!(texts.iter().any(|text| text == "Call stacks by kernels"), "{texts:?}");
    }
}

#[test]
fn speedscope_files_keep_the_formats_rules() {
    for trace in ["costs.json", "sglang_decode.json.gz", "replay/trace.json", "evidence.json"] {
        let path = testdata(trace);
        for (active, weight) in ["count", "gpu", "exposed"].into_iter().enumerate() {
            let output = run(&[&path, "--format", "speedscope", "--weight", weight]);
            let file: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
            assert_eq!((&file["activeProfileIndex"], file["profiles"].as_array().unwrap().len()), (&active.into(), 3));
            let frames = file["shared"]["frames"].as_array().unwrap();
            let names: BTreeSet<&str> = frames.iter().map(|frame| frame["name"].as_str().unwrap()).collect();
            assert_eq!(names.len(), frames.len(), "{trace}: each frame is there once");
            for (profile, weight) in file["profiles"].as_array().unwrap().iter().zip(["count", "gpu", "exposed"]) {
                let (samples, weights) =
                    (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
                assert_eq!((samples.len(), &profile["type"]), (weights.len(), &"sampled".into()));
                let total: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
                assert_eq!((&profile["startValue"], &profile["endValue"]), (&0.into(), &total.into()));
                assert_eq!(profile["unit"], if weight == "count" { "none" } else { "nanoseconds" });
                // The same stacks with the same weights as in the other form, which another parser reads.
                let frame = |index: &Value| names_at(frames, index).replace(';', ":");
                let stack = |sample: &Value| sample.as_array().unwrap().iter().map(frame).collect::<Vec<_>>();
                let pairs = samples.iter().map(stack).zip(weights.iter().map(|weight| weight.as_u64().unwrap()));
                let weighed: Vec<_> = pairs.filter(|(_, weight)| *weight > 0).collect();
                assert_eq!(weighed, folded(&[&path, "--weight", weight]), "{trace} {weight}");
            }
        }
    }
    let output = run(&[&testdata("costs.json"), "--format", "speedscope"]);
    let file: Value = serde_json::from_slice(&output.stdout).unwrap();
    let frame = file["shared"]["frames"].as_array().unwrap().iter().find(|frame| frame["line"] == 2900).unwrap();
    assert_eq!(frame["file"], "torch/distributed/distributed_c10d.py");
}

fn names_at<'a>(frames: &'a [Value], index: &Value) -> &'a str {
    let index = usize::try_from(index.as_u64().unwrap()).unwrap();
    frames.get(index).unwrap_or_else(|| panic!("frame {index} of {}", frames.len()))["name"].as_str().unwrap()
}

/// The verdict covers all stacks, however few are shown.
#[test]
fn the_headline_does_not_depend_on_what_is_shown() {
    let verdict = |flags: &[&str]| {
        let text = stdout(&run(&[&[testdata("costs.json").as_str()], flags].concat()));
        text.lines().take_while(|line| !line.starts_with("- ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = verdict(&[]);
    assert!(all.len() == 2 && all[1].starts_with("Collectives take "), "{all:?}");
    for flags in [&["--limit", "1"][..], &["--sort", "mean", "--limit", "2"], &["--min-share", "50"]] {
        assert_eq!(verdict(flags), all, "{flags:?}");
    }
}

/// Impossible numbers are unknown: a group of no ranks, more bytes than there are.
#[test]
fn impossible_collective_info_is_unknown() {
    let of = |ranks: &str, elements: &str| {
        let record = format!(
            r#""Collective name":"allreduce","dtype":"Double","In msg nelems":{elements},"Out msg nelems":{elements},"Group size":{ranks}"#
        );
        let (_folder, trace) = trace_of(&[
            r#""ph":"X","name":"launch","cat":"cuda_runtime","pid":9,"tid":9,"ts":10,"dur":1,"args":{"correlation":1}"#,
            &format!(
                r#""ph":"X","name":"ncclX","cat":"kernel","pid":0,"tid":7,"ts":20,"dur":2,"args":{{"correlation":1,{record}}}"#
            ),
        ]);
        json(&[&trace])["stacks"][0]["messages"].clone()
    };
    let whole = of("4", "1000");
    assert_eq!((&whole["bytes"]["max"], &whole["bandwidth"]["bus_gb_per_s"]), (&8000.into(), &6.0.into()));
    for (ranks, elements) in [("0", "1000"), ("4", "9000000000000000000"), ("4", "-1"), ("-4", "1000")] {
        let messages = of(ranks, elements);
        // What a rank gives is known without its group.
        assert_eq!(messages["bytes"]["max"] == 8000, elements == "1000", "{ranks} {elements}: {messages}");
        assert!(messages["bandwidth"].is_null(), "{ranks} {elements}: {messages}");
        assert_eq!(messages["collectives"]["all_reduce"], 1, "{messages}");
    }
}
