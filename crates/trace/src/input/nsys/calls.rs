//! Names of calls into the CUDA runtime and driver, as CUPTI gives them, and their categories.

/// The version of a function's interface follows the name after `_v`, with at least this many digits. `_v2` is a part of the name.
const VERSION_DIGITS: usize = 4;

/// Marks of the variants with a default stream for each thread.
const VARIANTS: [&str; 2] = ["_ptsz", "_ptds"];

/// The name of a call as its documentation has it: `cudaLaunchKernel` for `cudaLaunchKernel_ptsz_v7000`.
pub(super) fn plain(name: &str) -> &str {
    let is_version = |version: &str| version.len() >= VERSION_DIGITS && version.bytes().all(|b| b.is_ascii_digit());
    let name = name.rsplit_once("_v").filter(|(_, version)| is_version(version)).map_or(name, |(name, _)| name);
    VARIANTS.iter().find_map(|variant| name.strip_suffix(variant)).unwrap_or(name)
}

/// The category that Kineto gives to a call.
pub(super) fn category(name: &str) -> &'static str {
    if name.starts_with("cu") && !name.starts_with("cuda") { "cuda_driver" } else { "cuda_runtime" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documentation() {
        for (name, want, of) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "cuda_runtime"),
            ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel", "cuda_runtime"),
            ("cudaStreamGetCaptureInfo_v2_v11030", "cudaStreamGetCaptureInfo_v2", "cuda_runtime"),
            ("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2", "cuda_driver"),
            ("cuLaunchKernelEx", "cuLaunchKernelEx", "cuda_driver"),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel", "cuda_driver"),
            ("_v7000", "", "cuda_runtime"),
        ] {
            assert_eq!(plain(name), want, "{name}");
            assert_eq!(category(name), of, "{name}");
        }
    }
}
