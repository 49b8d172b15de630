//! What flame graphs are made of: the frames of each stack with a kernel on top, because it is kernels that run.

use std::borrow::Cow;

use super::text::{lines, visible};
use crate::analysis::cost::Totals;
use crate::analysis::stacks::StackReport;
use crate::attribution::launches::Reason;

/// A way from the root to a kernel, and the kernels at its end.
#[derive(Debug)]
pub struct Way<'a> {
    /// The root first, the kernel's name last.
    pub frames: Vec<Cow<'a, str>>,
    /// The kernels of that name and stack.
    pub kernels: Totals,
}

/// All of them: those of the stacks in their order, then those of kernels without a launch, so that the whole is all kernels of the
/// window if no stack was left out.
pub fn ways(report: &StackReport) -> Vec<Way<'_>> {
    let mut ways = Vec::new();
    for stack in &report.stacks {
        let below = lines(&stack.key);
        ways.extend(stack.kernels.iter().map(|(name, kernels)| Way {
            frames: below.iter().cloned().chain([visible(name)]).collect(),
            kernels: *kernels,
        }));
    }
    for (reason, missed) in &report.coverage.unattributed {
        ways.extend(missed.kernels.iter().map(|(name, kernels)| Way {
            frames: vec![Cow::Borrowed(root(*reason)), visible(name)],
            kernels: *kernels,
        }));
    }
    ways
}

/// What stands for the stacks of kernels that have none.
fn root(reason: Reason) -> &'static str {
    match reason {
        Reason::NoCalls => "[no launch: no calls recorded]",
        Reason::BeforeTrace => "[no launch: before the first recorded call]",
        Reason::NoId => "[no launch: no id]",
        Reason::NotRecorded => "[no launch: call not recorded]",
    }
}
