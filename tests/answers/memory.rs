//! `nccl-stacks memory`: answers that were worked out by hand, and real traces against an independent walk of the JSON.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::program::{run, scratch, stderr, stdout, testdata};
use crate::support::{read_text, shared};

fn answer(path: &str) -> Value {
    let output = run(&["memory", path, "--format", "json", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The peaks of the made trace, as `testdata/README.md` works them out.
#[test]
fn peaks_are_those_worked_out_by_hand() {
    for name in ["metadata_pytorch.json", "metadata_xsigma.json"] {
        let found = answer(&testdata(name));
        assert_eq!(found["events"], 29, "{name}");
        let gpu = &found["devices"][0];
        assert_eq!(gpu["name"], "CUDA 0");
        // Seven in each step, all given back in it: 116,000 and 136,000 bytes.
        for (field, want) in [
            ("events", 28),
            ("allocations", 14),
            ("releases", 14),
            ("allocated_bytes", 252_000),
            ("released_bytes", 252_000),
            ("unknown_releases", 0),
            ("other_size_releases", 0),
            ("overwritten", 0),
            ("unsteady", 0),
            ("alive_at_end", 0),
        ] {
            assert_eq!(gpu[field], want, "{name}: {field}");
        }
        assert_eq!(
            (&gpu["peak_allocated"]["bytes"], &gpu["peak_reserved"]["bytes"]),
            (&json!(1_136_000), &json!(4_000_000))
        );
        let held = &gpu["held"];
        assert_eq!(
            (&held["bytes"], &held["before_bytes"], &held["stacks_found"]),
            (&json!(136_000), &json!(1_000_000), &json!(5))
        );
        // Names of modules are folded: Linear_0, 2 and 3 are one stack, Linear_1 has `aten::linear` around it.
        assert_eq!(held["stacks"][0]["bytes"], 100_000, "{name}");
        if name == "metadata_pytorch.json" {
            let step = |step: &Value| {
                (step["name"].clone(), step["peak_allocated"]["bytes"].clone(), step["peak_reserved"]["bytes"].clone())
            };
            let steps: Vec<_> = gpu["steps"].as_array().unwrap().iter().map(step).collect();
            let want = |name: &str, allocated: u32, reserved: u32| (json!(name), json!(allocated), json!(reserved));
            assert_eq!(
                steps,
                [want("ProfilerStep#3", 1_116_000, 2_000_000), want("ProfilerStep#4", 1_136_000, 4_000_000)]
            );
        }
    }
}

#[test]
fn what_does_not_fit_together_is_counted() {
    let event = |(at, args): (usize, &str)| {
        format!(
            r#"{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":1,"ts":{at},"args":{{{args}}}}}"#
        )
    };
    let events: Vec<String> = [
        r#""Addr":1,"Bytes":-5,"Total Allocated":95,"Total Reserved":200"#,
        r#""Addr":2,"Bytes":10,"Total Allocated":105,"Total Reserved":200"#,
        r#""Addr":2,"Bytes":20,"Total Allocated":125,"Total Reserved":200"#,
        r#""Addr":2,"Bytes":-21,"Total Allocated":99,"Total Reserved":300"#,
        r#""Addr":3,"Bytes":7"#,
        r#""Bytes":7"#,
        r#""Addr":"x","Bytes":"many""#,
    ]
    .into_iter()
    .enumerate()
    .map(event)
    .collect();
    let (_folder, path) = scratch("memory.json", format!("[{}]", events.join(",")).as_bytes());
    let found = answer(&path);
    assert_eq!((&found["events"], &found["incomplete"]), (&json!(7), &json!(2)));
    assert_eq!(found["malformed"][0], json!({"key": "Addr", "count": 1, "examples": ["x"]}));
    assert_eq!(found["malformed"][1], json!({"key": "Bytes", "count": 1, "examples": ["many"]}));
    let device = &found["devices"][0];
    // The release of 21 is of 20; the total after it is one of 26.
    for (field, want) in [
        ("unknown_releases", 1),
        ("unknown_released_bytes", 5),
        ("overwritten", 1),
        ("other_size_releases", 1),
        ("unsteady", 1),
        ("alive_at_end", 1),
        ("alive_at_end_bytes", 7),
    ] {
        assert_eq!(device[field], want, "{field}");
    }
    assert_eq!(device["peak_allocated"], json!({"bytes": 125, "ts_ns": 2_000}));
    assert_eq!(device["peak_reserved"], json!({"bytes": 300, "ts_ns": 3_000}));
    assert_eq!((&device["held"]["bytes"], &device["held"]["before_bytes"]), (&json!(20), &json!(105)));
    let (_folder, path) =
        scratch("none.json", br#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":70,"dur":1}]"#);
    assert_eq!(run(&["memory", &path]).status.code(), Some(3));
}

/// Ranks in containers of their own have equal numbers of processes.
#[test]
fn ranks_with_one_pid_are_distinguished() {
    let mut tar = tar::Builder::new(Vec::new());
    let event = |bytes: u32| {
        format!(
            r#"[{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":9,"tid":9,"ts":1,"args":{{"Addr":1,"Bytes":{bytes},"Device Type":1,"Device Id":0}}}}]"#
        )
    };
    for (name, bytes) in [("rank0.json", 64), ("rank1.json", 32)] {
        let (mut header, event) = (tar::Header::new_ustar(), event(bytes));
        header.set_size(event.len() as u64);
        tar.append_data(&mut header, name, event.as_bytes()).unwrap();
    }
    let (_folder, path) = scratch("ranks.tar", &tar.into_inner().unwrap());
    let found = answer(&path);
    let row = |device: &Value| (device["trace"].clone(), device["pid"].clone(), device["allocated_bytes"].clone());
    let rows: Vec<_> = found["devices"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(rows, [(json!("rank0.json"), json!(9), json!(64)), (json!("rank1.json"), json!(9), json!(32)),]);
    let shown = stdout(&run(&["memory", &path, "--quiet"]));
    assert!(shown.contains("\nCUDA 0 of process 9 in rank1.json: 1 allocation"), "{shown}");
    let csv = stdout(&run(&["memory", &path, "--quiet", "--format", "csv"]));
    assert!(csv.contains("\nrank1.json,9,CUDA 0,32,"), "{csv}");
}

/// Sums and peaks by walking the events; what is freed is what was allocated.
#[test]
fn real_traces_are_as_in_the_json() {
    let Some(shared) = shared() else { return };
    for (name, events) in [
        ("TraceLens__h100_nsfw_small", 620),
        ("TraceLens__mi_sglang_capture_bs32", 1_014),
        ("TraceLens__mi_vllm_capture", 1_184),
    ] {
        let path = shared.join(format!("traces/{name}.json.gz"));
        let found = answer(path.to_str().unwrap());
        let json: Value = serde_json::from_str(&read_text(&path)).unwrap();
        let mut all: Vec<&Value> =
            json["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "[memory]").collect();
        all.sort_by(|a, b| a["ts"].as_f64().unwrap().total_cmp(&b["ts"].as_f64().unwrap()));
        assert_eq!((all.len(), &found["events"]), (events, &json!(events)), "{name}");
        let mut by_device: BTreeMap<(i64, i64), Vec<&Value>> = BTreeMap::new();
        for event in all {
            let number = |key: &str| event["args"][key].as_i64().unwrap();
            by_device.entry((number("Device Type"), number("Device Id"))).or_default().push(event);
        }
        assert_eq!(found["devices"].as_array().unwrap().len(), by_device.len(), "{name}");
        for ((kind, id), events) in by_device {
            let devices = found["devices"].as_array().unwrap().iter();
            let device =
                devices.clone().find(|device| device["device_type"] == kind && device["device_id"] == id).unwrap();
            let number = |event: &Value, key: &str| event["args"][key].as_i64().unwrap();
            let first = number(events[0], "Total Allocated") - number(events[0], "Bytes");
            let (mut total, mut alive) = (first, BTreeMap::new());
            let (mut peak, mut held) = (i64::MIN, 0);
            for event in events {
                let bytes = number(event, "Bytes");
                total += bytes;
                assert_eq!(number(event, "Total Allocated"), total, "{name}: totals are running sums");
                let address = event["args"]["Addr"].as_u64().unwrap();
                if bytes > 0 {
                    assert_eq!(alive.insert(address, bytes), None, "{name}");
                } else {
                    assert_eq!(alive.remove(&address), Some(-bytes), "{name}");
                }
                if total > peak {
                    (peak, held) = (total, alive.values().sum());
                }
            }
            assert_eq!(device["peak_allocated"]["bytes"], peak, "{name}");
            assert_eq!(
                (&device["held"]["bytes"], &device["held"]["before_bytes"]),
                (&json!(held), &json!(first)),
                "{name}"
            );
            let stacks = device["held"]["stacks"].as_array().unwrap();
            assert_eq!(stacks.iter().map(|stack| stack["bytes"].as_i64().unwrap()).sum::<i64>(), held, "{name}");
            assert!(stacks.iter().all(|stack| !stack["headline"].is_null()), "{name}");
            for field in ["unsteady", "unknown_releases", "other_size_releases", "overwritten", "alive_at_end"] {
                assert_eq!(device[field], 0, "{name}: {field}");
            }
        }
    }
}
