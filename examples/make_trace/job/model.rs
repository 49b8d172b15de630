//! The model that a job trains or decodes with: its functions, kernels, sizes, and approximate times.

pub(super) const TRAIN_STEP: &str = "train.py(10): train_step";
pub(super) const FORWARD: &str = "model.py(20): forward";
pub(super) const LAYER: &str = "model.py(40): layer_forward";
pub(super) const ATTENTION: &str = "attention.py(30): attention";
pub(super) const MLP: &str = "mlp.py(50): mlp";
pub(super) const OPTIMIZER: &str = "optimizer.py(60): step";
pub(super) const SCHEDULER: &str = "lr_scheduler.py(25): step";
pub(super) const RECEIVE: &str = "pipeline.py(15): recv_forward";
pub(super) const SEND: &str = "pipeline.py(30): send_forward";
pub(super) const RECEIVE_BACK: &str = "pipeline.py(45): recv_backward";
pub(super) const SEND_BACK: &str = "pipeline.py(60): send_backward";
pub(super) const BACKWARD: &str = "model.py(90): backward";

/// The Python functions of a step, without those of the pipeline.
pub(super) const EAGER: &[&str] = &[TRAIN_STEP, FORWARD, LAYER, ATTENTION, MLP, OPTIMIZER];
/// The Python functions of a step that replays a graph.
pub(super) const REPLAYING: &[&str] = &[TRAIN_STEP, FORWARD];

pub(super) const GEMM_ATTENTION: &str = "ampere_bf16_s16816gemm_attn";
pub(super) const FLASH: &str = "flash_fwd_kernel";
pub(super) const GEMM_MLP: &str = "ampere_bf16_s16816gemm_mlp";
pub(super) const ADAM: &str = "multi_tensor_apply_kernel";

/// What reads a number from the GPU.
pub(super) const COPY_PAGEABLE: &str = "Memcpy DtoH (Device -> Pageable)";
pub(super) const COPY_PINNED: &str = "Memcpy DtoH (Device -> Pinned)";

/// The compute kernels, which can be made late.
pub(crate) const KERNELS: &[&str] = &[GEMM_ATTENTION, FLASH, GEMM_MLP, ADAM];

pub(super) const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(super) const REDUCE_SCATTER: &str =
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(super) const ALL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(super) const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// Elements of the activations that a layer passes on.
pub(super) const ACTIVATIONS: u64 = 1 << 21;
/// Parameters of a layer.
pub(super) const PARAMETERS: u64 = 1 << 20;
/// Elements of the small all-reduce.
pub(super) const SMALL: u64 = 256;
pub(super) const ELEMENT_BYTES: u64 = 2;

/// The approximate time of a layer, and of the rest of a step.
pub(super) const LAYER_NS: i64 = 190_000;
pub(super) const STEP_NS: i64 = 400_000;
pub(super) const REPLAYED_LAYER_NS: i64 = 70_000;
