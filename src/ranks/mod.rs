//! Many ranks of one job: who waits for whom, at which line of code, and why.
//!
//! Each trace is reduced to a [`part::RankPart`] ([`mod@reduce`], with the times between launches and kernels of `segments`) and dropped.
//! Parts are small, can be written to files (module `parts`), and are all that the rest needs: [`job`] finds out which rank each part is and which
//! groups the ranks form, [`matching`] finds the kernels of different ranks that carried out one collective (`align` does so for two
//! ranks), [`clock`] estimates how the ranks' clocks differ (`bounds` proves what is impossible), [`waiting`] adds up who waited for
//! whom, [`cause`] says why the late rank was late (`chain`, where it waited for another itself), and [`report`] puts all of it together
//! with a [`verdict`]. [`mod@rows`] has the same for SQL, [`timeline`] all ranks on one axis of time, and [`change`] compares two runs.
//!
//! Definitions: a collective that synchronises cannot end anywhere before its last member has started. What a member's kernel ran
//! before that start is waiting (Scalasca: "Wait at N x N"), the rest is transfer. Who started last has caused the waiting of the others.

mod bounds;
pub mod cause;
mod chain;
pub mod change;
pub mod clock;
pub mod job;
pub mod matching;
mod packed;
pub mod part;
pub mod ranges;
pub mod recorded;
pub mod reduce;
pub mod report;
mod row;
pub mod rows;
mod segments;
pub mod timeline;
pub mod verdict;
pub mod waiting;
