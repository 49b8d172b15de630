//! Traces as people have them, by many programs and with odd times (`testdata/traces`): what the first screen says of each.

use serde_json::{Value, json};

use crate::support::events::{slice, tied};
use crate::support::program::{
    has, json_of, refused, run, says, scratch, stderr, stderr_of, stdout, testdata, trace_of,
};

fn answer_of(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{args:?}: {}", stderr(&output)))
}

fn at(name: &str) -> String {
    testdata(&format!("traces/{name}"))
}

fn answer(name: &str) -> Value {
    answer_of(&[&at(&format!("{name}.json"))])
}

/// Marks of steps have the sizes of the batch, and are no frames: each trace has one stack, whatever the batches are.
#[test]
fn marks_of_steps_split_no_stack() {
    for (name, frame) in [
        ("31a_vllm_steps", Some("execute_…")),
        ("31b_vllm_steps", Some("execute_…")),
        ("31c_vllm_steps_with_stack", None),
        ("32_sglang_detailed_steps", Some("step[…]")),
    ] {
        let found = answer(name);
        let stacks = found["stacks"].as_array().unwrap();
        assert_eq!((stacks.len(), &stacks[0]["count"]), (1, &Value::from(16)), "{name}");
        let frames = stacks[0]["frames"].as_array().unwrap();
        // Without any caller, that a launch was in a step is all that is known.
        let outermost = frame.unwrap_or("vllm/v1/worker/gpu_worker.py(600): execute_model");
        assert_eq!(frames[0], outermost, "{name}");
        // Each is a step, and its text is there where it is asked for.
        let trace = at(&format!("{name}.json"));
        for (options, list) in [(&["--group-by", "step"][..], "groups"), (&["--exact-names"], "stacks")] {
            let found = answer_of(&[&[&*trace], options].concat());
            assert_eq!(found[list].as_array().unwrap().len(), 16, "{name}: {list}");
        }
    }
}

/// Two launches in annotations whose texts differ in numbers alone, one in an annotation with a number that no other has.
#[test]
fn numbers_in_annotations_fold_if_their_text_repeats() {
    let launch = |id: u32, annotation: &str| {
        let ts = id * 100;
        [
            slice("user_annotation", annotation, (1, 1), ts, 50),
            tied("cuda_runtime", "cudaLaunchKernel", (1, 1), ts + 10, 5, id),
            tied("kernel", "ncclDevKernel_AllReduce", (0, 7), ts + 20, 9, id),
        ]
    };
    let names = ["microbatch 1 of 8", "microbatch 2 of 8", "fp8 gather"];
    let events: Vec<String> = (1..).zip(names).flat_map(|(id, name)| launch(id, name)).collect();
    let (_folder, trace) = trace_of(&events);
    let found = answer_of(&[&trace]);
    let frames = |stack: &Value| stack["frames"][0].as_str().unwrap().to_owned();
    let mut outermost: Vec<String> = found["stacks"].as_array().unwrap().iter().map(frames).collect();
    outermost.sort();
    assert_eq!(outermost, ["fp8 gather", "microbatch * of *"]);
    assert_eq!(answer_of(&[&trace, "--exact-names"])["stacks"].as_array().unwrap().len(), 3);
}

/// One kernel at time 0 among times since 1970: the window is that of the others, as in the control, and one slice is left out.
#[test]
fn a_kernel_without_a_time_changes_nothing() {
    let control = answer("00_control");
    for name in ["01_zero_ts", "01b_zero_ts_absolute"] {
        let found = answer(name);
        for figure in ["wall_ns", "busy_ns", "compute_ns", "collectives_ns", "exposed_ns"] {
            assert_eq!(found["summary"][figure], control["summary"][figure], "{name}: {figure}");
        }
        says(&[(&[&at(&format!("{name}.json"))], 0, &["slices without a time that can be true"], &[])]);
    }
    says(&[(&[&at("00_control.json")], 0, &[], &["can be true"])]);
}

/// Times that cannot be true are left out of a trace of any length, and those that can stay: a hundred steps of 1 ms, or six, and one event more.
#[test]
fn what_is_far_away_is_left_out_unless_calls_prove_it() {
    const REDUCE: &str = "ncclDevKernel_AllReduce";
    let steps = |count: u32| -> Vec<String> {
        let step = |id: u32| {
            let ts = 1_000_000 + id * 1_000;
            [
                tied("cuda_runtime", "cudaLaunchKernel", (1, 1), ts + 10, 5, id),
                tied("kernel", REDUCE, (0, 7), ts + 20, 900, id),
            ]
        };
        (1..=count).flat_map(step).collect()
    };
    let wall = |events: &[String]| {
        let (_folder, trace) = trace_of(events);
        let output = run(&[&trace, "--json"]);
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
        (found["summary"]["wall_ns"].as_i64().unwrap() / 1_000, stderr(&output).contains("can be true"))
    };
    let with = |count: u32, more: &[String]| wall(&[&steps(count), more].concat());
    let far = |ts: u64, dur: u64, kind: &str, name: &str, on: (u32, u32), id: u32| tied(kind, name, on, ts, dur, id);
    for count in [6_u32, 100] {
        let whole = (i64::from(count - 1) * 1_000 + 910, false);
        assert_eq!(with(count, &[]), whole);
        for (kind, on) in [("cpu_op", (1, 1)), ("cuda_runtime", (1, 1)), ("kernel", (0, 7))] {
            let absurd = far(9_200_000_000_000, 4, kind, "x", on, 999);
            assert_eq!(with(count, &[absurd]), (whole.0, true), "{count} {kind}");
        }
        // A start that was not collected, of a kernel whose end was; and a length that others of its stream refute.
        let end = 1_000_000 + 2_920;
        assert!(with(count, &[far(0, end + 100_000_000, "kernel", REDUCE, (0, 7), 999)]).1, "{count}");
        let long = far(1_002_950, 600_000_000, "kernel", REDUCE, (0, 7), 2);
        assert_eq!(with(count, &[long]), (whole.0, true), "{count}");
        // A barrier two minutes later, whose call proves its time; and the last kernel, which hangs until the end.
        let barrier = [
            far(121_000_000, 50, "python_function", "end.py(1): barrier", (1, 1), 0),
            far(121_000_010, 5, "cuda_runtime", "cudaLaunchKernel", (1, 1), 999),
            far(121_000_020, 9, "kernel", REDUCE, (0, 7), 999),
        ];
        assert_eq!(with(count, &barrier), (121_000_050 - 1_001_010, false), "{count}");
        let hangs = far(1_000_000 + u64::from(count) * 1_000 + 930, 600_000_000, "kernel", REDUCE, (0, 7), 999);
        assert!(!with(count, &[hangs]).1, "{count}");
    }
    // Where no kernel has a time, they are not said to be missing.
    let zero = (1..=12).map(|id| far(0, 0, "kernel", REDUCE, (0, 7), id));
    let calls = (1..=20).map(|id| tied("cuda_runtime", "cudaLaunchKernel", (1, 1), 5_000_000 + id * 9, 5, id));
    let (_folder, trace) = trace_of(&calls.chain(zero).collect::<Vec<_>>());
    let unless = "no GPU kernels, unless they are among the 12 slices that were left out for their times";
    has(&stderr(&run(&[&trace])), unless);
}

/// A call of an hour on the thread that launches, which nothing follows, is not in the window; one of a tenth of the trace is.
#[test]
fn a_call_far_longer_than_all_else_is_not_in_the_window() {
    for (dur, wall_us) in [(3_600_000_000_u64, 211), (300, 310)] {
        let mut events = vec![tied("cuda_runtime", "cudaEventQuery", (1, 1), 10, dur, 99)];
        for id in 0..4 {
            let ts = id * 50;
            events.push(tied("cuda_runtime", "cudaLaunchKernel", (1, 2), ts, 5, id));
            events.push(tied("kernel", "ncclDevKernel_AllReduce", (0, 7), ts + 20, if id == 3 { 41 } else { 9 }, id));
        }
        let (_folder, trace) = trace_of(&events);
        assert_eq!(answer_of(&[&trace])["summary"]["wall_ns"], wall_us * 1_000, "{dur}");
    }
}

/// One of 64 kernels takes 17.5 s of 17.457: the sentence is about that one. In the control all take 80 µs.
#[test]
fn an_outlier_is_said() {
    let found = answer("04_first_collective_waits");
    let outliers = &found["stacks"][0]["cost"]["outliers"];
    assert_eq!((&outliers["count"], &outliers["others_median_ns"]), (&1.into(), &14_300.0.into()), "{outliers}");
    let trace = at("04_first_collective_waits.json");
    let text = stdout(&run(&[&trace]));
    let said = "1 of the 64 kernels, the first, takes 17.5 s of their time, at 1000160000 ns; the other 63 take a median of 14.3 µs.";
    has(&text, said);
    has(&text, "  median 14.");
    // The window that is advised leaves it out.
    let advised: Vec<&str> = text.split("First: ").nth(1).unwrap().split(' ').take(4).collect();
    let without = answer_of(&[&[trace.as_str()], &advised[..]].concat());
    assert!(without["stacks"][0]["cost"]["gpu_time"]["max_ns"].as_u64().unwrap() < 1_000_000, "{advised:?}");
    says(&[(&[&at("00_control.json")], 0, &[], &["take a median", "  median"])]);
}

/// What a kernel of a graph says itself is a frame below the replay, and the headline.
#[test]
fn annotations_of_graph_kernels_are_frames() {
    let found = answer("11_annotated_graph");
    let frames = found["stacks"][0]["frames"].as_array().unwrap();
    assert_eq!(frames.iter().rev().take(2).collect::<Vec<_>>(), ["layer.*.all_gather", "cudaGraphLaunch"]);
    assert_eq!(found["stacks"][0]["headline"], "layer.*.all_gather");
    let exact = answer_of(&[&at("11_annotated_graph.json"), "--exact-names"]);
    assert_eq!(exact["stacks"].as_array().unwrap().len(), 2);
}

/// Kernels of other programs' traces: how many there are, how many have a launch, and the frame that tells most.
#[test]
fn kernels_of_other_programs_are_read() {
    for (name, kernels, attributed, headline) in [
        ("20_jax_gpu", 12, 12, Some("jit(train_step)/transpose(jvp(Dense))/psum")),
        ("24_rocprof_v1", 5, 0, None),
        ("26_unitrace", 4, 4, Some("zeCommandListAppendLaunchKernel")),
        ("29_nsys2json", 4, 0, None),
    ] {
        let found = answer(name);
        let coverage = &found["coverage"];
        let with_launch: u64 = coverage["attributed_by"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!((coverage["kernels"].as_u64(), with_launch), (Some(kernels), attributed), "{name}: {coverage}");
        assert_eq!(found["stacks"][0]["headline"].as_str(), headline, "{name}");
    }
    // JAX's times are microseconds, whatever its header displays: 4 ms on each of two GPUs.
    says(&[(&[&at("20_jax_gpu.json")], 0, &["Of 8.00 ms on 2 GPUs"], &["nanoseconds"])]);
}

/// A file without kernels that can be read is called what it is, with what to record instead, and one that is no trace, with what to do. Only a trace of
/// PyTorch's profiler is asked about its activities.
#[test]
fn files_of_other_programs_are_named() {
    for (name, code, parts) in [
        ("22_tf_timeline.json", 3, ["a timeline of TensorFlow 1", "NcclAllReduce [Op]: 960.0 µs in 8 slices"]),
        ("28_bazel_profile.json", 3, ["a profile of Bazel", "has no GPUs"]),
        ("77_ascend_trace_view.json", 3, ["a trace of Ascend's profiler", "hcom_allReduce: 400.0 µs in 4 slices"]),
        (
            "75_hpu_collective_comm.json",
            3,
            ["Its accelerator is privateuse1", "only kernels of CUDA and ROCm are read"],
        ),
        ("44b_utf16le.txt", 1, ["text in UTF-16", "iconv"]),
        ("61_json_lines.jsonl", 1, ["Chrome's JSON with an event in each line", "jq -s"]),
    ] {
        says(&[(&[&at(name)], code, &parts, &["ProfilerActivity"])]);
    }
    let (_folder, cpu) = trace_of(&[slice("cpu_op", "aten::add", (1, 1), 1, 5)]);
    says(&[
        (
            &[&cpu],
            3,
            &["it was recorded without GPU activity (ProfilerActivity.CUDA), or its process used no GPU."],
            &[],
        ),
        (&["describe", &at("77_ascend_trace_view.json")], 0, &["a trace of Ascend's profiler"], &[]),
        (&[&at("17b_negative_ts.json")], 3, &["the times of all events are negative"], &[]),
    ]);
}

/// Two processes wrote one file: the second text begins after the end of the first, or is what an older and longer file left. The first is answered, and how much
/// is not of it is said. Where their blocks are mixed, their processes launch onto one GPU.
#[test]
fn two_traces_in_one_file_are_not_one() {
    for (name, kernels, lost) in [("14b_short_over_long", 9, 21_980), ("14c_appended", 18, 44_747)] {
        let found = answer(name);
        let counts = (found["kernels_in_trace"].as_u64(), found["damage"]["lost_bytes"].as_u64());
        assert_eq!(counts, (Some(kernels), Some(lost)), "{name}");
        has(&stderr(&run(&[&at(&format!("{name}.json"))])), "bytes after the end of the trace (another trace");
    }
    says(&[
        (&[&at("14a_two_writers_blocks.json")], 0, &["2 processes (1000, 2000) launch onto GPU 0"], &[]),
        (&[&at("00_control.json")], 0, &[], &["launch onto"]),
        (&[&at("83_text_pids_merged.json")], 0, &[], &["launch onto"]),
    ]);
}

/// What to do next: ranks of a merged file are compared, and Python is recorded where it is missing.
#[test]
fn the_next_step_is_said() {
    let merged = at("83_text_pids_merged.json");
    let of_ranks = format!("2 processes launch kernels in this file: nccl-stacks ranks {merged} shows");
    says(&[
        (&[&merged], 0, &[&of_ranks], &[]),
        (&["ranks", &merged], 0, &[], &[]),
        (&[&at("31a_vllm_steps.json")], 0, &["with_stack=True records them"], &[]),
        (&["sql", &merged, "--query", "memory_stacks"], 3, &["profile_memory=True"], &[]),
    ]);
    for name in ["00_control", "31c_vllm_steps_with_stack", "20_jax_gpu"] {
        let notes = stderr_of(&[&at(&format!("{name}.json"))], 0);
        assert!(!notes.contains("with_stack") && !notes.contains("nccl-stacks ranks"), "{name}: {notes}");
    }
}

/// Copies that an operator of symmetric memory launches are its collective: 36 µs of barriers and 675 of copies in 4 ms. Copies of other operators are none.
#[test]
fn copies_of_symmetric_memory_are_collectives() {
    let found = answer("08_low_contention");
    let times = ["collectives_ns", "exposed_ns"].map(|time| found["summary"][time].as_u64().unwrap());
    assert_eq!((times, &found["kernels_in_trace"]), ([711_000; 2], &15.into()));
    assert_eq!(found["stacks"][0]["messages"]["collectives"], json!({"all_gather": 9}));
    let trace = at("08_low_contention.json");
    let text = std::fs::read_to_string(&trace).unwrap();
    let other = text.replace("symm_mem::_low_contention_all_gather", "mylib::prefetch");
    let (_folder, path) = scratch("other.json", other.as_bytes());
    assert_eq!(answer_of(&[&path])["summary"]["collectives_ns"], 36_000);
    // Stacks that differ in library code alone are named by it.
    says(&[(&[&trace], 0, &["gather_weights in cudaMemcpyAsync", "gather_weights in cudaLaunchKernel"], &[])]);
}

/// All of oneCCL's kernels carry out a collective, with whatever they prepare it.
#[test]
fn kernels_of_oneccl_are_collectives() {
    let found = answer("07_xpu_oneccl");
    assert_eq!((&found["kernels_in_trace"], &found["summary"]["collectives_ns"]), (&4.into(), &400_000.into()));
}

/// Perfetto's protobuf with names for threads and processes and no numbers: as from JSON.
#[test]
fn threads_that_only_names_tell_apart_are_threads() {
    let packets = at("70_control.pftrace");
    let (control, proto) = (answer("00_control"), answer_of(&[&packets]));
    for figure in ["wall_ns", "busy_ns", "compute_ns", "collectives_ns", "exposed_ns"] {
        assert_eq!(proto["summary"][figure], control["summary"][figure], "{figure}");
    }
    assert_eq!(proto["stacks"][0]["frames"], control["stacks"][0]["frames"]);
    says(&[(&["describe", &packets], 0, &["a trace of PyTorch's profiler in Perfetto's protobuf"], &[])]);
    let stacks = answer_of(&[&at("70_vllm_steps_with_stack.pftrace")]);
    assert_eq!(stacks["stacks"].as_array().unwrap().len(), 1);
}

/// Ranks that number their collectives from different beginnings are matched by order, size and time, and it is said. With the same beginnings it is not.
#[test]
fn numbers_that_start_elsewhere_lose() {
    let folder = at("67_seq_restarted");
    let first = std::fs::read_to_string(format!("{folder}/rank0.json")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("rank0.json"), first.replace("\"Seq\": 50", "\"Seq\": ")).unwrap();
    std::fs::copy(format!("{folder}/rank1.json"), scratch.path().join("rank1.json")).unwrap();
    let matched = "Matched: 18 of 18 kernels with all ranks of their group";
    for (folder, then) in [(&*folder, ", 18 by order, size and time"), (scratch.path().to_str().unwrap(), ". Measured")]
    {
        has(&stdout(&run(&["ranks", folder])), &format!("{matched}{then}"));
    }
}

/// Two replicas in one folder have the same ranks: one is answered, and the other is named with its option.
#[test]
fn replicas_in_one_folder_are_told_apart() {
    let folder = at("73_two_replicas");
    let of_run = |number: &str| {
        let said = stderr_of(&["ranks", &folder, "--run", number], 0);
        let line = said.lines().find(|line| line.starts_with("There are 2 runs")).unwrap_or_else(|| panic!("{said}"));
        line.split_once(" With ").map(|(own, other)| (own.to_owned(), other.to_owned())).unwrap()
    };
    let (first, second) = (of_run("1"), of_run("2"));
    for ((own, other), (word, not)) in [(&first, ("DP-0", "DP-1")), (&second, ("DP-1", "DP-0"))] {
        assert!(own.contains(word) && other.contains(not) && !own.contains(not), "{own} {other}");
    }
    refused(&["ranks", &folder, "--run", "3"], 1, "--run 3: there are 2 runs in these files");
}

/// A batch of sends and receives has the size of what it sends, or receives if that is more.
#[test]
fn batches_of_messages_have_sizes() {
    says(&[(&[&at("38b_batch_p2p/rank0.json"), "--verbose"], 0, &["sendrecv of 16.78 MB each"], &[])]);
}

/// Every command that `describe` recommends for a file answers on that file. That an operator's values or layouts do not differ is an answer, too, and so is the
/// summary of kernels without a launch.
#[test]
fn commands_that_are_recommended_answer() {
    let mut ran = 0;
    for name in
        ["00_control.json", "31a_vllm_steps.json", "64_gloo_cpu.json", "70_control.pftrace", "83_text_pids_merged.json"]
    {
        let trace = at(name);
        let described: Value = json_of(&["describe", &trace, "--json"]);
        for answer in described["files"][0]["trace"]["answers"].as_array().unwrap() {
            let command = answer["command"].as_str().unwrap();
            if !["yes", "partly"].contains(&answer["possible"].as_str().unwrap()) {
                continue;
            }
            // At most the last word is in quotes.
            let (words, last) = command.split_at(command.find(['"', '\'']).unwrap_or(command.len()));
            let last = Some(last.trim_matches(['"', '\''])).filter(|last| !last.is_empty());
            let words = words.split_whitespace().skip(1).chain(last);
            let words: Vec<&str> = words.map(|word| if word.starts_with("TRACE") { &trace } else { word }).collect();
            let output = run(&words);
            let is_answer = output.status.code() == Some(0) || command.contains("--query operator_");
            assert!(is_answer, "{name}: {command}: {}", stderr(&output));
            ran += 1;
        }
    }
    assert!(ran >= 30, "{ran}");
}

/// Two hosts of JAX, one of them with what xprof writes beside slices (orders of processes, decimals, an empty last event): the second comes 40 µs late to each of its
/// collectives.
#[test]
fn hosts_of_jax_are_ranks() {
    let first = std::fs::read_to_string(at("20_jax_gpu.json")).unwrap();
    let mut second: Value = serde_json::from_str(&first).unwrap();
    let events = second["traceEvents"].as_array_mut().unwrap();
    for event in events.iter_mut().filter(|event| event["name"].as_str().is_some_and(|name| name.starts_with("nccl"))) {
        let times = ["ts", "dur"].map(|key| event[key].as_f64().unwrap());
        (event["ts"], event["dur"]) = ((times[0] + 40.125).into(), (times[1] - 40.125).into());
    }
    let order = |pid: u32| json!({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}});
    events.splice(0..0, [1, 2, 701].map(order));
    events.push(json!({}));
    let folder = tempfile::tempdir().unwrap();
    let path = |rank: u32| folder.path().join(format!("host.rank{rank}.trace.json"));
    std::fs::write(path(0), &first).unwrap();
    std::fs::write(path(1), second.to_string()).unwrap();
    let alone = answer_of(&[path(1).to_str().unwrap()]);
    assert_eq!((alone["kernels_in_trace"].as_u64(), alone["stacks"][0]["count"].as_u64()), (Some(12), Some(12)));
    let ranks = answer_of(&["ranks", folder.path().to_str().unwrap()]);
    assert_eq!(ranks["matches"]["matched"], 24);
    let waited: Vec<u64> = (0..2).map(|rank| ranks["ranks"][rank]["waited_ns"].as_u64().unwrap()).collect();
    assert_eq!(waited, [12 * 40_125, 0], "{}", ranks["ranks"]);
}

/// An asynchronous kernel has an id and no thread: on the only GPU there is, it is on that. Its stack is unknown.
#[test]
fn an_asynchronous_kernel_is_on_the_only_gpu() {
    let text = std::fs::read_to_string(at("00_control.json")).unwrap();
    let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
    let event = |phase: &str, ts: u32| json!({"ph": phase, "cat": "kernel", "name": name, "id": "0x1", "pid": 0, "tid": 20, "ts": ts});
    let end = text.rfind(']').unwrap();
    let with = format!("{}, {}, {}{}", &text[..end], event("b", 1_000_500), event("e", 1_000_560), &text[end..]);
    let (_folder, trace) = scratch("async.json", with.as_bytes());
    let found = answer_of(&[&trace]);
    assert_eq!((&found["summary"]["gpus"], &found["kernels_in_trace"]), (&1.into(), &7.into()), "{found}");
}
