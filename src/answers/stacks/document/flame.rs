//! The samples of a flame graph: the frames of each stack with a kernel on top, because the time is the kernels'.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::answers::cost::Totals;
use crate::answers::stacks::data::StackReport;
use crate::document::format::visible;
use crate::document::frames::lines;

/// A call path from the root to a kernel name, with the totals of its kernels.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    /// The root first, the kernel's name last.
    pub(crate) frames: Vec<Cow<'a, str>>,
    /// The kernels with that name and stack.
    pub(crate) kernels: Totals,
}

/// The samples of the stacks in their order, then those of kernels without a launch. If no stack was left out, they cover every kernel
/// of the window.
pub(crate) fn samples(report: &StackReport) -> Vec<Sample<'_>> {
    let mut samples = Vec::new();
    if let Some(grouped) = report.groups() {
        // Groups include kernels without a launch.
        for group in &grouped.groups {
            let frames: Vec<Cow<'_, str>> = group.path().map(visible).collect();
            samples.extend(with_kernels(&frames, &group.kernels_by_name));
        }
        return samples;
    }
    for stack in report.stacks.iter().chain(&report.without_launch) {
        let rank = stack.rank.as_deref().map(|rank| format!("[{}]", visible(rank)).into());
        let frames: Vec<Cow<'_, str>> = rank.into_iter().chain(lines(&stack.key)).collect();
        samples.extend(with_kernels(&frames, &stack.kernels_by_name));
    }
    samples
}

/// A sample for each kernel name under these frames.
fn with_kernels<'a>(
    frames: &[Cow<'a, str>],
    kernels: &'a BTreeMap<String, Totals>,
) -> impl Iterator<Item = Sample<'a>> {
    kernels.iter().map(|(name, kernels)| Sample {
        frames: frames.iter().cloned().chain([visible(name)]).collect(),
        kernels: *kernels,
    })
}
