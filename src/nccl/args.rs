//! The arguments that Kineto writes and that we ask for (`output_json.cpp` in pytorch/kineto).

/// The keys that the main job needs, as they stand in a trace's `args`.
pub const MAIN_JOB: &[&str] = &["correlation"];

/// The id that CUPTI or ROCm gives to a runtime call, and to all that it put onto the GPU. As a key of the `args` table.
pub const CORRELATION: &str = "args.correlation";
