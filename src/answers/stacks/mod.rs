//! The stacks that launched kernels: the main question.
//!
//! [`reduction`] reduces a trace to mergeable sums by stack; [`data`] is the answer that it gives. [`collective_info`] has what kernels move,
//! [`recorded_info`] what NCCL's records add, [`summary`] describes the whole window, [`verdict`] what of that is worth saying, [`grouping`] groups kernels by other keys,
//! [`over_ranks`] shows how ranks differ within a stack, [`origin`] picks the frames that distinguish stacks, [`steps`] finds the steps of a trace and
//! [`step_costs`] what they cost, [`timeline`] shows when kernels ran on each stream, [`functions`] what threads ran around their calls, and [`keep`] what a smaller trace needs.

pub mod collective_info;
pub mod cpu_calls;
pub mod data;
pub mod document;
pub mod functions;
pub(crate) mod gpu_spans;
pub mod grouping;
pub mod keep;
pub mod launching_steps;
pub mod not_asked;
pub mod origin;
pub mod over_ranks;
pub mod recorded_info;
pub mod reduction;
pub mod step_costs;
pub mod steps;
pub mod summary;
pub mod timeline;
pub mod verdict;
