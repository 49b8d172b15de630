//! Sizes and bandwidths of collectives, as nccl-tests defines them (`doc/PERFORMANCE.md` and each test's `…GetBw`), and the algorithm and protocol
//! in a kernel's name.
//!
//! The time of one kernel on one rank includes waiting for the other ranks, unlike the loops of nccl-tests. So a bandwidth from a trace is what
//! this rank observed, and a lower bound of what the links can do.

/// A collective or point-to-point operation, as far as its bandwidth depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Every rank gets the reduction of all inputs.
    AllReduce,
    /// Every rank gets the inputs of all ranks.
    AllGather,
    /// Every rank gets a part of the reduction of all inputs.
    ReduceScatter,
    /// Every rank sends a part to every rank.
    AllToAll,
    /// Every rank gets the input of the root.
    Broadcast,
    /// The root gets the reduction of all inputs.
    Reduce,
    /// The root gets the inputs of all ranks.
    Gather,
    /// Every rank gets a part of the root's input.
    Scatter,
    /// This rank sends to another.
    Send,
    /// This rank receives from another.
    Recv,
    /// Sends or receives, one or several at once: they share one kernel.
    SendRecv,
}

/// Parts of names, in lower case without separators, and their collectives. The first match wins.
const WORDS: &[(&str, Collective)] = &[
    ("allreduce", Collective::AllReduce),
    ("reducescatter", Collective::ReduceScatter),
    ("allgather", Collective::AllGather),
    ("alltoall", Collective::AllToAll),
    ("broadcast", Collective::Broadcast),
    ("sendrecv", Collective::SendRecv),
    ("gather", Collective::Gather),
    ("scatter", Collective::Scatter),
    ("reduce", Collective::Reduce),
    ("send", Collective::Send),
    ("recv", Collective::Recv),
];

/// Words in the names of other libraries' kernels, and their collectives. The first line counts whose words a name has.
const OF_KERNELS: &[(&[&str], Option<Collective>)] = &[
    // `all_reduce_two_shot_kernel`, `multimem_all_reduce_kernel`, `allreduce_prototype_twoshot`, `oneShotAllReduceKernel` …
    (&["allreduce"], Some(Collective::AllReduce)),
    (&["reducescatter"], Some(Collective::ReduceScatter)),
    (&["allgather"], Some(Collective::AllGather)),
    (&["alltoall"], Some(Collective::AllToAll)),
    (&["all2all"], Some(Collective::AllToAll)),
    (&["sendrecv"], Some(Collective::SendRecv)),
    // vllm, sglang, aiter `custom_all_reduce.cuh`: `cross_device_reduce_1stage`, `cross_device_reduce_2stage`
    (&["crossdevicereduce"], Some(Collective::AllReduce)),
    // The second half of a two-shot all-reduce: flashinfer `comm/trtllm_mnnvl_allreduce.cuh`
    (&["rmsnormlamport"], Some(Collective::AllReduce)),
    // NVSHMEM's reductions give the result to every PE; its `fcollect` gathers equal parts.
    (&["rdxn", "onstream"], Some(Collective::AllReduce)),
    (&["fcollect", "onstream"], Some(Collective::AllGather)),
    (&["broadcast", "onstream"], Some(Collective::Broadcast)),
    // deepseek-ai/DeepEP: the layout computes where tokens go; then they go to their experts and back, after `notify_dispatch`, which also waits.
    (&["deepep", "layout"], None),
    (&["deepep", "dispatch"], Some(Collective::AllToAll)),
    (&["deepep", "combine"], Some(Collective::AllToAll)),
    (&["hybridep", "dispatch"], Some(Collective::AllToAll)),
    (&["hybridep", "combine"], Some(Collective::AllToAll)),
];

/// The letters and digits of a name, in lower case.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// PyTorch's prefix for annotations of collectives: `nccl:all_reduce` (`ProcessGroupNCCL.cpp`, `profilingTitle`).
pub const ANNOTATION: &str = "nccl:";

/// PyTorch's annotation around the launch of operations that were given to NCCL together (`ProcessGroupNCCL::endCoalescing`).
pub const BATCH: &str = "nccl:coalesced";

impl Collective {
    /// The collective for a name recorded by PyTorch's process groups: `allreduce`, `_allgather_base`, `reduce_scatter_tensor_coalesced`,
    /// `all_to_allv`, `send` (`ProcessGroupNCCL.cpp`, the calls of `RECORD_PARAM_COMMS_DATA`).
    pub fn of_record(name: &str) -> Option<Self> {
        // Most names are our own.
        if let Some((_, own)) = WORDS.iter().find(|(_, collective)| collective.name() == name) {
            return Some(*own);
        }
        let letters = letters(name);
        WORDS.iter().find(|(word, _)| letters.contains(word)).map(|(_, collective)| *collective)
    }

    /// The collective of a kernel, by its name; `None` for NCCL's generic kernel and for uninformative names. Names from other libraries must have
    /// the full name of a collective: `reduce` and `gather` are computations too. Inductor names its kernels after the operators around a
    /// collective (`triton_red_fused_all_reduce_…`), so those names are no evidence.
    pub fn of_kernel(name: &str) -> Option<Self> {
        let own = own_name(name);
        if own.starts_with("nccl") {
            return Self::of_record(own.split_once('_').map_or(own, |(_, rest)| rest));
        }
        if own.starts_with("triton_") {
            return None;
        }
        let letters = letters(own);
        let says = |(words, _): &&(&[&str], Option<Self>)| words.iter().all(|word| letters.contains(word));
        OF_KERNELS.iter().find(says).and_then(|(_, collective)| *collective)
    }

    /// Whether one rank, the root, sends or receives the data of all others.
    pub fn has_root(self) -> bool {
        matches!(self, Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter)
    }

    /// Whether only two ranks take part.
    pub fn is_point_to_point(self) -> bool {
        matches!(self, Collective::Send | Collective::Recv | Collective::SendRecv)
    }

    /// Its name: the name of its program in nccl-tests.
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::AllToAll => "alltoall",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Send => "send",
            Collective::Recv => "recv",
            Collective::SendRecv => "sendrecv",
        }
    }

    /// The size S of nccl-tests, in bytes: the larger of the totals that a rank sends and receives. `input` and `output` are the sizes of this
    /// rank's tensors, in bytes; `ranks` is the number of ranks.
    ///
    /// PyTorch records each rank's own tensors: only the root has the output of a gather and the input of a scatter.
    pub fn size(self, input: u64, output: u64, ranks: u64) -> u64 {
        match self {
            Collective::AllGather => output,
            Collective::Gather => input.saturating_mul(ranks),
            Collective::Scatter => output.saturating_mul(ranks),
            Collective::AllToAll | Collective::Send | Collective::Recv | Collective::SendRecv => input.max(output),
            _ => input,
        }
    }

    /// The factor from S/t to the bus bandwidth, which is comparable with the hardware's bandwidth for any number of ranks.
    pub fn bus_factor(self, ranks: u64) -> f64 {
        use Collective::*;
        let n = ranks as f64;
        match self {
            AllReduce => 2.0 * (n - 1.0) / n,
            AllGather | ReduceScatter | AllToAll | Gather | Scatter => (n - 1.0) / n,
            Broadcast | Reduce | Send | Recv | SendRecv => 1.0,
        }
    }
}

/// A number of bytes in powers of ten, like bandwidths: `8.39 MB`.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.2} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// PyTorch's element types (`c10/core/ScalarType.h`) by their size in bytes.
const ELEMENT_BYTES: &[(u64, &[&str])] = &[
    (1, &["Byte", "Char", "Bool"]),
    (2, &["Short", "Half", "BFloat16", "UInt16"]),
    (4, &["Int", "Float", "ComplexHalf", "UInt32"]),
    (8, &["Long", "Double", "ComplexFloat", "UInt64"]),
    (16, &["ComplexDouble"]),
];

/// The size of an element in bytes; `None` for unknown types. All 8-bit floats are called `Float8_…`; elements of the 4-bit type come in pairs.
pub fn element_bytes(dtype: &str) -> Option<u64> {
    if dtype.starts_with("Float8_") || dtype == "Float4_e2m1fn_x2" {
        return Some(1);
    }
    ELEMENT_BYTES.iter().find(|(_, types)| types.contains(&dtype)).map(|(bytes, _)| *bytes)
}

/// A kernel's name without its parameters.
pub(super) fn own_name(name: &str) -> &str {
    let name = name.strip_prefix("void ").unwrap_or(name);
    // An anonymous namespace, if any, comes first.
    let name = ANONYMOUS.iter().find_map(|namespace| Some(name.split_once(namespace)?.1)).unwrap_or(name);
    &name[..name.find(['(', '<']).unwrap_or(name.len())]
}

/// Anonymous namespaces, as demanglers write them.
const ANONYMOUS: &[&str] = &["(anonymous namespace)::", "<unnamed>::"];

/// Algorithm and protocol of a kernel, as far as its name has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Method<'a> {
    /// `Ring`, `Tree`, `NVLS` …, or the parts of a symmetric kernel: `RSxLDMC_AGxSTMC`.
    pub algorithm: Option<&'a str>,
    /// `LL`, `LL128` or `Simple`.
    pub protocol: Option<&'a str>,
}

const ALGORITHMS: &[&str] = &["COLLNET_DIRECT", "COLLNET_CHAIN", "COLLNET", "NVLS_TREE", "NVLS", "PAT", "TREE", "RING"];

const PROTOCOLS: &[&str] = &["LL128", "SIMPLE", "LL"];

/// Reductions. In the name of a symmetric kernel, the element type follows.
const REDUCTIONS: &[&str] = &["_sum_", "_prod_", "_min_", "_max_", "_minmax_", "_premulsum_", "_sumpostdiv_"];

impl<'a> Method<'a> {
    /// Parses a kernel's name, which is less informative than it looks: NCCL builds kernels for the protocol LL only and runs the others from
    /// them, so `…_LL` does not name the protocol; from 2.19 on all kernels whose algorithm is not Tree are called `…_RING_LL` (NVIDIA/nccl
    /// `src/device/generate.py`, `best_kernel`; before that `enqueue.cc`, `NCCL_FUNC5`). Any other name is taken literally.
    pub fn of_kernel(name: &'a str) -> Self {
        let own = own_name(name);
        if let Some(rest) = own.strip_prefix("ncclSymkDevKernel_").or_else(|| own.strip_prefix("ncclSymDevKernel_")) {
            return Self::of_symmetric(rest);
        }
        // Before 2.19 the algorithm in the name is the one that runs.
        let (rest, ring_is_ring) = match (own.strip_prefix("ncclDevKernel_"), own.strip_prefix("ncclKernel_")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Method::default(),
        };
        if rest.starts_with("SendRecv") {
            return Method::default();
        }
        // Whole words: what is before and after them is `_`, or nothing.
        let has = |word: &str| {
            let is_whole = |(at, _): (usize, &str)| {
                let (before, after) = (&rest[..at], &rest[at + word.len()..]);
                (before.is_empty() || before.ends_with('_')) && (after.is_empty() || after.starts_with('_'))
            };
            rest.match_indices(word).any(is_whole)
        };
        let algorithm = ALGORITHMS.iter().copied().find(|word| has(word));
        let protocol = PROTOCOLS.iter().copied().find(|word| has(word)).filter(|word| *word != "LL");
        // A ring with a protocol other than LL comes from a build whose names are exact.
        Method { algorithm: algorithm.filter(|word| *word != "RING" || ring_is_ring || protocol.is_some()), protocol }
    }

    /// `AllReduce_RSxLDMC_AGxSTMC_Sum_bf16`: the algorithm is between the collective and the reduction.
    fn of_symmetric(rest: &'a str) -> Self {
        let Some((_, algorithm)) = rest.split_once('_') else { return Method::default() };
        let lower = algorithm.to_ascii_lowercase();
        let end = REDUCTIONS.iter().filter_map(|word| lower.find(word)).min().unwrap_or(algorithm.len());
        let algorithm = &algorithm[..end];
        let protocol = algorithm.contains("LL").then_some("LL");
        Method { algorithm: Some(algorithm).filter(|name| !name.is_empty()), protocol }
    }
}

#[cfg(test)]
mod tests {
    use super::Collective::*;
    use super::*;

    #[test]
    fn a_collective_is_found_by_its_own_name_as_by_others() {
        for (_, collective) in WORDS {
            let name = collective.name();
            assert_eq!(Collective::of_record(name), Some(*collective));
            assert_eq!(Collective::of_record(&name.to_uppercase()), Some(*collective));
        }
    }

    /// Computed by hand: 1 MB (10^6 bytes) from each rank in 100 us. A bandwidth of 1 GB/s is 1 byte per nanosecond.
    #[test]
    fn bandwidths_are_those_of_nccl_tests() {
        const MB: u64 = 1_000_000;
        // Name, bytes of this rank's input and output, ranks; algorithm and bus bandwidth in GB/s.
        for (name, input, output, ranks, algorithm, bus) in [
            ("allreduce", MB, MB, 8, 10.0, 17.5),
            ("allreduce", MB, MB, 2, 10.0, 10.0),
            ("allreduce_coalesced", MB, MB, 4, 10.0, 15.0),
            ("_allgather_base", MB, 8 * MB, 8, 80.0, 70.0),
            ("all_gather", MB, 4 * MB, 4, 40.0, 30.0),
            ("reduce_scatter", 8 * MB, MB, 8, 80.0, 70.0),
            ("_reduce_scatter_base", 4 * MB, MB, 4, 40.0, 30.0),
            ("all_to_all", MB, MB, 8, 10.0, 8.75),
            ("all_to_allv", MB, 2 * MB, 4, 20.0, 15.0),
            ("all_to_allv", 2 * MB, MB, 4, 20.0, 15.0),
            ("broadcast", MB, MB, 8, 10.0, 10.0),
            ("_broadcast_oop", MB, MB, 3, 10.0, 10.0),
            ("reduce", MB, MB, 8, 10.0, 10.0),
            ("gather", MB, 0, 8, 80.0, 70.0),
            ("scatter", 0, MB, 8, 80.0, 70.0),
            ("send", MB, MB, 2, 10.0, 10.0),
            ("recv", 0, MB, 2, 10.0, 10.0),
            ("allreduce", MB, MB, 1, 10.0, 0.0),
        ] {
            let collective = Collective::of_record(name).unwrap();
            let measured = collective.size(input, output, ranks) as f64 / 100_000.0;
            assert!((measured - algorithm).abs() < 1e-9, "{name}: {measured}");
            let measured = measured * collective.bus_factor(ranks);
            assert!((measured - bus).abs() < 1e-9, "{name}: {measured}");
        }
        for (name, collective) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Some(AllReduce)),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", Some(SendRecv)),
            ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", None),
            ("void vllm::cross_device_reduce_1stage<float>(int*)", Some(AllReduce)),
            ("_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataE", Some(AllReduce)),
            ("void all_reduce_two_shot_push_kernel<4>(Params)", Some(AllReduce)),
            ("void multimem_all_reduce_kernel<c10::BFloat16, 16>(int)", Some(AllReduce)),
            (
                "void c10d::(anonymous namespace)::multimem_one_shot_all_reduce_kernel<float, 16>(float*)",
                Some(AllReduce),
            ),
            ("void quickreduce::allreduce_prototype_twoshot<half>(half*)", Some(AllReduce)),
            ("void mscclpp::collective::allreduceAllPairs<(mscclpp::ReduceOp)0, __half>(__half*)", Some(AllReduce)),
            ("void allreduce_LL_1node<__half>(mscclpp::MemoryChannelDeviceHandle*)", Some(AllReduce)),
            ("void aiter::allgather_vec<__half, 8>(RankData*)", Some(AllGather)),
            ("void deep_ep::intranode::dispatch<8, 768>(void*)", Some(AllToAll)),
            ("void deep_ep::layout::get_dispatch_layout<256>(int*)", None),
            ("void deep_ep::internode_ll::combine<true>(void*)", Some(AllToAll)),
            ("alltoall_float_on_stream_kernel(float*, float const*)", Some(AllToAll)),
            ("void mscclpp::executionKernel<__half, mscclpp::LL8Packet, true>(int)", None),
            ("void at::native::reduce_kernel<512, 1>(int)", None),
            ("void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(int)", None),
            ("triton_red_fused_all_reduce_wait_tensor_native_layer_norm_1", None),
        ] {
            assert_eq!(Collective::of_kernel(name), collective, "{name}");
        }
        for name in ["wait", "barrier", "init", "coalesced", ""] {
            assert_eq!(Collective::of_record(name), None, "{name}");
        }
    }

    #[test]
    fn types_have_their_sizes() {
        for (dtype, bytes) in [
            ("BFloat16", Some(2)),
            ("Float", Some(4)),
            ("Float8_e4m3fn", Some(1)),
            ("ComplexDouble", Some(16)),
            ("?", None),
        ] {
            assert_eq!(element_bytes(dtype), bytes, "{dtype}");
        }
    }

    #[test]
    fn a_kernels_name_shows_less_than_it_seems_to() {
        for (name, algorithm, protocol) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", None, None),
            ("ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevComm*, unsigned long, ncclWork*)", Some("TREE"), None),
            ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", None, None),
            ("ncclDevKernel_AllReduce_Sum_f32_NVLS_SIMPLE(…)", Some("NVLS"), Some("SIMPLE")),
            ("ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE(…)", Some("NVLS_TREE"), Some("SIMPLE")),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL128(…)", Some("RING"), Some("LL128")),
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", Some("RING"), None),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", None, None),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", None, None),
            ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", None, None),
            ("void ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(x)", Some("RSxLDMC_AGxSTMC"), None),
            ("ncclSymDevKernel_AllGather_LLMC(ncclSymDevArgs)", Some("LLMC"), Some("LL")),
            ("ncclSymDevKernel_AllReduce_AGxLL_R_Sum_f32(ncclSymDevArgs)", Some("AGxLL_R"), Some("LL")),
            ("ampere_bf16_s16816gemm", None, None),
        ] {
            assert_eq!(Method::of_kernel(name), Method { algorithm, protocol }, "{name}");
        }
    }
}
