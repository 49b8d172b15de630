//! NCCL's own records: every source, on real samples with known truths, on made ones, and on what is wrong.

#[path = "../support/mod.rs"]
mod support;

mod census;
mod comma;
mod damaged;
mod inspector;
mod plugin_dump;
