//! The recorder's protocols, run in every order of loads and stores that the memory model allows, up to a bound.
//!
//! The modules are the format's own, except for memory, the system, and the length of the communicator table: loom's atomics are objects, not
//! places in a mapping.

#![cfg(test)]

extern crate core;

#[path = "../../src/layout.rs"]
mod whole;

pub mod layout {
    //! A table with room for two communicators.
    pub const COMMUNICATORS: usize = 2;
    pub use crate::whole::*;
}
mod memory;
#[path = "../../src/read.rs"]
mod read;
#[path = "../../src/record.rs"]
mod record;
mod system;
#[path = "../../src/tables.rs"]
mod tables;
#[path = "../../src/words.rs"]
mod words;
#[path = "../../src/write.rs"]
mod write;

mod models;

pub use read::Communicator;
pub use record::{Handle, Kind, Record};
pub use write::{Facts, Writer};
