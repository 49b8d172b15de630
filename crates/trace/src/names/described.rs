//! Signs of how a trace was recorded: operator arguments that profilers write only on request, fields of the header, and version numbers.
//!
//! The keys are those of PyTorch's profiler (`torch/csrc/autograd/profiler_kineto.cpp`, `torch/csrc/profiler/util.cpp`), which XSigma's profiler
//! writes too. The header fields are those of Kineto's `output_json.cpp` and of `torch/profiler/profiler.py`.

use super::args;
use super::category::OPERATORS;

/// The operator keys whose presence is counted.
pub const PRESENT: &[&str] = &args::joined::<18>(&[
    args::CONCRETE_INPUTS,
    args::INPUT_STRIDES,
    args::INPUT_DIMS,
    &[args::MODULE_HIERARCHY, args::CALL_STACK],
    args::COUNTERS,
]);

/// The beginning of the frame of a module call.
pub const MODULE_FRAME: &str = "nn.Module: ";

/// The category of NVTX ranges in an Nsight Systems export.
pub const NVTX: &str = "nvtx";

/// The header field that all traces of Kineto have.
pub const SCHEMA_VERSION: &str = "schemaVersion";

/// Fields of Kineto's header with the recording options. An option that is missing was not set, or the writer is older than the field.
pub const FLAGS: &[&str] = &["with_stack", "record_shapes", "with_modules", "profile_memory", "with_flops"];

/// Fields of the header with PyTorch's version, in lower case.
pub const TORCH_VERSION: &[&str] = &["torch_version", "pytorch_version", "torch.version", "pytorch version"];

/// Whether a slice's category is an operator's.
pub fn is_operator(category: &str) -> bool {
    OPERATORS.contains(&category)
}

/// A CUDA version from its number: `12090` is 12.9 (`CUDART_VERSION`). `None` if the number is invalid.
pub fn cuda_version(number: &str) -> Option<String> {
    let number: u32 = number.parse().ok().filter(|number| *number >= 1000)?;
    Some(format!("{}.{}", number / 1000, number % 1000 / 10))
}

/// A HIP version from its number: `60443483` is 6.4.43483 (`HIP_VERSION`). `None` if the number is invalid.
pub fn hip_version(number: &str) -> Option<String> {
    let number: u32 = number.parse().ok().filter(|number| *number >= 10_000_000)?;
    Some(format!("{}.{}.{}", number / 10_000_000, number / 100_000 % 100, number % 100_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_in_headers() {
        assert_eq!(cuda_version("12090").as_deref(), Some("12.9"));
        assert_eq!(cuda_version("13000").as_deref(), Some("13.0"));
        assert_eq!(cuda_version("12.4"), None);
        assert_eq!(hip_version("60443483").as_deref(), Some("6.4.43483"));
        assert_eq!(hip_version("71326183").as_deref(), Some("7.13.26183"));
        assert_eq!(hip_version("22"), None);
    }
}
