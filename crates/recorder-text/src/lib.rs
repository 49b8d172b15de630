//! Records as text in the formats of other programs: [Megatrace's log](megatrace), and the [dump] of NCCL's example profiler plugin.
//!
//! The recorder's library writes both inside the job. So this crate has no allocations and no standard library, and cannot panic: it never
//! indexes, and no addition can overflow. It is a separate crate because the library itself cannot have tests: here, tests read the output with
//! the readers of those programs.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod dump;
mod json;
pub mod megatrace;
mod merge;
