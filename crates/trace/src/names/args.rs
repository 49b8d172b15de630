//! Kineto's argument keys that the program reads (`output_json.cpp` in pytorch/kineto, `util.cpp` and `collection.cpp` in pytorch's profiler), and
//! which events they relate.

/// The id that CUPTI or ROCm gives to a runtime call and to all GPU work that it launches.
pub const CORRELATION: &str = "correlation";

/// The same in the traces of JAX's profiler, as text.
pub const CORRELATION_ID: &str = "correlation_id";

/// The number of an operator, which the runtime calls and GPU work below it share. Before October 2024, work without an operator had its own
/// correlation id here.
pub const EXTERNAL_ID: &str = "External id";

pub const PYTHON_ID: &str = "Python id";

/// The number of the Python caller's call; null for the first function of a thread.
pub const PYTHON_PARENT_ID: &str = "Python parent id";

/// Autograd's number of a forward operator and of the backward node that it creates. Each thread counts separately.
pub const SEQUENCE_NUMBER: &str = "Sequence number";

/// On a backward operator: the thread that created its node, in PyTorch's own numbering. 0 in the forward pass.
pub const FORWARD_THREAD: &str = "Fwd thread id";

/// The stream of GPU work. Kineto writes it as the thread id too, but the thread may be another: some exporters move kernels that overlap others
/// of their stream to a thread `7_hack`.
pub const STREAM: &str = "stream";

/// The CUDA graph that launched GPU work; 0 if none did.
pub const GRAPH_ID: &str = "graph id";

pub const GRAPH_NODE_ID: &str = "graph node id";

/// The operator on which PyTorch records the parameters of a collective (`ParamCommsUtils.hpp`). Kineto copies most of them to the linked kernels.
pub const COLLECTIVE_RECORD: &str = "record_param_comms";

/// The collective, as named by PyTorch's process group: `allreduce`, `_allgather_base`, `send`.
pub const COLLECTIVE: &str = "Collective name";

/// The number of input elements on this rank.
pub const IN_ELEMENTS: &str = "In msg nelems";

/// The number of output elements on this rank.
pub const OUT_ELEMENTS: &str = "Out msg nelems";

/// The number of ranks in the process group.
pub const GROUP_SIZE: &str = "Group size";

/// The element type, as named by PyTorch: `BFloat16`.
pub const DTYPE: &str = "dtype";

/// The process group's name, usually a number as text.
pub const GROUP_NAME: &str = "Process Group Name";

/// The process group's description: `default_pg`, `mesh_tp`.
pub const GROUP_DESCRIPTION: &str = "Process Group Description";

/// The process group's ranks, as text: `[0, 1, 2, 3]`; abbreviated with an ellipsis from 30 ranks on.
pub const GROUP_RANKS: &str = "Process Group Ranks";

/// PyTorch's sequence number of a collective in its process group.
pub const SEQ: &str = "Seq";

/// This rank's index in the group's list of ranks; for collectives with a root, the root's, and for a send or receive, the peer's. Only on
/// `record_param_comms`.
pub const RANK: &str = "Rank";

/// The global rank, on every event of a file that a script merged from several ranks.
pub const MERGED_RANK: &str = "rank";

/// The destination of a send: a global rank (`saveNcclMeta` looks it up in the group's list).
pub const DST_RANK: &str = "Dst Rank";

/// The source of a receive: a global rank.
pub const SRC_RANK: &str = "Src Rank";

/// The number of elements for each rank of an uneven all-to-all, as text: `[]` for equal parts.
pub const IN_SPLIT: &str = "In split size";

/// The number of elements from each rank.
pub const OUT_SPLIT: &str = "Out split size";

/// On a kernel, what it belongs to: the annotation of its node in a CUDA graph (`_annotate_cuda_graph`), or JAX's path of the operation.
pub const ANNOTATION: &str = "name";

/// The operation of a compiled program (HLO) that a kernel carries out, in the traces of JAX's profiler.
pub const HLO_OP: &str = "hlo_op";

const OF_RECORDS: &[&str] =
    &[COLLECTIVE, IN_ELEMENTS, OUT_ELEMENTS, GROUP_SIZE, DTYPE, GROUP_NAME, GROUP_DESCRIPTION, GROUP_RANKS];

/// The same, its place among others of its group, and its peer.
pub const OF_OPERATIONS: &[&str] =
    &joined::<16>(&[OF_RECORDS, &[SEQ, RANK, MERGED_RANK, DST_RANK, SRC_RANK, IN_SPLIT, OUT_SPLIT, ANNOTATION]]);

/// The keys of a collective, and the annotation of a kernel.
pub const OF_COLLECTIVES: &[&str] = &joined::<9>(&[OF_RECORDS, &[ANNOTATION]]);

/// The module path of an operator, joined by dots; only with TorchScript stacks, or from XSigma.
pub const MODULE_HIERARCHY: &str = "Module Hierarchy";

/// The callers of an operator, joined by semicolons. Python callers are slices instead.
pub const CALL_STACK: &str = "Call stack";

/// The sizes of an operator's inputs: a list each, `[]` for inputs that are not tensors, lists of lists for lists of tensors (`[]` for more than
/// 30). The profiler of 2021 wrote the key in lower case; NVTX ranges have `sizes`.
pub const INPUT_DIMS: &[&str] = &["Input Dims", "Input dims", "sizes"];

/// The types of the inputs: `float`, `c10::BFloat16`, `Scalar`, `ScalarList`, `TensorList`, or empty.
pub const INPUT_TYPES: &[&str] = &["Input type", "Input types"];

/// The strides of the tensors, in elements, nested like the sizes.
pub const INPUT_STRIDES: &[&str] = &["Input Strides", "Input strides"];

/// The values of the other inputs as texts, in the same order; tensors are empty texts, or XSigma's own texts.
pub const CONCRETE_INPUTS: &[&str] = &["Concrete Inputs", "Concrete inputs"];

/// The number of an operator call in its function (`RecordFunction::handle`).
pub const RECORD_FUNCTION_ID: &str = "Record function id";

/// The index of an event in the profiler's own order.
pub const EVENT_INDEX: &str = "Ev Idx";

/// The counters of PyTorch's and XSigma's profilers (`performance_events`), with the names of both.
pub const COUNTERS: &[&str] = &[
    "cycles",
    "instructions",
    "cache_misses",
    "cache_references",
    "branch_misses",
    "branches",
    "pagefaults",
    "backend-stall-cycles",
    "frontend-stall-cycles",
];

/// The keys of an operator's inputs and counters: everything that depends on the call, except numbers unique to a call.
pub const OF_CALLS: &[&str] = &joined::<18>(&[
    INPUT_DIMS.split_at(2).0,
    INPUT_TYPES,
    INPUT_STRIDES,
    CONCRETE_INPUTS,
    &[MODULE_HIERARCHY],
    COUNTERS,
]);

/// Lists of keys as one, `N` in all.
pub(super) const fn joined<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let (mut all, mut count, mut list) = ([""; N], 0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[count] = lists[list][at];
            at += 1;
            count += 1;
        }
        list += 1;
    }
    assert!(count == N);
    all
}

/// The keys of an operator other than its keyword arguments: Kineto's own, and those of its parameters.
pub const OF_OPERATORS: &[&str] = &[
    EXTERNAL_ID,
    RECORD_FUNCTION_ID,
    EVENT_INDEX,
    SEQUENCE_NUMBER,
    FORWARD_THREAD,
    MODULE_HIERARCHY,
    CALL_STACK,
    "Trace name",
    "Trace iteration",
    "Profiler Event Index",
    "finished",
    "Backend",
    "Python thread",
    "Is asynchronized op",
    "Comms Id",
    "Global rank start",
    "Global rank stride",
    "Input Tensors start",
    "Output Tensors start",
];

/// The name of the instants that record allocations and releases of memory.
pub const MEMORY: &str = "[memory]";

pub const OF_MEMORY: &[&str] =
    &[MEMORY_ADDRESS, MEMORY_BYTES, MEMORY_ALLOCATED, MEMORY_RESERVED, MEMORY_DEVICE_TYPE, MEMORY_DEVICE];

/// On `[memory]` events: the address.
pub const MEMORY_ADDRESS: &str = "Addr";

/// On `[memory]` events: the number of bytes allocated; negative if freed.
pub const MEMORY_BYTES: &str = "Bytes";

/// On `[memory]` events: the bytes in use afterwards.
pub const MEMORY_ALLOCATED: &str = "Total Allocated";

/// On `[memory]` events: the bytes that the allocator holds afterwards.
pub const MEMORY_RESERVED: &str = "Total Reserved";

/// On `[memory]` events: the device's kind, PyTorch's `DeviceType` as a number (0 CPU, 1 CUDA).
pub const MEMORY_DEVICE_TYPE: &str = "Device Type";

/// On `[memory]` events: the index of the device among those of its kind.
pub const MEMORY_DEVICE: &str = "Device Id";

/// On a ROCm launch call: the name of the launched kernel, equal to the name of the kernel's slice.
pub const KERNEL: &str = "kernel";

/// An argument key as written in the SQL table `args`.
pub fn in_table(key: &str) -> String {
    format!("args.{key}")
}

/// The same in Perfetto's protobuf, where arguments are debug annotations, without the characters that separate parts of a path.
pub fn in_annotations(key: &str) -> String {
    format!("debug.{}", key.replace(['.', '[', ']'], "_"))
}
