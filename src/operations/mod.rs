//! Collectives over several ranks and sources: which operations are one, of which group, on which clock.
//!
//! An [operation](crate::operation) is what one rank did, by a trace or by NCCL's own records. Here is what operations have to do with
//! each other, and no question to them:
//!
//! - [`matching`]: which kernels of different ranks carried out one collective, in which process group (`alignment` compares two ranks).
//! - [`clocks`]: how the ranks' clocks differ, by the ends of these.
//! - [`calls`]: the same for records that know only when NCCL was entered: streams of calls, their groups, and their hosts' clocks.
//! - `nearness`: which ranks belong together, by the distances between their times alone; `ends`, how far ranks are from each other by the ends
//!   of kernels; `neighbours`, which of very many may be near.
//! - [`join`]: which record is of which kernel of a trace.
//! - [`recorded_groups`]: the groups of records, with what each member did; `communicators`, which of the names that sources have are of
//!   one communicator; [`recorded_ranks`], of which rank a record is.
//! - [`outliers`]: which ranks are unlike the others.
//!
//! [`rows`] are the operations of a rank as a comparison of ranks needs them.

mod alignment;
pub mod calls;
pub mod clocks;
pub(crate) mod communicators;
mod ends;
mod inferred;
pub mod join;
pub mod matching;
pub(crate) mod nearness;
mod neighbours;
pub mod outliers;
pub(crate) mod processes;
pub(crate) mod random;
pub mod recorded_groups;
pub mod recorded_ranks;
pub mod rows;
#[cfg(test)]
pub(crate) mod written;
