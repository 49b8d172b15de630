//! What flame graphs are made of: the frames of each stack with a kernel on top, because it is kernels that run.

use std::borrow::Cow;

use super::text::{lines, visible};
use crate::analysis::cost::Amount;
use crate::analysis::launches::NoLaunch;
use crate::analysis::stacks::StackReport;

/// A way from the root to a kernel, and the kernels at its end.
#[derive(Debug)]
pub struct Way<'a> {
    /// The root first, the kernel's name last.
    pub frames: Vec<Cow<'a, str>>,
    /// The kernels of that name and stack.
    pub kernels: Amount,
}

/// All of them: those of the stacks in their order, then those of kernels without a launch, so that the whole is all kernels of the
/// window if no stack was left out.
pub fn ways(report: &StackReport) -> Vec<Way<'_>> {
    let mut ways = Vec::new();
    for stack in &report.stacks {
        let below = lines(&stack.shape);
        ways.extend(stack.kernels.iter().map(|(name, kernels)| Way {
            frames: below.iter().cloned().chain([visible(name)]).collect(),
            kernels: *kernels,
        }));
    }
    for (reason, missed) in &report.coverage.without {
        ways.extend(missed.kernels.iter().map(|(name, kernels)| Way {
            frames: vec![Cow::Borrowed(root(*reason)), visible(name)],
            kernels: *kernels,
        }));
    }
    ways
}

/// What stands for the stacks of kernels that have none.
fn root(reason: NoLaunch) -> &'static str {
    match reason {
        NoLaunch::NoCalls => "[no launch: no calls recorded]",
        NoLaunch::BeforeTrace => "[no launch: before the first recorded call]",
        NoLaunch::NoId => "[no launch: no id]",
        NoLaunch::NotRecorded => "[no launch: call not recorded]",
    }
}
