//! What `describe` says of files: hand-worked values of small traces, an independent walk over the JSON of real ones, the hints where
//! something is missing, and what it does with files that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::program::{ended, has, json_of, run, scratch, stderr, stderr_of, stdout, testdata, trace_of};
use serde_json::{Value, json};

/// The descriptions of some files, as JSON.
fn described(args: &[&str]) -> Value {
    json_of(&[&["describe", "--quiet", "--json"], args].concat())
}

fn trace(path: &str) -> Value {
    described(&[path])["files"][0]["trace"].clone()
}

/// The answer of a question: whether it can be asked, and of how many of how many.
fn answer(of: &Value, name: &str) -> (String, u64, u64) {
    let answer = question(of, name);
    let number = |key: &str| answer[key].as_u64().unwrap();
    (answer["possible"].as_str().unwrap().to_owned(), number("have"), number("of"))
}

fn question<'a>(of: &'a Value, name: &str) -> &'a Value {
    let mut answers = of["answers"].as_array().unwrap().iter();
    answers.find(|answer| answer["name"] == name).unwrap_or_else(|| panic!("no question {name}"))
}

fn turn_on(of: &Value, name: &str) -> Vec<String> {
    serde_json::from_value(question(of, name)["turn_on"].clone()).unwrap()
}

fn is(possible: &str, have: u64, of: u64) -> (String, u64, u64) {
    (possible.to_owned(), have, of)
}

/// The numbers of `testdata/README.md`.
#[test]
fn small_traces_have_their_hand_worked_shares() {
    let server = trace(&testdata("sglang_decode.json.gz"));
    let about = json!([server["writer"], server["rank"]["rank"], server["world_size"]]);
    assert_eq!(about, json!(["kineto", 0, 4]));
    assert_eq!(server["steps"], json!([{"name": "ProfilerStep#", "count": 4}]));
    // Two replays of a graph with 60 kernels, of which 9 are collectives.
    assert_eq!(["collectives", "replayed", "graph_launches"].map(|key| server[key].as_u64().unwrap()), [36, 120, 2]);
    assert_eq!(answer(&server, "size"), is("partly", 18, 36));
    assert_eq!(answer(&server, "graph-capture"), is("no", 0, 120));
    assert_eq!(answer(&server, "ranks"), is("yes", 36, 36));
    assert_eq!(question(&server, "module")["lacking"], json!({"replayed": 120}));

    // Five collectives and three other kernels. Capture 1 has the call paths of the four kernels of its graph, capture 4 that of a node.
    let replay = trace(&testdata("replay/trace.json"));
    assert_eq!((&replay["kernels"], &replay["collectives"], &replay["replayed"]), (&8.into(), &5.into(), &8.into()));
    assert_eq!(answer(&replay, "graph-capture"), is("partly", 5, 8));

    // Two operators for each of four nodes; three nodes have pairs.
    let pass = trace(&testdata("forward_backward.json"));
    assert_eq!(answer(&pass, "forward-backward"), is("partly", 6, 8));
    assert_eq!(answer(&pass, "backward-stack"), is("partly", 3, 4));
    assert_eq!(answer(&pass, "exposed"), is("no", 0, 5));

    // One launched before the recording, two of a graph, and one send that nothing recorded have no size.
    let costs = trace(&testdata("costs.json"));
    assert_eq!(answer(&costs, "size"), is("partly", 9, 13));
    assert_eq!(question(&costs, "size")["lacking"], json!({"before": 1, "others": 1, "replayed": 2}));
    assert_eq!(answer(&costs, "exposed"), is("yes", 13, 13));
}

/// Keys that are there with an empty list or null count as there; those within a value, or in the name, do not.
#[test]
fn keys_count_if_they_are_there() {
    let (_folder, path) = trace_of(&[
        r#""ph":"X","name":"a","cat":"cpu_op","pid":1,"tid":1,"ts":0,"dur":9,"args":{"Input Dims":[],"Concrete Inputs":null}"#,
        r#""ph":"X","name":"Input Strides","cat":"cpu_op","pid":1,"tid":1,"ts":10,"dur":9,"args":{"kwargs":"\"Input Dims\""}"#,
        r#""ph":"X","name":"c","cat":"Operator","pid":1,"tid":1,"ts":20,"dur":9,"args":{"Input dims":[[2]],"cycles":7}"#,
        r#""ph":"X","name":"d","cat":"user_annotation","pid":1,"tid":1,"ts":30,"dur":9,"args":{"Input Dims":[[1]]}"#,
        r#""ph":"i","s":"t","name":"[memory]","cat":"cpu_instant_event","pid":1,"tid":1,"ts":31,"args":{"Bytes":4}"#,
    ]);
    let of = trace(&path);
    assert_eq!(answer(&of, "shape"), is("partly", 2, 3));
    assert_eq!(answer(&of, "layout"), is("no", 0, 3));
    assert_eq!(answer(&of, "concrete-inputs"), is("partly", 1, 3));
    assert_eq!(answer(&of, "counters"), is("yes", 1, 1));
    assert_eq!(answer(&of, "memory"), is("yes", 1, 1));
    assert_eq!(answer(&of, "annotations"), is("yes", 1, 1));
    // Shapes were recorded, so that they are not advised.
    assert_eq!((turn_on(&of, "shape"), question(&of, "layout")["was_on"].as_str()), (vec![], Some("record_shapes")));
    assert_eq!(turn_on(&of, "launch"), ["activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"]);
}

/// A flag that is 0 is off, an empty name is none, and numbers of versions are read as their vendors write them.
#[test]
fn headers_are_read_as_they_are() {
    let header = r#"{"schemaVersion": 1, "torch_version": "2.9.1", "with_stack": 0, "record_shapes": 1, "cuda_runtime_version": 12090,
        "hip_driver_version": "60443483", "host_name": "node7", "trace_id": "",
        "deviceProperties": [{"name": "A"}, {"name": ""}, {"name": "A"}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.28.9",
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8}, {"pg_name": "1", "pg_desc": "undefined"}]},
        "traceEvents": [{"ph":"X","name":"aten::mm","cat":"cpu_op","pid":1,"tid":1,"ts":0,"dur":5,"args":{}}]}"#;
    let (_folder, path) = scratch("header.json", header.as_bytes());
    let of = trace(&path);
    let version = |v: &Value| format!("{} {}", v["of"].as_str().unwrap(), v["version"].as_str().unwrap());
    let versions: Vec<String> = of["versions"].as_array().unwrap().iter().map(version).collect();
    let want = ["PyTorch 2.9.1", "CUDA runtime 12.9", "HIP driver 6.4.43483", "NCCL 2.28.9", "Kineto schema 1"];
    assert_eq!(versions, want);
    assert_eq!(of["flags"], json!(["record_shapes"]));
    let about = json!([of["host"], of["trace_id"], of["rank"]]);
    assert_eq!(about, json!(["node7", null, {"rank": 3, "from": "header"}]));
    assert_eq!(of["gpus"], json!([{"name": "A", "count": 2}, {"name": null, "count": 1}]));
    let second = json!({"name": "1", "description": null, "size": null});
    assert_eq!((of["groups"].as_array().unwrap().len(), &of["groups"][1]), (2, &second));
    // With the flag on, shapes are not advised again; stacks are.
    assert_eq!((question(&of, "shape")["was_on"].as_str(), turn_on(&of, "shape").len()), (Some("record_shapes"), 0));
    assert_eq!(turn_on(&of, "python-stack")[1], "with_stack=True");
}

/// A machine of many models has a line, not a page.
#[test]
fn many_names_of_gpus_are_counted_in_their_order() {
    let names = (0..200).map(|at| format!(r#"{{"name":"G{}"}}"#, 70 - at % 71));
    let names = names.collect::<Vec<_>>().join(",");
    let header = format!(r#"{{"schemaVersion":1,"traceEvents":[],"deviceProperties":[{names}]}}"#);
    let (_folder, path) = scratch("gpus.json", header.as_bytes());
    let of = trace(&path);
    let gpus = of["gpus"].as_array().unwrap();
    assert_eq!((gpus.len(), &gpus[0]), (71, &json!({"name": "G70", "count": 3})));
    assert_eq!(gpus[70], json!({"name": "G0", "count": 2}));
    let text = stdout(&run(&["describe", "--quiet", &path]));
    assert!(text.contains("3 × G70, 3 × G69") && text.contains(", and 63 more"), "{text}");
}

#[test]
fn writers_are_known_by_what_is_in_the_file() {
    let slice = |more: &str| format!(r#"{{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":5{more}}}"#);
    let name = r#"{"ph":"M","name":"process_name","pid":1,"args":{"name":"a"}}"#;
    for (text, writer) in [
        (format!(r#"{{"traceEvents":[{}],"displayTimeUnit":"ns"}}"#, slice("")), "xplane"),
        // Without slices nothing shows that they have no categories.
        (format!(r#"{{"traceEvents":[{name}],"displayTimeUnit":"ns"}}"#), "chrome"),
        (format!(r#"{{"traceEvents":[{}],"displayTimeUnit":"ns","schemaVersion":1}}"#, slice("")), "kineto"),
        (format!(r#"{{"traceEvents":[{}]}}"#, slice(r#","cat":"cpu_op""#)), "kineto-events"),
        (format!("[{}]", slice(r#","cat":"io""#)), "chrome"),
    ] {
        let (_folder, path) = scratch("writer.json", text.as_bytes());
        assert_eq!(trace(&path)["writer"], writer, "{text}");
    }
    let Some(shared) = crate::support::shared() else { return };
    let real = |name: &str| shared.join(name).to_str().unwrap().to_owned();
    assert_eq!(trace(&real("traces/tokio__small.pftrace"))["writer"], "perfetto");
    let report = described(&[&real("records/nsys/mfu_2gpu_before.sqlite.gz")]);
    let files = report["files"].as_array().unwrap();
    assert_eq!((files.len(), &files[0]["trace"]["writer"]), (2, &"nsight-systems".into()));
    assert!(turn_on(&report["files"][0]["trace"], "steps")[0].contains("nvtx"));
    let merged = trace(&real("traces/HPCTrainingExamples__rccl_only_merged.json.gz"));
    assert_eq!((&merged["ranks"], answer(&merged, "exposed")), (&json!([0, 1, 2, 3]), is("no", 0, 84)));
}

/// What a trace is, counted by walking through its JSON.
#[derive(Default)]
struct Walk {
    slices: BTreeMap<Option<String>, u64>,
    operators: u64,
    keys: BTreeMap<&'static str, u64>,
    kernels: u64,
    launched: u64,
    replayed: u64,
    memory: u64,
    sized: u64,
    steps: u64,
}

fn walk(path: &Path) -> Walk {
    let text = crate::support::read_text(path);
    let whole: Value = serde_json::from_str(&text).unwrap();
    let events = whole["traceEvents"].as_array().unwrap();
    let mut walk = Walk::default();
    let is_call = |event: &Value| matches!(event["cat"].as_str(), Some("cuda_runtime" | "cuda_driver"));
    let correlation = |event: &Value| event["args"]["correlation"].as_i64();
    let calls: BTreeSet<i64> = events.iter().filter(|e| is_call(e)).filter_map(correlation).collect();
    let is_graph = |event: &&Value| event["name"].as_str().is_some_and(|name| name.ends_with("GraphLaunch"));
    let graphs: BTreeSet<i64> = events.iter().filter(|e| is_call(e)).filter(is_graph).filter_map(correlation).collect();
    for event in events.iter().filter(|event| matches!(event["ph"].as_str(), Some("X" | "i"))) {
        let category = event["cat"].as_str();
        *walk.slices.entry(category.map(str::to_owned)).or_default() += 1;
        walk.memory += u64::from(event["name"] == "[memory]");
        walk.steps += u64::from(event["name"].as_str().is_some_and(|name| {
            category == Some("user_annotation") && (name.starts_with("ProfilerStep#") || name.starts_with("step["))
        }));
        match category {
            Some("cpu_op") => {
                walk.operators += 1;
                for key in ["Input Dims", "Input Strides", "Concrete Inputs"] {
                    *walk.keys.entry(key).or_default() += u64::from(event["args"].get(key).is_some());
                }
            }
            Some("kernel") => {
                walk.kernels += 1;
                let id = correlation(event).unwrap();
                walk.launched += u64::from(calls.contains(&id));
                walk.replayed += u64::from(graphs.contains(&id));
                let has = |key: &str| event["args"].get(key).is_some();
                walk.sized +=
                    u64::from(["In msg nelems", "Out msg nelems", "dtype", "Group size"].iter().all(|key| has(key)));
            }
            _ => {}
        }
    }
    walk
}

#[test]
fn shares_of_real_traces_are_those_of_an_independent_walk() {
    let Some(shared) = crate::support::shared() else { return };
    for name in [
        "lora-dev-script__sglang_tp4_A_mixed_rank0",
        "TraceLens__mi300_ddp_resnet_rank0",
        "HTA__nccl_data_a100",
        "TraceLens__mi_vllm_graph_execution",
    ] {
        let path = shared.join("traces").join(format!("{name}.json.gz"));
        let (of, walk) = (trace(path.to_str().unwrap()), walk(&path));
        let slices = of["slices"].as_array().unwrap().iter();
        let slices: BTreeMap<Option<String>, u64> =
            slices.map(|of| (of["category"].as_str().map(str::to_owned), of["count"].as_u64().unwrap())).collect();
        assert_eq!(slices, walk.slices, "{name}");
        let share = |question: &str| {
            let (_, have, of) = answer(&of, question);
            (have, of)
        };
        for (question, key) in
            [("shape", "Input Dims"), ("layout", "Input Strides"), ("concrete-inputs", "Concrete Inputs")]
        {
            assert_eq!(share(question), (walk.keys[key], walk.operators), "{name}: {key}");
        }
        assert_eq!(share("launch"), (walk.launched, walk.kernels), "{name}");
        assert_eq!(share("graph-capture").1, walk.replayed, "{name}");
        assert_eq!(share("memory").0, walk.memory, "{name}");
        // Only a kernel's own arguments are walked here; a record above the launch counts as well.
        assert!(share("size").0 >= walk.sized, "{name}");
        assert!(share("size").0 > 0 || walk.sized == 0, "{name}");
        let steps: u64 = of["steps"].as_array().unwrap().iter().map(|step| step["count"].as_u64().unwrap()).sum();
        assert!(walk.steps == 0 || steps == walk.steps, "{name}: {steps} and {}", walk.steps);
    }
}

/// What each of these lacks is what its recording left out.
#[test]
fn traces_with_something_missing_get_the_right_hint() {
    let Some(shared) = crate::support::shared() else { return };
    let real = |name: &str| trace(shared.join("traces").join(name).to_str().unwrap());

    let shapes = real("HTA__nccl_data_a100.json.gz");
    assert_eq!(answer(&shapes, "shape"), is("no", 0, 14_346));
    assert_eq!(turn_on(&shapes, "shape"), ["record_shapes=True"]);
    assert_eq!(turn_on(&shapes, "python-stack"), ["with_stack=True"]);

    let gpu = real("TraceLens__mi210_gpu_only.json.gz");
    assert_eq!(gpu["missing"][0]["category"], "cpu_op");
    assert_eq!(turn_on(&gpu, "operator"), ["ProfilerActivity.CPU among the activities"]);
    // The header says that shapes were asked for: there were no operators to have them.
    assert_eq!(turn_on(&gpu, "shape"), ["ProfilerActivity.CPU among the activities"]);
    assert_eq!(answer(&gpu, "launch"), is("yes", 562, 562));

    let graph = real("TraceLens__mi_vllm_graph_execution.json.gz");
    assert_eq!(answer(&graph, "graph-capture"), is("no", 0, 421));
    assert!(turn_on(&graph, "graph-capture")[0].contains("--capture-trace"));
    assert_eq!(question(&graph, "memory")["was_on"], "profile_memory");
    assert!(turn_on(&graph, "memory").is_empty() && turn_on(&graph, "module").is_empty());
    let capture = shared.join("traces/TraceLens__mi_vllm_capture.json.gz");
    let execution = shared.join("traces/TraceLens__mi_vllm_graph_execution.json.gz");
    let both = described(&[execution.to_str().unwrap(), "--capture-trace", capture.to_str().unwrap()]);
    let (_, captured, replayed) = answer(&both["files"][0]["trace"], "graph-capture");
    assert!(captured > 0 && replayed == 421, "{captured} of {replayed}");

    // All of these are replayed: no version of PyTorch would have recorded them.
    let replayed = real("lora-dev-script__sglang_tp4_F_decode_lora_rank0.json.gz");
    assert_eq!(answer(&replayed, "size"), is("no", 0, 490));
    assert_eq!(question(&replayed, "size")["lacking"], json!({"replayed": 490}));
    assert!(matches!(&turn_on(&replayed, "size")[..], [only] if only.contains("--records")));

    let old = real("kineto__resnet50_2021_bare_array.json.gz");
    assert_eq!(old["writer"], "kineto-events");
    assert_eq!(answer(&old, "shape"), is("yes", 42_438, 42_438));
    assert_eq!(turn_on(&old, "python-stack"), ["with_stack=True"]);
    let layout = (question(&old, "layout")["was_on"].as_str(), turn_on(&old, "layout").len());
    assert_eq!(layout, (Some("record_shapes"), 0));

    let other = real("HTA__mtia_inference.json.gz");
    assert_eq!((answer(&other, "launch").0.as_str(), turn_on(&other, "launch")), ("no", vec![]));
}

/// A file of a trace with a header and with events as they are in braces.
fn file_of(header: &str, events: &[&str]) -> (tempfile::TempDir, String) {
    let events: Vec<String> = events.iter().map(|event| format!("{{{event}}}")).collect();
    let text = format!(r#"{{"schemaVersion":1,{header},"traceEvents":[{}]}}"#, events.join(","));
    scratch("trace.json", text.as_bytes())
}

fn with_header(header: &str, events: &[&str]) -> Value {
    let (_folder, path) = file_of(header, events);
    trace(&path)
}

const OPERATOR: &str = r#""ph":"X","name":"aten::mm","cat":"cpu_op","pid":1,"tid":1,"ts":0,"dur":50,"args":{}"#;
const LAUNCH: &str = r#""ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":1}"#;
const KERNEL: &str = r#""ph":"X","name":"k","cat":"kernel","pid":0,"tid":7,"ts":60,"dur":9,"args":{"correlation":1,"device":0,"stream":7}"#;

/// What was on is named, and not advised again; what another setting leaves out is advised.
#[test]
fn hints_fit_what_was_on() {
    let hint = |of: &Value, name: &str| (question(of, name)["was_on"].as_str().map(str::to_owned), turn_on(of, name));
    let was = |flag: &str| (Some(flag.to_owned()), Vec::<String>::new());
    let vain = with_header(r#""record_shapes":1,"with_stack":1"#, &[OPERATOR, LAUNCH, KERNEL]);
    for (name, flag) in [
        ("python-stack", "with_stack"),
        ("module", "with_stack"),
        ("shape", "record_shapes"),
        ("layout", "record_shapes"),
        ("concrete-inputs", "record_shapes"),
    ] {
        assert_eq!((answer(&vain, name).0.as_str(), hint(&vain, name)), ("no", was(flag)), "{name}");
    }
    // A hang is shown by no trace, also not by one with kernels.
    let cpu = with_header(r#""with_stack":1"#, &[OPERATOR]);
    assert!(matches!(&turn_on(&cpu, "hang")[..], [only] if only.contains("TORCH_NCCL_TRACE_BUFFER_SIZE")));

    // Without a header, one operator with shapes shows that these were asked for.
    let newer = OPERATOR.replace("{}", r#"{"Input Dims":[[4]],"Input Strides":[[1]],"Concrete Inputs":[""]}"#);
    let newer = with_header(r#""a":1"#, &[&newer, OPERATOR, LAUNCH, KERNEL]);
    for name in ["shape", "layout", "concrete-inputs"] {
        assert_eq!((answer(&newer, name), hint(&newer, name)), (is("partly", 1, 2), was("record_shapes")), "{name}");
    }
    assert_eq!(hint(&newer, "python-stack"), (None, vec!["with_stack=True".to_owned()]));
}

/// The verdict on files, in one text. The text form begins with it.
fn verdict(args: &[&str]) -> String {
    let sentences: Vec<String> = serde_json::from_value(described(args)["verdict"].clone()).unwrap();
    let first = first_lines(&stdout(&run(&[&["describe", "--quiet"], args].concat())));
    assert_eq!(first, sentences.join(" "), "{args:?}");
    first
}

/// The lines before the first empty one, as one.
fn first_lines(text: &str) -> String {
    text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn verdict_on(header: &str, events: &[&str]) -> String {
    let (_folder, path) = file_of(header, events);
    verdict(&[&path])
}

#[test]
fn a_verdict_says_what_a_trace_is_and_what_to_turn_on_first() {
    let all = [OPERATOR, LAUNCH, KERNEL];
    let of_rank = "This is a trace of PyTorch's profiler (Kineto's JSON), rank 3 of 8, with 1 kernel and no collectives. It answers 2 of \
                   11 questions. Next time, first: record_shapes=True, for 3 more questions.";
    assert_eq!(verdict_on(r#""distributedInfo":{"rank":3,"world_size":8}"#, &all), of_rank);
    let both = "first: schedule=torch.profiler.schedule(…), with profiler.step() after each step, for 1 more question.";
    for (header, end) in [
        // What was on is not named, and of two that as many questions need the first.
        (r#""record_shapes":1"#, "Next time, first: with_stack=True, for 2 more questions."),
        (r#""record_shapes":1,"with_stack":1"#, both),
    ] {
        let said = verdict_on(header, &all);
        assert!(said.ends_with(end), "{said}");
    }
    // Without kernels, most questions need them.
    let cpu = verdict_on(r#""a":1"#, &[OPERATOR]);
    has(&cpu, ", without kernels of CUDA or ROCm. It answers none of ");
    has(&cpu, "first: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], for 1");
    let nccl = KERNEL.replace(r#""k""#, r#""ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)""#);
    has(&verdict_on(r#""a":1"#, &[OPERATOR, LAUNCH, &nccl]), ", with 1 collective and no other kernels.");
    let replay = ", with 8 kernels, 5 collectives among them. It answers 1 of 19 questions, and 3 in part.";
    has(&verdict(&[&testdata("replay/trace.json")]), replay);
}

/// A trace with all that its questions need, and the same without one thing.
#[test]
fn nothing_is_missing_only_where_nothing_is() {
    let operator =
        OPERATOR.replace("{}", r#"{"Input Dims":[[4]],"Input Strides":[[1]],"Concrete Inputs":[""],"cycles":7}"#);
    let all = [
        r#""ph":"X","name":"nn.Module: Linear_0","cat":"python_function","pid":1,"tid":1,"ts":0,"dur":80,"args":{"Python id":1}"#,
        r#""ph":"X","name":"ProfilerStep#1","cat":"user_annotation","pid":1,"tid":1,"ts":0,"dur":90,"args":{}"#,
        r#""ph":"i","s":"t","name":"[memory]","cat":"cpu_instant_event","pid":1,"tid":1,"ts":31,"args":{"Bytes":4}"#,
        &operator,
        LAUNCH,
        KERNEL,
    ];
    let less = [&all[..2], &all[3..]].concat();
    let nothing_else = "No other setting of the profiler adds to that.";
    for (header, events, answers, then) in [
        (r#""a":1"#, &all[..], "all 11", "Nothing is missing."),
        (r#""a":1"#, &less, "10 of 11", "Next time, first: profile_memory=True, for 1 more question."),
        // It was asked for: there is nothing else to turn on.
        (r#""profile_memory":1"#, &less, "10 of 11", nothing_else),
    ] {
        let said = verdict_on(header, events);
        assert!(said.ends_with(&format!("It answers {answers} questions. {then}")), "{said}");
    }
    let (_folder, path) = file_of(r#""a":1"#, &all);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{},{{\"ph\"", text.trim_end_matches("]}"))).unwrap();
    let cut = first_lines(&stdout(&ended(&["describe", "--quiet", &path], 6)));
    let begin = "The trace is cut off (copy it again, or record again), and how much is missing is unknown.";
    assert!(cut.starts_with(begin), "{cut}");
    assert!(cut.ends_with(&format!("It answers all 11 questions. {nothing_else}")), "{cut}");
}

#[test]
fn a_verdict_covers_all_files() {
    // A question that only one of two traces answers is answered in part.
    let folder = tempfile::tempdir().unwrap();
    for (name, args) in [("a.json", "{}"), ("b.json", r#"{"Input Dims":[[4]]}"#)] {
        let (_folder, path) = file_of(r#""a":1"#, &[&OPERATOR.replace("{}", args), LAUNCH, KERNEL]);
        std::fs::copy(path, folder.path().join(name)).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let two = "These are 2 traces. They answer 2 of 11 questions, and 1 in part. Next time, first: record_shapes=True, for 3 more questions.";
    assert_eq!(verdict(&[path]), two);
    std::fs::write(folder.path().join("c.json"), b"{\"other-tool\": []}").unwrap();
    assert_eq!(verdict(&[path]), format!("Left out: 1 file that cannot be read. {two}"));
    // What no profiler wrote is not asked.
    let other = testdata("begin_end_async.json");
    let sql = "with nccl-stacks sql: the other commands answer questions about traces of torch.profiler and exports of Nsight Systems.";
    let chrome = format!("This is a trace in Chrome's JSON, not from PyTorch's profiler. Query this trace {sql}");
    assert_eq!(verdict(&[&other]), chrome);
    assert_eq!(verdict(&[&other, &other]), format!("These are 2 traces. Query these traces {sql}"));
    let mixed = format!("These are 3 traces. Query 1 of them {sql} They answer 2 of 11 questions, and 1 in part.");
    has(&verdict(&[&other, path]), &mixed);

    let (server, records) = (testdata("sglang_decode.json.gz"), testdata("records/hang"));
    let more = "first: nccl-stacks record, for 3 more questions.";
    let alone = "These are NCCL's own records: PyTorch flight recorder. They answer 5 of 9 questions. Next time, ";
    assert_eq!(verdict(&[&records]), format!("{alone}{more}"));
    let job = verdict(&[&testdata("records/job")]);
    let both = "These are 2 traces and NCCL's own records. The traces answer 10 of 17 questions; the records answer 8 of 9 questions.";
    let begin = format!("Left out: 12 parts of records. {both} Next time, first: record_shapes=True");
    assert!(job.starts_with(&begin), "{job}");
    // Graphs replay what the sizes are missing of. Records have them, unless they are there.
    has(&verdict(&[&server]), "first: NCCL's own records of the same job");
    has(&verdict(&[&server, &records]), more);
    let Some(shared) = crate::support::shared() else { return };
    let nsys = verdict(&[shared.join("records/nsys/mfu_2gpu_before.sqlite.gz").to_str().unwrap()]);
    let end = "first: torch.profiler, which records what Nsight Systems does not, for 10 more questions.";
    assert!(nsys.ends_with(end), "{nsys}");
}

/// Collectives that no call is tied to say nothing of what the writer records.
#[test]
fn unlaunched_collectives_do_not_show_what_is_recorded() {
    let nccl = KERNEL.replace(r#""k""#, r#""ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)""#).replace(":60,", ":160,");
    let stray = nccl.replace(r#""correlation":1"#, r#""correlation":2"#);
    let late = LAUNCH.replace(r#""correlation":1"#, r#""correlation":3"#).replace(r#""ts":5"#, r#""ts":500"#);
    let of = with_header(r#""a":1"#, &[OPERATOR, LAUNCH, KERNEL, &stray, &late]);
    assert_eq!(answer(&of, "size"), is("no", 0, 1));
    for name in ["size", "group"] {
        assert!(turn_on(&of, name)[0].contains("record_param_comms"), "{name}");
    }
    assert!(turn_on(&of, "sequence")[0].contains("March 2026"));
}

/// Of two ranks in one file one has steps: the kernels of the other are in none, as `--group-by step` says.
#[test]
fn steps_are_those_of_the_process_that_launches() {
    let step =
        r#""ph":"X","name":"ProfilerStep#1","cat":"user_annotation","pid":1,"tid":1,"ts":0,"dur":1000,"args":{}"#;
    let other =
        |event: &str| event.replace(r#""pid":1"#, r#""pid":2"#).replace(r#""correlation":1"#, r#""correlation":2"#);
    let (launch, kernel) = (other(LAUNCH), other(KERNEL).replace(r#""pid":0"#, r#""pid":8"#));
    let (_folder, path) = trace_of(&[step, OPERATOR, LAUNCH, KERNEL, &other(OPERATOR), &launch, &kernel]);
    assert_eq!(answer(&trace(&path), "steps"), is("partly", 1, 2));
    let text = stdout(&run(&[&path, "--kernel-name", "*", "--group-by", "step", "--format", "csv"]));
    ["ProfilerStep#1", "(not recorded)"].into_iter().for_each(|step| has(&text, &format!("\n{step},1,1,")));
}

#[test]
fn records_say_which_source_has_what() {
    let hang = described(&[&testdata("records/hang")])["files"][0]["records"].clone();
    let source = &hang["sources"][0];
    let about = json!([source["source"], source["files"], source["ranks"].as_array().unwrap().len()]);
    assert_eq!(about, json!(["flight-recorder", 4, 4]));
    assert_eq!(answer(&hang, "hang"), is("yes", 15, 15));
    assert_eq!(answer(&hang, "time"), is("no", 0, 15));
    assert_eq!(question(&hang, "call-path")["turn_on"], Value::Null);
    assert!(question(&hang, "time")["turn_on"].as_str().unwrap().contains("TORCH_NCCL_ENABLE_TIMING=1"));

    // Of a folder both: the traces first, then the records beside them.
    let job = described(&[&testdata("records/job")]);
    let files = job["files"].as_array().unwrap();
    let kinds: Vec<bool> = files.iter().map(|file| file["trace"].is_object()).collect();
    assert_eq!(kinds, [true, true, false]);
    assert_eq!(question(&files[2]["records"], "proxies")["by"], "plugin-dump");

    let Some(shared) = crate::support::shared() else { return };
    let real =
        |name: &str| described(&[shared.join("records").join(name).to_str().unwrap()])["files"][0]["records"].clone();
    let ras = real("nccl_ras");
    assert_eq!(answer(&ras, "hang"), is("partly", 4, 4));
    assert!(question(&ras, "hang")["turn_on"].as_str().unwrap().contains("a second answer"));
    let dumps = real("flight_recorder/gpu_error_1st_16ranks.tar.gz");
    assert_eq!((dumps["sources"][0]["files"].as_u64(), answer(&dumps, "hang")), (Some(16), is("yes", 289, 289)));
    // Sends and receives between pairs of ranks have no common start.
    let pairs = real("nccl_example_plugin/p2p_4ranks_nccl2.28.json");
    assert_eq!(answer(&pairs, "late"), is("no", 0, 0));
    let flows = real("flows/cases.tar.gz");
    assert_eq!(answer(&flows, "plan").0, "yes");
    let log = real("megatrace/rank2_slow_8ranks_generation2.tar.gz");
    assert_eq!(log["sources"][0]["operations"], 114_097);
    assert_eq!(answer(&log, "late").0, "yes");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let (_folder, bad) = scratch("other.json", b"{\"other-tool\": []}");
    let said = stderr_of(&["describe", &bad], 1);
    has(&said, "other.json: this is another tool's JSON");
    assert_eq!(said.matches("other.json").count(), 1, "{said}");
    let costs = testdata("costs.json");
    let output = ended(&["describe", &bad, &costs, "--json"], 0);
    ["Left out: ", "other.json"].into_iter().for_each(|part| has(&stderr(&output), part));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((answer["files"].as_array().unwrap().len(), &answer["unread"][0]["name"]), (1, &bad.as_str().into()));
    ended(&["describe", &bad, &costs, "--strict"], 1);
    // Of what should have been a trace, something is missing.
    let (_folder, empty) = scratch("empty.json", b"");
    ended(&["describe", &empty, &costs], 6);
    // Of a folder, too, in whatever order.
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&bad, folder.path().join("a.json")).unwrap();
    std::fs::copy(&costs, folder.path().join("b.json")).unwrap();
    let output = ended(&["describe", "--quiet", folder.path().to_str().unwrap()], 0);
    ["Left out: ", "a.json"].into_iter().for_each(|part| has(&stderr(&output), part));
    has(&stdout(&output), "b.json");
    let missing = ended(&["describe", &costs, "no_such_trace.json"], 1);
    assert_eq!(stdout(&missing), "");
    has(&stderr(&missing), "there is no such file");
}

/// The first screen: facts, what can be asked, what cannot, and what to turn on.
#[test]
fn the_text_fits_a_screen() {
    let output = run(&["describe", "--quiet", &testdata("sglang_decode.json.gz")]);
    let text = stdout(&output);
    assert!(text.lines().count() <= 48, "{} lines", text.lines().count());
    let (verdict, text) = text.split_once("\n\n").unwrap();
    assert!(verdict.starts_with("This is a trace of "), "{verdict}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in\n{text}"));
    assert!(place("\n yes ") < place("\n partly ") && place("\n partly ") < place("\n no "));
    assert!(place("next time: profile_memory=True") > place("Memory over time"));
}

/// A job's log is of NCCL's records wherever a rank is named in it, as for `hang`; lines of MPI and of the watchdog begin as a list of events does.
#[test]
fn logs_are_records_where_they_say_something_of_ranks() {
    let watchdog = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for \
                    600020 milliseconds before timing out.";
    let of_watchdog = |head: &str| format!("{head} {watchdog}\n");
    let stalled = "[1,0]<stderr>:One or more tensors were submitted to be reduced by a subset of ranks.\n[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:2: [allreduce.a]\n";
    let store = "[rank2]: DistBackendError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store\n";
    for (text, wanted) in [
        (of_watchdog("[E ProcessGroupNCCL.cpp:474] [Rank 0]"), is("partly", 1, 1)),
        (of_watchdog("[rank0]:[E1105 10:15:44.9 ProcessGroupNCCL.cpp:632] [Rank 0]"), is("partly", 1, 1)),
        (of_watchdog(&format!("{}[E ProcessGroupNCCL.cpp:474] [Rank 0]", "step\n".repeat(20_000))), is("partly", 1, 1)),
        (stalled.to_owned(), is("partly", 1, 1)),
        (store.to_owned(), is("partly", 1, 1)),
    ] {
        let (folder, file) = scratch("train.log", text.as_bytes());
        for path in [folder.path().to_str().unwrap(), &file] {
            let described = described(&[path]);
            assert_eq!(answer(&described["files"][0]["records"], "hang"), wanted, "{text:.100}");
        }
    }
    let events = "{\"name\": \"x\", \"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"pid\": 1, \"tid\": 1}";
    for (text, wanted) in [
        ("[rank0]: step 3\nrank 1 is ready\n", "is an event"),
        ("step 3\nrank 1 is ready\n", "not JSON"),
        (format!("[\n{events}").as_str(), "This is a trace"),
    ] {
        let (_folder, file) = scratch("train.log", text.as_bytes());
        let output = run(&["describe", &file]);
        assert!((stdout(&output) + &stderr(&output)).contains(wanted), "{text}: {}", stderr(&output));
    }
}
