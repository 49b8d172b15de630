//! What a job would take if something had been different: its causal graph, and reruns of it.
//!
//! [`rank`] holds what happened in one trace and what had to come before it (`build` finds both: launches and waits of CPU threads from `calls`, `waits` with what those wait for, `full_queues` with launches that wait, `threads` with what
//! they did in between, and slices on streams). `places` says which of it is the same on like ranks ([`alike`]; `stages`: those of a pipeline are not alike), and `packed` writes all of
//! it into parts. `trim` leaves out steps that not all ranks have. [`job`] joins the graphs of all ranks at their
//! collectives, on one clock (`assemble`: `edges` within a rank, `joins` between ranks). [`rerun`] computes all times again: with nothing changed to the nanosecond
//! as recorded, or with what the [`peers`] of a rank do in place of its own work. [`transplant`] measures how far that can be trusted, and [`findings`]
//! (by `question`, `late_work`, `late` with the `sets` that may be it, and `culprits`) which ranks, functions and kernels make the job longer than its peers would.
//!
//! [`critical`] is what the job consists of: the path back from its last end.
//!
//! Whatever is called a cause has been taken out in a rerun, and the job got shorter by more than the error of the graph and than chance.

pub mod alike;
pub(crate) mod assemble;
pub(crate) mod build;
mod calls;
pub mod critical;
pub mod culprits;
mod edges;
pub mod findings;
mod full_queues;
pub mod job;
mod joins;
mod late;
mod late_work;
mod lists;
pub mod nodes;
pub(crate) mod packed;
pub mod peers;
pub(crate) mod places;
pub(crate) mod question;
pub mod rank;
pub mod rerun;
mod rules;
mod sets;
pub(crate) mod stages;
mod threads;
pub mod transplant;
pub(crate) mod trim;
mod waits;
