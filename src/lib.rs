//! nccl-stacks

pub mod analysis;
pub mod cli;
pub mod damage;
pub mod error;
pub mod event;
pub mod input;
pub mod load;
pub mod nccl;
pub mod report;
pub mod sql;
pub mod store;
pub mod time;
