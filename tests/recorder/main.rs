//! The recorder, as a job has it: a library that is loaded into programs in C and Python, before a made NCCL.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod intercept;
mod jobs;
