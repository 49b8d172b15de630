//! What a slice, a kernel or a collective has: a flag each. A kernel that is a collective counts as both.

pub(super) const FRAME: u32 = 1;
pub(super) const RUNTIME: u32 = 1 << 1;
pub(super) const MEMORY: u32 = 1 << 2;
/// Without those of libraries.
pub(super) const ANNOTATION: u32 = 1 << 3;
pub(super) const GRAPH_LAUNCH: u32 = 1 << 4;
pub(super) const CAPTURE: u32 = 1 << 5;
pub(super) const OPERATOR: u32 = 1 << 6;
pub(super) const DIMS: u32 = 1 << 7;
pub(super) const STRIDES: u32 = 1 << 8;
pub(super) const CONCRETE: u32 = 1 << 9;
pub(super) const COUNTERS: u32 = 1 << 10;
pub(super) const BACKWARD_OPERATOR: u32 = 1 << 11;
/// Its operator of the forward pass is known.
pub(super) const FORWARD: u32 = 1 << 12;
pub(super) const KERNEL: u32 = 1 << 13;
pub(super) const CALL: u32 = 1 << 14;
/// Above its launch.
pub(super) const PYTHON: u32 = 1 << 15;
pub(super) const MODULE: u32 = 1 << 16;
pub(super) const BY_OPERATOR: u32 = 1 << 17;
/// A backward operator is above its launch.
pub(super) const BACKWARD: u32 = 1 << 18;
/// A Python function is above its operator of the forward pass.
pub(super) const FORWARD_PYTHON: u32 = 1 << 19;
/// It was launched in a step of the process that launched it: steps of other ranks do not count.
pub(super) const STEP: u32 = 1 << 20;
pub(super) const REPLAYED: u32 = 1 << 21;
pub(super) const BEFORE: u32 = 1 << 22;
pub(super) const UNLAUNCHED: u32 = 1 << 23;
pub(super) const COLLECTIVE: u32 = 1 << 24;
pub(super) const SIZE: u32 = 1 << 25;
pub(super) const GROUP: u32 = 1 << 26;
pub(super) const NUMBER: u32 = 1 << 27;
/// There are other kernels.
pub(super) const OTHERS: u32 = 1 << 28;
pub(super) const RANK: u32 = 1 << 29;
/// It was launched in the trace and not by a graph, so that it shows what is recorded of collectives.
pub(super) const SHOWS: u32 = 1 << 30;
/// It has the call path of its capture.
pub(super) const CAPTURED: u32 = 1 << 31;
