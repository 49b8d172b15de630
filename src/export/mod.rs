//! A whole trace, or a window of it, in forms for other programs; and the aggregates of flow files.

pub mod cut;
pub mod flow_rank;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod repair;
pub mod sqlite;
