//! The program as a person runs it, on the traces of `testdata/`. Expected answers were worked out by hand; they are in
//! `testdata/README.md` with their reasons.

use crate::support::events::{kernel, slice, tied};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::pack::gzip;
use crate::support::program::{
    ended, has, json_of, program, refused, run, run_json, scratch, script, stack, stacks, stderr, stderr_of, stdout,
    stdout_of, testdata, trace_of,
};
use serde_json::{Value, json};

const REPLAY: &[&str] = &[
    "...",
    "multiprocessing/process.py(314): _bootstrap",
    "multiprocessing/process.py(108): run",
    "sglang/srt/managers/scheduler.py(2814): run_scheduler_process",
    "torch/utils/_contextlib.py(120): decorate_context",
    "sglang/srt/managers/scheduler.py(1042): event_loop_overlap",
    "sglang/srt/managers/scheduler.py(1987): run_batch",
    "sglang/srt/managers/tp_worker.py(233): forward_batch_generation",
    "sglang/srt/model_executor/model_runner.py(2177): forward",
    "sglang/srt/model_executor/model_runner.py(2240): _forward_raw",
    "sglang/srt/model_executor/cuda_graph_runner.py(793): replay",
    "torch/cuda/graphs.py(137): replay",
    "<built-in method replay of PyCapsule object at 0x…>",
    "cudaGraphLaunch",
];

/// The stack of an all-reduce, below the function that called the layer.
const ALL_REDUCE: &[&str] = &[
    "nn.Module: RowParallelLinear_",
    "torch/nn/modules/module.py(1783): _call_impl",
    "sglang/srt/layers/linear.py(1389): forward",
    "sglang/srt/distributed/communication_op.py(13): tensor_model_parallel_all_reduce",
    "sglang/srt/distributed/parallel_state.py(497): all_reduce",
    "torch/distributed/c10d_logger.py(81): wrapper",
    "torch/distributed/distributed_c10d.py(2930): all_reduce",
    "<built-in method allreduce of PyCapsule object at 0x…>",
    "c10d::allreduce_",
    "record_param_comms",
    "nccl:all_reduce",
    "cudaLaunchKernelExC",
];

#[test]
fn stacks_of_a_server_eager_and_replayed() {
    let trace = testdata("sglang_decode.json.gz");
    // As the script prints them: the frames up to the twelfth caller.
    let found = script(&run(&[&trace, "--format", "script"]));
    let mlp = [&["sglang/srt/models/llama.py(98): forward"], ALL_REDUCE].concat();
    let attention = [&["sglang/srt/models/llama.py(197): forward"], ALL_REDUCE].concat();
    // Equal counts are in the order of their text, in which 197 comes before 98.
    assert_eq!(found[..3], [stack(18, &REPLAY[1..]), stack(8, &attention), stack(8, &mlp)]);
    let [(2, gather)] = &found[3..] else { panic!("{found:?}") };
    assert_eq!(gather[gather.len() - 2..], ["nccl:_all_gather_base", "cudaLaunchKernelExC"]);
    // By their whole call paths those of prefill and decode are apart.
    let counts = |found: Vec<(u64, Vec<String>)>| found.into_iter().map(|(count, _)| count).collect::<Vec<_>>();
    assert_eq!(counts(stacks(&run_json(&[&trace]))), [18, 4, 4, 4, 4, 1, 1]);

    let all_gather = stacks(&run_json(&[&trace, "--kernel-name", "ncclDevKernel_AllGather"]));
    assert_eq!(counts(all_gather), [2, 1, 1]);
}

#[test]
fn depth_and_folding() {
    let trace = testdata("sglang_decode.json.gz");
    let counts = |args: &[&str]| -> Vec<u64> {
        let output = run(&[&[trace.as_str(), "--format", "script"], args].concat());
        script(&output).iter().map(|(count, _)| *count).collect()
    };
    assert_eq!(counts(&["--stack-depth", "11"]), [18, 16, 2]);
    assert_eq!(counts(&["--stack-depth", "0"]), [18, 4, 4, 4, 4, 1, 1]);
    // 16 all-reduces and 2 all-gathers, each alone; the two replays hold 9 each.
    let exact = counts(&["--exact-names"]);
    assert_eq!(exact, [vec![9, 9], vec![1; 18]].concat());
    let one = script(&run(&[&trace, "--format", "script", "--stack-depth", "1", "-k", "ncclDevKernel_AllGather"]));
    assert_eq!(one[0], stack(2, &["<built-in method replay of PyCapsule object at 0x…>", "cudaGraphLaunch"]));
    // Text shows as many callers above the user's code, JSON all.
    let text = stdout(&run(&[&trace, "--stack-depth", "1"]));
    has(&text, "\n   -> … 5 callers above\n   -> sglang/srt/model_executor/model_runner.py(2240): _forward_raw\n");
    assert_eq!(stacks(&run_json(&[&trace, "--stack-depth", "1"])), stacks(&run_json(&[&trace])));
}

/// A file has every frame: as many lines with an arrow as JSON has frames. A pipe has those of a screen, and a depth that is asked for counts.
#[test]
fn a_file_has_full_stacks() {
    let trace = testdata("sglang_decode.json.gz");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stacks.txt");
    let written = |args: &[&str]| {
        stderr_of(&[&[trace.as_str(), "--quiet", "-o", path.to_str().unwrap()], args].concat(), 0);
        std::fs::read_to_string(&path).unwrap()
    };
    let answer: Value = serde_json::from_str(&written(&["--json"])).unwrap();
    let frames = |stack: &Value| stack["frames"].as_array().unwrap().len();
    let frames: usize = answer["stacks"].as_array().unwrap().iter().map(frames).sum();
    let text = written(&[]);
    assert_eq!(text.matches("\n   -> ").count(), frames);
    assert!(!text.contains("callers above") && !text.contains("… "), "{text}");
    assert!(written(&["--stack-depth", "6"]).contains("callers above"));
    assert!(stdout(&run(&[&trace, "--quiet"])).contains("callers above"));
}

#[test]
fn the_autograd_thread_and_launches_before_the_trace() {
    let output = run_json(&[&testdata("ddp_backward.json.gz")]);
    let backward = "[thread python];autograd::engine::evaluate_function: torch::autograd::AccumulateGrad;c10d::allreduce_;\
                    record_param_comms;nccl:all_reduce;cudaLaunchKernelExC";
    let forward =
        "DistributedDataParallel.forward;c10d::broadcast_;record_param_comms;nccl:broadcast;cudaLaunchKernelExC";
    let want = [(12, backward), (3, forward)].map(|(count, of)| stack(count, &of.split(';').collect::<Vec<_>>()));
    assert_eq!(stacks(&output), want);
    let notes = stderr(&output);
    has(&notes, "Coverage: 15 of 18 kernels attributed: 15 by correlation; 3 without a launch\n");
    has(&notes, "Without a launch: 3 kernels (582.1 µs), launched before recording began\n");
}

#[test]
fn a_window_is_on_the_launch() {
    let trace = testdata("two_matches.json");
    let step = "train.py(40): train_step";
    let inside = |index: &str| run_json(&[&trace, "--function-name", step, "--index", index]);
    let frames = |op| vec!["train.py(12): main", step, op, "cudaLaunchKernelExC"];
    assert_eq!(stacks(&inside("0")), [stack(1, &frames("c10d::allreduce_"))]);
    assert_eq!(
        stacks(&inside("1")),
        [stack(1, &frames("c10d::_allgather_base_")), stack(1, &frames("c10d::allreduce_"))]
    );
    // Of the two launched in the second step, from 2.0 to 2.4 ms, one runs after it: from 2.1 to 2.6 ms is what shares are of.
    let text = stdout(&run(&[&trace, "--function-name", step, "--index", "1"]));
    for line in [
        "The GPU is idle for 70.0 % of 500.0 µs. In 190.0 µs of that launched kernels had not begun",
        "Collectives take 150.0 µs (30.0 %), all of it exposed: no compute",
        "Of 500.0 µs of GPU work (launched within 400.0 µs): GPU busy with any work 30.0 %, compute 0.0 %",
    ] {
        has(&text, line);
    }
    for (index, why) in [
        ("2", "1 kernel ran in the window, but launched outside of it"),
        ("3", "there are 3 such slices, numbered from 0 to 2"),
    ] {
        refused(&["--json", &trace, "--function-name", step, "--index", index], 3, why);
    }
}

#[test]
fn several_matches_without_a_terminal_are_listed() {
    let trace = testdata("two_matches.json");
    for name in ["train.py(40): train_step", "%TRAIN_step"] {
        let output = ended(&[&trace, "--function-name", name], 2);
        assert!(stdout(&output).is_empty());
        let text = stderr(&output);
        has(&text, "3 slices have this name; choose one with --index");
        // Index, start, duration, kernels launched inside and their time, as in the hand-worked table.
        let rows: Vec<Vec<&str>> =
            text.lines().rev().take(3).map(|line| line.split_whitespace().take(5).collect()).collect();
        let want = [("2", "3000000", "200.0", "0"), ("1", "2000000", "400.0", "2"), ("0", "1000000", "300.0", "1")];
        assert_eq!(rows, want.map(|(index, start, us, kernels)| [index, start, us, "µs", kernels]));
    }
    refused(&[&trace, "--interactive"], 2, "--interactive needs a terminal");
}

#[test]
fn windows_by_time() {
    let trace = testdata("two_matches.json");
    let count = |start: &str, duration: &str| -> u64 {
        let output = run_json(&[&trace, "--start-ts", start, "--duration", duration]);
        if output.status.code() == Some(3) { 0 } else { stacks(&output).iter().map(|(count, _)| count).sum() }
    };
    assert_eq!(count("2000000", "400us"), 2);
    assert_eq!(count("2ms", "0.4ms"), 2);
    assert_eq!(count("2.7ms", "1ns"), 1, "the launch at 2700 us starts on the window's first nanosecond");
    let later = stdout(&run(&[&trace, "--start-ts", "2.7ms", "--duration", "1ns"]));
    let share = "Collectives take 60.0 µs of 60.0 µs (100.0 %), 66.7 % of it (40.0 µs) exposed";
    assert!(later.starts_with(share), "{later}");
    stderr_of(&[&trace, "--start-ts", "2.7ms", "--duration", "1ns", "--window-on", "kernel"], 3);
    assert_eq!(count("2.6ms", "100us"), 0, "the window's end is outside");
    let both = stderr(&run(&[&trace, "--start-ts", "2ms", "--duration", "1ms", "--function-name", "x"]));
    has(&both, "--function-name is overridden");
    for alone in [["--start-ts", "1"], ["--duration", "1"], ["--index", "1"], ["--start-ts", "-1"]] {
        stderr_of(&[&trace, alone[0], alone[1]], 2);
    }
    refused(&[&trace, "--start-ts", "2 hours", "--duration", "1"], 2, "no unit of time");
    refused(&[&trace, "--start-ts", "1", "--duration=-5"], 2, "a length of time cannot be negative");
}

/// A scheduler that runs ahead: while the CPU is in the second step, from 100 to 200 µs, the GPU runs the first. What the second launched
/// runs from 160 to 400 µs: a product until 300, and two all-reduces at once on two streams, from 300 to 380 and from 320 to 400 µs.
#[test]
fn shares_are_of_what_the_window_launched() {
    let call = |id: u32, ts: u32| tied("cuda_runtime", "cudaLaunchKernel", (9, 9), ts, 5, id);
    let kernel = |id: u32, name: &str, tid: u32, ts: u32, dur: u32| tied("kernel", name, (0, tid), ts, dur, id);
    let step = |number: u32, ts: u32| slice("user_annotation", format!("step {number}"), (9, 9), ts, 100);
    let events = [
        step(1, 0),
        call(1, 10),
        step(2, 100),
        call(2, 110),
        call(3, 120),
        call(4, 130),
        kernel(1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, 50, 110),
        kernel(2, "gemm", 7, 160, 140),
        kernel(3, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, 300, 80),
        kernel(4, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 8, 320, 80),
    ];
    let (_folder, trace) = trace_of(&events);
    let second = [&*trace, "--function-name", "step 2", "--json"];
    let answer: Value = json_of(&second);
    let summary = &answer["summary"];
    assert_eq!(summary["window"], json!({"start_ns": 100_000, "end_ns": 200_000}));
    assert_eq!(summary["gpu_span"], json!({"start_ns": 160_000, "end_ns": 400_000}));
    let times = ["wall_ns", "busy_ns", "compute_ns", "collectives_ns", "exposed_ns"].map(|time| &summary[time]);
    assert_eq!(times, [240_000, 240_000, 140_000, 100_000, 100_000]);
    // 160 µs of kernels in 100 µs.
    let cost = &answer["stacks"][0]["cost"];
    assert_eq!((&cost["gpu_time"]["total_ns"], &cost["share_of_window"]), (&json!(160_000), &json!(100.0 / 240.0)));
    // By the kernels the first step has the all-reduce of the first, which runs in the second: until 160 of 200 µs, then the product.
    let by_kernel = stdout(&run(&[&second[..], &["--window-on", "kernel"]].concat()));
    assert_eq!(by_kernel, "", "no collective starts in the second step");
    let text = stdout(&run(&[&trace, "--function-name", "step 1", "--window-on", "kernel"]));
    assert!(text.starts_with("Collectives take 50.0 µs of 100.0 µs (50.0 %), all of it exposed"), "{text}");
    has(&text, "1 kernel  GPU 110.0 µs (50.0 %)");
}

#[test]
fn an_unknown_function_gets_the_nearest_names() {
    let said = stderr_of(&[&testdata("sglang_decode.json.gz"), "--function-name", "forward_batch_generation"], 3);
    let name = "sglang/srt/managers/tp_worker.py(233): forward_batch_generation";
    has(&said, &format!("For example: --function-name '{name}'"));
    let misspelt = stderr(&run(&[&testdata("two_matches.json"), "--function-name", "train.py(40): trian_step"]));
    has(&misspelt, "  train.py(40): train_step\n");
}

/// Kernels that overlap, launches that flows alone tie to them, an old file, and one of two members.
#[test]
fn small_traces_have_their_stacks() {
    for (name, want) in [
        (
            "overlap_pdl.json",
            &[
                &["model.py(80): forward", "model.py(21): attention", "cudaLaunchKernelExC"][..],
                &["model.py(80): forward", "model.py(57): mlp", "cudaLaunchKernelExC"],
            ][..],
        ),
        (
            "flow_only.json",
            &[&["worker.py(19): second", "cudaLaunchKernelExC"], &["worker.py(5): first", "cudaLaunchKernelExC"]],
        ),
        ("bare_array_unclosed.json", &[&["train_step", "nccl:all_reduce", "cudaLaunchKernel"]]),
        ("merged_two_members.json.gz", &[&["serve.py(7): step", "c10d::allreduce_", "cudaLaunchKernelExC"]]),
    ] {
        let want: Vec<_> = want.iter().map(|frames| stack(1, frames)).collect();
        assert_eq!(stacks(&run_json(&[&testdata(name)])), want, "{name}");
    }
}

#[test]
fn nothing_found_and_why() {
    let unlinked = ended(&[&testdata("no_launch_link.json")], 3);
    has(&stderr(&unlinked), "2 kernels ran in the window, but no call in the trace is tied to them");
    has(&stderr(&unlinked), "     1  cudaGraphLaunch");
    // What they cost is known all the same.
    for part in ["\nCollectives take 70.0 µs (20.0 %), all of it exposed", "\n window      ", "  ncclDevKernel_"] {
        has(&stdout(&unlinked), part);
    }

    let text = stderr_of(&[&testdata("sglang_decode.json.gz"), "--kernel-name", "ncclDevKernel_SendRecv"], 3);
    has(&text, "no such kernel among them. Collectives that did:");
    has(&text, "    32  ncclDevKernel_AllReduce");

    let why = "no kernel at all ran in the window. The trace has 6 kernels";
    refused(&[&testdata("two_matches.json"), "--start-ts", "1s", "--duration", "10"], 3, why);

    // Of a file that is cut off before its kernels the cut is to blame.
    let whole = std::fs::read(testdata("two_matches.json")).unwrap();
    let first = whole.windows(8).position(|bytes| bytes == b"\"kernel\"").unwrap();
    let (_folder, cut) = scratch("cut.json", &whole[..first - 40]);
    let cut = stderr(&run(&[&cut]));
    assert!(cut.contains("The file is cut off or corrupt") && !cut.contains("ProfilerActivity"), "{cut}");

    has(&stderr(&run(&[&testdata("begin_end_async.json")])), "the trace has no GPU kernels");
}

#[test]
fn damage_is_counted_and_strict_fails_on_it() {
    let trace = testdata("damaged.json");
    let output = run_json(&[&trace]);
    assert_eq!(stacks(&output), [stack(1, &["train.py(3): main", "c10d::allreduce_", "cudaLaunchKernelExC"])]);
    let text = stderr(&output);
    for line in [
        "Left out: everything from an unterminated element on (the file is cut off, or a quote or bracket is stray), at byte",
        "Left out: elements of the event list that are not events: 3 ",
        "Left out: events without a phase or a valid timestamp: 3 ",
        "Left out: events whose duration is not a number, or reaches beyond the end of time: 1 ",
        "Left out: slices of negative duration: 1 ",
    ] {
        has(&text, line);
    }
    let strict = ended(&[&trace, "--strict"], 1);
    assert!(stdout(&strict).is_empty());
    has(&stderr(&strict), "damaged, and --strict was given:\n  everything from an unterminated element on");
    // An overlap is no damage.
    ended(&[&testdata("overlap_pdl.json"), "--strict"], 0);
}

#[test]
fn files_that_are_no_traces() {
    let whole = std::fs::read(testdata("two_matches.json")).unwrap();
    let packed = gzip(&whole);
    let zstd = zstd::encode_all(&whole[..], 3).unwrap();
    let mut flipped = packed.clone();
    flipped[10] |= 0b110; // A block of a type that Deflate does not have.
    for (name, bytes, code, message) in [
        ("empty.json", &b""[..], 1, "the file is empty (0 bytes)"),
        ("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 1, "this is a picture (PNG)"),
        ("other.json", br#"{"other-tool":[{"metadata":{}}]}"#, 1, "it has no `traceEvents`, but `other-tool`"),
        ("list.json", b"[1, 2, 3]", 1, "none of the 3 elements of its list is an event"),
        ("objects.json", br#"[{"a":1}]"#, 1, "none of the 1 elements of its list is an event"),
        ("text.json", b"hello", 1, "this is not JSON"),
        ("half.json", br#"{"traceEvents": [{"ph": "X""#, 1, "is cut off at byte 17 before the first whole event"),
        (
            "header.json",
            br#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"#,
            1,
            " before the first whole event",
        ),
        ("half.json.gz", &packed[..12], 1, "is cut off at byte 12 before the first whole event"),
        ("flipped.json.gz", &flipped, 1, "corrupt compressed data at byte"),
        ("half.json.zst", &zstd[..20], 1, "is cut off at byte 20 before the first whole event"),
        ("no_frame.json.zst", b"\x28\xb5\x2f\xfd....", 1, "corrupt compressed data at byte"),
        ("named_gz_but_zstd.json.gz", &zstd, 0, "Kernels: 4 match"),
        ("trace.zip", b"PK\x03\x04....", 1, "this zip of 8 bytes is cut off"),
        ("object.json", br#"{"traceEvents":{}}"#, 1, "its `traceEvents` is not a list"),
        ("heap.pb", b"\x0a\x05\x08\x01\x10\x02\x18", 1, "the JSON is invalid at byte 1, and has no event before it"),
        ("trace.pftrace", b"\x0a\x04\x40\x01\x50\x02", 1, "none of its 1 packets is a track event"),
        ("empty_list.json", br#"{"traceEvents": []}"#, 3, "the trace has no GPU kernels"),
        ("named_gz_but_plain.json.gz", &whole, 0, "Kernels: 4 match"),
        ("named_plain_but_gz.json", &packed, 0, "Kernels: 4 match"),
    ] {
        let (_folder, path) = scratch(name, bytes);
        let output = run(&[&path]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{name}: {}", stderr(&output));
        assert!(code != 1 || stderr(&output).contains(&path), "{name}: the message names the file");
    }
    has(&stderr(&run(&["-"])), "<stdin>: the file is empty");
    refused(&["/no/such/trace.json.gz"], 1, "/no/such/trace.json.gz: there is no such file");
    refused(&[env!("CARGO_MANIFEST_DIR")], 1, "this folder has no traces");
}

#[test]
fn a_cut_gzip_gives_what_was_whole() {
    let packed = std::fs::read(testdata("sglang_decode.json.gz")).unwrap();
    let (_folder, path) = scratch("cut.json.gz", &packed[..packed.len() - 2000]);
    refused(&[&path], 6, "Left out: the rest of a file that is cut off (copy it again, or record again), at byte");
    ended(&[&path, "--strict"], 1);
    let (_folder, path) = scratch("trailing.json.gz", &[&packed[..], b"junk"].concat());
    let output = run_json(&[&path]);
    assert_eq!(stacks(&output).len(), 7);
    has(&stderr(&output), "Left out: bytes after the end of the trace");
}

#[test]
fn output_files_are_whole_or_not_there() {
    let trace = testdata("two_matches.json");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stacks.txt");
    let path = file.to_str().unwrap();
    let below_a_file = format!("{path}/folder/out.txt");
    std::fs::write(&file, "what was there before").unwrap();
    stderr_of(&[&trace, "--output", path, "--kernel-name", "no_such_kernel"], 3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "what was there before");
    assert_eq!(stdout_of(&[&trace, "--output", path]), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), stdout(&run(&[&trace])));
    let left: Vec<PathBuf> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [file], "no temporary file stays behind");
    for (path, message) in [
        (below_a_file.as_str(), "stacks.txt/folder/out.txt: cannot be written: "),
        (folder.path().to_str().unwrap(), "this is a directory"),
    ] {
        let said = stderr_of(&[&trace, "--output", path], 1);
        has(&said, message);
        assert!(!said.contains("Trace loaded"), "fails before the load");
    }
    let (_folder, capture) = scratch("capture.json", &std::fs::read(testdata("costs.json")).unwrap());
    for args in [&[&trace, "--output", &trace][..], &[&trace, "--capture-trace", &capture, "--output", &capture]] {
        has(&stderr(&run(args)), "this is an input file");
    }
    ended(&[&trace, "--output", "/dev/null"], 0);
}

/// The folder of a result is made with the result, and not before: a run without an answer leaves nothing.
#[test]
fn the_folder_of_an_output_is_made() {
    let trace = testdata("costs.json");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("new").join(name).to_str().unwrap().to_owned();
    stderr_of(&[&trace, "--output", &at("a/stacks.txt"), "--kernel-name", "no_such_kernel"], 3);
    assert!(!folder.path().join("new").exists());
    for args in [
        &[&*trace, "--output", &at("a/stacks.txt")][..],
        &["part", &trace, "-o", &at("b/part.json")],
        &["report", &trace, "-o", &at("c/report.html")],
        &["repair", &trace, "-o", &at("d/whole.json")],
        &["export", &trace, "--sqlite", &at("e/trace.db"), "--trace", &at("f/cut.json")],
    ] {
        stderr_of(args, 0);
    }
    for name in ["a/stacks.txt", "b/part.json", "c/report.html", "d/whole.json", "e/trace.db", "f/cut.json"] {
        assert!(Path::new(&at(name)).exists(), "{name}");
    }
}

/// It names all commands and only options that exist, and fits a screen of 80 columns and 40 lines.
#[test]
fn the_short_help_is_one_screen() {
    let (short, long) = (stdout(&run(&["-h"])), stdout(&run(&["--help"])));
    assert!(long.starts_with("Examples:"), "{long}");
    assert!(short.lines().count() <= 40, "{} lines", short.lines().count());
    let words = |text: &str| -> BTreeSet<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        text.split(|c| !is_word(c)).map(str::to_owned).collect()
    };
    let (of_short, of_long) = (words(&short), words(&long));
    let commands = long.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands: Vec<&str> = commands.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(commands.len() > 12 && commands.iter().all(|command| of_short.contains(*command)), "{commands:?}");
    for option in of_short.iter().filter(|word| word.starts_with('-') && word.len() > 1) {
        assert!(of_long.contains(option), "{option}");
    }
    assert!(short.lines().all(|line| line.len() <= 80), "{short}");
}

/// Before the trace is read, with what is wrong and what would be right.
#[test]
fn options_of_the_forms_are_checked() {
    for (args, message) in [
        (
            &["--min-share", "101"][..],
            "invalid value '101' for '--min-share <PERCENT>': expected a number from 0 to 100",
        ),
        (&["--min-share", "nan"], "expected a number from 0 to 100, such as 5 or 5%"),
        (&["--limit", "x"], "invalid value 'x' for '--limit <N>': expected a whole number from 1 up"),
        (&["--kernel-name", "/(/"], "--kernel-name /(/: not a regular expression"),
        (&["--limit", "0"], "expected a whole number from 1 up; without the flag all are shown"),
        (&["--format", "nope"], "[possible values: text, json, table, script, csv, folded, speedscope, svg, html]"),
        (&["--sort", "size"], "[possible values: count, gpu, exposed, mean, critical]"),
        (&["--weight", "mean"], "[possible values: count, gpu, exposed]"),
    ] {
        let output = ended(&[&["/no/such/trace"], args].concat(), 2);
        assert_eq!(stdout(&output), "", "{args:?}");
        has(&stderr(&output), message);
    }
    for (args, message) in [
        (&["--limit", "x"][..], "invalid value 'x' for '--limit <N>'"),
        (&["--format", "svg"], "[possible values: table, csv, json]"),
    ] {
        refused(&[&["sql", "/no/such/trace", "--query", "kernels"], args].concat(), 2, message);
    }
}

/// A picture of nothing, and one of times too large to sum. The file that it was to replace is unchanged.
#[test]
fn what_cannot_be_drawn_is_an_error() {
    let call = |id: u32| tied("cuda_runtime", format!("launch{id}"), (9, 9), id, 0.5, id);
    let kernel = |id: u32, dur: &str| tied("kernel", "ncclX", (id, 7), 20, dur, id);
    let (long, none) = ("4000000000000000", "0");
    for (dur, message) in [
        (none, "no stack has any GPU time, so there is nothing to draw"),
        (long, "the GPU time of all stacks is too large a number to draw"),
    ] {
        let events: Vec<String> = (1..8).flat_map(|id| [call(id), kernel(id, dur)]).collect();
        let (folder, path) = trace_of(&events);
        let file = folder.path().join("picture.svg");
        std::fs::write(&file, "what was there before").unwrap();
        let said = stderr_of(&[&path, "--format", "svg", "--output", file.to_str().unwrap()], 1);
        let message = format!("error: the answer cannot be put into this form: {message}\n");
        assert!(said.ends_with(&message), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "what was there before");
        for format in ["text", "table", "json", "csv", "folded", "speedscope"] {
            ended(&[&path, "--format", format], 0);
        }
        ended(&[&path, "--format", "svg", "--weight", "count"], 0);
    }
}

/// Two ranks in one file with equal correlation ids. Their flows distinguish them.
#[test]
fn flows_resolve_equal_correlation_ids() {
    let flow = |ph: &str, id: u32, place: &str| {
        format!(r#""ph":"{ph}","name":"ac2g","cat":"ac2g","bp":"e","id":{id},{place}"#)
    };
    let call = |pid: u32, ts: u32| tied("cuda_runtime", "cudaLaunchKernel", (pid, pid), ts, 5, 1);
    let kernel = |pid: u32, ts: u32| tied("kernel", "ncclDevKernel_X", (pid, 7), ts, 50, 1);
    let events = [
        slice("cpu_op", "rank0_main", (100, 100), 0, 1000),
        slice("cpu_op", "rank1_main", (200, 200), 0, 1000),
        call(100, 10),
        flow("s", 71, r#""pid":100,"tid":100,"ts":10"#),
        call(200, 20),
        flow("s", 72, r#""pid":200,"tid":200,"ts":20"#),
        kernel(0, 30),
        flow("f", 71, r#""pid":0,"tid":7,"ts":30"#),
        kernel(1, 31),
        flow("f", 72, r#""pid":1,"tid":7,"ts":31"#),
    ];
    let (_folder, path) = trace_of(&events);
    let output = run_json(&[&path]);
    let want = [stack(1, &["rank0_main", "cudaLaunchKernel"]), stack(1, &["rank1_main", "cudaLaunchKernel"])];
    assert_eq!(stacks(&output), want);
    assert!(!stderr(&output).contains("Uncertain"));

    // Without flows the latest call before each kernel is used, and reported as uncertain.
    let (_folder, path) = trace_of(&[0, 1, 2, 4, 6, 8].map(|i| events[i].as_str()));
    let output = run_json(&[&path]);
    assert_eq!(stacks(&output), [stack(2, &["rank1_main", "cudaLaunchKernel"])]);
    has(&stderr(&output), "Uncertain: 2 kernels whose correlation id or External id belongs to several calls");
}

fn nccl_kernel(ts: u32) -> String {
    tied("kernel", "ncclX", (0, 7), ts, 5, 1)
}

#[test]
fn a_call_long_after_its_kernel_did_not_launch_it() {
    // 10 ms are allowed for clocks that differ; a correlation id that is text is one too.
    let trace =
        |ts: &str| trace_of(&[nccl_kernel(5), tied("cuda_runtime", "cudaLaunchKernel", (9, 9), ts, 1, r#""1""#)]);
    let (_folder, path) = trace("10005");
    assert_eq!(stacks(&run_json(&[&path])), [stack(1, &["cudaLaunchKernel"])]);
    let (_folder, path) = trace("10005.001");
    refused(&[&path], 3, "no call in the trace is tied to them");
}

#[test]
fn a_function_that_never_ended_lasts_to_the_end() {
    let call = tied("cuda_runtime", "cudaLaunchKernel", (9, 9), 10, 1, 1);
    let (_folder, path) = trace_of(&[r#""ph":"B","name":"loop","pid":9,"tid":9,"ts":1"#, &call, &nccl_kernel(20)]);
    let output = run_json(&[&path, "--function-name", "loop"]);
    assert_eq!(stacks(&output), [stack(1, &["loop", "cudaLaunchKernel"])]);
    has(&stderr(&output), "(--start-ts 1000 --duration 24000)");
}

/// A call that ends after the slice around it is its sibling in `slice`. If it ends at most 2 µs later and most of it lies in
/// the slice, that slice is its caller all the same.
#[test]
fn a_launch_that_ends_a_little_late_has_its_caller() {
    for (ts, dur, has_caller) in
        [("98", "2.5", true), ("90", "12", true), ("90", "12.001", false), ("99.5", "1", false), ("50", "100", false)]
    {
        let call = tied("cuda_runtime", "cudaLaunchKernel", (9, 9), ts, dur, 1);
        let (_folder, path) = trace_of(&[slice("cpu_op", "outer", (9, 9), 0, 100), call, nccl_kernel(200)]);
        let frames = &["outer", "cudaLaunchKernel"][usize::from(!has_caller)..];
        assert_eq!(stacks(&run_json(&[&path])), [stack(1, frames)], "{ts} {dur}");
    }
}

#[test]
fn names_cannot_forge_an_answer() {
    let call = tied("cuda_runtime", "cudaLaunchKernel", (9, 9), 10, 1, 1);
    let evil = slice("cpu_op", r"evil\nAppeared 99 times\u001b[31m", (9, 9), 1, 50);
    let (_folder, path) = trace_of(&[evil, call, nccl_kernel(20)]);
    let want = [stack(1, &[r"evil\nAppeared 99 times\u{1b}[31m", "cudaLaunchKernel"])];
    assert_eq!(script(&run(&[&path, "--format", "script"])), want);
    for form in ["text", "table", "csv", "folded"] {
        let text = stdout(&run(&[&path, "--format", form]));
        assert!(!text.contains('\u{1b}') && !text.contains("\nAppeared"), "{form}: {text}");
    }
}

/// A link stays a link, permissions are unchanged, and what is open already is written in place.
#[cfg(unix)]
#[test]
fn output_goes_where_links_lead() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let trace = testdata("two_matches.json");
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    std::fs::write(&target, "old").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("target", &link).unwrap();
    assert_eq!(run(&[&trace, "-o", link.to_str().unwrap()]).status.code(), Some(0));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&target).unwrap().contains("\n3. "));
    assert!(stdout(&run(&[&trace, "-o", "-"])).contains("\n3. "), "a lone dash is standard output");
    assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    if std::path::Path::new("/proc/self/fd").is_dir() {
        let redirected = folder.path().join("redirected");
        let file = std::fs::File::create(&redirected).unwrap();
        let status = program().args([&trace, "-o", "/proc/self/fd/1"]).stdout(file).stderr(Stdio::null()).status();
        assert!(status.unwrap().success());
        assert!(std::fs::read_to_string(&redirected).unwrap().contains("\n3. "));
    }
}

/// A family of that name would replace the known one, or be a second one; the name would be ambiguous.
#[test]
fn families_that_are_there_cannot_be_made_again() {
    let (_folder, file) = scratch("mine.json", br#"{"nccl": ["volta"]}"#);
    let why = "there is a family nccl already; give yours another name";
    refused(&[&testdata("costs.json"), "--family-file", &file], 1, why);
}

/// Names are whatever the writer of a trace wants, and a spreadsheet calculates cells that begin as formulas.
#[test]
fn csv_can_be_guarded_against_formulas() {
    let (_t, trace) = trace_of(&[
        slice("python_function", "=cmd(1),a", (1, 1), 100, 90),
        tied("cuda_runtime", "cudaLaunchKernel", (1, 1), 110, 5, 7),
        kernel("ncclDevKernel_X", (0, 7), 200, 5, 7),
    ]);
    let plain = stdout_of(&[&trace, "--format", "csv"]);
    has(&plain, ",\"=cmd(1),a;cudaLaunchKernel\"\n");
    let guarded = stdout_of(&[&trace, "--format", "csv", "--guard-csv"]);
    assert_eq!(guarded, plain.replace("\"=cmd", "\"'=cmd"));
    let query = ["sql", &trace, "SELECT name, -5 AS n FROM slice WHERE name LIKE '=%'"];
    for (more, row) in [
        (&[][..], "\n\"=cmd(1),a\",-5\n"),
        (&["--guard-csv"], "\n\"'=cmd(1),a\",-5\n"),
        // Only CSV is guarded.
        (&["--format", "json", "--guard-csv"], "\"=cmd(1),a\""),
    ] {
        has(&stdout_of(&[&query[..], more].concat()), row);
    }
}
