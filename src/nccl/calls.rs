//! Runtime calls that need to be known by name.

/// Calls that launch a whole recorded graph: all its kernels carry this one call's correlation id (CUDA runtime and driver,
/// HIP).
pub const GRAPH_LAUNCHES: &[&str] = &["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"];
