//! Runtime calls that need to be known by name.

/// Calls that launch a whole recorded graph: all its kernels carry this one call's correlation id (CUDA runtime and driver,
/// HIP).
pub const GRAPH_LAUNCHES: &[&str] = &["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"];

/// What the calls hold in their names between which work on a stream is recorded into a graph (`cudaStreamBeginCapture`,
/// `hipStreamBeginCapture`, `cuStreamBeginCaptureToGraph` …).
pub const CAPTURE_BEGIN: &str = "StreamBeginCapture";

/// See [`CAPTURE_BEGIN`].
pub const CAPTURE_END: &str = "StreamEndCapture";

/// What a call puts onto a GPU, or into a graph that is being captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
}

impl Work {
    /// What a call of the CUDA or HIP runtime or driver launches, by its name. Copies and fills that cannot be captured, because
    /// they wait, are none.
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

    /// What a slice on a GPU is, by its name: Kineto's `Memcpy DtoD (Device -> Device)`, `Memset (Device)`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
