//! What the profiler recorded about an operator besides its name and times: the shapes, strides and values of its inputs, its modules, its
//! callers, hardware counters, keyword arguments.
//!
//! PyTorch writes lists as JSON; XSigma, a port of its profiler, as Python prints them, and numbers as text. Both forms are read ([`Value`]). A
//! value that does not fit its key is [`Recorded::Malformed`] with its text: counted and shown as it is, never dropped.

mod inputs;
mod memory;
mod operators;
mod value;

pub use inputs::{Layout, OddTensor};
pub use memory::{MemoryKeys, device_name};
pub use operators::{Keys, List, Operators, Recorded};
pub use value::Value;
