//! What other programs write inside a job, written from the records: for users whose scripts set those programs' variables, and read their
//! files.
//!
//! Nothing of it happens where records are made. Megatrace's log is written by a thread that sleeps and reads the rings, the dump of
//! NCCL's example profiler plugin when a communicator ends.

mod dump;
mod file;
mod flows;
mod megatrace;

pub(crate) use dump::dump;
pub(crate) use megatrace::{finish, forked, start};
