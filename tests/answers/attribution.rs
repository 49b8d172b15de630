//! Which code a kernel is attributed to, one rule at a time. Expected answers were worked out by hand from the traces of `testdata/`;
//! they are in `testdata/README.md` with their reasons.

use crate::support::events;

use crate::support::program::{
    has, refused, run, run_json, scratch, stack, stacks, stderr, stderr_of, stdout, testdata, trace_of,
};

/// The callers that all stacks of `strangers.json` but one begin with.
const MAIN: [&str; 2] = ["<string>(1): <module>", "train.py(10): main"];

#[test]
fn callers_that_times_or_numbers_alone_get_wrong() {
    let trace = testdata("strangers.json");
    let launch = "cudaLaunchKernelExC";
    let below_main = |frames: &[&str]| stack(1, &[&MAIN[..], frames, &[launch]].concat());
    let output = run_json(&[&trace]);
    // In the order of their text.
    let want = [
        below_main(&["autograd_op", "hook.py(5): ends_late", "c10d::two"]),
        below_main(&["b.py(2): after"]),
        below_main(&["c.py(3): later", "c10d::four"]),
        below_main(&["c10d::eight"]),
        below_main(&["c10d::one"]),
        below_main(&["c10d::six"]),
        below_main(&["d.py(4): outer", "e.py(5): inner"]),
        stack(
            1,
            &["[thread pt_autograd_]", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", launch],
        ),
    ];
    assert_eq!(stacks(&output), want);
    // No depth shows anything of the other thread.
    assert!(!stdout(&run(&[&trace, "--stack-depth", "0"])).contains("watchdog"));
    let exact = stdout(&run(&[&trace, "--exact-names"]));
    has(&exact, "[thread 7001 (pt_autograd_0)]");
}

#[test]
fn each_kernel_has_the_strongest_evidence() {
    let trace = testdata("evidence.json");
    let output = run_json(&[&trace, "--verbose"]);
    let below = |count, frames: &[&str]| stack(count, &[&["serve.py(1): main"], frames].concat());
    let want = [
        below(2, &["replay", "cudaGraphLaunch"]),
        below(1, &["c10d::one", "cudaLaunchKernelExC"]),
        below(1, &["c10d::three", "cudaLaunchKernelExC"]),
        below(1, &["c10d::two", "cudaLaunchKernelExC"]),
        below(1, &["record_param_comms"]),
    ];
    assert_eq!(stacks(&output), want);
    let notes = stderr(&output);
    for line in [
        "Coverage: 6 of 10 kernels attributed: 2 by correlation, 1 by flow, 1 by External id, 2 by graph replay; 4 without a launch\n",
        "Without a launch: 1 kernel (5.00 µs), launched before recording began\nThese are: ncclDevKernel_AllReduce",
        "Without a launch: 1 kernel (5.00 µs), with nothing that ties them to a call: no correlation id, no flow\nThese are: ncclDevKernel_AllReduce",
        "Without a launch: 2 kernels (10.0 µs), whose call is not in the trace, though earlier ones are (records dropped?)\nThese are: nccl",
        "at 760000 ns, nccl",
        "at 780000 ns\n",
        "Flows disagree for 1 kernel: ",
    ] {
        assert!(notes.contains(line), "{line}\n{notes}");
    }
}

#[test]
fn replayed_kernels_have_the_stack_of_their_capture() {
    // The captures are found in a folder beside the trace; naming one uses only that one.
    let trace = testdata("replay/trace.json");
    let capture = testdata("replay/capture_traces/capture.json");
    for args in [vec![trace.as_str()], vec![&trace, "--capture-trace", &capture]] {
        let output = run_json(&args);
        let replay = ["serve.py(1): step", "graphs.py(9): replay", "hipGraphLaunch"];
        let captured = |frames: &[&str]| {
            let capture = [&["[graph capture]", "serve.py(30): warm_up"], frames, &["hipLaunchKernel"]].concat();
            stack(1, &[&capture[..], &["[graph replay]"], &replay].concat())
        };
        let want = [
            stack(2, &replay),
            stack(1, &["[graph capture]", "serve.py(30): warm_up", "embed.py(3): gather", "hipLaunchKernel"]),
            captured(&["model.py(5): mlp", "c10d::allreduce_"]),
            captured(&["model.py(9): attention", "c10d::allreduce_"]),
        ];
        assert_eq!(stacks(&output), want);
        let notes = stderr(&output);
        has(&notes, "5 of 5 kernels attributed: 4 by graph replay, 1 by graph capture alone; 0 without");
        has(&notes, "Graph captures: stacks for 3 kernels, 1 ambiguous");
        has(&notes, "1 of a graph that no capture holds\n");
    }
    refused(&[&trace, "--capture-trace", "no_such_file.json"], 1, "no_such_file.json: there is no such file");
    has(
        &stderr(&run(&[&trace, "--capture-trace", &testdata("two_matches.json")])),
        "no call in this trace puts anything into a graph",
    );
}

/// CUDA's calls do not name the kernels that they launch: the order decides, if the graph runs on one stream.
#[test]
fn captures_without_names_are_matched_by_order() {
    let call = |name: &str, ts: u32| {
        format!(r#""ph":"X","name":"{name}","cat":"cuda_runtime","pid":9,"tid":9,"ts":{ts},"dur":1,"args":{{}}"#)
    };
    let op =
        |name: &str, ts: u32| format!(r#""ph":"X","name":"{name}","cat":"cpu_op","pid":9,"tid":9,"ts":{ts},"dur":5"#);
    let capture: Vec<String> = vec![
        call("cudaStreamBeginCapture", 1),
        op("aten::mm", 10),
        call("cudaLaunchKernel", 11),
        call("cudaMemsetAsync", 13),
        op("nccl:all_reduce", 20),
        call("cudaLaunchKernelExC", 21),
        call("cudaStreamEndCapture", 30),
    ];
    let capture: Vec<&str> = capture.iter().map(String::as_str).collect();
    let (_folder, capture) = trace_of(&capture);
    let work = |name: &str, category: &str, stream: u32, ts: u32, dur: u32| {
        events::tied(category, name, (0, stream), ts, dur, 1)
    };
    let replay = |streams: [u32; 3], first: &str| {
        let launch = r#""ph":"X","name":"cudaGraphLaunch","cat":"cuda_runtime","pid":9,"tid":9,"ts":10,"dur":1,"args":{"correlation":1}"#;
        let events = [
            launch.to_owned(),
            // The second begins before the first has ended, as kernels on one stream may.
            work("gemm", first, streams[0], 20, 15),
            work("Memset (Device)", "gpu_memset", streams[1], 30, 10),
            work("ncclDevKernel_X", "kernel", streams[2], 40, 5),
        ];
        let (_folder, replay) = trace_of(&events);
        run_json(&[&replay, "--capture-trace", &capture])
    };
    let output = replay([7, 7, 7], "kernel");
    let want = ["[graph capture]", "nccl:all_reduce", "cudaLaunchKernelExC", "[graph replay]", "cudaGraphLaunch"];
    assert_eq!(stacks(&output), [stack(1, &want)]);
    let by_order = "stacks for 1 kernel (1 by order alone, because the calls name no kernels), 0 ambiguous";
    has(&stderr(&output), by_order);
    // On two streams the order is not certain; with a copy instead of a kernel it is another graph.
    for output in [replay([7, 8, 7], "kernel"), replay([7, 7, 7], "gpu_memcpy")] {
        assert_eq!(stacks(&output), [stack(1, &["cudaGraphLaunch"])]);
        has(&stderr(&output), "1 of a graph that no capture holds");
    }
}

#[test]
fn the_backward_pass_shows_the_forward_pass() {
    let trace = testdata("forward_backward.json");
    let node = |node: &str| -> Vec<String> {
        let frames =
            [&format!("autograd::engine::evaluate_function: {node}"), node, "c10d::alltoall_", "cudaLaunchKernelExC"];
        frames.iter().map(|frame| (*frame).to_owned()).collect()
    };
    let forward = |operators: &[&str], name: &str| -> (u64, Vec<String>) {
        let above = [&["[forward]", "train.py(1): main", "model.py(20): forward"], operators].concat();
        let above = above.into_iter().chain(["[backward on thread pt_autograd_]"]).map(str::to_owned);
        (1, above.chain(node(name)).collect())
    };
    let alone = |name: &str| -> (u64, Vec<String>) {
        (1, std::iter::once("[thread pt_autograd_]".to_owned()).chain(node(name)).collect())
    };
    let accumulate = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    let accumulate = stack(1, &["[thread pt_autograd_]", accumulate, "cudaLaunchKernelExC"]);
    let output = run_json(&[&trace]);
    let want = [
        alone("AddBackward"),
        forward(&["All2All"], "All2AllBackward"),
        forward(&["aten::linear", "aten::mm"], "MmBackward"),
        forward(&["aten::mul"], "MulBackward"),
        accumulate.clone(),
    ];
    assert_eq!(stacks(&output), want);
    has(&stderr(&output), "Forward pass: 2 kernels of the backward pass without");
    let off = run_json(&[&trace, "--forward-stacks", "off"]);
    let nodes = ["AddBackward", "All2AllBackward", "MmBackward", "MulBackward"];
    assert_eq!(stacks(&off), nodes.into_iter().map(alone).chain([accumulate]).collect::<Vec<_>>());
    assert!(!stderr(&off).contains("Forward pass"), "{}", stderr(&off));
}

#[test]
fn a_window_may_be_on_the_kernel() {
    let trace = testdata("two_matches.json");
    let step = |index: &str| {
        run_json(&[&trace, "--function-name", "train.py(40): train_step", "--index", index, "--window-on", "kernel"])
    };
    // Launched between the steps, runs in the last one.
    let last = step("2");
    assert_eq!(stacks(&last), [stack(1, &["train.py(12): main", "c10d::allreduce_", "cudaLaunchKernelExC"])]);
    // Of two launched in this step, one runs after it.
    let middle = step("1");
    assert_eq!(stacks(&middle).iter().map(|(count, _)| count).sum::<u64>(), 1);
    let note = "Not in the stacks: 1 kernel, launched in the window, run outside of it";
    has(&stderr(&middle), note);
}

#[test]
fn families_of_kernels() {
    let custom = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 4>(sglang::RankData*)";
    let kernel = |name: &str, ts: u32, id: u32| events::tied("kernel", name, (0, 7), ts, 5, id);
    let call = |ts: u32, id: u32| events::tied("cuda_runtime", "cudaLaunchKernel", (9, 9), ts, 1, id);
    let events =
        [call(1, 1), call(3, 2), call(5, 3), kernel(custom, 10, 1), kernel("myReduce", 20, 2), kernel("gemm", 30, 3)];
    let (_folder, trace) = trace_of(&events);
    let count = |args: &[&str]| -> u64 {
        stacks(&run_json(&[&[trace.as_str()], args].concat())).iter().map(|(count, _)| count).sum()
    };
    let (_own, own) = scratch("families.json", br#"{"mine": ["my*"]}"#);
    assert_eq!(count(&["--family", "custom-allreduce"]), 1);
    assert_eq!(count(&["--family", "all-collectives"]), 1);
    assert_eq!(count(&["--family", "custom-allreduce", "--kernel-name", "gemm"]), 2);
    assert_eq!(count(&["--family-file", &own, "--family", "mine"]), 1);
    assert_eq!(count(&["--family-file", &own, "--family", "all-collectives"]), 2);
    // All families are the default. Without the one that the trace has, the answer names its kernels.
    assert_eq!(count(&[]), 1);
    let text = stderr_of(&[&trace, "--family", "nccl"], 3);
    has(&text, "3 kernels ran in the window, no such kernel among them. Collectives that did:");
    has(&text, "     1  void sglang::cross_device_reduce_1stage");
    refused(&[&trace, "--family", "mine"], 2, "there is no such family; the families are nccl, rccl, custom-allreduce");
    refused(&[&trace, "--family-file", "no_such_file.json", "--family", "mine"], 1, "no_such_file.json");
}

/// A slice of a trace, without its braces: category, name, process and thread, start and length in µs, arguments.
fn slice(category: &str, name: &str, (pid, tid): (u32, u32), (ts, dur): (&str, &str), args: &str) -> String {
    format!(
        r#""ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}"#
    )
}

fn flow(phase: &str, category: &str, id: u32, (pid, tid): (u32, u32), ts: u32) -> String {
    format!(
        r#""ph":"{phase}","cat":"{category}","name":"{category}","id":{id},"pid":{pid},"tid":{tid},"ts":{ts},"bp":"e""#
    )
}

fn trace(events: &[String]) -> (tempfile::TempDir, String) {
    trace_of(events)
}

const CALL: &str = "cuda_runtime";
const ONE: &str = r#""correlation":1"#;

/// An operator that begins a little after the launch is its caller only if nothing else can be.
#[test]
fn operators_that_begin_late_are_the_last_resort() {
    let (main, other, stream) = ((9, 9), (9, 0), (0, 7));
    let launch = slice(CALL, "cudaLaunchKernel", main, ("10", "6"), ONE);
    let kernel = slice("kernel", "ncclX", stream, ("90", "5"), ONE);
    // What begins in the call was not called by it: neither the slice that ends after it nor the one around that.
    let within = [
        slice(CALL, "cudaLaunchKernel", main, ("10", "10"), ONE),
        slice("cpu_op", "within", main, ("10.2", "9.8"), ""),
        slice("cpu_op", "reaching_out", main, ("10.5", "10"), ""),
        kernel.clone(),
    ];
    assert_eq!(stacks(&run_json(&[&trace(&within).1])), [stack(1, &["within", "reaching_out", "cudaLaunchKernel"])]);
    // Another thread's function, which has tid 0 and so is on the main thread; an operator encloses the call.
    let held = [
        slice("cpu_op", "c10d::allreduce_", main, ("9", "20"), ""),
        launch.clone(),
        slice("python_function", "poll.py(7): poll", other, ("11", "40"), ""),
        kernel.clone(),
    ];
    assert_eq!(stacks(&run_json(&[&trace(&held).1])), [stack(1, &["c10d::allreduce_", "cudaLaunchKernel"])]);
    let alone = [launch, slice("cpu_op", "c10d::allreduce_", main, ("11", "20"), ""), kernel];
    assert_eq!(stacks(&run_json(&[&trace(&alone).1])), [stack(1, &["c10d::allreduce_", "cudaLaunchKernel"])]);
}

/// In a container a process may have the number of a device, and a thread that of a stream.
#[test]
fn work_on_a_gpu_calls_nothing() {
    let events = [
        slice("kernel", "gemm", (7, 7), ("0", "500"), ""),
        slice("cpu_op", "aten::x", (7, 7), ("10", "50"), ""),
        slice(CALL, "cudaLaunchKernel", (7, 7), ("20", "5"), ONE),
        slice("kernel", "ncclX", (7, 8), ("90", "5"), ONE),
    ];
    assert_eq!(stacks(&run_json(&[&trace(&events).1])), [stack(1, &["aten::x", "cudaLaunchKernel"])]);
}

/// Ranks in one file with equal numbers: an ambiguous launch is counted as uncertain, and no rank gets another's
/// forward pass.
#[test]
fn ranks_in_one_file_are_not_taken_for_each_other() {
    let mut events = Vec::new();
    for (rank, pid) in [(0, 100), (1, 200)] {
        let (at, lane, stream) = (100 + 5 * rank, (pid, pid), (rank, 7));
        events.push(slice("cpu_op", &format!("rank{rank}"), lane, ("0", "500"), ""));
        events.push(slice(CALL, "cudaLaunchKernel", lane, (&at.to_string(), "2"), ONE));
        events.push(flow("s", "ac2g", 1, lane, at));
        events.push(slice("kernel", "ncclX", stream, (&(at + 10).to_string(), "2"), ONE));
        events.push(flow("f", "ac2g", 1, stream, at + 10));
    }
    let output = run_json(&[&trace(&events).1]);
    has(&stderr(&output), "Uncertain: 2 kernels");

    let mut events = Vec::new();
    for (rank, pid, sequence) in [(0, 100, 9), (1, 200, 30)] {
        let (lane, backward, id) = ((pid, pid), (pid, pid + 1), rank + 1);
        let number = |thread: u32| format!(r#""Sequence number":{sequence},"Fwd thread id":{thread}"#);
        events.push(slice("cpu_op", &format!("forward of {rank}."), lane, ("10", "20"), &number(0)));
        events.push(flow("s", "fwdbwd", 1, lane, 10));
        events.push(slice("cpu_op", "backward", backward, ("100", "50"), &number(1)));
        events.push(flow("f", "fwdbwd", 1, backward, 100));
        events.push(slice(CALL, "cudaLaunchKernel", backward, ("110", "2"), &format!(r#""correlation":{id}"#)));
        events.push(slice("kernel", "ncclX", (rank, 7), ("200", "2"), &format!(r#""correlation":{id}"#)));
    }
    let text = stdout(&run(&[&trace(&events).1]));
    let (first, second) = (text.find("forward of 0."), text.find("forward of 1."));
    assert!(first.is_some() && second.is_some(), "{text}");
}

/// On several streams the kernels of a replay may start in any order.
#[test]
fn captures_of_several_streams_are_matched_by_name() {
    let main = (9, 9);
    let call = |ts: &str, name: &str| slice(CALL, name, main, (ts, "1"), "");
    let launch =
        |ts: &str, kernel: &str| slice(CALL, "hipLaunchKernel", main, (ts, "1"), &format!(r#""kernel":"{kernel}""#));
    let capture = [
        call("1", "hipStreamBeginCapture"),
        slice("cpu_op", "branch_a", main, ("10", "9"), ""),
        launch("11", "ncclX"),
        launch("15", "ncclY"),
        slice("cpu_op", "branch_b", main, ("20", "9"), ""),
        launch("21", "ncclX"),
        call("40", "hipStreamEndCapture"),
    ];
    let (_folder, capture) = trace(&capture);
    let replay = |kernels: [(&str, u32); 3]| {
        let mut events = vec![slice(CALL, "hipGraphLaunch", main, ("5", "1"), ONE)];
        for ((kernel, stream), ts) in kernels.into_iter().zip(["20", "30", "40"]) {
            events.push(slice("kernel", kernel, (0, stream), (ts, "5"), ONE));
        }
        run_json(&[&trace(&events).1, "--capture-trace", &capture])
    };
    // X was launched from two places, Y from one.
    let output = replay([("ncclX", 8), ("ncclX", 7), ("ncclY", 7)]);
    let want = ["[graph capture]", "branch_a", "hipLaunchKernel", "[graph replay]", "hipGraphLaunch"];
    assert_eq!(stacks(&output), [stack(2, &["hipGraphLaunch"]), stack(1, &want)]);
    has(&stderr(&output), "stacks for 1 kernel, 2 ambiguous");
    // On one stream the order decides everything.
    let output = replay([("ncclX", 7), ("ncclY", 7), ("ncclX", 7)]);
    has(&stderr(&output), "stacks for 3 kernels, 0 ambiguous");
    let output = replay([("ncclX", 7), ("ncclX", 7), ("ncclY", 7)]);
    has(&stderr(&output), "stacks for 0 kernels, 0 ambiguous");
}

/// If there are two `args`, the last one wins, however many events of the same form were read before.
#[test]
fn the_last_of_two_args_wins() {
    let twice = |id: u32| {
        let last = format!(r#""args":{{"list":[{id}],"correlation":{id}}}"#);
        format!(
            r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{id},"dur":1,"args":{{"cbid":1,"correlation":999999}},{last}"#
        )
    };
    let mut events: Vec<String> = (1..200).map(twice).collect();
    events.extend((1..200).map(|id| {
        slice("kernel", "ncclX", (0, 7), (&(1000 + 10 * id).to_string(), "5"), &format!(r#""correlation":{id}"#))
    }));
    assert_eq!(stacks(&run_json(&[&trace(&events).1])), [stack(199, &["cudaLaunchKernel"])]);
}

/// Old profilers gave calls of threads without operators a negative number, which Perfetto reads as the main thread's.
#[test]
fn a_call_of_another_thread_is_nobodys_caller() {
    let (_folder, trace) = trace_of(&[
        r#""ph":"X","cat":"cpu_op","name":"aten::addmm","pid":9,"tid":9,"ts":1,"dur":20"#,
        r#""ph":"X","cat":"cuda_runtime","name":"cudaPointerGetAttributes","pid":9,"tid":-5,"ts":2,"dur":8,"args":{"correlation":1}"#,
        r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":3,"dur":5,"args":{"correlation":2}"#,
        r#""ph":"X","cat":"cuda_driver","name":"cuLaunchKernel","pid":9,"tid":9,"ts":4,"dur":2,"args":{"correlation":3}"#,
        r#""ph":"X","cat":"kernel","name":"ncclA","pid":0,"tid":7,"ts":30,"dur":5,"args":{"correlation":2}"#,
        r#""ph":"X","cat":"kernel","name":"ncclB","pid":0,"tid":7,"ts":40,"dur":5,"args":{"correlation":3}"#,
    ]);
    let below = |frames: &[&str]| stack(1, &[&["aten::addmm", "cudaLaunchKernel"], frames].concat());
    assert_eq!(stacks(&run_json(&[&trace])), [below(&[]), below(&["cuLaunchKernel"])]);
}

/// Two ranks, merged into one file: each has its own call 5, 6 and 7. For the kernels with 7 there are two launches; those with 6, for
/// which there is one only, show whose GPU it is.
#[test]
fn ranks_in_one_file_keep_their_own_launches() {
    let call = |name: &str, pid: u32, ts: u32, correlation: u32| {
        events::tied("cuda_runtime", name, (pid, pid), ts, 2, correlation)
    };
    let operator = |name: &str, pid: u32, ts: u32| {
        format!(r#""ph":"X","cat":"cpu_op","name":"{name}","pid":{pid},"tid":{pid},"ts":{ts},"dur":50"#)
    };
    let kernel = |gpu: u32, ts: u32, correlation: u32| events::tied("kernel", "ncclA", (gpu, 7), ts, 5, correlation);
    let events = [
        operator("of_a", 10, 1),
        operator("of_b", 20, 1),
        call("cudaLaunchKernel", 10, 10, 5),
        call("cudaMemcpyAsync", 20, 12, 5),
        call("cudaEventQuery", 10, 20, 6),
        call("cudaLaunchKernel", 20, 22, 6),
        call("cudaLaunchKernel", 10, 30, 7),
        call("cudaLaunchKernel", 20, 32, 7),
        kernel(0, 100, 5),
        kernel(1, 110, 6),
        kernel(0, 120, 7),
        kernel(1, 130, 7),
    ];
    let (_folder, trace) = trace_of(&events);
    let output = run_json(&[&trace]);
    assert_eq!(stacks(&output), [stack(2, &["of_a", "cudaLaunchKernel"]), stack(2, &["of_b", "cudaLaunchKernel"])]);
    assert!(!stderr(&output).contains("Uncertain"), "{}", stderr(&output));
}

/// Of three kernels below one record without External ids nobody knows which moved how much; of an all-gather without a recorded output
/// nobody knows the size.
#[test]
fn what_is_not_recorded_is_unknown() {
    let record = |ts: u32, name: &str, input: u32, output: u32| {
        format!(
            r#""ph":"X","cat":"cpu_op","name":"record_param_comms","pid":9,"tid":9,"ts":{ts},"dur":9,"args":{{"Collective name":"{name}","In msg nelems":{input},"Out msg nelems":{output},"Group size":2,"dtype":"BFloat16"}}"#
        )
    };
    let call = |ts: u32, id: u32| events::tied("cuda_runtime", "cudaLaunchKernel", (9, 9), ts, 1, id);
    let kernel = |ts: u32, name: &str, id: u32| events::tied("kernel", name, (0, 7), ts, 10, id);
    let events = [
        record(10, "allreduce", 1000, 1000),
        call(12, 1),
        call(14, 2),
        record(20, "_allgather_base", 1000, 0),
        call(22, 3),
        record(30, "all_to_allv", 1000, 3000),
        call(32, 4),
        kernel(40, "ncclShared", 1),
        kernel(50, "ncclShared", 2),
        kernel(60, "ncclGather", 3),
        kernel(70, "ncclUneven", 4),
    ];
    let (_folder, trace) = trace_of(&events);
    let of = |kernel: &str| {
        let answer: serde_json::Value =
            serde_json::from_str(&stdout(&run(&[&trace, "-k", kernel, "--format", "json"]))).unwrap();
        let collective = &answer["stacks"][0]["messages"];
        (collective["bytes"]["max"].as_u64(), collective["bandwidth"]["algorithm_gb_per_s"].as_f64())
    };
    assert_eq!(of("ncclShared"), (Some(2000), None));
    assert_eq!(of("ncclGather"), (None, None));
    // 3,000 elements of 2 bytes in 10 µs.
    assert_eq!(of("ncclUneven"), (Some(6000), Some(0.6)));
}

/// The window of the whole trace ends with the last slice, not with the instant at the end of the recording, and includes a kernel that
/// took no time at its end.
#[test]
fn the_whole_trace_is_what_lasts() {
    let (_folder, trace) = trace_of(&[
        r#""ph":"X","cat":"kernel","name":"ncclA","pid":0,"tid":7,"ts":10,"dur":10"#,
        r#""ph":"X","cat":"kernel","name":"ncclB","pid":0,"tid":7,"ts":20,"dur":0"#,
        r#""ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":900"#,
    ]);
    let output = run(&[&trace, "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["summary"]["window"], serde_json::json!({"start_ns": 10_000, "end_ns": 20_001}));
    assert_eq!(answer["summary"]["kernel_names_found"], 2);
}
