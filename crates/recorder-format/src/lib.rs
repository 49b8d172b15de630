//! The files that the recorder writes inside a job, byte by byte: a writer on mapped memory, and a reader.
//!
//! A job that hangs is killed, often with SIGKILL. What is in mapped memory then is in the file: the kernel writes the pages, no exit
//! handler has to. So a record is a store into a ring of fixed slots, and everything else, joining, naming, formatting, is left to whoever
//! reads the file later, or while the job runs.
//!
//! All numbers are little-endian. Times are int64 nanoseconds of `CLOCK_MONOTONIC`; the header has pairs of that clock and
//! `CLOCK_REALTIME`, taken at the same moment, to place them.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 .. 4096 | the [header](layout::header) |
//! | then 512 x 256 | the [communicators](layout::communicator) in the order in which they became known |
//! | then 255 x 64 | texts: a length in one byte, then so many bytes. Records name functions, types, algorithms by their number, from 1 |
//! | then 16 x n x 64 | 16 rings of `n` [records](Record), a power of two |
//!
//! # Records
//!
//! A ring has 64-bit words; a record has eight of them.
//!
//! | word | what |
//! | --- | --- |
//! | 0 | the record's position in its ring, counted from 1; 0 while it is written |
//! | 1 | time, ns |
//! | 2 | kind (8 bits), flags (8), check (16), thread (32) |
//! | 3 | parent: the id of another record, or 0 |
//! | 4, 5 | two numbers, as the [`Kind`] says |
//! | 6 | communicator (16 bits, from 1), then six of 8 bits: function, type, algorithm, protocol, channel, small |
//! | 7 | a number, as the kind says |
//!
//! A writer claims a position with one atomic addition, stores 0 into word 0 of the slot, then words 1 to 7, then the position into
//! word 0. A process that is killed at any instruction leaves a slot with its old record, or with 0, or with the new one. A writer
//! that is stopped for so long that the ring comes round to its slot may mix two records; the check over all words finds that.
//! The number of positions claimed is in the header, so what the ring has overwritten is known.
//!
//! There is no lock. Whoever writes a record chooses its ring, and two threads in one ring share its counter.
//!
//! # Who may write
//!
//! Nobody but the recorder, until the file is closed: its permissions say so to its owner too. A store into a shared mapping of a file that
//! has become shorter kills the process with SIGBUS. A second descriptor does not hinder anybody from shortening the file, a look at its
//! length before each store comes too early, and seals exist only for memory without a name, which is lost with the process. So `> file`,
//! `cp x file` and editors fail. The recorder's own descriptor was opened before the permissions counted. The superuser is not held off.

//!
//! # How it is checked
//!
//! | command, in this crate's folder | covers |
//! | --- | --- |
//! | `cargo test` | what is written is read, files, permissions, signals, cancelled threads |
//! | `MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test` | each access is within memory, aligned, and one that other threads may make too; all tests but those that call the system |
//! | `RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu` | no two threads meet at a word that is not atomic, in mappings too |
//! | `cargo test --release` in `models` | the orders of loads and stores of a ring, of texts, and of numbers of communicators that the memory model allows, for two or three threads and up to a bound |

#![no_std]

#[cfg(test)]
extern crate std;

pub mod layout;
mod memory;
mod read;
mod record;
mod system;
mod tables;
#[cfg(test)]
mod tests;
mod words;
mod write;

pub use read::{Clock, Communicator, Header, NotARecording, Slot, collectives, communicator, slot, text};
pub use record::{Handle, Kind, Record, flag};
pub use system::{NotCancelled, realtime_and_monotonic};
pub use tables::{Entry, Text};
pub use write::{Facts, Writer};
