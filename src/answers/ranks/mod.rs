//! Many ranks of one job: who waits for whom, at which line of code, and why.
//!
//! Each trace is reduced to a [`reduction::RankReduction`] ([`mod@reduce`]) and dropped;
//! [`recorded_reductions`] makes the same of NCCL's own records. Parts are small, can be written to files (module `parts`), and are all that the
//! rest needs: [`job`] finds out which rank each part is, [`operations`](crate::operations) matches their collectives and compares their
//! clocks, [`waiting`] adds up who waited for whom where all have a trace (`common_span`), reruns of the job ([`replay`](crate::replay)) show what makes it long,
//! and [`data`] puts all of it together with a [`verdict`]. [`mod@rows`] has the same for SQL, [`timeline`] all ranks on one axis of time,
//! [`alone`] has the critical path of one rank by itself, and [`pipeline`] the stages of a pipeline (their `messages`, and by [`schedule`] what they compute when). [`change`] compares two runs, and [`what_if`] asks what the
//! job would take if something were different.
//!
//! Definitions: a collective that synchronises cannot end anywhere before its last member has started. What a member's kernel ran
//! before that start is waiting (Scalasca: "Wait at N x N"), the rest is transfer. Who started last has caused the waiting of the others.

pub mod absent;
pub mod alone;
pub mod change;
mod common_span;
pub mod critical;
pub mod data;
pub mod document;
pub mod hidden;
pub mod job;
mod messages;
mod packed;
pub mod pipeline;
pub mod recorded_reductions;
pub mod reduce;
pub mod reduction;
pub mod rows;
pub mod schedule;
pub mod timeline;
pub mod verdict;
pub mod waiting;
pub mod what_if;
