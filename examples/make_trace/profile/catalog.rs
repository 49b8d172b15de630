//! The fixed facts of the simulated process: CUDA entry points with their callback ids, kernels
//! with their resource use, and the input lists of common operators.

/// A CUDA entry point.
pub(crate) struct Api {
    pub(crate) cat: &'static str,
    pub(crate) name: &'static str,
    pub(crate) cbid: u32,
    /// Whether Kineto writes the start (`s`) or an end (`f`) of a flow for it.
    pub(crate) launches: bool,
}

const fn runtime(name: &'static str, cbid: u32, launches: bool) -> Api {
    Api { cat: "cuda_runtime", name, cbid, launches }
}

pub(crate) static LAUNCH_KERNEL: Api = runtime("cudaLaunchKernel", 211, true);
pub(crate) static LAUNCH_KERNEL_EX: Api = runtime("cudaLaunchKernelExC", 430, true);
pub(crate) static GRAPH_LAUNCH: Api = runtime("cudaGraphLaunch", 311, true);
pub(crate) static MEMCPY_ASYNC: Api = runtime("cudaMemcpyAsync", 41, true);
pub(crate) static MEMSET_ASYNC: Api = runtime("cudaMemsetAsync", 51, true);
pub(crate) static STREAM_SYNCHRONIZE: Api = runtime("cudaStreamSynchronize", 131, true);
pub(crate) static EVENT_RECORD: Api = runtime("cudaEventRecord", 135, false);
pub(crate) static EVENT_QUERY: Api = runtime("cudaEventQuery", 138, false);
pub(crate) static EVENT_SYNCHRONIZE: Api = runtime("cudaEventSynchronize", 137, false);
pub(crate) static STREAM_WAIT_EVENT: Api = runtime("cudaStreamWaitEvent", 147, true);
pub(crate) static STREAM_IS_CAPTURING: Api = runtime("cudaStreamIsCapturing", 317, false);
pub(crate) static DEVICE_GET_ATTRIBUTE: Api = runtime("cudaDeviceGetAttribute", 200, false);
pub(crate) static GET_FUNC_BY_SYMBOL: Api = runtime("cudaGetFuncBySymbol", 336, false);
pub(crate) static DRIVER_LAUNCH: Api = Api { cat: "cuda_driver", name: "cuLaunchKernelEx", cbid: 652, launches: true };

/// A kernel and what one launch of it uses.
pub(crate) struct KernelSpec {
    pub(crate) name: &'static str,
    pub(crate) registers: u32,
    pub(crate) shared_memory: u32,
    pub(crate) block: u32,
    /// Shortest and longest run in nanoseconds.
    pub(crate) runs: (u64, u64),
}

const fn kernel(name: &'static str, registers: u32, shared_memory: u32, block: u32, runs: (u64, u64)) -> KernelSpec {
    KernelSpec { name, registers, shared_memory, block, runs }
}

pub(crate) static ALL_REDUCE: KernelSpec = kernel(
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    96,
    82_240,
    544,
    (9_000, 60_000),
);
pub(crate) static ALL_GATHER: KernelSpec =
    kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 96, 82_240, 544, (8_000, 40_000));
pub(crate) static GEMM: KernelSpec = kernel("nvjet_tst_128x64_64x8_2x1_v_bz_TNT", 168, 213_264, 384, (6_000, 40_000));
pub(crate) static GEMM_SPLIT: KernelSpec =
    kernel("nvjet_tst_64x16_64x16_4x1_v_bz_splitK_TNN", 168, 199_952, 384, (3_000, 9_000));
pub(crate) static SPLIT_REDUCE: KernelSpec = kernel(
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, true, false, false>\
     (cublasLt::cublasSplitKParams<float>, float const*, __nv_bfloat16 const*, __nv_bfloat16*, __nv_bfloat16*, \
     float const*, float const*, __nv_bfloat16 const*, float const*, __nv_bfloat16*, void*, long, float*, int*, \
     float*, float*, float const*, float const*, float const*, float const*, float const*)",
    40,
    0,
    512,
    (1_800, 3_200),
);
pub(crate) static RMS_NORM: KernelSpec = kernel(
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, \
     __nv_bfloat16*, unsigned int, unsigned int, unsigned int, float)",
    32,
    20_512,
    1024,
    (1_900, 5_000),
);
pub(crate) static ROPE: KernelSpec = kernel(
    "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel<false, true, true, 128u, 8u, 16u, \
     __nv_bfloat16, long>(flashinfer::RopeQuantizeAppendPagedKVCacheParams<__nv_bfloat16, long>)",
    56,
    0,
    128,
    (1_700, 4_000),
);
pub(crate) static STORE_KV: KernelSpec = kernel(
    "void (anonymous namespace)::store_kvcache_kernel<1024l, 2, false, long>\
     ((anonymous namespace)::StoreKVCacheParams)",
    18,
    0,
    256,
    (1_300, 2_400),
);
pub(crate) static ATTENTION: KernelSpec = kernel(
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, \
     cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<128>, cute::C<128> >, 128, \
     cutlass::bfloat16_t, float, cutlass::arch::Sm90, true, false, false, true, true, false, true, false, false, true, \
     true, false>, flash::CollectiveEpilogueFwd<cute::tuple<cute::C<128>, cute::C<128>, cute::C<128> >, \
     cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cutlass::bfloat16_t, cutlass::arch::Sm90, 256, true, true, \
     false, false>, flash::VarlenDynamicPersistentTileScheduler<128, 256, 128, false, true, true> > > >\
     (flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, \
     cute::C<1>, cute::C<1> > > > >::Params)",
    168,
    213_312,
    384,
    (7_000, 30_000),
);
pub(crate) static ATTENTION_COMBINE: KernelSpec = kernel(
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 5, 256, 1, true, \
     true, cutlass::bfloat16_t, float, cutlass::arch::Sm90> >(flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, \
     cute::C<128> >, 5, 256, 1, true, true, cutlass::bfloat16_t, float, cutlass::arch::Sm90>::Params)",
    64,
    36_096,
    256,
    (2_000, 3_600),
);
pub(crate) static SILU: KernelSpec = kernel(
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(silu(float const&))>(__nv_bfloat16*, \
     __nv_bfloat16 const*, int)",
    32,
    0,
    1024,
    (1_700, 5_000),
);
pub(crate) static EMBEDDING: KernelSpec = kernel(
    "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>\
     (at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, at::cuda::detail::TensorInfo<c10::BFloat16 const, \
     unsigned int>, at::cuda::detail::TensorInfo<long const, unsigned int>, int, int, unsigned int, long)",
    28,
    0,
    128,
    (2_000, 4_000),
);
pub(crate) static ARGMAX: KernelSpec = kernel(
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, \
     long, 4, 4> >(at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>)",
    38,
    16_400,
    512,
    (12_000, 25_000),
);

/// How the shape of an operator's input depends on the size of the step.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    None,
    Activation,
    Weight,
    /// Not a tensor but the list of requested sizes.
    Sizes,
}

/// One input of an operator.
pub(crate) struct Input {
    pub(crate) kind: &'static str,
    pub(crate) shape: Shape,
    pub(crate) concrete: &'static str,
}

const fn input(kind: &'static str, shape: Shape) -> Input {
    Input { kind, shape, concrete: "" }
}

const fn scalar(concrete: &'static str) -> Input {
    Input { kind: "Scalar", shape: Shape::None, concrete }
}

const BF16: &str = "c10::BFloat16";

pub(crate) static ONE: [Input; 1] = [input(BF16, Shape::Activation)];
pub(crate) static MATMUL: [Input; 2] = [input(BF16, Shape::Activation), input(BF16, Shape::Weight)];
pub(crate) static LINEAR: [Input; 3] =
    [input(BF16, Shape::Activation), input(BF16, Shape::Weight), input("", Shape::None)];
pub(crate) static TRANSPOSE: [Input; 3] = [input(BF16, Shape::Weight), scalar("0"), scalar("1")];
pub(crate) static EMPTY: [Input; 6] = [
    input("ScalarList", Shape::Sizes),
    scalar("15"),
    scalar("0"),
    input("", Shape::None),
    scalar("False"),
    input("", Shape::None),
];
pub(crate) static VIEW: [Input; 2] = [input(BF16, Shape::Activation), input("ScalarList", Shape::Sizes)];
pub(crate) static COPY: [Input; 3] = [input(BF16, Shape::Activation), input(BF16, Shape::Activation), scalar("False")];
pub(crate) static ALL_REDUCE_INPUTS: [Input; 5] = [
    input("TensorList", Shape::Activation),
    input("", Shape::None),
    input("", Shape::None),
    input("", Shape::None),
    scalar("-1"),
];
pub(crate) static ALL_GATHER_INPUTS: [Input; 5] = [
    input(BF16, Shape::Activation),
    input(BF16, Shape::Activation),
    input("", Shape::None),
    scalar("False"),
    scalar("-1"),
];

/// Short calls that Python code makes all the time, most frequent first.
pub(crate) static LEAVES: [&str; 30] = [
    "<built-in function isinstance>",
    "torch/nn/modules/module.py(1955): __getattr__",
    "<built-in function len>",
    "<built-in function getattr>",
    "sglang/srt/server_args.py(3512): get_global_server_args",
    "<built-in function hasattr>",
    "torch/_functorch/utils.py(35): <genexpr>",
    "<string>(2): __init__",
    "<built-in function hash>",
    "sglang/srt/layers/dp_attention.py(201): is_dp_attention_enabled",
    "<frozen os>(680): __getitem__",
    "<frozen _collections_abc>(804): get",
    "<frozen os>(762): encode",
    "<built-in function _getframe>",
    "sglang/srt/utils/common.py(187): is_cuda",
    "sglang/srt/layers/communicator.py(131): input_scattered",
    "<built-in function max>",
    "<frozen importlib._bootstrap>(1390): _handle_fromlist",
    "<built-in function _has_torch_function_unary>",
    "<frozen abc>(117): __instancecheck__",
    "<built-in function _abc_instancecheck>",
    "contextlib.py(772): __init__",
    "contextlib.py(775): __enter__",
    "contextlib.py(778): __exit__",
    "sglang/srt/distributed/parallel_state.py(1207): get_tp_group",
    "torch/distributed/distributed_c10d.py(1036): _rank_not_in_group",
    "sglang/srt/environ.py(41): get",
    "<string>(1): <lambda>",
    "<built-in function linear>",
    "torch/autograd/grad_mode.py(84): __enter__",
];

/// Methods of built-in objects, with the type they belong to; each call names the object's address.
pub(crate) static METHODS: [(&str, &str); 14] = [
    ("_get_tracing_state", "PyCapsule"),
    ("append", "list"),
    ("view", "Tensor"),
    ("stride", "Tensor"),
    ("size", "Tensor"),
    ("get", "dict"),
    ("items", "dict"),
    ("dim", "Tensor"),
    ("encode", "str"),
    ("is_contiguous", "Tensor"),
    ("numel", "Tensor"),
    ("startswith", "str"),
    ("index", "tuple"),
    ("data_ptr", "Tensor"),
];
