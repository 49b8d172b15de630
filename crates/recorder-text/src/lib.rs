//! Records as text in the forms of other programs: [Megatrace's log](megatrace), and the [dump] of NCCL's example profiler plugin.
//!
//! Both are written inside the job by the recorder's library, so nothing here allocates, nothing has a standard library, and nothing
//! can panic: there is no index, and no addition that can overflow. A crate of its own, because the library cannot have tests: a test reads
//! with a program's readers what is written here.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod dump;
mod json;
pub mod megatrace;
mod merge;
