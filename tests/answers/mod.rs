//! The program's answers: attribution, costs, the forms of output, their schemas, and the library that returns the same.

mod attribution;
mod compiled;
mod describe;
mod diff;
mod documents;
mod forms;
mod gradients;
mod groups;
mod library;
mod memory;
mod operators;
pub(crate) mod ranks_forms;
mod real_costs;
mod real_traces;
mod schema;
mod sentences;
mod tables;
