//! Names of kernels that may have to do with collectives. Those that surely have are in [`super::families`].

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
    fn kernels_that_are_worth_showing() {
        for (name, related) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", true),
            ("void at::native::vectorized_gather_kernel<16, long>(char*)", true),
            ("void at::native::reduce_kernel<512, 1>()", true),
            ("ampere_bf16_s16816gemm_bf16_128x64", false),
        ] {
            assert_eq!(is_related(name), related, "{name}");
        }
    }
}
