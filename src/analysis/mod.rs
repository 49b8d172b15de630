//! Questions and their answers: one file per question, each a result struct that holds numbers and names and no formatting.
//!
//! The order of a whole run: `kernels` chooses the kernels, `launches` finds the call that launched each, `capture` the stacks of
//! those that a graph replays, `window` the span of time that is asked about; `stacks` climbs from the calls in it, with
//! `callers` from slice to slice into a `tree`, and with `forward` from the backward pass to the forward pass; `missing`
//! says why there is nothing, `losses` what damage keeps from an answer.

pub mod busy;
pub mod call_tree;
pub mod callers;
pub mod capture;
pub mod collective_info;
pub mod cost;
pub mod delta;
pub mod devices;
pub mod diff;
pub mod forward;
pub mod keep;
pub mod kernels;
pub mod launches;
pub mod losses;
pub mod missing;
pub mod origin;
pub mod shares;
pub mod stack_key;
pub mod stacks;
pub mod summary;
pub mod verdict;
pub mod weight;
pub mod window;
