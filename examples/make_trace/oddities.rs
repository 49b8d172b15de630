//! Traces about notation, so they are literal text.

/// The format of 2021: a bare array, times in whole microseconds since the epoch, names as ids, and other categories. Flow events spell the thread as
/// a number, and so never match their slices. The closing bracket is missing, as in the file of a process that was killed.
pub(crate) const BARE_ARRAY_UNCLOSED: &str = r#"[
{"ph": "X", "cat": "Operator", "name": "train_step", "pid": "9001", "tid": "140213", "ts": 1606910596297023, "dur": 900, "args": {"External id": 1, "Trace name": "PyTorch Profiler", "Trace iteration": 0}},
{"ph": "X", "cat": "Operator", "name": "nccl:all_reduce", "pid": "9001", "tid": "140213", "ts": 1606910596297100, "dur": 50, "args": {"External id": 2, "Input dims": [[1024]]}},
{"ph": "X", "cat": "Operator", "name": "aten::zero_", "pid": "9001", "tid": "140213", "ts": 1606910596297040, "dur": 0, "args": {"External id": 3}},
{"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": "9001", "tid": "140213", "ts": 1606910596297100, "dur": 20, "args": {"cbid": 211, "correlation": 77, "external id": 2}},
{"ph": "s", "id": 77, "pid": 9001, "tid": 140213, "ts": 1606910596297100, "cat": "async", "name": "launch"},
{"ph": "X", "cat": "Kernel", "name": "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "pid": 0, "tid": "stream 7", "ts": 1606910596297130, "dur": 45, "args": {"device": 0, "stream": 7, "correlation": 77, "external id": 2, "grid": [2, 1, 1], "block": [512, 1, 1]}},
{"ph": "f", "id": 77, "pid": 0, "tid": "stream 7", "ts": 1606910596297130, "cat": "async", "name": "launch", "bp": "e"},
{"name": "thread_name", "ph": "M", "ts": 1606910596297000, "pid": "9001", "tid": "140213", "args": {"name": "thread 0 (python)"}}
"#;

/// An object whose header comes after its events; the recipe splits it in two.
pub(crate) const EVENTS_FIRST: &str = r#"{
"traceEvents": [
{"ph": "X", "cat": "python_function", "name": "serve.py(7): step", "pid": 6100, "tid": 6100, "ts": 20.250, "dur": 80.125, "args": {"Python id": 1}},
{"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": 6100, "tid": 6100, "ts": 30.500, "dur": 40.000, "args": {"External id": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 6100, "tid": 6100, "ts": 35.001, "dur": 12.999, "args": {"cbid": 430, "correlation": 3}},
{"ph": "s", "id": 3, "pid": 6100, "tid": 6100, "ts": 35.001, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 60.125, "dur": 17.500, "args": {"device": 0, "stream": 20, "correlation": 3}},
{"ph": "f", "id": 3, "pid": 0, "tid": 20, "ts": 60.125, "cat": "ac2g", "name": "ac2g", "bp": "e"}
],
"schemaVersion": 1,
"distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2, "nccl_version": "2.28.9"},
"displayTimeUnit": "ms",
"baseTimeNanoseconds": 1759300374000000000,
"traceName": "/tmp/merged.json"
}
"#;

/// Good events with bad ones between them, cut off in the middle of an event.
pub(crate) const DAMAGED: &str = r#"{"schemaVersion": 1,
"traceEvents": [
{"ph": "X", "cat": "python_function", "name": "train.py(3): main", "pid": 7000, "tid": 7000, "ts": 100, "dur": 900, "args": {"Python id": 1}},
{"ph": "X", "cat": "cpu_op", "name": "no_ts_one", "pid": 7000, "tid": 7000, "dur": 5, "args": {}},
{"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": 7000, "tid": 7000, "ts": 200, "dur": 100, "args": {}},
null,
{"ph": "X", "cat": "cpu_op", "name": "null_dur", "pid": 7000, "tid": 7000, "ts": 320, "dur": null, "args": {}},
42,
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 7000, "tid": 7000, "ts": 220, "dur": 10, "args": {"correlation": 5}},
{"ph": "X", "cat": "cpu_op", "name": "negative_dur", "pid": 7000, "tid": 7000, "ts": 340, "dur": -7, "args": {}},
"not an event",
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20, "ts": 260, "dur": 40, "args": {"device": 0, "stream": 20, "correlation": 5}},
{"cat": "cpu_op", "name": "no_ph", "pid": 7000, "tid": 7000, "ts": 360, "dur": 5, "args": {}},
{"ph": "X", "cat": "cpu_op", "name": "no_ts_two", "pid": 7000, "tid": 7000, "dur": 6},
{"ph": "X", "cat": "kernel", "name": "gemm_bf16_128x64_tn", "pid": 0, "tid": 7, "ts": 400, "dur": 20, "args": {"device": 0, "stream": 7, "correlation": 6}},
{"ph": "X", "cat": "cpu_op", "name": "cut_off", "pid": 7000, "tid": 7000, "ts": 500, "du"#;

/// All phases except complete slices, and flows with ids in all notations.
pub(crate) const BEGIN_END_ASYNC: &str = r#"{"traceEvents": [
{"ph": "B", "cat": "io", "name": "load", "pid": 10, "tid": 10, "ts": 100},
{"ph": "X", "cat": "io", "name": "read", "pid": 10, "tid": 10, "ts": 110, "dur": 20},
{"ph": "i", "s": "t", "cat": "mark", "name": "tick", "pid": 10, "tid": 10, "ts": 120},
{"ph": "B", "cat": "cpu", "name": "parse", "pid": 10, "tid": 10, "ts": 140},
{"ph": "E", "pid": 10, "tid": 10, "ts": 160},
{"ph": "E", "cat": "io", "name": "load", "pid": 10, "tid": 10, "ts": 200},
{"ph": "i", "s": "g", "cat": "mark", "name": "whole_trace", "pid": 10, "tid": 10, "ts": 210},
{"ph": "i", "s": "p", "cat": "mark", "name": "whole_process", "pid": 10, "tid": 10, "ts": 220},
{"ph": "i", "cat": "mark", "name": "no_scope", "pid": 10, "tid": 10, "ts": 230},
{"ph": "b", "cat": "net", "name": "fetch", "id": "0xA1", "pid": 10, "tid": 10, "ts": 400},
{"ph": "n", "cat": "net", "name": "fetch", "id": "0xA1", "pid": 10, "tid": 10, "ts": 420},
{"ph": "e", "cat": "net", "name": "fetch", "id": "0xA1", "pid": 10, "tid": 10, "ts": 450},
{"ph": "b", "cat": "net", "name": "never", "id": "0x1", "pid": 10, "tid": 10, "ts": 500},
{"ph": "e", "cat": "net", "name": "never", "id": "1", "pid": 10, "tid": 10, "ts": 550},
{"ph": "X", "cat": "hop", "name": "sender", "pid": 10, "tid": 10, "ts": 600, "dur": 50},
{"ph": "s", "cat": "flow", "name": "hop", "id": "0x10", "pid": 10, "tid": 10, "ts": 610},
{"ph": "X", "cat": "hop", "name": "relay", "pid": 10, "tid": 11, "ts": 620, "dur": 40},
{"ph": "t", "cat": "flow", "name": "hop", "id": 16, "pid": 10, "tid": 11, "ts": 630},
{"ph": "X", "cat": "hop", "name": "receiver", "pid": 10, "tid": 11, "ts": 700, "dur": 40},
{"ph": "f", "bp": "e", "cat": "flow", "name": "hop", "id": "10", "pid": 10, "tid": 11, "ts": 710},
{"ph": "f", "bp": "e", "cat": "flow", "name": "hop", "id": 10, "pid": 10, "tid": 11, "ts": 715},
{"ph": "X", "cat": "hop", "name": "kick", "pid": 10, "tid": 10, "ts": 800, "dur": 10},
{"ph": "s", "cat": "flow", "name": "hop", "id": 5, "pid": 10, "tid": 10, "ts": 805},
{"ph": "f", "cat": "flow", "name": "hop", "id": 5, "pid": 10, "tid": 11, "ts": 820},
{"ph": "X", "cat": "hop", "name": "next", "pid": 10, "tid": 11, "ts": 830, "dur": 10},
{"ph": "X", "cat": "hop", "name": "producer", "pid": 10, "tid": 10, "ts": 900, "dur": 10, "bind_id": "0x20", "flow_out": true},
{"ph": "X", "cat": "hop", "name": "consumer", "pid": 10, "tid": 11, "ts": 920, "dur": 10, "bind_id": 32, "flow_in": true},
{"ph": "B", "cat": "cpu", "name": "unclosed", "pid": 10, "tid": 11, "ts": 1000},
{"ph": "X", "cat": "cpu", "name": "inside_open", "pid": 10, "tid": 11, "ts": 1010, "dur": 10},
{"ph": "E", "name": "ghost", "pid": 10, "tid": 10, "ts": 1100}
]}
"#;
