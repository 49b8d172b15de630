//! Names of runtime calls that matter to attribution: graph launches, stream captures, and launches of each kind of work.

/// Calls that launch a whole captured graph, whose kernels all have the correlation id of this call (CUDA runtime and driver, HIP).
pub const GRAPH_LAUNCHES: &[&str] = &["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"];

/// The name of a graph that was recorded as a whole, which is what Nsight Systems does by default. It is no kernel, but what the GPU did.
pub const WHOLE_GRAPH: &str = "CUDA graph, recorded as a whole (--cuda-graph-trace=node records its kernels)";

/// Part of the names of calls that begin the capture of a stream into a graph: `cuStreamBeginCaptureToGraph`.
pub const CAPTURE_BEGIN: &str = "StreamBeginCapture";

/// Part of the names of calls that end a capture.
pub const CAPTURE_END: &str = "StreamEndCapture";

/// The kind of work that a call launches on a GPU, or adds to a graph during capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    Kernel,
    Copy,
    Fill,
}

impl Work {
    /// The work that a call of the CUDA or HIP runtime or driver launches, by the call's name. `None` for other calls, and for synchronous copies
    /// and fills, which cannot be captured.
    pub fn of_call(name: &str) -> Option<Work> {
        if name.contains("LaunchKernel") || name.contains("LaunchCooperativeKernel") {
            Some(Work::Kernel)
        } else if !name.contains("Async") {
            None
        } else if name.contains("Memcpy") {
            Some(Work::Copy)
        } else if name.contains("Memset") {
            Some(Work::Fill)
        } else {
            None
        }
    }

    /// Whether a call can launch a kernel, by its name: `cudaLaunchKernel`, `cudaGraphLaunch`, `hipModuleLaunchKernel`, `cuLaunch`.
    pub fn is_launch(name: &str) -> bool {
        name.contains("Launch") && !name.contains("HostFunc")
    }

    /// The work of a GPU slice, by its name: Kineto's `Memcpy DtoD (Device -> Device)`, `Memset (Device)`. `None` for other slices.
    pub fn of_slice(name: &str, is_kernel: bool) -> Option<Work> {
        if is_kernel {
            Some(Work::Kernel)
        } else if name.starts_with("Memcpy") {
            Some(Work::Copy)
        } else if name.starts_with("Memset") {
            Some(Work::Fill)
        } else {
            None
        }
    }
}

/// Whether GPU work is a copy within a GPU or between GPUs, by its name. Copies to and from a host set up a communicator.
pub fn is_device_copy(name: &str) -> bool {
    is_peer_copy(name) || name.starts_with("Memcpy DtoD")
}

/// Whether GPU work is a copy between GPUs, by its name.
pub fn is_peer_copy(name: &str) -> bool {
    name.starts_with("Memcpy PtoP")
}

/// Whether a function blocks its thread until the GPU is done: `cudaStreamSynchronize`, `hipDeviceSynchronize`, `cuEventSynchronize`.
pub fn waits_for_gpu(name: &str) -> bool {
    let is_call = |prefix: &str| name.starts_with(prefix) && name.ends_with("Synchronize");
    ["cuda", "hip", "cu"].into_iter().any(is_call)
}

/// Whether a function records an event, for which another one can wait: `cudaEventRecord`, `hipEventRecordWithFlags`.
pub fn records_event(name: &str) -> bool {
    name.contains("EventRecord")
}

/// Whether a function waits for other threads of its process or for other processes, by its name: PyTorch's backward pass, which runs on threads of its own, the
/// waiting functions of Python's and the system's libraries, and what takes from a queue or a store. Operators compute (`aten::index_select`).
pub fn waits_for_thread(name: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let gets = name.ends_with(": get") || has(&["method get of ", "method 'get' of "]);
    let waits = has(&["run_backward", "acquire", "select", "poll", "recv", "wait", "futex"]);
    !name.starts_with("aten::") && (waits || gets && has(&["queue", "Queue", "Store"]))
}

/// Whether a function waits for a collective, by its name: `Work.wait` of `torch.distributed`, as Python's profiler names a method of a C++ class.
pub fn waits_for_collective(name: &str) -> bool {
    let class = name.strip_prefix("<built-in method wait of ");
    class.is_some_and(|class| class.contains("pybind11") || class.contains("_distributed_c10d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_functions_wait() {
        let of_threads = [
            "<built-in method run_backward of torch._C._EngineBase object at 0x7f>",
            "<built-in method acquire of _thread.lock object at 0x7f>",
            "threading.py(323): wait",
            "<built-in method poll of select.epoll object at 0x7f>",
            "queue.py(154): get",
            "multiprocessing/queues.py(90): get",
            "<built-in method get of _queue.SimpleQueue object at 0x7f>",
            "<built-in method get of torch._C._distributed_c10d.PrefixStore object at 0x7f>",
            "<built-in method wait of torch._C._distributed_c10d.TCPStore object at 0x7f>",
        ];
        let of_collectives = [
            "<built-in method wait of pybind11_builtins.pybind11_detail_function_record_v1 object at 0xff5b>",
            "<built-in method wait of torch._C._distributed_c10d.Work object at 0x7f>",
        ];
        let of_others = ["<built-in method wait of Event object at 0xff56>", "torch/cuda/streams.py(211): wait"];
        for (waits, yes, no) in [
            (waits_for_collective as fn(&str) -> bool, &of_collectives[..], &of_others[..]),
            (
                waits_for_gpu,
                &["cudaStreamSynchronize", "hipDeviceSynchronize", "cuEventSynchronize"],
                &["cudaLaunchKernel", "synchronize"],
            ),
            (
                waits_for_thread,
                &of_threads,
                &[
                    "aten::linear",
                    "aten::index_select",
                    "model.py(40): layer_forward",
                    "<method 'get' of 'dict' objects>",
                    "config.py(9): get",
                ],
            ),
        ] {
            yes.iter().for_each(|name| assert!(waits(name), "{name}"));
            no.iter().for_each(|name| assert!(!waits(name), "{name}"));
        }
    }

    #[test]
    fn calls_that_put_work_onto_a_gpu() {
        for (name, want) in [
            ("cudaLaunchKernel", Some(Work::Kernel)),
            ("cudaLaunchKernelExC", Some(Work::Kernel)),
            ("cuLaunchKernelEx", Some(Work::Kernel)),
            ("hipExtModuleLaunchKernel", Some(Work::Kernel)),
            ("cudaLaunchCooperativeKernel", Some(Work::Kernel)),
            ("cudaMemcpyAsync", Some(Work::Copy)),
            ("hipMemcpyDtoDAsync", Some(Work::Copy)),
            ("cudaMemsetAsync", Some(Work::Fill)),
            ("cudaMemcpy", None),
            ("cudaGraphLaunch", None),
            ("cudaLaunchHostFunc", None),
            ("cudaMallocAsync", None),
        ] {
            assert_eq!(Work::of_call(name), want, "{name}");
        }
        assert_eq!(Work::of_slice("Memcpy DtoD (Device -> Device)", false), Some(Work::Copy));
        assert_eq!(Work::of_slice("Memset (Device)", false), Some(Work::Fill));
        assert_eq!(Work::of_slice("Stream Sync", false), None);
    }
}
