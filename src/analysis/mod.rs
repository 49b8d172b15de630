//! Questions and their answers: one file per question, each a result struct that holds numbers and names and no formatting.
//!
//! All build on the rows of [`crate::attribution`]. `window` finds the span of time that is asked about, `stacks` groups rows by the code that
//! launched them, with `stack_key`, `cost` and `collective_info`; `summary` describes the window as a whole, `verdict` in a sentence,
//! `diff` with `delta` compares two answers, by the number of their `launching_steps`, `groups` are kernels by other keys than their stacks, `pairs` pairs the backward pass with the forward pass, `over_ranks` how the ranks differ in a stack, `origin` picks the frames that tell stacks apart, `shares` and `weight` are ratios and sums, `missing` says why there is none, `losses` what damage may hide, `memory` what was allocated and who holds most at the peak, `operators` what the arguments of operators show, `keep` what a smaller trace needs, `time_sums` durations that can be added to those of other machines, `timeline` when kernels ran on each stream, and `recorded` what NCCL's own records have.

pub mod collective_info;
pub mod cost;
pub mod delta;
pub mod describe;
pub mod diff;
pub(crate) mod gpu_spans;
pub mod grouping;
pub mod hang;
pub mod keep;
pub mod launching_steps;
pub mod losses;
pub mod malformed;
pub mod memory;
pub mod missing;
pub mod not_asked;
pub mod operators;
pub mod origin;
pub mod over_ranks;
pub mod pairs;
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
