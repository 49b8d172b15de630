//! Records as text in the formats of other programs: [Megatrace's log](megatrace) and the [flow] extractor's files.
//!
//! The recorder's library writes both inside the job. So this crate has no allocations and no standard library, and cannot panic: it never
//! indexes, and no addition can overflow. Size counts more than speed, because every process maps the library and no call waits for a text: so what
//! has many callers is not inlined. It is a crate of its own because the library cannot have tests: tests read the output with those programs' readers.

#![no_std]
#![allow(missing_docs, reason = "a field whose name says all has no comment")]

#[cfg(test)]
extern crate std;

pub mod flow;
mod functions;
mod json;
pub mod megatrace;
mod merge;
mod tree;
