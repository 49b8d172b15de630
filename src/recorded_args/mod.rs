//! What the profiler recorded of an operator beyond its name and times: the shapes, strides and values of its inputs, its modules, its
//! callers, hardware counters, keyword arguments.
//!
//! PyTorch writes lists as JSON. XSigma, whose profiler is PyTorch's ported, writes them as text in the manner of Python, and numbers
//! as text. Either form of any key is read ([`Value`]). A value that is not what its key promises is [`Recorded::Malformed`] with its text: it is
//! counted and shown as it is, never dropped.

mod memory;
mod operators;
mod value;

pub use memory::MemoryKeys;
pub use operators::{Keys, List, Operators, Recorded};
pub use value::Value;
