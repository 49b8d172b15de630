//! PyTorch profiler traces, read from their files into columns of slices and flows.
//!
//! In goes a path or a stream: Chrome's JSON as Kineto writes it, Perfetto's protobuf, an export of Nsight Systems; plain, compressed, or in
//! archives. Out comes a [`Store`](store::Store): slices with their nesting, flows, arguments and tracks, and a report of what was damaged.
//!
//! ```
//! # fn main() -> Result<(), nccl_stacks_trace::error::Error> {
//! use nccl_stacks_trace::input;
//! use nccl_stacks_trace::load::{LoadOptions, load_input};
//!
//! let text = r#"{"traceEvents": [
//!   {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.5}
//! ]}"#;
//! let input = input::from_reader("trace.json".to_owned(), None, Box::new(text.as_bytes()))?;
//! let store = load_input(input, LoadOptions::default(), |_| {})?.store;
//!
//! let kernel = store.slices.ids().next().unwrap();
//! assert_eq!(store.slices.dur(kernel).0, 2_500, "times are in nanoseconds");
//! # Ok(())
//! # }
//! ```
//!
//! - [`input`]: bytes to events of one trace. [`event`]: the events. [`store`]: their columns. [`load`](mod@load): both together, on several threads.
//! - [`chrome`]: traces in Chrome's JSON, written.
//! - [`names`]: what names mean. [`recorded_args`]: what the profiler recorded about an operator.
//! - [`numbers`], [`parallel`], [`statistics`], [`time`], [`id`], [`error`], [`damage`], [`unfinished`]: what all of them use.

// A comment says what a name does not: a unit, what `None` means, why. Names are for the rest.
#![allow(missing_docs, reason = "no other program documents against this crate")]

pub mod chrome;
pub mod damage;
pub mod error;
pub mod event;
pub mod id;
pub mod input;
pub mod load;
pub mod names;
pub mod numbers;
pub mod parallel;
pub mod recorded_args;
pub mod statistics;
pub mod store;
pub mod time;
pub mod unfinished;
