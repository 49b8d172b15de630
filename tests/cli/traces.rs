//! Traces as people have them, by many programs and with odd times (`testdata/traces`): what the first screen says of each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;

use crate::support::program::{run, stderr, stdout, testdata, trace_of};

fn json(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{args:?}: {}", stderr(&output)))
}

fn answer(name: &str) -> Value {
    json(&[&testdata(&format!("traces/{name}.json"))])
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
        let trace = testdata(&format!("traces/{name}.json"));
        let steps = json(&[&trace, "--group-by", "step"]);
        assert_eq!(steps["groups"].as_array().unwrap().len(), 16, "{name}");
        let exact = json(&[&trace, "--exact-names"]);
        assert_eq!(exact["stacks"].as_array().unwrap().len(), 16, "{name}");
    }
}

/// Two launches in annotations whose texts differ in numbers alone, one in an annotation with a number that no other has.
#[test]
fn numbers_in_annotations_fold_if_their_text_repeats() {
    let launch = |id: u32, annotation: &str| {
        let ts = id * 100;
        [
            format!(r#""ph":"X","cat":"user_annotation","name":"{annotation}","pid":1,"tid":1,"ts":{ts},"dur":50"#),
            format!(
                r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{id}}}"#,
                ts + 10
            ),
            format!(
                r#""ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{},"dur":9,"args":{{"correlation":{id}}}"#,
                ts + 20
            ),
        ]
    };
    let names = ["microbatch 1 of 8", "microbatch 2 of 8", "fp8 gather"];
    let events: Vec<String> = (1..).zip(names).flat_map(|(id, name)| launch(id, name)).collect();
    let (_folder, trace) = trace_of(&events.iter().map(String::as_str).collect::<Vec<_>>());
    let found = json(&[&trace]);
    let frames = |stack: &Value| stack["frames"][0].as_str().unwrap().to_owned();
    let mut outermost: Vec<String> = found["stacks"].as_array().unwrap().iter().map(frames).collect();
    outermost.sort();
    assert_eq!(outermost, ["fp8 gather", "microbatch * of *"]);
    assert_eq!(json(&[&trace, "--exact-names"])["stacks"].as_array().unwrap().len(), 3);
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
        let said = stderr(&run(&[&testdata(&format!("traces/{name}.json"))]));
        assert!(said.contains("slices without a time that can be true"), "{said}");
    }
    let said = stderr(&run(&[&testdata("traces/00_control.json")]));
    assert!(!said.contains("can be true"), "{said}");
}

/// A call of an hour on the thread that launches, which nothing follows, is not in the window; one of a tenth of the trace is.
#[test]
fn a_call_far_longer_than_all_else_is_not_in_the_window() {
    for (dur, wall_us) in [(3_600_000_000_u64, 211), (300, 310)] {
        let mut events = vec![format!(
            r#""ph":"X","cat":"cuda_runtime","name":"cudaEventQuery","pid":1,"tid":1,"ts":10,"dur":{dur},"args":{{"correlation":99}}"#
        )];
        for id in 0..4 {
            let ts = id * 50;
            events.push(format!(
                r#""ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":{ts},"dur":5,"args":{{"correlation":{id}}}"#
            ));
            events.push(format!(
                r#""ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"correlation":{id}}}"#,
                ts + 20,
                if id == 3 { 41 } else { 9 }
            ));
        }
        let (_folder, trace) = trace_of(&events.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(json(&[&trace])["summary"]["wall_ns"], wall_us * 1_000, "{dur}");
    }
}

/// One of 64 kernels takes 17.456 s of 17.457: the sentence is about that one. In the control all take 80 µs.
#[test]
fn an_outlier_is_said() {
    let found = answer("04_first_collective_waits");
    let outliers = &found["stacks"][0]["cost"]["outliers"];
    assert_eq!((&outliers["count"], &outliers["others_median_ns"]), (&1.into(), &14_300.0.into()), "{outliers}");
    let trace = testdata("traces/04_first_collective_waits.json");
    let text = stdout(&run(&[&trace]));
    let said = "1 of the 64 kernels, the first, takes 17.456 s of their time, at 1000160000 ns; the other 63 take a median of 14.300 µs.";
    assert!(text.contains(said) && text.contains("  median 14."), "{text}");
    // The window that is advised leaves it out.
    let advised: Vec<&str> = text.split("First: ").nth(1).unwrap().split(' ').take(4).collect();
    let without = json(&[&[trace.as_str()], &advised[..]].concat());
    assert!(without["stacks"][0]["cost"]["gpu_time"]["max_ns"].as_u64().unwrap() < 1_000_000, "{advised:?}");
    let control = stdout(&run(&[&testdata("traces/00_control.json")]));
    assert!(!control.contains("take a median") && !control.contains("  median"), "{control}");
}

/// What a kernel of a graph says itself is a frame below the replay, and the headline.
#[test]
fn annotations_of_graph_kernels_are_frames() {
    let found = answer("11_annotated_graph");
    let frames = found["stacks"][0]["frames"].as_array().unwrap();
    assert_eq!(frames.iter().rev().take(2).collect::<Vec<_>>(), ["layer.*.all_gather", "cudaGraphLaunch"]);
    assert_eq!(found["stacks"][0]["headline"], "layer.*.all_gather");
    let exact = json(&[&testdata("traces/11_annotated_graph.json"), "--exact-names"]);
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
        let trace = testdata(&format!("traces/{name}.json"));
        let found: Value = json(&[&trace]);
        let coverage = &found["coverage"];
        let with_launch: u64 = coverage["attributed_by"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!((coverage["kernels"].as_u64(), with_launch), (Some(kernels), attributed), "{name}: {coverage}");
        assert_eq!(found["stacks"][0]["headline"].as_str(), headline, "{name}");
    }
    // JAX's times are microseconds, whatever its header displays: 4 ms on each of two GPUs.
    let jax = run(&[&testdata("traces/20_jax_gpu.json")]);
    assert!(
        !stderr(&jax).contains("nanoseconds") && stdout(&jax).contains("Of 8.000 ms on 2 GPUs"),
        "{}",
        stderr(&jax)
    );
}

/// A file without kernels that can be read is called what it is, with what to record instead. Only a trace of PyTorch's profiler is asked about its activities.
#[test]
fn files_of_other_programs_are_named() {
    for (name, is, and) in [
        ("22_tf_timeline", "a timeline of TensorFlow 1", "NcclAllReduce [Op]: 960.000 µs in 8 slices"),
        ("28_bazel_profile", "a profile of Bazel", "has no GPUs"),
        ("77_ascend_trace_view", "a trace of Ascend's profiler", "hcom_allReduce: 400.000 µs in 4 slices"),
        ("75_hpu_collective_comm", "Its accelerator is privateuse1", "only kernels of CUDA and ROCm are read"),
    ] {
        let trace = testdata(&format!("traces/{name}.json"));
        let output = run(&[&trace]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{name}: {said}");
        assert!(said.contains(is) && said.contains(and) && !said.contains("ProfilerActivity"), "{name}: {said}");
    }
    let described = stdout(&run(&["describe", &testdata("traces/77_ascend_trace_view.json")]));
    assert!(described.contains("a trace of Ascend's profiler"), "{described}");
    let cpu = r#""ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":5"#;
    let (_folder, trace) = trace_of(&[cpu]);
    let said = stderr(&run(&[&trace]));
    assert!(said.contains("Was it recorded without ProfilerActivity.CUDA"), "{said}");
}
