//! The program's answers: attribution, costs, the forms of output, their schemas, and the library that returns the same.

#[path = "../../examples/make_trace/job/mod.rs"]
mod job;
#[path = "../support/mod.rs"]
mod support;

mod attribution;
mod compiled;
mod describe;
mod diff;
mod forms;
mod gradients;
mod groups;
mod library;
mod memory;
mod operators;
mod pairs;
mod ranks_forms;
mod real_costs;
mod real_traces;
mod schema;
mod tables;
