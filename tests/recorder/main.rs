//! The recorder as a job loads it: from outside, with what it wrote read back.

#![cfg(has_recorder)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod driver;
mod layouts;
mod plugin;
mod plugin_cases;
mod plugin_surroundings;
mod real_nccl;
