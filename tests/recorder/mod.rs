//! The recorder as a job loads it: into programs in C and Python, with a made NCCL or NVIDIA's own, and what it wrote read back.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and one that is skipped says so"
)]

mod analyser;
mod command;
mod conversions;
mod driver;
mod dropin;
mod flows;
mod hazards;
mod intercept;
mod jobs;
mod layouts;
mod loaded;
mod plugin;
mod plugin_cases;
mod plugin_surroundings;
mod real_nccl;
mod recording;
mod stress;
