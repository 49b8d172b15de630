//! The arguments that Kineto writes and that we ask for (`output_json.cpp` in pytorch/kineto).

/// The id that CUPTI or ROCm gives to a runtime call, and to all that it put onto the GPU: a key of a trace's `args`.
pub const CORRELATION: &str = "correlation";
