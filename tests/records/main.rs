//! NCCL's own records: every source, on real samples with known truths, on made ones, and on what is wrong.

#[path = "../support/mod.rs"]
mod support;

mod hang;
mod pickles;
