//! Questions and their answers: one file per question, each a result struct that holds numbers and names and no formatting.
//!
//! All of them build on the rows of [`crate::attribution`]. `window` finds the span of time that a question is about. `stacks` groups kernels by the
//! code that launched them, using `stack_key`, `cost` and `collective_info`. `summary` describes the whole window, `verdict` sums it up, `diff` and
//! `delta` compare two answers by their `launching_steps`, `grouping` groups kernels by other keys,
//! `over_ranks` shows how ranks differ within a stack, `origin` picks the frames that distinguish stacks, `shares` and `weight` are ratios and sums,
//! `missing` says why there are no stacks, `losses` what damage may hide, `keep` what a smaller trace needs; `time_sums` holds mergeable durations,
//! `timeline` shows when kernels ran on each stream, and `recorded` reads NCCL's own records. Questions that are sums over tables are in `queries/`.

pub mod collective_info;
pub mod cost;
pub mod cpu_calls;
pub mod delta;
pub mod describe;
pub mod diff;
pub(crate) mod gpu_spans;
pub mod grouping;
pub mod hang;
pub mod keep;
pub mod launching_steps;
pub mod losses;
pub mod missing;
pub mod not_asked;
pub mod origin;
pub mod over_ranks;
pub mod recorded;
pub mod recorded_info;
pub mod recording;
pub mod reduction;
pub mod shares;
pub mod stack_key;
pub mod stacks;
pub mod step_costs;
pub mod steps;
pub mod summary;
pub mod time_sums;
pub mod timeline;
pub mod verdict;
pub mod weight;
pub mod window;
