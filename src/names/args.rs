//! The argument keys of Kineto that the program reads (`output_json.cpp` in pytorch/kineto, `util.cpp` and `collection.cpp` in
//! pytorch's profiler), and which events they relate.

/// The id that CUPTI or ROCm gives to a runtime call and to all GPU work that it launched.
pub const CORRELATION: &str = "correlation";

/// The number of an operator; the runtime calls and GPU work below it have the same. Before October 2024 such work had its own
/// correlation id here if it belonged to no operator.
pub const EXTERNAL_ID: &str = "External id";

/// The number of a call of a Python function.
pub const PYTHON_ID: &str = "Python id";

/// The number of the call of its Python caller; null for the first function of a thread.
pub const PYTHON_PARENT_ID: &str = "Python parent id";

/// The number that autograd gives to an operator of the forward pass and to the node that it creates for the backward pass. Each
/// thread counts separately.
pub const SEQUENCE_NUMBER: &str = "Sequence number";

/// On an operator of the backward pass: the thread that created its node, in PyTorch's own numbering. 0 in the forward pass.
pub const FORWARD_THREAD: &str = "Fwd thread id";

/// The CUDA graph that launched GPU work; 0 if none did.
pub const GRAPH_ID: &str = "graph id";

/// The node of this graph.
pub const GRAPH_NODE_ID: &str = "graph node id";

/// The operator on which PyTorch records the parameters of a collective (`ParamCommsUtils.hpp`). Kineto copies most of them to the
/// kernels that are linked to it.
pub const COLLECTIVE_RECORD: &str = "record_param_comms";

/// The collective, as PyTorch's process group names it: `allreduce`, `_allgather_base`, `send`.
pub const COLLECTIVE: &str = "Collective name";

/// Number of elements in the input of this rank.
pub const IN_ELEMENTS: &str = "In msg nelems";

/// Number of elements in the output of this rank.
pub const OUT_ELEMENTS: &str = "Out msg nelems";

/// Number of ranks in the process group.
pub const GROUP_SIZE: &str = "Group size";

/// The element type, as PyTorch names it: `BFloat16`.
pub const DTYPE: &str = "dtype";

/// The process group's name, usually a number as text.
pub const GROUP_NAME: &str = "Process Group Name";

/// The process group's description: `default_pg`, `mesh_tp`.
pub const GROUP_DESCRIPTION: &str = "Process Group Description";

/// The process group's ranks, as text: `[0, 1, 2, 3]`; from 30 ranks on with an ellipsis.
pub const GROUP_RANKS: &str = "Process Group Ranks";

/// PyTorch's sequence number of a collective in its process group.
pub const SEQ: &str = "Seq";

/// This rank's index in the group's list of ranks; the root's for collectives that have one, the other side's for a send or receive. On
/// `record_param_comms` only.
pub const RANK: &str = "Rank";

/// The global rank, on every event of a file into which a script merged several ranks.
pub const MERGED_RANK: &str = "rank";

/// The destination of a send: a global rank (`saveNcclMeta` looks it up in the group's list).
pub const DST_RANK: &str = "Dst Rank";

/// The source of a receive: a global rank.
pub const SRC_RANK: &str = "Src Rank";

/// How many elements go to each rank of an uneven all-to-all, as text: `[]` for equal parts.
pub const IN_SPLIT: &str = "In split size";

/// How many come from each.
pub const OUT_SPLIT: &str = "Out split size";

/// All that describe a collective, its place among others of its group, and the other side.
pub const OF_OPERATIONS: &[&str] = &[
    COLLECTIVE,
    IN_ELEMENTS,
    OUT_ELEMENTS,
    GROUP_SIZE,
    DTYPE,
    GROUP_NAME,
    GROUP_DESCRIPTION,
    GROUP_RANKS,
    SEQ,
    RANK,
    MERGED_RANK,
    DST_RANK,
    SRC_RANK,
    IN_SPLIT,
    OUT_SPLIT,
];

/// All that describe a collective.
pub const OF_COLLECTIVES: &[&str] =
    &[COLLECTIVE, IN_ELEMENTS, OUT_ELEMENTS, GROUP_SIZE, DTYPE, GROUP_NAME, GROUP_DESCRIPTION, GROUP_RANKS];

/// The path of an operator's modules, joined by dots; only with TorchScript's stacks, or from XSigma.
pub const MODULE_HIERARCHY: &str = "Module Hierarchy";

/// An operator's callers, joined by semicolons. Python's own callers are slices instead.
pub const CALL_STACK: &str = "Call stack";

/// What says where an operator belongs.
pub const OF_MODULES: &[&str] = &[MODULE_HIERARCHY, CALL_STACK];

/// The sizes of an operator's inputs: a list for each, `[]` for what is no tensor, lists of lists for lists of tensors (of which more than 30
/// become `[]`). The profiler of 2021 wrote it in lower case; in ranges of NVTX they are `sizes`.
pub const INPUT_DIMS: &[&str] = &["Input Dims", "Input dims", "sizes"];

/// Their types: `float`, `c10::BFloat16`, `Scalar`, `ScalarList`, `TensorList`, or nothing.
pub const INPUT_TYPES: &[&str] = &["Input type", "Input types"];

/// The strides of its tensors, in elements, nested as their sizes are.
pub const INPUT_STRIDES: &[&str] = &["Input Strides", "Input strides"];

/// The values of its other inputs as texts, in the same order; tensors are empty texts, from XSigma texts of their own.
pub const CONCRETE_INPUTS: &[&str] = &["Concrete Inputs", "Concrete inputs"];

/// The number of a call of an operator in its function (`RecordFunction::handle`).
pub const RECORD_FUNCTION_ID: &str = "Record function id";

/// The place of an event in the profiler's own order.
pub const EVENT_INDEX: &str = "Ev Idx";

/// Which object of a class of modules runs: `nn.Module: Linear_0` has one.
pub const PYTHON_MODULE_ID: &str = "Python module id";

/// What PyTorch's and XSigma's profilers count while an operator runs (`performance_events`), in the names of both.
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

/// What an operator was called with, and what was counted: all that depends on the call, but not the numbers that no two calls share.
pub const OF_CALLS: &[&str] = &[
    INPUT_DIMS[0],
    INPUT_DIMS[1],
    INPUT_TYPES[0],
    INPUT_TYPES[1],
    INPUT_STRIDES[0],
    INPUT_STRIDES[1],
    CONCRETE_INPUTS[0],
    CONCRETE_INPUTS[1],
    MODULE_HIERARCHY,
    COUNTERS[0],
    COUNTERS[1],
    COUNTERS[2],
    COUNTERS[3],
    COUNTERS[4],
    COUNTERS[5],
    COUNTERS[6],
    COUNTERS[7],
    COUNTERS[8],
];

/// The keys of an operator that are not its keyword arguments: Kineto's own, and those of its parameters.
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

/// What these say.
pub const OF_MEMORY: &[&str] =
    &[MEMORY_ADDRESS, MEMORY_BYTES, MEMORY_ALLOCATED, MEMORY_RESERVED, MEMORY_DEVICE_TYPE, MEMORY_DEVICE];

/// On `[memory]` events: the address.
pub const MEMORY_ADDRESS: &str = "Addr";

/// On `[memory]` events: how many bytes were allocated; negative if they were freed.
pub const MEMORY_BYTES: &str = "Bytes";

/// On `[memory]` events: the bytes in use afterwards.
pub const MEMORY_ALLOCATED: &str = "Total Allocated";

/// On `[memory]` events: the bytes that the allocator then holds.
pub const MEMORY_RESERVED: &str = "Total Reserved";

/// On `[memory]` events: the device's kind, PyTorch's `DeviceType` as a number (0 the CPU, 1 CUDA).
pub const MEMORY_DEVICE_TYPE: &str = "Device Type";

/// On `[memory]` events: which device of its kind.
pub const MEMORY_DEVICE: &str = "Device Id";

/// On a launch call of ROCm: the name of the kernel that it launches, the same as that of the kernel's slice.
pub const KERNEL: &str = "kernel";

/// An argument key as in the SQL table `args`.
pub fn in_table(key: &str) -> String {
    format!("args.{key}")
}

/// The same argument key in a trace in Perfetto's protobuf, where arguments are debug annotations. Perfetto replaces the characters
/// that separate the parts of a path.
pub fn in_annotations(key: &str) -> String {
    format!("debug.{}", key.replace(['.', '[', ']'], "_"))
}
