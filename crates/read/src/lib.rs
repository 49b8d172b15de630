//! What nccl-stacks reads: PyTorch profiler traces into columns of slices and flows, NCCL's own records into operations.
//!
//! - [`input`]: bytes to events of one trace. [`event`]: the events. [`store`]: their columns. [`load`](mod@load): both together, on several threads.
//! - [`records`]: NCCL's own records. [`operation`]: what they become.
//! - [`chrome`]: traces in Chrome's JSON, written.
//! - [`names`]: what names mean. [`recorded_args`]: what the profiler recorded about an operator.
//! - [`parallel`], [`statistics`], [`time`], [`id`], [`error`], [`damage`], [`unfinished`]: what all of them use.
//!
//! The crate `nccl-stacks` answers questions about what is read here, and shows most of these modules under the same paths. They are a crate of
//! their own so that they compile beside the dependencies that only the answers need, and so that nothing here can use an answer.

pub mod chrome;
pub mod damage;
pub mod error;
pub mod event;
pub mod id;
pub mod input;
pub mod load;
pub mod names;
pub mod operation;
pub mod parallel;
pub mod recorded_args;
pub mod records;
pub mod statistics;
pub mod store;
pub mod time;
pub mod unfinished;
