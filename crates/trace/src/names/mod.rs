//! All knowledge about the names that NCCL, RCCL, Kineto and PyTorch write, in one place, as data.
//!
//! The meaning of a name in a trace depends on the program that wrote it. Only this module has that knowledge: no other contains a kernel's name,
//! a category or an argument key.

pub mod args;
pub mod calls;
pub mod category;
pub mod collectives;
pub mod communication;
pub mod described;
pub mod families;
pub mod frames;
pub mod gradients;
pub mod kernels;
pub mod ranks;
pub mod steps;
pub mod values;
