//! The samples of a flame graph, the frames of each stack with a kernel on top, because the time is the kernels'; and their lines in the format of flame
//! graph tools: `outermost;…;launch;kernel 97`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::answers::cost::Totals;
use crate::answers::stacks::data::StackReport;
use crate::attribution::stack_key::StackKey;
use crate::document::format::visible;
use crate::document::frames::lines;

/// What a flame graph's widths mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The number of kernels.
    Count,
    /// GPU time, in ns.
    Gpu,
    /// Exposed time, in ns.
    Exposed,
}

impl Weight {
    pub const ALL: [Weight; 3] = [Weight::Count, Weight::Gpu, Weight::Exposed];

    /// What it measures: `GPU time`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Weight::Count => "kernels",
            Weight::Gpu => "GPU time",
            Weight::Exposed => "exposed GPU time",
        }
    }

    pub fn measure(self, kernels: Totals) -> u64 {
        match self {
            Weight::Count => kernels.count,
            Weight::Gpu => u64::try_from(kernels.gpu_time_ns.0).unwrap_or(0),
            Weight::Exposed => u64::try_from(kernels.exposed_ns.0).unwrap_or(0),
        }
    }
}

impl StackReport {
    /// The weight of all kernels, with and without a stack; `None` on overflow.
    pub fn weight(&self, weight: Weight) -> Option<u64> {
        if let Some(grouped) = self.groups() {
            let all = grouped.groups.iter().flat_map(|group| group.kernels_by_name.values());
            return all.map(|kernels| weight.measure(*kernels)).try_fold(0, u64::checked_add);
        }
        let of_stacks = self.stacks.iter().flat_map(|stack| stack.kernels_by_name.values());
        let without_launch = self.coverage.without_launch.values().flat_map(|kernels| kernels.kernels_by_name.values());
        of_stacks.chain(without_launch).try_fold(0, |sum: u64, kernels| sum.checked_add(weight.measure(*kernels)))
    }
}

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

/// Writes the samples whose weight is not zero.
pub(crate) fn folded(report: &StackReport, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    for Sample { frames, kernels } in samples(report) {
        match weight.measure(kernels) {
            0 => {}
            weight => writeln!(out, "{} {weight}", joined(&frames))?,
        }
    }
    Ok(())
}

/// The frames of a stack as one line.
pub(crate) fn line(key: &StackKey) -> String {
    joined(&lines(key))
}

/// Frames as one line, with the characters that readers would misread replaced: a semicolon in a name by a colon, and the blank before
/// a trailing number, which would be read as the weight, by an underscore.
fn joined(frames: &[Cow<'_, str>]) -> String {
    let frames: Vec<String> = frames.iter().map(|frame| frame.replace(';', ":")).collect();
    let line = frames.join(";");
    match line.rsplit_once(' ') {
        Some((before, number)) if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            format!("{before}_{number}")
        }
        _ => line,
    }
}
