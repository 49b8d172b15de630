//! Names as Kineto gives them: of calls into the CUDA runtime and driver, of copies and fills; and the numbers of processes and threads.

use std::borrow::Cow;

use super::tables::THREAD_BITS;

/// The lowest bits of a `globalTid`, or of a process's global number: the number that the operating system gives.
pub(super) fn own_number(global: i64) -> u32 {
    (global & ((1 << THREAD_BITS) - 1)) as u32
}

/// The version of a function's interface follows the name after `_v`, with at least this many digits. `_v2` is a part of the name.
const VERSION_DIGITS: usize = 4;

/// Marks of the variants with a default stream for each thread.
const VARIANTS: [&str; 2] = ["_ptsz", "_ptds"];

/// The name of a call as its documentation has it: `cudaLaunchKernel` for `cudaLaunchKernel_ptsz_v7000`.
pub(super) fn call(name: &str) -> &str {
    let is_version = |version: &str| version.len() >= VERSION_DIGITS && version.bytes().all(|b| b.is_ascii_digit());
    let name = name.rsplit_once("_v").filter(|(_, version)| is_version(version)).map_or(name, |(name, _)| name);
    VARIANTS.iter().find_map(|variant| name.strip_suffix(variant)).unwrap_or(name)
}

/// The category that Kineto gives to a call.
pub(super) fn call_category(name: &str) -> &'static str {
    if name.starts_with("cu") && !name.starts_with("cuda") { "cuda_driver" } else { "cuda_runtime" }
}

/// Kinds of copies by their number, from 1 on (`ENUM_CUDA_MEMCPY_OPER`).
const COPIES: [&str; 13] =
    ["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"];

/// Kinds of memory by their number (`ENUM_CUDA_MEM_KIND`).
const MEMORIES: [&str; 7] = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];

fn memory(number: Option<i64>) -> Option<&'static str> {
    MEMORIES.get(usize::try_from(number?).ok()?).copied()
}

/// `Memcpy HtoD (Pinned -> Device)`
pub(super) fn copy(kind: Option<i64>, from: Option<i64>, to: Option<i64>) -> Cow<'static, str> {
    let kind = kind.and_then(|kind| COPIES.get(usize::try_from(kind.checked_sub(1)?).ok()?));
    let Some(kind) = kind else { return Cow::Borrowed("Memcpy") };
    match (memory(from), memory(to)) {
        (Some(from), Some(to)) => Cow::Owned(format!("Memcpy {kind} ({from} -> {to})")),
        _ => Cow::Owned(format!("Memcpy {kind}")),
    }
}

/// `Memset (Device)`
pub(super) fn fill(kind: Option<i64>) -> Cow<'static, str> {
    memory(kind).map_or(Cow::Borrowed("Memset"), |memory| Cow::Owned(format!("Memset ({memory})")))
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
            assert_eq!(call(name), want, "{name}");
            assert_eq!(call_category(name), of, "{name}");
        }
    }

    /// A thread of a real export, whose process has the same number.
    #[test]
    fn global_numbers_have_parts() {
        let global = 281_477_392_629_904;
        assert_eq!((own_number(global >> THREAD_BITS), own_number(global)), (144, 144));
    }
}
