//! Many ranks: who waits for whom, on real traces, on simulated jobs whose truth is known, and on what is wrong.

#[path = "../../examples/make_trace/job/mod.rs"]
mod job;
#[path = "../support/mod.rs"]
mod support;

mod independent;
mod inputs;
mod parts;
mod real;
mod simulated;
