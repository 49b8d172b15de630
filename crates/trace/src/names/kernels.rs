//! Names of kernels that may be collectives. [`super::families`] has the kernels that certainly are.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Names of collectives, in lower case and without separators.
const COLLECTIVES: &[&str] =
    &["nccl", "rccl", "allreduce", "allgather", "reducescatter", "alltoall", "all2all", "sendrecv"];

static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| searcher(COLLECTIVES, AhoCorasickKind::DFA));

/// A searcher for a few short words at once.
#[allow(clippy::expect_used, reason = "the words are few and short")]
pub(super) fn searcher(words: &[&str], kind: AhoCorasickKind) -> AhoCorasick {
    let searcher = AhoCorasick::builder().kind(Some(kind)).prefilter(false).build(words);
    searcher.expect("so few words make few states")
}

/// Whether a kernel's name indicates a collective. `reduce_kernel` and `gather` alone do not.
pub fn says_collective(kernel: &str) -> bool {
    let plain: Vec<u8> = kernel.bytes().filter(|c| !b"_- ".contains(c)).map(|c| c.to_ascii_lowercase()).collect();
    ANY.is_match(&plain)
}

/// A kernel's name up to its parameters and template arguments, which is a pattern that matches it.
pub fn kernel_beginning(kernel: &str) -> &str {
    let anonymous = kernel.find("(anonymous namespace)").map_or(0, |at| at + "(anonymous namespace)".len());
    let rest = &kernel[anonymous..];
    // The parenthesis of `Memcpy DtoH (Device -> Pageable)` is part of the name.
    let is_end = |(at, _): &(usize, &str)| !rest[..*at].ends_with(' ');
    rest.match_indices(['(', '<']).find(is_end).map_or(kernel, |(at, _)| &kernel[..anonymous + at])
}

/// The same without the type of what it returns: `at::native::vectorized_elementwise_kernel`.
pub fn short_kernel(kernel: &str) -> &str {
    kernel_beginning(kernel.strip_prefix("void ").unwrap_or(kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_it() {
        for (name, collective) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", true),
            ("my_all_to_all<float>", true),
            ("void at::native::vectorized_gather_kernel<16, long>(char*)", false),
            ("void at::native::reduce_kernel<512, 1>()", false),
            ("ampere_bf16_s16816gemm_bf16_128x64", false),
        ] {
            assert_eq!(says_collective(name), collective, "{name}");
        }
    }
}
