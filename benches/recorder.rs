//! What the recorder costs a job.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on stops; criterion's macros are not documented"
)]

#[path = "recorder/interceptor.rs"]
mod interceptor;

use criterion::{criterion_group, criterion_main};

use interceptor::interceptor;

criterion_group!(benches, interceptor);
criterion_main!(benches);
