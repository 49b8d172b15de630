//! Categories of slices: which run on a GPU, which launch work, and which do neither.

/// The kind of work that a category means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CategoryKind {
    Kernel,
    /// Other GPU slices: copies, fills, waits, annotations projected onto the GPU.
    Gpu,
    /// A call into the runtime or driver of CUDA, HIP or another device, which launches kernels.
    Runtime,
    /// A call of a Python function, or of a C function from Python.
    Frame,
    /// Other CPU work: operators, annotations, and unknown categories.
    Cpu,
}

/// The category of the copies that mark the matching kernels in an exported trace.
pub const MARKED: &str = "nccl-stacks";

/// Categories of operators: Kineto's current one, and that of 2021.
pub const OPERATORS: &[&str] = &["cpu_op", "Operator"];

/// Categories of GPU work other than kernels: Kineto's activity types (`ActivityType.cpp`), and those of 2021.
const GPU: &[&str] = &[
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
    "cuda_sync",
    "cuda_event",
    "memcpy",
    "memset",
    "mtia_ccp_events",
    "gpu_pm_counter",
    MARKED,
];

impl CategoryKind {
    /// The kind of a category. Case does not matter: Kineto of 2021 wrote `Kernel` and `Runtime`.
    pub fn from_name(category: &str) -> Self {
        let lower = category.to_ascii_lowercase();
        match &*lower {
            "kernel" => CategoryKind::Kernel,
            "python_function" => CategoryKind::Frame,
            _ if GPU.contains(&&*lower) => CategoryKind::Gpu,
            // cuda_runtime, cuda_driver, Runtime, mtia_runtime, xpu_runtime, privateuse1_driver …
            _ if lower.ends_with("runtime") || lower.ends_with("driver") => CategoryKind::Runtime,
            _ => CategoryKind::Cpu,
        }
    }

    /// Its name in SQL: the hidden column `kind` of `slice`.
    pub fn name(self) -> &'static str {
        match self {
            CategoryKind::Kernel => "kernel",
            CategoryKind::Gpu => "gpu",
            CategoryKind::Runtime => "runtime",
            CategoryKind::Frame | CategoryKind::Cpu => "cpu",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_of_all_generations() {
        for (category, want) in [
            ("kernel", CategoryKind::Kernel),
            ("Kernel", CategoryKind::Kernel),
            ("cuda_runtime", CategoryKind::Runtime),
            ("cuda_driver", CategoryKind::Runtime),
            ("Runtime", CategoryKind::Runtime),
            ("mtia_runtime", CategoryKind::Runtime),
            ("gpu_memcpy", CategoryKind::Gpu),
            ("Memset", CategoryKind::Gpu),
            ("gpu_user_annotation", CategoryKind::Gpu),
            ("cpu_op", CategoryKind::Cpu),
            ("python_function", CategoryKind::Frame),
            ("Operator", CategoryKind::Cpu),
            ("overhead", CategoryKind::Cpu),
        ] {
            assert_eq!(CategoryKind::from_name(category), want, "{category}");
        }
    }
}
