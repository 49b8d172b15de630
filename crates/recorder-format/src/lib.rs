//! The format of the files that the recorder writes inside a job: a writer on mapped memory, and a reader.
//!
//! A job that hangs is killed, often with SIGKILL. Stores into mapped memory survive that: the kernel writes the pages. So recording is one store into
//! a ring of fixed slots. Joining, naming and formatting are left to the reader of the file, which may run while the job does.
//!
//! All numbers are little-endian. Times are int64 nanoseconds of `CLOCK_MONOTONIC`; the header has pairs of it and `CLOCK_REALTIME` to convert them.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 .. 4096 | the [header](layout::header) |
//! | then 512 x 256 | the [communicators](layout::communicator) in the order of their registration |
//! | then 255 x 64 | texts: a length byte, then the bytes. Records refer to functions, types and algorithms by their numbers, from 1 |
//! | then 10 x 4n x 64 | 10 rings of `4n` [records](Record), for calls |
//! | then 6 x n x 64 | 6 rings of `n` records, a power of two, for events |
//!
//! # Records
//!
//! A record has eight words of 64 bits.
//!
//! | word | what |
//! | --- | --- |
//! | 0 | the record's position in its ring, from 1; 0 while the record is being written |
//! | 1 | time, ns |
//! | 2 | kind (8 bits), flags (8), check (16), thread (32) |
//! | 3 | parent: the id of another record, or 0 |
//! | 4, 5 | two numbers; the [`Kind`] defines their meaning |
//! | 6 | communicator (16 bits, from 1), then six of 8 bits: function, type, algorithm, protocol, channel, small |
//! | 7 | a number; the kind defines its meaning |
//!
//! A writer claims a position with an atomic addition, stores 0 into word 0 of the slot, then words 1 to 7, then the position into word 0. If the
//! process is killed at any instruction, the slot has the old record, or 0, or the new record. If a writer is stopped for so long that the ring
//! wraps around to its slot, two records may mix; the check over all words detects that. The header has the number of claimed positions,
//! which tells how many records were overwritten.
//!
//! There is no lock. The writer of a record chooses its ring; two threads in one ring share its counter.
//!
//! # Who may write
//!
//! Only the recorder, until the file is closed: the file's permissions forbid everybody else to write, even its owner. The reason is that a store
//! into a shared mapping of a file that was truncated kills the process with SIGBUS. Holding a second descriptor does not prevent truncation,
//! checking the length before each store is a race, and seals exist only for anonymous memory, which is lost with the process. So `> file`,
//! `cp x file` and editors fail. The recorder's own descriptor was opened before the permissions applied. The superuser is not stopped.
//!
//! # How it is checked
//!
//! | command, in this crate's folder | covers |
//! | --- | --- |
//! | `cargo test` | round trips of what is written, files, permissions, signals, cancelled threads |
//! | `MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test` | every access is in bounds, aligned, and free of data races; all tests except those with system calls |
//! | `RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu` | no data races, in mappings too |
//! | `cargo test --release` in `models` | the orders of loads and stores that the memory model allows, for a ring, texts, and communicators' numbers, with two or three threads and up to a bound |

#![no_std]
#![allow(missing_docs, reason = "a field whose name says all has no comment")]

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
