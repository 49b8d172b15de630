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

/// All of these.
pub const IDS: &[&str] =
    &[CORRELATION, EXTERNAL_ID, PYTHON_ID, PYTHON_PARENT_ID, SEQUENCE_NUMBER, FORWARD_THREAD, GRAPH_ID, GRAPH_NODE_ID];

/// What ROCm's launching calls say of the kernel that they launch: its name, as the kernel's own slice has it.
pub const KERNEL: &str = "kernel";

/// A key as the table `args` has it.
pub fn in_table(key: &str) -> String {
    format!("args.{key}")
}
