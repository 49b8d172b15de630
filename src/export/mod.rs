//! A whole trace, or a window of it, in forms for other programs.

pub mod cut;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod repair;
pub mod sqlite;
