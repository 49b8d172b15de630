//! The recorder, as a job has it: a library that is loaded into programs in C and Python, before a made NCCL.
#![cfg(has_recorder)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and one that is skipped says so"
)]

mod intercept;
mod jobs;
