//! The ranks of a job by NCCL's own records, without traces.
//!
//! Records with starts and ends of kernels become [`parts`], which are compared as those of traces are. Records that know only when
//! NCCL was entered answer another question: who enters late. That is [`entries`].

pub mod calls;
pub mod entries;
pub mod groups;
mod lateness;
pub mod layout;
mod matched;
pub mod parts;
pub mod whose;
