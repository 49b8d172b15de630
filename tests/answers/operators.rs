//! The queries about operators: answers that were worked out by hand, and real traces against an independent walk of the JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::program::{rows, run, scratch, stderr_of, stdout, testdata};
use crate::support::{read_text, shared};

/// Calls of one function in steps of 100 µs, each with a launch in its middle and a kernel of 10 µs. `args` are those of the operators; an empty
/// one has no kernel.
fn trace(operators: &[(&str, &str, u32)]) -> Vec<u8> {
    let mut events = vec![
        r#"{"ph":"X","cat":"python_function","name":"model.py(7): forward","pid":1,"tid":1,"ts":0,"dur":100000}"#
            .to_owned(),
    ];
    for (at, (name, args, kernel)) in operators.iter().enumerate() {
        let ts = 100 * (at + 1);
        events.push(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":50,"args":{args}}}"#
        ));
        if *kernel > 0 {
            events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{at}}}}}"#,
                ts + 10
            ));
            events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":{kernel},"args":{{"correlation":{at}}}}}"#,
                ts + 20
            ));
        }
    }
    format!("[{}]", events.join(",")).replace(r#""correlation":0"#, r#""correlation":999"#).into_bytes()
}

/// Such a trace as a file, as long as the folder is kept.
fn of_operators(operators: &[(&str, &str, u32)]) -> (tempfile::TempDir, String) {
    scratch("operators.json", &trace(operators))
}

/// The only row of `operators`.
fn totals(path: &str) -> Value {
    rows(path, "operators", &[]).swap_remove(0)
}

#[test]
fn a_size_that_varies_is_named() {
    let mm = |m: u32| {
        format!(
            r#"{{"Input Dims":[[{m},8],[8,{m}],[]],"Input type":["float","float","Scalar"],"Input Strides":[[8,1],[{m},1],[]]}}"#
        )
    };
    let (two, three) = (mm(2), mm(3));
    let (_folder, path) =
        of_operators(&[("aten::mm", &two, 10), ("aten::mm", &two, 20), ("aten::mm", &three, 70), ("aten::t", &two, 0)]);
    let found = rows(&path, "operator_shapes", &[]);
    assert_eq!(found.len(), 1, "{found:#?}");
    let row = &found[0];
    for (field, want) in [
        ("operator", json!("aten::mm")),
        ("calls", json!(3)),
        ("shapes", json!(2)),
        ("gpu_ns", json!(100_000)),
        ("headline", json!("model.py(7): forward")),
        ("most_frequent_calls", json!(2)),
        ("most_frequent_gpu_ns", json!(30_000)),
        ("most_costly_dims", json!("[[3, 8], [8, 3], []]")),
        ("varying_sizes", json!(1)),
        ("varies_at", json!("[0][0] = [1][1]")),
        ("varies_from", json!(2)),
        ("varies_to", json!(3)),
    ] {
        assert_eq!(row[field], want, "{field}");
    }
    let all = totals(&path);
    assert_eq!((&all["kernels"], &all["kernels_below"], &all["operators"]), (&json!(3), &json!(3), &json!(4)));
    assert!(rows(&path, "operator_layouts", &[]).is_empty());
}

/// A kernel belongs to the innermost operator with arguments, and a collective's record is none.
#[test]
fn kernels_count_once() {
    let events = r#"[
{"ph":"X","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":0,"dur":100,"args":{"Input Dims":[[2]],"Input type":["float"]}},
{"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":10,"dur":80,"args":{"Input Dims":[[3]],"Input type":["float"]}},
{"ph":"X","cat":"cpu_op","name":"bare","pid":1,"tid":1,"ts":20,"dur":60,"args":{}},
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":30,"dur":40,"args":{"Input Dims":[[3]],"Input type":["float"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":40,"dur":5,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":60,"dur":9,"args":{"correlation":1}},
{"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":200,"dur":80,"args":{"Input Dims":[[4]],"Input type":["float"]}},
{"ph":"X","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":300,"dur":80,"args":{"Input Dims":[[4]],"Input type":["float"]}},
{"ph":"X","cat":"kernel","name":"alone","pid":0,"tid":7,"ts":70,"dur":1,"args":{"correlation":2}}]"#;
    let (_folder, path) = scratch("nested.json", events.as_bytes());
    let found = rows(&path, "operator_shapes", &[]);
    let found: Vec<_> = found.iter().map(|row| (&row["operator"], &row["gpu_ns"])).collect();
    assert_eq!(found, [(&json!("inner"), &json!(9_000))]);
    let all = totals(&path);
    assert_eq!((&all["kernels"], &all["gpu_ns"]), (&json!(2), &json!(10_000)));
    assert_eq!((&all["kernels_below"], &all["gpu_below_ns"]), (&json!(1), &json!(9_000)));
    assert_eq!((&all["operators"], &all["with_dims"]), (&json!(6), &json!(5)));
}

#[test]
fn layouts_scalars_counters_and_what_cannot_be_read() {
    let transposed = r#"{"Input Dims":[[3,2],[3,2],[1,4,2,2],[]],"Input type":["float","float","float","Scalar"],
"Input Strides":[[1,3],[1,3],[16,1,8,4],[]],"Concrete Inputs":["","","","0.5"],"instructions":300,"cycles":100,"branch_misses":3,
"cache_misses":1,"cache_references":4,"Module Hierarchy":"model.a"}"#;
    let other = r#"{"Input Dims":"[[3, 2], [3, 2], [1, 4, 2, 2], []]","Input type":"['float', 'float', 'float', 'Scalar']",
"Input Strides":"[[1, 3], [2, 1], [16, 1, 8, 4], []]","Concrete Inputs":"['', '', '', '-2']","instructions":"100","cycles":"300",
"Module Hierarchy":"model.a"}"#;
    let broken = r#"{"Input Dims":"[[3, 2","Input type":["float"],"Input Strides":7,"cycles":"many"}"#;
    let (_folder, path) = of_operators(&[("f", transposed, 10), ("f", other, 5), ("g", broken, 1)]);
    let layouts = rows(&path, "operator_layouts", &[]);
    let layouts: Vec<_> =
        layouts.iter().map(|row| json!([row["inputs"], row["layout"], row["calls"], row["gpu_ns"]])).collect();
    assert_eq!(layouts, [json!(["0, 1", "permuted", 1, 10_000]), json!(["0", "permuted", 1, 5_000])]);
    let all = totals(&path);
    assert_eq!((&all["channels_last"], &all["channels_last_gpu_ns"]), (&json!(2), &json!(15_000)));
    let scalar = &rows(&path, "operator_values", &[])[0];
    let found = ["input", "values", "min", "max", "gpu_ns"].map(|key| &scalar[key]);
    assert_eq!(json!(found), json!([3, 2, -2, 0.5, 15_000]));
    let counters = rows(&path, "operator_counters", &[]);
    assert_eq!(counters.iter().filter(|row| row["what"] == "operator").count(), 1, "{counters:?}");
    assert_eq!(counters[0]["instructions"], 400);
    // 400 / 400; of the calls that have both: 1 / 4, and 3 in 300 instructions.
    let shares = ["ipc", "cache_miss_rate", "branch_misses_per_1000_instructions"].map(|key| &counters[0][key]);
    assert_eq!(json!(shares), json!([1.0, 0.25, 10.0]));
    assert_eq!((&counters[1]["what"], &counters[1]["name"]), (&json!("module"), &json!("model.a")));
    let row = |key: &str, example: &str| json!({"key": key, "count": 1, "examples": json!([example]).to_string()});
    assert_eq!(
        rows(&path, "operator_malformed", &[]),
        [row("Input Dims", "[[3, 2"), row("Input Strides", "7"), row("cycles", "many")]
    );
}

/// A counter includes all that the thread did until the operator ended: what is nested in one of its name, or of its module, counts once.
#[test]
fn nested_counters_count_once() {
    let events = r#"[
{"ph":"X","cat":"cpu_op","name":"f","pid":1,"tid":1,"ts":0,"dur":100,"args":{"cycles":70,"Module Hierarchy":"m"}},
{"ph":"X","cat":"cpu_op","name":"bare","pid":1,"tid":1,"ts":5,"dur":90,"args":{}},
{"ph":"X","cat":"cpu_op","name":"f","pid":1,"tid":1,"ts":10,"dur":30,"args":{"cycles":20,"Module Hierarchy":"n"}},
{"ph":"X","cat":"cpu_op","name":"g","pid":1,"tid":1,"ts":50,"dur":30,"args":{"cycles":30,"Module Hierarchy":"m"}}]"#;
    let (_folder, path) = scratch("counters.json", events.as_bytes());
    let found = rows(&path, "operator_counters", &[]);
    let found: Vec<_> =
        found.iter().map(|row| json!([row["what"], row["name"], row["calls"], row["cycles"]])).collect();
    assert_eq!(
        found,
        [
            json!(["operator", "f", 1, 70]),
            json!(["operator", "g", 1, 30]),
            json!(["module", "m", 1, 70]),
            json!(["module", "n", 1, 20]),
        ]
    );
}

/// The end of `aten::slice` is 2^63 - 1 by default, which is no `f64`.
#[test]
fn whole_numbers_are_exact() {
    let slice = |end: &str| {
        format!(r#"{{"Input Dims":[[4],[]],"Input type":["float","Scalar"],"Concrete Inputs":["","{end}"]}}"#)
    };
    let (first, last) = (slice("9223372036854775806"), slice("9223372036854775807"));
    let (_folder, path) = scratch("ends.json", &trace(&[("aten::slice", &first, 10), ("aten::slice", &last, 10)]));
    let scalar = &rows(&path, "operator_values", &[])[0];
    assert_eq!((&scalar["min"], &scalar["max"]), (&json!(i64::MAX - 1), &json!(i64::MAX)));
}

/// A tensor without dimensions has no sizes, and its trace may have no row of `Input Dims`.
#[test]
fn tensors_without_dimensions_are_shown() {
    let fill = |kind: &str| format!(r#"{{"Input Dims":[[],[]],"Input type":["{kind}","Scalar"]}}"#);
    let (float, double) = (fill("float"), fill("double"));
    let (_folder, path) = scratch("fill.json", &trace(&[("f", &float, 10), ("f", &double, 20), ("f", &float, 5)]));
    let shapes = |path: &str| {
        let row = rows(path, "operator_shapes", &[]).swap_remove(0);
        let field = |field: &str| row[field].clone();
        json!([
            field("most_frequent_calls"),
            field("most_frequent_shape"),
            field("most_costly_calls"),
            field("most_costly_shape")
        ])
    };
    assert_eq!(shapes(&path), json!([2, "float, Scalar", 1, "double, Scalar"]));
    let all = totals(&path);
    assert_eq!((&all["operators"], &all["with_dims"], &all["with_strides"]), (&json!(3), &json!(3), &json!(0)));
    let scalars = r#"{"Input Dims":[[],[],[]],"Input type":["Scalar","ScalarList",""]}"#;
    let list = r#"{"Input Dims":[[]],"Input type":["TensorList"]}"#;
    let (_folder, path) = scratch("none.json", &trace(&[("f", scalars, 5), ("f", scalars, 5), ("f", list, 20)]));
    assert_eq!(shapes(&path), json!([2, "Scalar, ScalarList, None", 1, "TensorList"]));
    let (_folder, path) =
        scratch("untyped.json", &trace(&[("f", r#"{"Input Dims":"[[]]"}"#, 10), ("f", r#"{"Input Dims":[[2]]}"#, 5)]));
    assert_eq!(shapes(&path), json!([1, "None", 1, "None"]));
}

/// A long text that is no list, and one that is no counter, are counted for each call and shown in part.
#[test]
fn long_texts_are_shown_in_part() {
    let long = "x".repeat(5_000);
    let args = format!(r#"{{"Input Dims":"{long}","cycles":"{long}"}}"#);
    let (_folder, path) = of_operators(&[("f", &args, 0), ("g", &args, 0)]);
    let examples = json!([format!("{}…", "x".repeat(80))]).to_string();
    let row = |key: &str| json!({"key": key, "count": 2, "examples": examples});
    assert_eq!(rows(&path, "operator_malformed", &[]), [row("Input Dims"), row("cycles")]);
}

/// All queries, each with its heading; where nothing was recorded they are empty.
#[test]
fn what_was_not_recorded_is_none() {
    let (_folder, path) = scratch("bare.json", &trace(&[("f", "{}", 10)]));
    let names = [
        "operators",
        "operator_shapes",
        "operator_layouts",
        "operator_values",
        "operator_counters",
        "operator_malformed",
    ];
    let queries = names.map(|name| ["--query", name]).concat();
    let output = run(&[&["sql", &path, "--quiet", "--format", "table"], &queries[..]].concat());
    let text = stdout(&output);
    let (first, rest) = text.split_once("\n\n").unwrap();
    let numbers: Vec<&str> = first.lines().last().unwrap().split_whitespace().collect();
    // One operator; one kernel of 10 µs, none below an operator with arguments; no key.
    assert_eq!(numbers.join(" "), "1 1 10.0 µs 0 0 ns 0.0 % 0 0 0 0 0 0 0 ns");
    assert_eq!(
        rest,
        "Operators with several shapes, which are the sizes and types of all inputs:\nnone\n\n\
         Inputs of operators that are not contiguous:\nnone\n\n\
         Inputs of operators that are neither tensors nor lists, and whose values differ between calls from one call path:\nnone\n\n\
         Hardware counters, summed by operator and by module:\nnone\n\n\
         Inputs and counters of operators that do not fit their keys, and so are in no other answer:\nnone\n"
    );
    let (_folder, path) =
        scratch("none.json", br#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":70,"dur":1}]"#);
    let said = stderr_of(&["sql", &path, "--query", "operators"], 3);
    assert!(said.ends_with("Nothing found: the window has no operator.\n"), "{said}");
}

/// Calls, shapes and GPU time in ns.
type Row = (u64, BTreeSet<String>, i64);

/// Row by row, without gaps; dimensions of one element and empty tensors do not count.
fn is_contiguous(dims: &[i64], strides: &[i64]) -> bool {
    let mut step = 1;
    dims.contains(&0)
        || dims.iter().zip(strides).rev().filter(|(dim, _)| **dim != 1).all(|(dim, stride)| {
            let fits = *stride == step;
            step *= dim;
            fits
        })
}

fn is_channels_last(dims: &[i64], strides: &[i64]) -> bool {
    let last = |of: &[i64]| [of[0], of[2], of[3], of[1]];
    dims.len() == 4 && is_contiguous(&last(dims), &last(strides))
}

fn ns(event: &Value, key: &str) -> i64 {
    (event[key].as_f64().unwrap() * 1_000.0).round() as i64
}

/// Calls and GPU time by operator, sizes and strides.
type Layouts = BTreeMap<(String, String, String), (u64, i64)>;

/// The same questions, asked of the JSON: a launch belongs to the operator that began last of those around it on its thread.
fn walk(path: &Path) -> (BTreeMap<String, Row>, Layouts) {
    let json: Value = serde_json::from_str(&read_text(path)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |categories: &'static [&str]| {
        events.iter().filter(move |event| event["ph"] == "X" && categories.iter().any(|one| event["cat"] == *one))
    };
    let has_arguments = |event: &&Value| event["args"]["Input type"].as_array().is_some_and(|list| !list.is_empty());
    let operators: Vec<&Value> = of(&["cpu_op"]).filter(has_arguments).collect();
    // Found by thousands of kernels: looked up in the JSON once.
    let places: Vec<_> = operators
        .iter()
        .map(|event| {
            let start = ns(event, "ts");
            (start, start + ns(event, "dur"), [&event["pid"], &event["tid"]], event["name"] == "record_param_comms")
        })
        .collect();
    let mut gpu = vec![0; operators.len()];
    let launches: BTreeMap<u64, &Value> = of(&["cuda_runtime", "cuda_driver"])
        .filter_map(|event| Some((event["args"]["correlation"].as_u64()?, event)))
        .collect();
    for kernel in of(&["kernel"]) {
        let Some(launch) = kernel["args"]["correlation"].as_u64().and_then(|id| launches.get(&id)) else { continue };
        let start = ns(launch, "ts");
        let thread = [&launch["pid"], &launch["tid"]];
        let around = |at: &usize| {
            let (begin, end, of_thread, is_comms) = places[*at];
            begin <= start && start < end && of_thread == thread && !is_comms
        };
        if let Some(at) = (0..operators.len()).filter(around).max_by_key(|at| places[*at].0) {
            gpu[at] += ns(kernel, "dur");
        }
    }
    let (mut shapes, mut layouts) = (BTreeMap::<String, Row>::new(), Layouts::new());
    for (operator, gpu) in operators.into_iter().zip(gpu) {
        let (name, args) = (operator["name"].as_str().unwrap(), &operator["args"]);
        let row = shapes.entry(name.to_owned()).or_default();
        row.0 += 1;
        row.1.insert(format!("{} {}", args["Input Dims"], args["Input type"]));
        row.2 += gpu;
        let tensors = args["Input Dims"].as_array().unwrap().iter().zip(args["Input Strides"].as_array().unwrap());
        let mut odd = BTreeSet::new();
        for (dims, strides) in tensors {
            let is_list = dims.as_array().is_some_and(|dims| dims.first().is_some_and(Value::is_array));
            let pairs: Vec<(&Value, &Value)> = match is_list {
                true => dims.as_array().unwrap().iter().zip(strides.as_array().unwrap()).collect(),
                false => vec![(dims, strides)],
            };
            for (dims, strides) in pairs {
                let numbers = |list: &Value| serde_json::from_value::<Vec<i64>>(list.clone()).unwrap();
                let (dims, strides) = (numbers(dims), numbers(strides));
                if !is_contiguous(&dims, &strides) && !is_channels_last(&dims, &strides) {
                    odd.insert((name.to_owned(), format!("{dims:?}"), format!("{strides:?}")));
                }
            }
        }
        for tensor in odd {
            let of = layouts.entry(tensor).or_default();
            *of = (of.0 + 1, of.1 + gpu);
        }
    }
    (shapes, layouts)
}

#[test]
fn real_traces_are_as_in_the_json() {
    let Some(shared) = shared() else { return };
    for (name, fewest) in [("TraceLens__h100_nsfw_small", 2), ("lora-dev-script__sglang_tp4_A_mixed_rank0", 8)] {
        let path = shared.join(format!("traces/{name}.json.gz"));
        let (shapes, layouts) = walk(&path);
        let path = path.to_str().unwrap();
        let mut want: Vec<(String, u64, u64, i64)> = shapes
            .into_iter()
            .filter(|(_, (_, shapes, gpu))| shapes.len() > 1 && *gpu > 0)
            .map(|(name, (calls, shapes, gpu))| (name, calls, shapes.len() as u64, gpu))
            .collect();
        let row = |row: &Value| {
            let number = |key: &str| row[key].as_i64().unwrap();
            let name = row["operator"].as_str().unwrap().to_owned();
            (name, number("calls") as u64, number("shapes") as u64, number("gpu_ns"))
        };
        let mut got: Vec<_> = rows(path, "operator_shapes", &[]).iter().map(row).collect();
        want.sort();
        got.sort();
        assert_eq!(got, want, "{name}");
        assert!(want.len() >= fewest, "{name}: {}", want.len());
        let mut got = Layouts::new();
        for row in rows(path, "operator_layouts", &[]) {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            let key = (text("operator"), text("dims"), text("strides"));
            let of = got.entry(key).or_default();
            *of = (of.0 + row["calls"].as_u64().unwrap(), of.1 + row["gpu_ns"].as_i64().unwrap());
        }
        let want: Layouts = layouts.into_iter().filter(|(_, (_, gpu))| *gpu > 0).collect();
        assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>(), "{name}");
        // Calls with several such inputs are in rows of their own, as are those without kernels.
        for (key, (calls, gpu)) in &want {
            assert_eq!(got[key].1, *gpu, "{name}: {key:?}");
            assert!(got[key].0 <= *calls, "{name}: {key:?}");
        }
        assert!(want.len() > 5, "{name}: {}", want.len());
    }
}

/// What `testdata/README.md` works out.
#[test]
fn the_made_traces_are_answered_as_worked_out() {
    for (name, more) in [("metadata_pytorch.json", 0), ("metadata_xsigma.json", 75_000)] {
        let path = testdata(name);
        assert_eq!(totals(&path)["gpu_ns"], json!(3_620_000 + more), "{name}");
        let row = |query: &str, name: &str| -> Value {
            rows(&path, query, &[]).into_iter().find(|row| row["operator"] == name).unwrap_or_default()
        };
        // Three shapes of 1, 1 and 1 calls: 10, 12 and 8 µs.
        let pad = row("operator_shapes", "aten::constant_pad_nd");
        assert_eq!((&pad["calls"], &pad["shapes"], &pad["gpu_ns"]), (&json!(3), &json!(3), &json!(30_000)), "{name}");
        assert_eq!(pad["most_costly_dims"], "[[4, 117], [], []]", "{name}");
        let varies = json!([pad["varying_sizes"], pad["varies_at"], pad["varies_from"], pad["varies_to"]]);
        assert_eq!(varies, json!([1, "[0][1]", 90, 117]), "{name}");
        let addmm = row("operator_layouts", "aten::addmm");
        assert_eq!((&addmm["calls"], &addmm["gpu_ns"]), (&json!(2), &json!(800_000)), "{name}");
        assert_eq!((&addmm["inputs"], &addmm["strides"]), (&json!("1"), &json!("[1, 128]")), "{name}");
        let counted = rows(&path, "operator_counters", &[]);
        let addmm = counted.iter().find(|row| row["name"] == "aten::addmm").unwrap();
        assert_eq!(addmm["instructions"], 12_000_000, "{name}");
        assert_eq!((&addmm["ipc"], &addmm["cache_miss_rate"]), (&json!(4.0 / 3.0), &json!(0.41)), "{name}");
        assert_eq!(addmm["branch_misses_per_1000_instructions"], json!(5.0 / 3.0), "{name}");
        assert!(rows(&path, "operator_malformed", &[]).is_empty(), "{name}");
    }
    let path = testdata("metadata_hostile.json");
    let hostile = totals(&path);
    assert_eq!(json!(["operators", "kernels", "gpu_ns"].map(|key| &hostile[key])), json!([32, 32, 160_000]));
    let malformed = rows(&path, "operator_malformed", &[]);
    let keys: Vec<&Value> = malformed.iter().map(|row| &row["key"]).collect();
    assert_eq!(keys, ["Concrete Inputs", "Input Dims", "Input Strides", "Input type", "cache_misses"], "{malformed:?}");
}
