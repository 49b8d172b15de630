//! The queries about memory: answers that were worked out by hand, and real traces against an independent walk of the JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::pack::tar_of;
use crate::support::program::{has, rows, run, scratch, stderr_of, stdout, testdata};
use crate::support::{read_text, shared};

/// The peaks of the made trace, as `testdata/README.md` works them out.
#[test]
fn peaks_are_those_worked_out_by_hand() {
    for name in ["metadata_pytorch.json", "metadata_xsigma.json"] {
        let path = testdata(name);
        let devices = rows(&path, "memory", &[]);
        let gpu = &devices[0];
        assert_eq!(gpu["device"], "CUDA 0");
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
            ("incomplete", 0),
            ("alive_at_end", 0),
            ("peak_allocated", 1_136_000),
            ("peak_reserved", 4_000_000),
            ("held_bytes", 136_000),
            ("before_bytes", 1_000_000),
        ] {
            assert_eq!(gpu[field], want, "{name}: {field}");
        }
        assert_eq!((devices.len(), &devices[1]["events"]), (2, &json!(1)));
        let stacks = rows(&path, "memory_stacks", &[]);
        assert_eq!(stacks.iter().filter(|row| row["device"] == "CUDA 0").count(), 5);
        // Names of modules are folded: Linear_0, 2 and 3 are one stack, Linear_1 has `aten::linear` around it.
        assert_eq!(stacks[0]["bytes"], 100_000, "{name}");
        if name == "metadata_pytorch.json" {
            let steps = rows(&path, "memory_steps", &[]).into_iter().filter(|row| row["device"] == "CUDA 0");
            let steps: Vec<_> =
                steps.map(|row| json!([row["step"], row["peak_allocated"], row["peak_reserved"]])).collect();
            assert_eq!(
                steps,
                [json!(["ProfilerStep#3", 1_116_000, 2_000_000]), json!(["ProfilerStep#4", 1_136_000, 4_000_000])]
            );
        }
    }
}

/// Of each device, as many call paths as are asked for.
#[test]
fn the_largest_stacks_of_each_device_can_be_chosen() {
    let path = testdata("metadata_pytorch.json");
    let stacks = rows(&path, "memory_stacks", &["--param", "stacks=2"]);
    let stacks: Vec<_> = stacks.iter().map(|row| (&row["device"], &row["bytes"])).collect();
    let row = |device: &str, bytes: u32| (json!(device), json!(bytes));
    let want = [row("CUDA 0", 100_000), row("CUDA 0", 20_000), row("CPU", 512)];
    assert_eq!(stacks, want.iter().map(|(device, bytes)| (device, bytes)).collect::<Vec<_>>());
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
    let found = rows(&path, "memory_malformed", &[]);
    assert_eq!(found[0], json!({"key": "Addr", "count": 1, "examples": "[\"x\"]"}));
    assert_eq!(found[1], json!({"key": "Bytes", "count": 1, "examples": "[\"many\"]"}));
    let device = &rows(&path, "memory", &[])[0];
    // The release of 21 is of 20; the total after it is one of 26.
    for (field, want) in [
        ("events", 5),
        ("incomplete", 2),
        ("unknown_releases", 1),
        ("unknown_released_bytes", 5),
        ("overwritten", 1),
        ("other_size_releases", 1),
        ("unsteady", 1),
        ("alive_at_end", 1),
        ("alive_at_end_bytes", 7),
        ("peak_allocated", 125),
        ("peak_allocated_ts", 2_000),
        ("peak_reserved", 300),
        ("peak_reserved_ts", 3_000),
        ("held_bytes", 20),
        ("before_bytes", 105),
    ] {
        assert_eq!(device[field], want, "{field}");
    }
    let (_folder, path) =
        scratch("none.json", br#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":70,"dur":1}]"#);
    let said = stderr_of(&["sql", &path, "--query", "memory"], 3);
    assert!(said.ends_with("which the profiler records with profile_memory=True.\n"), "{said}");
}

/// Ranks in containers of their own have equal numbers of processes.
#[test]
fn ranks_with_one_pid_are_distinguished() {
    let event = |bytes: u32| {
        format!(
            r#"[{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":9,"tid":9,"ts":1,"args":{{"Addr":1,"Bytes":{bytes},"Device Type":1,"Device Id":0}}}}]"#
        )
    };
    let tar = tar_of(&[("rank0.json", event(64).as_bytes()), ("rank1.json", event(32).as_bytes())]);
    let (_folder, path) = scratch("ranks.tar", &tar);
    let devices = rows(&path, "memory", &[]);
    let devices: Vec<_> = devices.iter().map(|row| json!([row["trace"], row["pid"], row["allocated_bytes"]])).collect();
    assert_eq!(devices, [json!(["rank0.json", 9, 64]), json!(["rank1.json", 9, 32])]);
    let of = |form: &str, query: &str| stdout(&run(&["sql", &path, "--query", query, "--format", form, "--quiet"]));
    let shown = of("table", "memory");
    has(&shown, "\nrank1.json        9  CUDA 0       1            1       32 B");
    let csv = of("csv", "memory_stacks");
    has(&csv, "\n\"rank1.json\",9,\"CUDA 0\",32,");
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
        let path_text = path.to_str().unwrap();
        let (found, stacks) = (rows(path_text, "memory", &[]), rows(path_text, "memory_stacks", &[]));
        let json: Value = serde_json::from_str(&read_text(&path)).unwrap();
        let mut all: Vec<&Value> =
            json["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "[memory]").collect();
        all.sort_by(|a, b| a["ts"].as_f64().unwrap().total_cmp(&b["ts"].as_f64().unwrap()));
        let counted: i64 = found.iter().map(|row| row["events"].as_i64().unwrap()).sum();
        assert_eq!((all.len(), counted), (events, events as i64), "{name}");
        let mut by_device: BTreeMap<(i64, i64), Vec<&Value>> = BTreeMap::new();
        for event in all {
            let number = |key: &str| event["args"][key].as_i64().unwrap();
            by_device.entry((number("Device Type"), number("Device Id"))).or_default().push(event);
        }
        assert_eq!(found.len(), by_device.len(), "{name}");
        for ((kind, id), events) in by_device {
            let device = found.iter().find(|row| row["device_type"] == kind && row["device_id"] == id).unwrap();
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
            assert_eq!(device["peak_allocated"], peak, "{name}");
            assert_eq!((&device["held_bytes"], &device["before_bytes"]), (&json!(held), &json!(first)), "{name}");
            let stacks: Vec<&Value> = stacks.iter().filter(|row| row["device"] == device["device"]).collect();
            assert_eq!(stacks.iter().map(|stack| stack["bytes"].as_i64().unwrap()).sum::<i64>(), held, "{name}");
            assert!(stacks.iter().all(|stack| !stack["headline"].is_null()), "{name}");
            for field in ["unsteady", "unknown_releases", "other_size_releases", "overwritten", "alive_at_end"] {
                assert_eq!(device[field], 0, "{name}: {field}");
            }
        }
    }
}
