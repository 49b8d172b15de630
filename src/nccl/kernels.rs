//! Names of kernels that may be collectives, for hints to the user. The kernels that certainly are one are in [`super::families`].

/// Parts of names that suggest data movement or reduction between GPUs, in lower case.
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

/// Whether a kernel is worth showing to a user whose trace has no matching kernels.
pub fn is_related(kernel: &str) -> bool {
    let lower = kernel.to_ascii_lowercase();
    RELATED.iter().any(|part| lower.contains(part))
}

/// Names of collectives, in lower case, without separators.
const COLLECTIVES: &[&str] =
    &["nccl", "rccl", "allreduce", "allgather", "reducescatter", "alltoall", "all2all", "sendrecv"];

/// Whether a kernel's name says that it is a collective. `reduce_kernel` and `gather` alone do not.
pub fn says_collective(kernel: &str) -> bool {
    let plain: String = kernel.chars().filter(|c| !"_- ".contains(*c)).map(|c| c.to_ascii_lowercase()).collect();
    COLLECTIVES.iter().any(|name| plain.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_worth_showing() {
        for (name, related, collective) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true, true),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", true, true),
            ("my_all_to_all<float>", true, true),
            ("void at::native::vectorized_gather_kernel<16, long>(char*)", true, false),
            ("void at::native::reduce_kernel<512, 1>()", true, false),
            ("ampere_bf16_s16816gemm_bf16_128x64", false, false),
        ] {
            assert_eq!((is_related(name), says_collective(name)), (related, collective), "{name}");
        }
    }
}
