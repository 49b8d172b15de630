//! Every fact about the names that NCCL, RCCL, Kineto and PyTorch write, in one place, as data.
//!
//! A name in a trace means something only to those who know who wrote it. That knowledge lives here and nowhere else: no
//! other module holds a kernel's name, a category or an argument's key.

pub mod args;
pub mod calls;
pub mod category;
pub mod collectives;
pub mod families;
pub mod frames;
pub mod kernels;
pub mod ranks;
pub mod steps;
