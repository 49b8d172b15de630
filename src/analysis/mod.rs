//! Questions and their answers: one file per question, each a result struct that holds numbers and names and no formatting.
//!
//! The order of a whole run: `kernels` chooses the kernels, `launches` finds the call that launched each, `window` finds the
//! span of time that is asked about, `stacks` climbs from the calls in it; `missing` says why there is nothing.

pub mod kernels;
pub mod launches;
pub mod missing;
pub mod stacks;
pub mod window;
