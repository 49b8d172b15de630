//! The flow extractor's files: [lines], the [shapes](shape) of operations, and a rank's aggregate, `flow_rank<R>.json`, from the records of a process
//! that runs.
//!
//! The extractor writes what NCCL plans. Here an operation is what NCCL's profiler reported, on each channel that a proxy works on, with the steps that
//! the proxy was given. A step that was recorded itself has its time and bytes.
//!
//! Collectives have the recorder's numbers, the same on all ranks. Sends and receives are counted by pair of ranks and direction: NCCL matches them in
//! this order, so both ends have the same number.

pub mod lines;
mod recorded;
pub mod shape;
mod sources;
pub mod trees;

pub use self::recorded::Flow;
pub use self::sources::Of;
pub use crate::tree::{Link, links};

/// The number in `opCount` of a collective with this index, from 0.
pub fn of_collective(index: u64) -> u64 {
    index << 1
}

/// The number in `opCount` of a send or receive with this index, from 0, among those of the same two ranks in the same direction.
pub fn of_pair(index: u64) -> u64 {
    index << 1 | 1
}

/// The extractor's number of a reduction: 0, a sum, also for averages and for other functions. `None` if NCCL's number is needed and unknown.
pub fn reduction(function: &str, nccl: Option<u32>) -> Option<u32> {
    match function {
        "AllReduce" | "Reduce" | "ReduceScatter" => nccl.map(|number| if number < 4 { number } else { 0 }),
        _ => Some(0),
    }
}
