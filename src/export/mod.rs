//! A whole trace, or a window of it, in other programs' formats; the aggregates of flow files; and NCCL's own records in the formats of other
//! recorders.

pub mod cut;
pub mod flow_rank;
mod lanes;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod records;
pub mod repair;
pub mod sqlite;
