//! The arguments that Kineto writes and that we ask for (`output_json.cpp` in pytorch/kineto, `util.cpp` and `collection.cpp` in
//! pytorch's profiler): keys of a trace's `args`, and what they tie together.

/// The id that CUPTI or ROCm gives to a runtime call, and to all that it put onto the GPU.
pub const CORRELATION: &str = "correlation";

/// The number of an operator, which is also that of the runtime calls and GPU work beneath it. Before October 2024 such work had
/// its own correlation id here if it belonged to no operator.
pub const EXTERNAL_ID: &str = "External id";

/// The number of a call of a Python function.
pub const PYTHON_ID: &str = "Python id";

/// The number of the Python function that called it; null for the first of a thread.
pub const PYTHON_PARENT_ID: &str = "Python parent id";

/// The number that autograd gives to an operator of the forward pass and to the node that it makes for the backward pass. Each
/// thread counts by itself.
pub const SEQUENCE_NUMBER: &str = "Sequence number";

/// Of an operator of the backward pass: the thread that made its node, in PyTorch's own count. 0 in the forward pass.
pub const FORWARD_THREAD: &str = "Fwd thread id";

/// The CUDA graph that work was launched by, 0 if by none.
pub const GRAPH_ID: &str = "graph id";

/// The node of this graph.
pub const GRAPH_NODE_ID: &str = "graph node id";

/// The operator under which PyTorch records what a collective was asked to do (`ParamCommsUtils.hpp`). Kineto copies most of it to
/// the kernels that are linked to it.
pub const COLLECTIVE_RECORD: &str = "record_param_comms";

/// Which collective, in the words of PyTorch's process group: `allreduce`, `_allgather_base`, `send`.
pub const COLLECTIVE: &str = "Collective name";

/// How many elements this rank gives.
pub const IN_ELEMENTS: &str = "In msg nelems";

/// How many elements this rank gets.
pub const OUT_ELEMENTS: &str = "Out msg nelems";

/// How many ranks take part.
pub const GROUP_SIZE: &str = "Group size";

/// The type of the elements, in PyTorch's words: `BFloat16`.
pub const DTYPE: &str = "dtype";

/// The process group's name: a number as text, mostly.
pub const GROUP_NAME: &str = "Process Group Name";

/// What the process group is for: `default_pg`, `mesh_tp`.
pub const GROUP_DESCRIPTION: &str = "Process Group Description";

/// Its ranks, as text: `[0, 1, 2, 3]`; from 30 on with an ellipsis.
pub const GROUP_RANKS: &str = "Process Group Ranks";

/// PyTorch's number of a collective within its process group.
pub const SEQ: &str = "Seq";

/// This rank's place in the group's list of ranks; on `record_param_comms` only.
pub const RANK: &str = "Rank";

/// Whom a send goes to: a rank of the group.
pub const DST_RANK: &str = "Dst Rank";

/// Whom a receive comes from: a rank of the group.
pub const SRC_RANK: &str = "Src Rank";

/// All that describe a collective.
pub const OF_COLLECTIVES: &[&str] =
    &[COLLECTIVE, IN_ELEMENTS, OUT_ELEMENTS, GROUP_SIZE, DTYPE, GROUP_NAME, GROUP_DESCRIPTION, GROUP_RANKS];

/// What ROCm's launching calls say of the kernel that they launch: its name, as the kernel's own slice has it.
pub const KERNEL: &str = "kernel";

/// A key as the table `args` has it.
pub fn in_table(key: &str) -> String {
    format!("args.{key}")
}

/// The same key as Perfetto has it of a trace in its own protobuf, where arguments are debug annotations: what divides a path there
/// cannot stand in a name.
pub fn in_annotations(key: &str) -> String {
    format!("debug.{}", key.replace(['.', '[', ']'], "_"))
}
