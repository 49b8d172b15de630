//! Names of collective kernels.

/// What the names of NCCL's and RCCL's kernels begin with, over the generations: `ncclAllReduceRingLLKernel_sum_f32` (before
/// 2.8), `ncclKernel_…` (to 2.18), `ncclDevKernel_…` (since 2.19, `src/device/generate.py`), `ncclSymkDevKernel_…` and
/// `ncclSymDevKernel_…` (symmetric memory, `src/device/symmetric/generate.py`); RCCL takes NCCL's names and adds
/// those of its MSCCL kernels.
const PREFIXES: &[&str] = &["nccl", "rccl", "mscclKernel"];

/// Whether a kernel is one of NCCL's or RCCL's.
pub fn is_collective(kernel: &str) -> bool {
    PREFIXES.iter().any(|prefix| kernel.starts_with(prefix))
}

/// Parts of names that tell of moving or combining data between GPUs, lower case.
const RELATED: &[&str] = &[
    "nccl",
    "reduce",
    "gather",
    "broadcast",
    "scatter",
    "alltoall",
    "all_to_all",
    "all-to-all",
    "all2all",
    "sendrecv",
    "send_recv",
];

/// Whether a kernel's name makes it worth showing to one who looks for collectives and finds none.
pub fn is_related(kernel: &str) -> bool {
    let lower = kernel.to_ascii_lowercase();
    RELATED.iter().any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_all_generations() {
        for (name, collective, related) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true, true),
            ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", true, true),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", true, true),
            ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs4K)", true, true),
            ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", true, true),
            ("mscclKernel_Sum_half_Simple_false", true, false),
            ("void at::native::vectorized_gather_kernel<16, long>(char*)", false, true),
            ("void at::native::reduce_kernel<512, 1>()", false, true),
            ("ampere_bf16_s16816gemm_bf16_128x64", false, false),
        ] {
            assert_eq!((is_collective(name), is_related(name)), (collective, related), "{name}");
        }
    }
}
