//! The tests of the program, its library and its recorder, as one test program: what they link is linked once, and while a test waits for a
//! process or a page, others of any kind run.
//!
//! So no test may change what its process shares: the environment, the current folder, signals. What needs that runs in a process of its
//! own (`recorder/driver.rs`).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails; its prints are for -- --nocapture"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "the checks take what they need of `support` themselves, for the fuzz targets"
)]

#[path = "../examples/make_trace/job/mod.rs"]
mod job;

mod answers;
mod checks;
mod cli;
mod damage;
mod input;
mod page;
mod ranks;
#[cfg(has_recorder)]
mod recorder;
mod records;
mod sql;
mod support;
