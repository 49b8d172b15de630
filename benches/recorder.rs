//! The cost of the recorder to a job: one event of the profiler plugin, one intercepted call.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on stops; criterion's macros are not documented"
)]

#[path = "recorder/interceptor.rs"]
mod interceptor;
#[path = "recorder/library.rs"]
mod library;
#[path = "recorder/plugin.rs"]
mod plugin;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

use interceptor::interceptor;
use plugin::plugin_bench;

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = interceptor, plugin_bench
}
criterion_main!(benches);
