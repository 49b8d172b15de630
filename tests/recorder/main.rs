//! The recorder: what it writes inside a job, as a job loads it, and what is made of its records.

#[path = "../support/mod.rs"]
mod support;

mod conversions;
mod dropin;
