//! nccl-stacks

pub mod damage;
pub mod error;
pub mod event;
pub mod input;
pub mod time;
pub mod load;
pub mod nccl;
pub mod store;
