//! Families of kernels that move or combine data between GPUs, each as regular expressions for kernel names.
//!
//! NCCL is not the only one: inference engines, MoE libraries and PyTorch have their own kernels, whose names do not contain `nccl` and often do
//! not show their library. So a family is a list of names from the sources, each with its source file. A name in a trace is demangled (`void
//! vllm::f<int>(int*)`), bare (Triton, `extern "C"`) or mangled (`_ZN4vllm1fIiEEvPi`).

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::kernels::searcher;

/// A family of kernels: their library and their names.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name of the family, as a user writes it.
    pub name: &'static str,
    pub about: &'static str,
    /// Regular expressions for the beginning of a kernel's own name. Text after that is template arguments and parameters or, in Inductor's fused
    /// kernels (`triton_poi_fused_one_shot_all_reduce_0`), an operator, not the kernel.
    own: &'static [&'static str],
    /// The same for namespaces around a kernel, at any depth.
    within: &'static [&'static str],
    /// Regular expressions that may match anywhere in a kernel's name.
    patterns: &'static [&'static str],
}

/// The family whose kernels compute and communicate at once. They hide collectives as computation does, and how much of their own communication is
/// hidden is unknown, so they do not count as collectives.
pub const FUSED: &str = "fused-gemm";

impl Family {
    /// Whether its kernels only move and combine data.
    pub fn only_communicates(&self) -> bool {
        self.name != FUSED
    }

    /// The family as regular expressions that may match anywhere in a kernel's name; one match is enough. There are as few as possible, because
    /// compiling them takes most of the time.
    pub fn expressions(&self) -> Vec<String> {
        let mut all: Vec<String> = self.patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        if !self.own.is_empty() {
            let names = self.own.join("|");
            let namespaces = r"(?:(?:\w+|\(anonymous namespace\)|<unnamed>)::)*";
            all.push(format!(r"^(?:void )?{namespaces}(?:_Z\w*?\d)?(?:{names})"));
        }
        if !self.within.is_empty() {
            let namespaces = self.within.join("|");
            all.push(format!(r"^(?:void )?(?:\w+::)*(?:{namespaces})::|^_ZN\w*?\d(?:{namespaces})L?\d"));
        }
        all
    }
}

/// How many of [`FAMILIES`], at their beginning, have NCCL's names.
pub const NCCL_FAMILIES: usize = 2;

/// All families. A kernel may belong to several: RCCL's kernels have NCCL's names.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "nccl",
        about: "NCCL's kernels, of all its generations",
        own: &[],
        within: &[],
        patterns: &[
            // NVIDIA/nccl `src/device/generate.py`, `src/device/symmetric/generate.py`; before 2.19 `ncclKernel_…`, before 2.8
            // `ncclAllReduceRingLLKernel_…`. Also `nccl_ep_jit_…` (NCCL EP) and ctran's `ncclKernelAllReduce…`. No namespace may precede it: in
            // `c10d::nccl_extension::` the word is PyTorch's.
            r"^(?:void )?(?:_ZN?L?\d+)?nccl",
        ],
    },
    Family {
        name: "rccl",
        about: "RCCL's kernels; most have NCCL's names, so NCCL's are found too",
        own: &[],
        within: &[],
        patterns: &[
            // ROCm/rccl `src/device/common.cu` (`ncclDevKernel_Generic_4`), `src/device/symmetric/generate.py`
            r"^(?:void )?(?:_ZN?L?\d+)?nccl",
            // ROCm/rccl, older: `rccl_main_kernel`; the first RCCL: `rcclAllReduce…`, `RcclKernelScalarReduce`
            r"^(?:void )?(?:_ZN?L?\d+)?[rR]ccl",
            // ROCm/rccl `msccl/msccl_kernel.h`
            r"^(?:void )?(?:_ZN?L?\d+)?mscclKernel",
        ],
    },
    Family {
        name: "custom-allreduce",
        about: "all-reduces (and kin: all-gathers, barriers) of vLLM, SGLang, FlashInfer, TensorRT-LLM, aiter, PyTorch",
        own: &[
            // vllm `csrc/custom_all_reduce.cuh`, `csrc/custom_all_gather_reduce_scatter.cuh`; sglang
            // `sgl-kernel/csrc/allreduce/custom_all_reduce.cuh`; aiter `csrc/include/custom_all_reduce.cuh`; flashinfer
            // `include/flashinfer/comm/vllm_custom_all_reduce.cuh`
            "cross_device_(?:reduce|all_gather)",
            // vllm `csrc/custom_all_gather_reduce_scatter.cuh`
            "mnnvl_lamport_",
            // sglang `python/sglang/kernels/jit/csrc/distributed/custom_all_reduce.cuh`, `all_reduce_fusion.cuh`,
            // `all_reduce_mhc_hip.cuh`, `kimi_k3/comm/ar_fusion.cuh`
            "all_reduce_(?:one_shot|two_shot|[12]shot)_(?:push_|pull_)?kernel",
            "all_reduce_(?:kernel|mhc_post_kernel|(?:push|pull)_(?:res|norm)_)",
            "moe_finalize_all_reduce_kernel",
            // sglang, same folders: `nvlink_comm.cuh`, `tp_qknorm.cuh`, `beam_all_reduce.cuh`, `ipc_a2a.cuh`,
            // `inkling/inkling_all_reduce.cuh`
            "nvlink_(?:push|pull)_kernel|parallel_qknorm_across_head",
            "inkling_(?:two_shot_all_reduce|multimem)_",
            // sglang `kimi_k3/comm/sp_collective.cuh`, `muse_spark/all_gather.cuh`, `all_gather_norm_residual.cuh`
            "all_gather_(?:direct_)?kernel|muse_spark_all_gather_|reduce_scatter_(?:pull|res)_kernel",
            // quick-reduce: vllm `csrc/quickreduce/`, sglang `sgl-kernel/csrc/allreduce/quick_all_reduce.cuh`, aiter
            // `csrc/include/quick_all_reduce.cuh`
            "allreduce_prototype_(?:one|two)shot",
            // pytorch `torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu` (in an anonymous namespace)
            "multimem_(?:all_?reduce|all_gather|one_shot)",
            // pytorch, same file (`one_shot_all_reduce_kernel`, `two_shot_all_reduce_kernel_inplace`) and
            // `intra_node_comm.cu` (`oneShotAllReduceKernel`); TensorRT-LLM `kernels/customAllReduceKernels.cu`,
            // `communicationKernels/mnnvlAllreduceKernels.cu` (`oneshotAllreduceFusionKernel`); flashinfer
            // `comm/trtllm_allreduce.cuh`, `comm/trtllm_mnnvl_allreduce.cuh`
            "(?:one|two)_?[sS]hot_?(?:prenorm_)?[aA]ll_?[rR]educe",
            // pytorch `intra_node_comm.cu`; TensorRT-LLM `communicationKernels/customLowPrecisionAllReduceKernels.cu`
            "hybridCubeMeshAllReduceKernel|lowPrecisionTwoShotAllReduceKernel",
            // TensorRT-LLM `communicationKernels/allReduceFusionKernels.cu`, `moeAllReduceFusionKernels.cu`; flashinfer
            // `comm/trtllm_allreduce_fusion.cuh`, `comm/trtllm_moe_allreduce_fusion.cuh`; aiter
            // (`allreduce_fusion_kernel_1stage`)
            "(?:moereduce_|moefinalize_)?allreduce_fusion_kernel",
            // flashinfer `comm/trtllm_allreduce.cuh` (`lamport_style_…`, `lamport_initialize_kernel`); aiter
            // (`lamport_prefill_sentinel`)
            "lamport_",
            // The second half of a two-shot all-reduce, waiting for peers: TensorRT-LLM, flashinfer
            // `comm/trtllm_mnnvl_allreduce.cuh`
            "rmsNormLamport",
            // flashinfer `csrc/cake_trtllm_moe_allreduce_union/`, `csrc/cake_moe_finalize_allreduce_fusion/`; Triton:
            // `flashinfer/comm/quantized_allreduce.py`
            "kernel_cake_trtllm_moe_(?:allreduce|finalize)_|_fp8_blockscale_2shot_kernel",
            // aiter `csrc/include/custom_all_reduce.cuh`
            "allgather_(?:naive|vec|lastdim)|reduce_scatter_(?:cross_device_store|split_)|fused_allreduce_rmsnorm",
            r"(?:barrier|put_signal|wait_signal)_kernel\(unsigned int ?\*\*, int, int, int",
            // pytorch `symm_mem/nccl_extension.cu`
            "lsa_put_signal_kernel",
            // RMSNorm with an all-reduce within: TensorRT-LLM `communicationKernels/MiniMaxReduceRMSKernel.cu`; vllm
            // `csrc/minimax_reduce_rms_kernel.cu`
            "minimax_reduce_(?:qk_)?rms_kernel",
            // openxla/xla `xla/stream_executor/gpu/`: `all_reduce_kernel_lib.cu.h`, `ragged_all_to_all_device_kernel_lib.cu.h`,
            // `multi_gpu_barrier_kernel.cu.h`
            "(?:RaggedAllToAll(?:Device)?|AllReduce|MultiGpuBarrier)KernelImpl",
        ],
        within: &[
            "beam_ar|ipc_a2a",
            "quickreduce",
            // TensorRT-LLM `communicationKernels/mnnvlAllreduceKernels.cu`, `mnnvlAllGatherKernels.cu`
            "mnnvl",
            // flashinfer `include/flashinfer/comm/`: namespaces that contain nothing else, with kernel names that are too common
            // (`allreduce_kernel`, `flat_push_kernel`)
            "mixed_comm|pcie_ipc|trtllm_mnnvl_allreduce|trtllm_(?:moe_)?allreduce_fusion",
            // pytorch `symm_mem/CUDASymmetricMemory.cu`: barriers and signals, waiting for peers as collectives do. Names this common match only
            // with that namespace or with its signal pads as first parameter.
            "symmetric_memory|intra_node_comm",
        ],
        patterns: &[
            // flashinfer `comm/ulysses_all_to_all.cuh`, `comm/dcp_lse_reduce.cuh`
            r"^(?:void )?flashinfer::comm::|^_ZN10flashinfer4comm",
            // InternLM/lmdeploy `src/turbomind/comm/`
            r"^(?:void )?turbomind::comm::|^_ZN9turbomind4comm",
        ],
    },
    Family {
        name: "userbuffers",
        about: "userbuffers of TransformerEngine and TensorRT-LLM",
        own: &[
            // NVIDIA/TransformerEngine `transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu`; TensorRT-LLM
            // `cpp/tensorrt_llm/kernels/userbuffers/userbuffers.cu`
            "userbuffers_fp16_sum_inplace_gpu_|kuserbuffers_",
        ],
        within: &[],
        patterns: &[],
    },
    Family {
        name: "all-to-all",
        about: "all-to-alls of TensorRT-LLM, FlashInfer, MoRI, pplx, FLUX; dispatch and combine of experts",
        own: &[
            // TensorRT-LLM `communicationKernels/moeAlltoAllKernels.cu`, `moeCommKernels.cu`, `fusedMoeCommKernels.cu`,
            // `helixAllToAll.cu`; flashinfer `csrc/nv_internal/tensorrt_llm/kernels/communicationKernels/`
            "moeA2A(?:Prepare)?(?:Dispatch|Combine)Kernel|moeA2ASanitizeExpertIdsKernel|(?:moe|helix)AllToAllKernel",
            "kernel_flashinfer_mnnvl_moe_alltoall_",
            // It waits for its peers: TensorRT-LLM `moePrepareKernels.cu`
            "computeCountAndIndiceDevice",
            // ROCm/mori `src/ops/kernels/`, `src/ops/dispatch_combine/`, `src/collective/kernels/ccl_kernels.hip`,
            // `shmem_kernels.hip`
            "Ep(?:Dispatch|Combine)[A-Z]|mori_shmem_barrier_all",
            "OneShot(?:All2all|AllGather|Broadcast)Sdma|SdmaReduceScatterKernel|ReduceScatterSdmaPut",
            "AllGather(?:Sdma|ReducedSdma|Async(?:Put|Wait))|InterNodeRingAllGatherKernel|FusedRingLocalGatherKernel",
            // perplexityai/pplx-garden `p2p-all-to-all/a2a-kernels/src/a2a/`
            "a2a_(?:dispatch|combine)_(?:send|recv)_kernel",
        ],
        within: &[],
        patterns: &[
            // bytedance/flux `src/coll/all2all_impl.cu`, `src/cuda/cudaipc_barrier_all.cu`
            r"^(?:void )?bytedance::flux::(?:CudaIpcBarrierAllKernel|all2all)",
            // meta-pytorch/torchcomms `comms/pipes/collectives/`, `comms/ctran/prims/`
            r"^(?:void )?comms::(?:pipes|prims)::|^_ZN5comms5(?:pipes|prims)",
        ],
    },
    Family {
        name: "triton-distributed",
        about: "kernels of Triton-distributed that communicate",
        own: &[
            // ByteDance-Seed/Triton-distributed `python/triton_dist/kernels/nvidia/`: `allreduce.py`, `reduce_scatter.py`,
            // `low_latency_allgather.py`, `common_ops.py`, `gemm_allreduce.py`
            r"allreduce_(?:double_tree|one_shot|two_shot)_\w*intra_node_kernel|reduce_scatter_ring_push_",
            r"_forward_pu(?:ll|sh_(?:numa_)?[23]d\w*)_kernel|barrier_all_intra_node_|consumer_(?:ring_)?all_reduce_",
            // same folder: `ep_a2a.py`, `low_latency_all_to_all_v2.py`, `pre_attn_a2a.py`, `post_attn_a2a.py`
            "kernel_(?:dispatch|combine)_token|kernel_get_ag_splits_and_recv_offset|kernel_(?:pre|post)_attn_a2a",
        ],
        within: &[],
        patterns: &[
            // `low_latency_all_to_all.py`, `low_latency_all_to_all_v2.py`
            r"^(?:all_to_all_kernel|(?:dispatch|combine)_kernel_v2)$",
        ],
    },
    Family {
        name: FUSED,
        about: "matrix products that communicate themselves; they count as computation",
        own: &[
            // deepseek-ai/DeepGEMM `deep_gemm/include/deep_gemm/impls/`
            r"sm\d+_\w*mega_moe_impl",
            // Triton-distributed `allgather_gemm.py`, `gemm_reduce_scatter.py`, and the names that `repr` gives them
            "kernel_consumer_gemm_|kernel_gemm_rs_producer_",
            r"triton3x_sm\d+_(?:gemm_rs|ag_gemm|ag_group_gemm|grouped_gemm_moe_rs)_",
        ],
        within: &[],
        patterns: &[],
    },
    Family {
        name: "vendors",
        about: "collectives of HCCL, oneCCL, MCCL and rocSHMEM",
        own: &[
            // ROCm/rocSHMEM, as its kernels are declared for hosts
            r"rocshmem_\w+_kernel",
            // uxlfoundation/oneCCL, SYCL kernels, as profiles show them: copies and barriers of a collective are its kernels, too
            "(?:class )?oneccl_",
            // Moore Threads' MCCL, as profiles show it: `mcclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(mcclWorkElem)`
            "mcclKernel_",
        ],
        within: &[],
        patterns: &[
            // HCCL, as Ascend's profiler names it: `hcom_allReduce__606_0_1`
            r"^hcom_[a-zA-Z]+_",
        ],
    },
    Family {
        name: "deepep",
        about: "DeepEP's dispatch and combine, and their preparation",
        own: &[],
        within: &[
            // deepseek-ai/DeepEP `csrc/kernels/` (`intranode`, `internode`, `internode_ll`, `layout`), newer
            // `deep_ep/include/deep_ep/impls/` (`elastic`). Only the namespace is specific: `dispatch` and
            // `combine` are common names. Forks keep it (`primus_turbo::deep_ep::`).
            "deep_ep",
            // DeepEP, branch hybrid-ep: `csrc/hybrid_ep/backend/hybrid_ep_backend.cuh`
            "hybrid_ep",
            // uccl-project/uccl `ep/src/`; ai-dynamo/nixl `examples/device/ep/csrc/kernels/`
            "uccl|nixl_ep",
        ],
        patterns: &[
            // DeepSeek's own, as in the traces that it published
            r"^(?:void )?dpsk::ep::|^_ZN4dpsk2ep",
        ],
    },
    Family {
        name: "nvshmem",
        about: "NVSHMEM's own kernels, and PyTorch's on NVSHMEM",
        own: &[
            // NVIDIA/nvshmem `src/host/stream/comm/` (`nvshmemi_signal_op_kernel`); `nvshmemi_proxy_rma_entrypoint…`
            "nvshmem",
            // NVIDIA/nvshmem `src/host/stream/coll/`; once with the type within (`alltoall_float_on_stream_kernel`)
            r"(?:barrier|sync|alltoall|broadcast|fcollect|rdxn|reducescatter)(?:_[a-z0-9_]+)?_on_stream_kernel",
        ],
        within: &[
            // pytorch `symm_mem/nvshmem_extension.cu` (`allToAllV`, `exchangeSplitAndOffset`)
            "nvshmem_extension",
        ],
        patterns: &[],
    },
    Family {
        name: "copy-engine",
        about: "copies that carry out collectives: NCCL's, and those of operators of symmetric memory",
        own: &[],
        within: &[],
        patterns: &[
            // Kineto's names of copies (`CuptiActivity.cpp`). Only copies that carry out a collective are looked up.
            r"^Memcpy (?:PtoP|DtoD)",
        ],
    },
    Family {
        name: "mscclpp",
        about: "MSCCL++'s kernels, and others that use its channels",
        own: &[
            // sglang `sgl-kernel/csrc/allreduce/mscclpp_allreduce.cuh`
            "allreduce_LL_[12]node",
        ],
        within: &[],
        patterns: &[
            // microsoft/mscclpp `src/ext/collectives/`, `src/core/executor/`, `src/ext/ep/`. Anywhere in the name: kernels outside the namespace
            // (`apps/nccl/src/allreduce.hpp`) are recognised by their parameters.
            r"\bmscclpp::",
            r"^_Z\w*?7mscclpp",
        ],
    },
];

/// Parts of names, in lower case and without underscores. Every kernel of a family contains one, and few other kernels do. So the regular
/// expressions, which take longer to compile than all names of a trace to search, are rarely needed.
const WORDS: &[&str] = &[
    "ccl",
    "crossdevice",
    "lamport",
    "mnnvl",
    "allreduce",
    "allgather",
    "reducescatter",
    "nvlinkpu",
    "parallelqknorm",
    "inkling",
    "multimem",
    "cake",
    "2shotkernel",
    "barrier",
    "signal",
    "beamar",
    "ipca2a",
    "quickreduce",
    "mixedcomm",
    "pcieipc",
    "symmetricmemory",
    "intranodecomm",
    "flashinfer::comm",
    "flashinfer4comm",
    "deepep",
    "hybridep",
    "nvshmem",
    "onstreamkernel",
    "turbomind::comm",
    "turbomind4comm",
    "userbuffers",
    "moea2a",
    "alltoall",
    "computecountandindice",
    "epdispatch",
    "epcombine",
    "all2all",
    "sdma",
    "a2adispatch",
    "a2acombine",
    "ringlocalgather",
    "bytedance::flux",
    "comms::p",
    "comms5p",
    "forwardpu",
    "dispatchtoken",
    "combinetoken",
    "agsplits",
    "attna2a",
    "dispatchkernelv2",
    "combinekernelv2",
    "megamoe",
    "consumergemm",
    "gemmrs",
    "aggemm",
    "aggroupgemm",
    "moers",
    "rocshmem",
    "hcom",
    "dpsk",
    "nixlep",
    "memcpy ptop",
    "memcpy dtod",
];

/// A faster automaton would take longer to build than small traces take to search.
static ANY_WORD: LazyLock<AhoCorasick> = LazyLock::new(|| searcher(WORDS, AhoCorasickKind::ContiguousNFA));

/// Whether a kernel may belong to any family, before [`Family::expressions`] decide.
pub fn may_be_of_any(kernel: &str) -> bool {
    let (mut plain, mut length) = (vec![0; kernel.len()], 0);
    for byte in kernel.bytes() {
        plain[length] = byte.to_ascii_lowercase();
        length += usize::from(byte != b'_');
    }
    ANY_WORD.is_match(&plain[..length])
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    const ALL_REDUCE: &[&str] = &["custom-allreduce"];
    const ALL_TO_ALL: &[&str] = &["all-to-all"];
    const DEEP_EP: &[&str] = &["deepep"];
    const MSCCLPP: &[&str] = &["mscclpp"];
    const USERBUFFERS: &[&str] = &["userbuffers"];

    const NAMES: &[(&str, &[&str])] = &[
        // NCCL and RCCL
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", &["nccl", "rccl"]),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)", &["nccl", "rccl"]),
        ("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", &["nccl", "rccl"]),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", &["nccl", "rccl"]),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", &["nccl", "rccl"]),
        ("ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)", &["nccl", "rccl"]),
        ("ncclSymDevKernel_ReduceScatter_LL_sum_f8e4m3(ncclSymDevArgs)", &["nccl", "rccl"]),
        ("void ncclKernelAllReduceARG<float, float, (commRedOp_t)0>(int*, CtranAlgoDeviceState*)", &["nccl", "rccl"]),
        ("nccl_ep_jit_ht_dispatch_kernel", &["nccl", "rccl"]),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", &["nccl", "rccl"]),
        ("mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)", &["rccl"]),
        ("rccl_main_kernel(ncclDevComm*, unsigned long, ncclWork*)", &["rccl"]),
        // vLLM, SGLang, aiter
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals)", ALL_REDUCE),
        ("_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataE", ALL_REDUCE),
        ("void sglang::cross_device_reduce_2stage<__nv_bfloat16, 4>(sglang::RankData*)", ALL_REDUCE),
        ("void aiter::cross_device_reduce_1stage_naive<std::bfloat16_t, 8>(aiter::RankData*)", ALL_REDUCE),
        ("void vllm::cross_device_all_gather<8>(vllm::RankData*, vllm::RankSignals)", ALL_REDUCE),
        ("void vllm::mnnvl_lamport_reduce_scatter_kernel<float, 4>(vllm::RankData*)", ALL_REDUCE),
        ("void (anonymous namespace)::all_reduce_one_shot_kernel<__nv_bfloat16, 8u, true>()", ALL_REDUCE),
        ("void sglang::all_reduce_2shot_pull_kernel<__nv_bfloat16, 8u, true>()", ALL_REDUCE),
        ("void sglang::all_reduce_pull_res_kernel<8u, false, true>()", ALL_REDUCE),
        ("void sglang::nvlink_push_kernel<4u>(sglang::NVLinkCommPushParams<4u>)", ALL_REDUCE),
        ("inkling_multimem_push_oneshot_kernel", ALL_REDUCE),
        (
            "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half, 8>, true>>()",
            ALL_REDUCE,
        ),
        ("void aiter::allreduce_fusion_kernel_1stage<std::bfloat16_t, 4, true>(aiter::RankData*)", ALL_REDUCE),
        ("_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE", ALL_REDUCE),
        ("void aiter::allgather_lastdim<std::bfloat16_t, 8>(aiter::RankData*)", ALL_REDUCE),
        ("void sglang::moe_finalize_all_reduce_kernel<__nv_bfloat16, 4096, 8>()", ALL_REDUCE),
        ("void sglang::beam_ar::kernel<__nv_bfloat16, 4096, 4>()", ALL_REDUCE),
        ("sglang::ipc_a2a::bump_signal_kernel(int*, int volatile*)", ALL_REDUCE),
        ("void sglang::reduce_scatter_pull_kernel<8u>()", ALL_REDUCE),
        // FlashInfer, TensorRT-LLM
        ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<__half, 8>()", ALL_REDUCE),
        ("void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_twoshot_sync<__half, 8>()", ALL_REDUCE),
        (
            "void tensorrt_llm::_v1::kernels::ar_fusion::moe::moefinalize_allreduce_fusion_kernel_oneshot_lamport<T>()",
            ALL_REDUCE,
        ),
        (
            "void flashinfer::trtllm_moe_allreduce_fusion::moereduce_allreduce_fusion_kernel_oneshot_lamport<T>()",
            ALL_REDUCE,
        ),
        ("void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport<__nv_bfloat16, 4>()", ALL_REDUCE),
        ("void tensorrt_llm::kernels::mnnvl::twoshot_allreduce_kernel<8, float>(float*)", ALL_REDUCE),
        ("void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8, true>()", ALL_REDUCE),
        ("void flashinfer::trtllm_allreduce::lamport_style_one_shot_all_reduce_norm_kernel<float, 2>()", ALL_REDUCE),
        ("void flashinfer::mixed_comm::allreduce_kernel<float>()", ALL_REDUCE),
        ("kernel_cake_trtllm_moe_allreduce_union_ws8_bf16_generic", ALL_REDUCE),
        ("void flashinfer::comm::ulysses::ulysses_a2a_kernel<float>()", ALL_REDUCE),
        ("void tensorrt_llm::kernels::lowPrecisionTwoShotAllReduceKernel<8, float>()", ALL_REDUCE),
        // PyTorch
        (
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)",
            ALL_REDUCE,
        ),
        ("void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *)", ALL_REDUCE),
        ("_ZN12_GLOBAL__N_1L26one_shot_all_reduce_kernelIfLi16ELi8EEEvPPT_S2_S2_m", ALL_REDUCE),
        ("c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)", ALL_REDUCE),
        ("_ZN4c10d16symmetric_memoryL14barrier_kernelEPPjiiim", ALL_REDUCE),
        ("put_signal_kernel(unsigned int**, int, int, int, int, unsigned long)", ALL_REDUCE),
        ("two_shot_all_reduce_kernel", ALL_REDUCE),
        ("lsa_put_signal_kernel(void**, void**, int, unsigned long)", ALL_REDUCE),
        ("sync_all_on_stream_kernel()", &["nvshmem"]),
        // DeepEP
        ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)", DEEP_EP),
        ("void deep_ep::internode_ll::combine<(bool)0, (int)6144, (int)11, (int)4>(void *, void *)", DEEP_EP),
        ("void deep_ep::intranode::cached_notify_combine<8>(void**, int*)", DEEP_EP),
        ("void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*)", DEEP_EP),
        ("void primus_turbo::deep_ep::internode::notify_dispatch<false, 2>(int const*)", DEEP_EP),
        ("_ZN7deep_ep7elastic13dispatch_implILb1ELi3EEEvPv", DEEP_EP),
        ("void hybrid_ep::dispatch_kernel<unsigned char>(hybrid_ep::dispatch_kernel_param_t<unsigned char>)", DEEP_EP),
        // NVSHMEM
        ("nvshmemi_proxy_rma_entrypoint_blocking(void*, void*, rma_bytesdesc, int, nvshmemi_op_t)", &["nvshmem"]),
        ("nvshmemi_signal_wait_until_on_stream_kernel(unsigned long volatile*, int, unsigned long)", &["nvshmem"]),
        ("void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)", &["nvshmem"]),
        ("_Z36barrier_on_stream_kernel_threadgroupIL13threadgroup_t1EEvii", &["nvshmem"]),
        ("alltoall_float_on_stream_kernel(float*, float const*, unsigned long, int, int, int, long*)", &["nvshmem"]),
        ("c10d::nvshmem_extension::allToAllV(void*, void*, long*, unsigned long, int)", &["nvshmem"]),
        ("void dpsk::ep::internode::dispatch<false, 8, false, 8>(int4*, float*, long*)", DEEP_EP),
        ("void dpsk::ep::internode::cached_notify<false>(int, int, int)", DEEP_EP),
        ("void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*, int*)", DEEP_EP),
        ("void uccl::internode::notify_dispatch<false, 2>(int const*)", DEEP_EP),
        ("void nixl_ep::ep_kernels::dispatch<true, false, 7168>(void*)", DEEP_EP),
        // Userbuffers
        ("void userbuffers_fp16_sum_inplace_gpu_rr_ag<8>(int, int, int, int, int, int, int, void**)", USERBUFFERS),
        ("kuserbuffers_pushrecv(int, int, int, int, int*, int*, int, unsigned long, int*, int*)", USERBUFFERS),
        ("void tensorrt_llm::kernels::ub::userbuffers_fp16_sum_inplace_gpu_mc<__half, 8, true>(int, int)", USERBUFFERS),
        // All-to-all
        (
            "void tensorrt_llm::_v1::kernels::moe_comm::moeA2ACombineKernel<__nv_bfloat16, 8, false, false>()",
            ALL_TO_ALL,
        ),
        (
            "void tensorrt_llm::kernels::helixAllToAllKernel<false>(tensorrt_llm::kernels::HelixAllToAllParams)",
            ALL_TO_ALL,
        ),
        ("kernel_flashinfer_mnnvl_moe_alltoall_combine_top_k_8", ALL_TO_ALL),
        ("EpCombineIntraNodeKernel_bf16_nop2p_fp8cast", ALL_TO_ALL),
        (
            "void mori::moe::EpDispatchInterNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs<hip_bfloat16>)",
            ALL_TO_ALL,
        ),
        ("OneShotAll2allSdmaKernel_u32", ALL_TO_ALL),
        ("void a2a_combine_recv_kernel<16u, 8u, __nv_bfloat16, __nv_bfloat16, NotFixed>(void*)", ALL_TO_ALL),
        (
            "comms::pipes::allToAllvKernel(void*, void const*, int, comms::pipes::DeviceSpan<comms::pipes::Transport>)",
            ALL_TO_ALL,
        ),
        ("bytedance::flux::all2all_v2(bytedance::flux::All2allParams)", ALL_TO_ALL),
        ("bytedance::flux::random_initialize(float*)", &[]),
        ("mori_ConvertDispatchOutputKernel", &[]),
        // TurboMind, XLA, MiniMax
        ("void turbomind::comm::Allgather_Simple_Pull<uint4, std::integral_constant<bool, false>>(void*)", ALL_REDUCE),
        ("turbomind::comm::Barrier(mscclpp::D2DSemaphoreHandle*, int)", &["custom-allreduce", "mscclpp"]),
        ("void turbomind::gemm::gemm_kernel<float>()", &[]),
        ("void stream_executor::gpu::RaggedAllToAllKernelImpl<8l>(void*)", ALL_REDUCE),
        ("void vllm::tensorrt_llm::minimax_reduce_rms_kernel_lamport<__nv_bfloat16>(void*)", ALL_REDUCE),
        ("loop_select_fusion", &[]),
        // Triton-distributed
        ("allreduce_one_shot_push_intra_node_kernel", &["triton-distributed"]),
        ("_forward_push_numa_2d_ll_kernel", &["triton-distributed"]),
        ("dispatch_kernel_v2", &["triton-distributed"]),
        ("copy_continuous_kernel", &[]),
        ("triton_red_fused_all_to_all_kernel_0", &[]),
        // Matrix products that communicate
        ("void deep_gemm::sm100_nvfp4_nvfp4_mega_moe_impl<16512u, 6144u, 3072u>(void*)", &["fused-gemm"]),
        ("kernel_consumer_gemm_persistent", &["fused-gemm"]),
        ("triton3x_sm90_ag_gemm_tensorop_bf16_bf16_bf16_128x256x64_ntn", &["fused-gemm"]),
        ("void deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<1u>(void*)", &[]),
        ("void deep_gemm::sm100_bf16_mega_gate_impl<1u>(void*)", &[]),
        // Other vendors
        ("hcom_allReduce__606_0_1", &["vendors"]),
        ("oneccl_allreduce_pcie<half, Rt64_128_PCIE, RingTransmit>", &["vendors"]),
        ("oneccl_kernel_memcpy_bytes", &["vendors"]),
        ("mcclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(mcclWorkElem)", &["vendors"]),
        ("rocshmem_barrier_all_kernel()", &["vendors"]),
        ("void dpsk::grouped_gemm::cuda::utils::transpose<512, 128, 4, 4>(float*)", &[]),
        ("void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>()", &[]),
        // Copies that carry out a collective
        ("Memcpy PtoP (Device -> Device)", &["copy-engine"]),
        ("Memcpy HtoD (Pinned -> Device)", &[]),
        // MSCCL++
        ("void mscclpp::collective::allreduceAllPairs<(mscclpp::ReduceOp)0, __half, false>(__half*, __half*)", MSCCLPP),
        ("void mscclpp::executionKernel<__half, mscclpp::LL8Packet, true>(int, __half*)", MSCCLPP),
        ("_ZN7mscclpp15executionKernelIiNS_9LL8PacketELb1EEEviPi", MSCCLPP),
        ("void allreduce_LL_1node<__half>(mscclpp::MemoryChannelDeviceHandle*, __half*)", MSCCLPP),
        ("void allreduceAllPairs<(Op)0, int>(int*, mscclpp::DeviceHandle<mscclpp::MemoryChannel>*)", MSCCLPP),
        // Not between GPUs
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::SumOps<float>>>()", &[]),
        ("void cub::CUB_200700_900_NS::DeviceReduceKernel<cub::Policy, float*, int>(float*)", &[]),
        ("void cub::DeviceReduceSingleTileKernel<cub::Policy, float*>(float*)", &[]),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasSplitKParams)", &[]),
        ("void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", &[]),
        ("void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128, 128, 256>(__hip_bfloat16*)", &[]),
        ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", &[]),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_gather_bf16_128x64>(cutlass::Params)", &[]),
        ("cross_entropy_fwd_kernel", &[]),
        ("void vllm::moe::dispatch_kernel<__nv_bfloat16>(int*)", &[]),
        ("void tensorrt_llm::kernels::combine<8>(void*)", &[]),
        ("void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)", &[]),
        ("void flashinfer::trtllm_allreduce::rms_norm_kernel<float>()", &[]),
        ("triton_poi_fused_one_shot_all_reduce_0", &[]),
        ("triton_red_fused_all_reduce_wait_tensor_native_layer_norm_1", &[]),
        ("void copy_kernel<ncclDevKernelArgs>(ncclDevKernelArgs)", &[]),
        ("not_nccl_but_alike(int)", &[]),
        ("barrier_kernel(unsigned int const*, unsigned int*)", &[]),
        ("block_all_reduce_kernel(float*)", &[]),
        ("void at::native::index_elementwise_kernel<128, deep_ep::Token>(deep_ep::Token*)", &[]),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", &[]),
    ];

    #[test]
    fn names_of_all_families() {
        let first: Vec<&str> = FAMILIES.iter().take(NCCL_FAMILIES).map(|family| family.name).collect();
        assert_eq!(first, ["nccl", "rccl"]);
        let families: Vec<(&str, Vec<Regex>)> = FAMILIES
            .iter()
            .map(|family| (family.name, family.expressions().iter().map(|e| Regex::new(e).unwrap()).collect()))
            .collect();
        for &(kernel, expected) in NAMES {
            let found: Vec<&str> = families
                .iter()
                .filter(|(_, patterns)| patterns.iter().any(|pattern| pattern.is_match(kernel)))
                .map(|&(name, _)| name)
                .collect();
            assert_eq!(found, expected, "{kernel}");
            assert!(may_be_of_any(kernel) || expected.is_empty(), "{kernel}");
        }
        for kernel in ["void at::native::reduce_kernel<512, 1>()", "void flashinfer::BatchDecodeWithPagedKVCache<1>()"]
        {
            assert!(!may_be_of_any(kernel), "{kernel}");
        }
    }
}
