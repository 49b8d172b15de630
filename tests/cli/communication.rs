//! What counts as communication, and what is said of it: copies that carry out collectives, the fastest of a size, kernels without a launch.

use serde_json::{Value, json};

use crate::support::program::{ended, has, json_of, run, says, stderr_of, stdout, testdata, trace_of};
use crate::support::shared;

/// A slice of the CPU, in whole µs.
fn cpu(category: &str, name: &str, ts: u32, dur: u32, args: &Value) -> String {
    format!(r#""ph":"X","cat":"{category}","name":"{name}","pid":9,"tid":9,"ts":{ts},"dur":{dur},"args":{args}"#)
}

/// Work of a GPU, in whole µs.
fn gpu(category: &str, name: &str, stream: u32, ts: u32, dur: u32, args: &Value) -> String {
    format!(r#""ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{args}"#)
}

fn call(id: u32, ts: u32) -> String {
    cpu("cuda_runtime", "cudaLaunchKernel", ts, 2, &json!({"correlation": id}))
}

/// The answer for programs, of a trace of these events.
fn answer(events: &[String], args: &[&str]) -> Value {
    let (_folder, trace) = trace_of(events);
    json_of(&[&[trace.as_str(), "--json"], args].concat())
}

/// The same for people.
fn text(events: &[String], args: &[&str]) -> String {
    let (_folder, trace) = trace_of(events);
    stdout(&run(&[&[trace.as_str()], args].concat()))
}

/// The rows of CSV by the names of their columns. No cell that is asked for has a comma.
fn csv(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let row = |row: csv::StringRecord| header.iter().cloned().zip(row.iter().map(str::to_owned)).collect();
    reader.records().map(|of| row(of.unwrap())).collect()
}

/// An all-gather by copy engines: the record is open from 100 to 150 µs, its call begins at 110 and makes two copies, from 200 to 230 and from 230 to
/// 240 µs. A product runs from 210 to 220, so 30 of 40 µs are exposed. A copy of the model's own runs from 300 to 350, and one from the host, which
/// sets up the communicator, from 160 to 180.
fn copy_engine(record_pid: u32) -> Vec<String> {
    let record = json!({"External id": 5, "Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 20, "Group size": 2,
        "dtype": "Float"});
    let record =
        cpu("cpu_op", "record_param_comms", 100, 50, &record).replace("\"pid\":9", &format!("\"pid\":{record_pid}"));
    let copy = |name: &str, id: u32, call: u32, ts: u32, dur: u32| {
        gpu("gpu_memcpy", name, 20, ts, dur, &json!({"External id": id, "correlation": call}))
    };
    vec![
        record,
        cpu("cuda_runtime", "cudaMemcpyBatchAsync", 110, 5, &json!({"correlation": 7})),
        cpu("cuda_runtime", "cudaMemcpyAsync", 120, 5, &json!({"correlation": 8})),
        cpu("cpu_op", "aten::copy_", 160, 20, &json!({"External id": 6})),
        cpu("cuda_runtime", "cudaMemcpyAsync", 165, 5, &json!({"correlation": 9})),
        call(10, 190),
        copy("Memcpy HtoD (Pinned -> Device)", 5, 8, 160, 20),
        copy("Memcpy PtoP (Device -> Device)", 5, 7, 200, 30),
        copy("Memcpy PtoP (Device -> Device)", 5, 7, 230, 10),
        copy("Memcpy DtoD (Device -> Device)", 6, 9, 300, 50),
        gpu("kernel", "gemm", 7, 210, 10, &json!({"correlation": 10})),
    ]
}

#[test]
fn copies_of_a_collective_are_collectives() {
    let events = copy_engine(9);
    let found = answer(&events, &[]);
    let times = ["collectives_ns", "compute_ns", "exposed_ns"].map(|time| &found["summary"][time]);
    assert_eq!(times, [&json!(40_000), &json!(10_000), &json!(30_000)]);
    let stack = &found["stacks"][0];
    assert_eq!((found["stacks_found"].as_u64(), stack["count"].as_u64()), (Some(1), Some(2)));
    assert_eq!(stack["frames"], json!(["record_param_comms", "cudaMemcpyBatchAsync"]));
    let by_name = json!({"Memcpy PtoP (Device -> Device)": {"count": 2, "gpu_time_ns": 40_000, "exposed_ns": 30_000}});
    assert_eq!(stack["kernels_by_name"], by_name);
    assert_eq!(stack["messages"]["collectives"], json!({"all_gather": 2}));
    // Two copies share the record, so that neither has its size for itself.
    assert_eq!((&stack["messages"]["bandwidth"], &stack["messages"]["fastest_ns"]), (&Value::Null, &Value::Null));
    assert_eq!(answer(&events, &["--family", "copy-engine"])["stacks"][0]["count"], 2);
    // Each copy is an operation with its part of the size, which is 80 bytes.
    let (_folder, trace) = trace_of(&events);
    let sizes = stdout(&run(&["sql", &trace, "SELECT bytes FROM collective", "--quiet"]));
    assert_eq!(sizes.lines().skip(1).collect::<Vec<_>>(), ["40"; 2]);
    let shown = text(&events, &["--kernel-name", "gemm"]);
    has(&shown, "None of the kernels asked for is communication, which takes: copy-engine 40.0 µs.\n");
    assert!(shown.starts_with("The kernels asked for take "), "{shown}");
}

/// In a file of several ranks an operator of another process has the id by chance.
#[test]
fn a_copy_of_another_process_is_none() {
    let (_folder, trace) = trace_of(&copy_engine(8));
    stderr_of(&[&trace], 3);
    // Rank 0's copies have ids of rank 3's records.
    let Some(shared) = shared() else { return };
    let merged = shared.join("traces/HPCTrainingExamples__ddp_rccl_merged_4ranks.json.gz");
    assert_eq!(json_of::<Value>(&[merged.to_str().unwrap(), "--json"])["kernels_in_trace"], 84);
}

/// All-reduces of 64 floats over two ranks: the first step has one of 10 µs, the second three of 90. The second also has one of 1 µs and 32 floats, and
/// the first one of 2 µs over four ranks. With a record on each kernel, or on the operator alone.
fn all_reduces(is_on_kernel: bool) -> Vec<String> {
    let mut events = Vec::new();
    let mut add = |id: u32, ts: u32, dur: u32, elements: u32, ranks: u32| {
        let record = json!({"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "Group size": ranks, "dtype": "Float"});
        events.push(cpu("cpu_op", "record_param_comms", ts, 5, &record));
        events.push(call(id, ts + 1));
        let mut args = if is_on_kernel { record } else { json!({}) };
        args["correlation"] = json!(id);
        events.push(gpu("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, ts + 5, dur, &args));
    };
    add(1, 10, 10, 64, 2);
    add(2, 30, 2, 64, 4);
    for (id, ts) in [(3, 1_010), (4, 1_110), (5, 1_210)] {
        add(id, ts, 90, 64, 2);
    }
    add(6, 1_310, 1, 32, 2);
    events.push(cpu("user_annotation", "step 1", 0, 1_000, &json!({})));
    events.push(cpu("user_annotation", "step 2", 1_000, 300, &json!({})));
    events
}

#[test]
fn the_fastest_is_that_of_the_whole_trace() {
    for is_on_kernel in [true, false] {
        let events = all_reduces(is_on_kernel);
        let found = answer(&events, &["--function-name", "step 2"]);
        let stack = &found["stacks"][0];
        assert_eq!((stack["count"].as_u64(), stack["messages"]["fastest_ns"].as_u64()), (Some(3), Some(10_000)));
        let shown = text(&events, &["--function-name", "step 2"]).replace('\n', " ");
        has(
            &shown,
            "They take a mean of 90.0 µs; the fastest with this collective, size and number of ranks takes 10.0 µs",
        );
        let rows = csv(&text(&events, &["--function-name", "step 2", "--format", "csv"]));
        assert_eq!(rows[0]["fastest_ns"], "10000");
    }
    // Without the first step there is nothing that was faster.
    let alone: Vec<String> = all_reduces(true).into_iter().skip(6).collect();
    let shown = text(&alone, &["--function-name", "step 2"]);
    assert!(!shown.contains("; the fastest with this collective"), "{shown}");
}

/// Of two ranks the second has the fastest, before the window.
#[test]
fn the_fastest_is_that_of_all_ranks() {
    let events = all_reduces(true);
    let ((_first, first), (_second, second)) = (trace_of(&events[6..]), trace_of(&events));
    let found: Value = json_of(&[&first, &second, "--function-name", "step 2", "--json"]);
    let stack = &found["stacks"][0];
    assert_eq!((stack["count"].as_u64(), stack["messages"]["fastest_ns"].as_u64()), (Some(6), Some(10_000)));
    let shown = stdout(&run(&[&first, &second, "--function-name", "step 2"])).replace('\n', " ");
    has(&shown, "size and number of ranks over 2 traces takes 10.0 µs: the rest is waiting for other ranks");
}

/// The kernel that was launched before the trace runs for 10 of 13 kernels' 860 µs (`testdata/README.md`).
#[test]
fn kernels_without_a_launch_have_rows() {
    let reason = "[no launch: before the first recorded call]";
    // The sums of count, GPU time and exposed time, and the last row.
    let rows_of = |trace: &str| {
        let rows = csv(&stdout(&run(&[trace, "--format", "csv"])));
        let sum = |column: &str| rows.iter().map(|row| row[column].parse::<u64>().unwrap()).sum::<u64>();
        (["count", "gpu_time_ns", "exposed_ns"].map(sum), rows.last().unwrap().clone())
    };
    let trace = testdata("costs.json");
    let (sums, last) = rows_of(&trace);
    assert_eq!(sums, [13, 860_000, 530_000]);
    let cells = ["count", "gpu_time_ns", "exposed_ns", "headline", "stack"].map(|column| last[column].as_str());
    assert_eq!(cells, ["1", "10000", "10000", "", reason]);
    for form in ["table", "text"] {
        has(&stdout(&run(&[&trace, "--format", form])), reason);
    }
    // Five of 17, with 20.3 of 55.6 ms that nothing hides.
    let Some(shared) = shared() else { return };
    let ddp = shared.join("traces/TraceLens__mi300_ddp_resnet_rank0.json.gz");
    let ([count, _, exposed], last) = rows_of(ddp.to_str().unwrap());
    assert_eq!((count, last["count"].as_str(), last["stack"].as_str()), (17, "5", reason));
    let answer: Value = json_of(&[ddp.to_str().unwrap(), "--json"]);
    assert_eq!(answer["summary"]["exposed_ns"], exposed);
}

/// A trace of one thread. Its callers: an annotation `dispatch` from 100 to 200 µs with a call at 110, and what `more` adds. The kernel of that call runs from
/// 120 to 180, beside an NCCL all-reduce from 150 to 250, which was launched at 20, and a product from 240 to 260, launched at 30.
fn unknown(kernel: &str, caller: &str, more: &[String]) -> Vec<String> {
    let mut events = vec![
        call(1, 20),
        call(2, 30),
        cpu("user_annotation", caller, 100, 100, &json!({})),
        call(3, 110),
        gpu("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, 150, 100, &json!({"correlation": 1})),
        gpu("kernel", "gemm", 8, 240, 20, &json!({"correlation": 2})),
        gpu("kernel", kernel, 9, 120, 60, &json!({"correlation": 3})),
    ];
    events.extend(more.iter().cloned());
    events
}

/// Collectives run for 100 µs, of which the product hides 10: the unknown kernel hides nothing. Busy is the GPU from 120 to 260 µs.
#[test]
fn unknown_kernels_below_a_dispatch_are_possibly_communication() {
    let kernel = "void mylib::send_tokens<8>(int4*, float*)";
    let events = unknown(kernel, "dispatch(B)", &[]);
    let found = answer(&events, &[]);
    let times = |found: &Value| {
        ["collectives_ns", "compute_ns", "exposed_ns", "busy_ns"].map(|time| found["summary"][time].as_u64().unwrap())
    };
    assert_eq!(times(&found), [100_000, 20_000, 90_000, 140_000]);
    let possible = json!([{"name": kernel, "caller": "dispatch(B)", "kernels": 1, "gpu_time_ns": 60_000}]);
    assert_eq!(found["not_asked"]["possibly_communication"], possible);
    let said = "1 kernel (60.0 µs) is possibly communication, and counted neither as collectives nor as computation: void mylib::send_tokens \
                (60.0 µs, launched by dispatch(B)). The options --family all-collectives --kernel-name 'void mylib::send_tokens' make it a collective.";
    for form in ["text", "table"] {
        let shown = text(&events, &["--format", form]);
        assert!(shown.lines().take(4).any(|line| line == said), "{shown}");
    }
    let grouped = answer(&events, &["--kernel-name", "*", "--group-by", "category"]);
    let groups = grouped["groups"].as_array().unwrap().iter().map(|group| group["key"]["category"].as_str().unwrap());
    let groups: std::collections::BTreeSet<_> = groups.collect();
    assert_eq!(groups, ["computation", "nccl", "possible communication"].into());
    // Two names of kernels are asked for then, and the second makes it 130 µs of collectives, 120 exposed.
    let asked = answer(&events, &["--family", "all-collectives", "--kernel-name", "void mylib::send_tokens"]);
    assert_eq!(times(&asked), [130_000, 20_000, 120_000, 140_000]);
    assert_eq!((asked["stacks_found"].as_u64(), &asked["not_asked"]["possibly_communication"]), (Some(2), &json!([])));
}

#[test]
fn what_is_evidence_for_communication_and_what_is_not() {
    let kernel = "void mylib::send_tokens<8>(int4*, float*)";
    let op = |name: &str, ts: u32, dur: u32| cpu("cpu_op", name, ts, dur, &json!({}));
    let python = |name: &str, ts: u32, dur: u32| cpu("python_function", name, ts, dur, &json!({"Python id": 1}));
    let again = |at: u32| vec![call(4, at), gpu("kernel", kernel, 9, 400, 60, &json!({"correlation": 4}))];
    let nccl_inside =
        vec![call(4, 115), gpu("kernel", "ncclDevKernel_SendRecv", 9, 400, 60, &json!({"correlation": 4}))];
    let in_c = "<built-in method all_to_all of PyCapsule object at 0x1>";
    for (why, kernel, caller, more, is_possible) in [
        ("an annotation", kernel, "moe_dispatch", vec![], true),
        ("PyTorch's record", kernel, "record_param_comms", vec![], true),
        ("a function of Python between", kernel, "all_gather", vec![python("lib.py(1): send", 105, 50)], true),
        ("a function in C", kernel, "step", vec![python(in_c, 105, 50)], true),
        ("an operator of PyTorch between", kernel, "dispatch", vec![op("aten::copy_", 105, 50)], false),
        ("a function of Python alone", kernel, "step", vec![python("lib.py(1): all_gather", 105, 50)], false),
        ("a kernel that computes", "void at::native::elementwise_kernel<4>(int)", "dispatch", vec![], false),
        ("a copy before a collective", kernel, "fsdp::all_gather_copy_in", vec![], false),
        ("another word", kernel, "DispatchKeySet", vec![], false),
        ("a collective that is known in it", kernel, "dispatch", nccl_inside, false),
        ("launched elsewhere, too", kernel, "dispatch", [vec![op("mylib::rope", 300, 50)], again(310)].concat(), false),
        ("launched from nowhere, too", kernel, "dispatch", again(310), true),
        ("its own name", "my_all_to_all_kernel(int*)", "step", vec![], true),
        ("an all-reduce of a block", "block_all_reduce_kernel(float*)", "step", vec![], false),
    ] {
        let found = answer(&unknown(kernel, caller, &more), &[]);
        let possible = found["not_asked"]["possibly_communication"].as_array().unwrap();
        assert_eq!(possible.len(), usize::from(is_possible), "{why}: {possible:?}");
        let shown = text(&unknown(kernel, caller, &more), &[]);
        assert_eq!(shown.contains("possibly communication"), is_possible, "{why}: {shown}");
    }
}

/// Where no family knows any kernel, those that may communicate have stacks, and the program does not say that there are no collectives.
#[test]
fn no_collective_is_said_where_nothing_of_the_kind_is() {
    let without_nccl = |caller: &str| -> Vec<String> {
        let mut events = unknown("void mylib::send_tokens<8>(int4*, float*)", caller, &[]);
        // What launched it goes with it.
        events[0] = cpu("cuda_runtime", "cudaEventQuery", 20, 2, &json!({}));
        events.into_iter().filter(|event| !event.contains("nccl")).collect()
    };
    let said_of = |caller: &str, code: i32| {
        let (_folder, trace) = trace_of(&without_nccl(caller));
        stdout(&ended(&[&trace], code))
    };
    let shown = said_of("dispatch", 0);
    let idle = "No kernel of a known collective ran during the window.\nThe GPU is idle for 66.7 % of 240.0 µs. In 148.0 µs of that launched kernels had not begun";
    assert!(shown.starts_with(idle), "{shown}");
    for part in ["\n1 kernel (60.0 µs) is possibly", "1 kernel  GPU 60.0 µs (25.0 %)  exposed 60.0 µs", "-> dispatch"]
    {
        has(&shown, part);
    }
    // In a part of a trace with other collectives, nothing of that kind was asked for: it is said what there is.
    let (_folder, trace) = trace_of(&unknown("send_tokens", "dispatch", &[]));
    let part = [&trace, "--window-on", "kernel", "--start-ts", "100us", "--duration", "40us"];
    let known = "1 kernel ran in the window, no known collective among them, and 1 possibly communication";
    says(&[(&part, 3, &[known, "is possibly communication"], &["No collective ran"])]);
    let none = said_of("step", 3);
    assert!(none.starts_with("No collective ran during the window"), "{none}");
}

/// What the net catches in real traces: nothing. In DeepSeek's, dispatch and combine are of a family, so that the casts beside them prepare them.
#[test]
fn real_traces_have_nothing_that_is_only_possibly_communication() {
    let Some(shared) = shared() else { return };
    let names = [
        "deepseek__dualpipe_train_rank0_of_64",
        "HTA__dlrm_sampled_rank0",
        "HTA__trace_diff_control_a100",
        "TraceLens__mi_sglang_decode",
        "lora-dev-script__sglang_tp4_A_mixed_rank0",
    ];
    for name in names {
        let trace = shared.join(format!("traces/{name}.json.gz"));
        let output = run(&[trace.to_str().unwrap(), "--json"]);
        if output.status.code() == Some(3) {
            continue;
        }
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(found["not_asked"]["possibly_communication"], json!([]), "{name}");
    }
}

/// Of 500 µs an all-reduce runs for 10 and a gemm for 10: collectives are 2 % beside a GPU that is idle for 96 %. With a kernel that may communicate for 20 µs they
/// may be the problem all the same, and in a file that is cut off nobody knows what else ran.
#[test]
fn collectives_are_not_the_problem_only_where_all_is_known() {
    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let work = |id: u32, name: &str, ts: u32, dur: u32| gpu("kernel", name, 7, ts, dur, &json!({"correlation": id}));
    let known = vec![call(1, 0), work(1, REDUCE, 100, 10), call(2, 450), work(2, "gemm", 490, 10)];
    let possible = [call(3, 20), work(3, "my_all_to_all_kernel(int*)", 200, 20)];
    let (idle, minor) = ("The GPU is idle for 9", "Collectives are not the problem: they take 10.0 µs (2.0 %).");
    let text = text(&known, &[]);
    assert!(text.starts_with(&format!("{idle}6.0 % of 500.0 µs: ")) && text.contains(minor), "{text}");
    let (_folder, path) = trace_of(&[&known[..], &possible].concat());
    says(&[(&[&path], 0, &[idle, "Collectives take 10.0 µs (2.0 %)"], &["not the problem"])]);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    says(&[(&[&path], 6, &["cut off"], &["is idle", "not the problem"])]);
}

/// Of 500 µs: what the GPU does, and what is said of the rest. It is idle for 60 µs where it computes for 430, which is more than the 10 µs of the all-reduce; for 10 µs
/// of 500, less than that; beside an all-reduce of 100 µs the CPU is not the only one to look at; and without calls and other kernels nobody knows. Where the gemm was launched
/// long before, or a copy runs in most of that time, the CPU is not the reason.
#[test]
fn what_is_said_of_an_idle_gpu_depends_on_what_collectives_cost() {
    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let work = |name: &str, ts: u32, dur: u32, id: u32| gpu("kernel", name, 7, ts, dur, &json!({"correlation": id}));
    let at = |reduce: u32, gemm: u32, launch: u32| {
        [call(1, 0), work(REDUCE, 0, reduce, 1), call(2, launch), work("gemm", 500 - gemm, gemm, 2)]
    };
    let launched = |reduce: u32, gemm: u32| at(reduce, gemm, 490 - gemm);
    let copy = gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 9, 50, 250, &json!({"correlation": 3}));
    let copied = [&launched(10, 100)[..], &[copy]].concat();
    let alone = [work(REDUCE, 0, 10, 1), work("gemm", 499, 1, 2)];
    let idle = |share: &str, then: &str| format!("The GPU is idle for {share} % of 500.0 µs{then}");
    let queued = ". In 298.0 µs of that launched kernels had not begun: look at waits between streams and at launch latency first.\n";
    let copies = "The GPU is without a kernel for 78.0 % of 500.0 µs: copies run in 250.0 µs of that.\n";
    for (events, first) in [
        // Twice as fast, compute would save 43 %.
        (&launched(10, 430)[..], "Compute takes 86.0 % of 500.0 µs.\nThe GPU is idle for another 12.0 %.\n".to_owned()),
        (
            &launched(30, 460),
            "Compute takes 92.0 % of 500.0 µs.\nCollectives take 30.0 µs (6.0 %), all of it exposed".to_owned(),
        ),
        // 40 % of the time is exposed, and half of the compute is 29.9 %.
        (&launched(200, 299), "Collectives take 200.0 µs of 500.0 µs (40.0 %), all of it exposed".to_owned()),
        (&launched(100, 100), idle("60.0", ": look at the CPU (launches, data loading) first.\n")),
        (&launched(10, 100), idle("78.0", ": look at the CPU (launches, data loading), not at NCCL.\n")),
        (&alone, idle("97.8", ": ")),
        (&at(10, 100, 100), idle("78.0", queued)),
        (&copied, copies.to_owned()),
    ] {
        let said = text(events, &[]);
        assert!(said.starts_with(&first), "{first}: {said}");
    }
    has(
        &text(&launched(10, 430), &[]),
        "- 430.0 µs of compute: kernels that are no collectives\n  First: ask which code launches them: `nccl-stacks` with the same trace and `--kernel-name '*'`.\n",
    );
    has(&text(&copied, &[]), "- 250.0 µs of copies: no kernel runs beside them\n");
    let said = text(&[work(REDUCE, 0, 10, 1), work(REDUCE, 490, 10, 2)], &[]);
    has(&said, "Collectives take 20.0 µs of 500.0 µs (4.0 %).\nNo other work of the GPU and no launch is recorded: ");
    assert!(!said.contains(" idle: ") && !said.contains("exposed: "), "{said}");
}

/// Two collectives of 10 µs and one of 30 µs, each with its call or without. That no code is known is said where that costs more than the costliest stack.
#[test]
fn kernels_without_a_launch_are_said_where_they_cost_most() {
    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let work = |ts: u32, dur: u32, id: u32| gpu("kernel", REDUCE, 7, ts, dur, &json!({"correlation": id}));
    let kernels = [work(100, 10, 1), work(200, 10, 2), work(300, 30, 3)];
    let with = |calls: &[u32]| {
        let calls = calls.iter().map(|id| call(*id, id * 100 - 20)).chain([call(9, 90)]);
        text(&calls.chain(kernels.clone()).collect::<Vec<_>>(), &[])
    };
    let known = with(&[1, 2]);
    has(&known, "No code is known for 1 kernel (30.0 µs exposed), ");
    has(&known, "- 30.0 µs exposed: kernels without a launch\n");
    for said in [with(&[1, 2, 3]), with(&[1, 3]), with(&[2, 3])] {
        assert!(!said.contains("No code is known"), "{said}");
    }
    // Groups include these kernels.
    let calls = [call(1, 80), call(2, 180), call(9, 90)];
    let grouped = text(&calls.into_iter().chain(kernels).collect::<Vec<_>>(), &["--group-by", "kernel"]);
    assert!(!grouped.contains("No code is known"), "{grouped}");
}

/// Why kernels have no launch, and what to do first, is said where all have one reason: a call that is not recorded, or no correlation id.
#[test]
fn kernels_without_a_launch_have_a_reason_where_it_is_one() {
    let work =
        |ts: u32, dur: u32, args: &Value| gpu("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, ts, dur, args);
    let (dropped, without_id) = (work(300, 60, &json!({"correlation": 3})), work(400, 60, &json!({})));
    for (kernels, reason, is_advised) in [
        (vec![dropped.clone()], ", whose call is not in the trace, though earlier ones are (records dropped?).", true),
        (vec![without_id.clone()], ", with nothing that ties them to a call: no correlation id, no flow.", false),
        (vec![dropped, without_id], ".", false),
    ] {
        let known = [call(1, 80), work(100, 30, &json!({"correlation": 1})), call(9, 90)];
        let events = [&known[..], &kernels].concat();
        has(&text(&events, &[]), &format!(" µs exposed){reason}\n"));
        let found = answer(&events, &[])["findings"].take();
        let finding = found.as_array().unwrap().iter().find(|of| of["what"] == "kernels without a launch").unwrap();
        assert_eq!(finding["advice"].to_string().contains("record fewer steps"), is_advised, "{finding}");
        assert!(finding["evidence"][0].as_str().unwrap().ends_with(reason), "{finding}");
    }
}

/// Two gemms of 100 µs that run beside each other take more than the window has: that is no share of it.
#[test]
fn kernels_that_run_beside_each_other_have_no_share_above_the_whole() {
    let gemm = |stream: u32, id: u32| gpu("kernel", "gemm", stream, 100, 100, &json!({"correlation": id}));
    let both = [call(1, 80), call(2, 82), gemm(7, 1), gemm(8, 2)];
    let said = text(&both, &["--kernel-name", "gemm"]);
    assert!(said.starts_with("The kernels asked for take 200.0 µs within 120.0 µs, several at a time.\n"), "{said}");
    let said = text(&[call(1, 80), gemm(7, 1)], &["--kernel-name", "gemm"]);
    assert!(said.starts_with("The kernels asked for take 100.0 µs of 120.0 µs (83.3 %).\n"), "{said}");
}

/// Where no collective ran, `ranks` finds nothing: the way that is named to the CPU's part is one that answers.
#[test]
fn the_way_to_the_cpus_part_answers() {
    let (_folder, trace) = trace_of(&[call(1, 0), gpu("kernel", "gemm", 7, 400, 100, &json!({"correlation": 1}))]);
    let idle = ended(&[&trace], 3);
    has(&stdout(&idle), "First: ask `nccl-stacks sql` with the trace of one rank and `--query critical_path`");
    has(&stdout(&ended(&["sql", &trace, "--query", "critical_path"], 0)), "cudaLaunchKernel");
}
