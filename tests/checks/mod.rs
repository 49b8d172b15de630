//! What has to hold of any input at all, a function for each part of the program: they take bytes and panic if something is wrong.
//!
//! The targets in `fuzz/` call them with inputs without end; `tests/damage/regressions.rs` with those that once were wrong, and some made at
//! random. So what fuzzing finds stays found without the tools that found it.

#![allow(dead_code, reason = "each program uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a check that cannot go on fails")]
#![allow(unreachable_pub, missing_docs, reason = "this is no library")]

pub mod cutter;
pub mod event;
mod naive;
pub mod nesting;
pub mod packed;
pub mod packets;
mod plain;
#[path = "../support/sound.rs"]
mod sound;
pub mod tables;
#[path = "../support/packets.rs"]
mod writer;
