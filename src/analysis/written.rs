//! What types of `nccl-stacks-read` are written as in answers, for the schemas.

use schemars::JsonSchema;

/// A span of time on the trace's own clock.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct Window {
    /// The first nanosecond inside, in ns.
    start_ns: i64,
    /// The first nanosecond after it, in ns.
    end_ns: i64,
}
