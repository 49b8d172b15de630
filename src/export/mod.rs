//! A whole trace, or a window of it, in other forms: for other programs to read.

pub mod cut;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod repair;
pub mod sqlite;
