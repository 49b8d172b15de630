//! What must hold for any input, one function for each part of the program: each takes bytes and panics if something is wrong.
//!
//! The targets in `fuzz/` call them with endless inputs; `tests/damage/regressions.rs` with inputs that once failed, and some random
//! ones. So what fuzzing found stays found without the fuzzing tools.

#![allow(dead_code, reason = "each program uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a check that cannot go on fails")]
#![allow(unreachable_pub, missing_docs, reason = "this is no library")]

pub mod cutter;
pub mod event;
mod naive;
pub mod nesting;
pub mod packed;
pub mod packets;
pub mod parts;
mod plain;
#[path = "../support/queries.rs"]
mod queries;
pub mod records;
#[path = "../support/sound.rs"]
mod sound;
pub mod tables;
pub mod values;
#[path = "../support/packets.rs"]
mod writer;
