//! The measure that sets the widths in a flame graph.

use super::data::StackReport;
use crate::answers::cost::Totals;

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

    /// The weight of some kernels.
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

/// What a weight measures: `GPU time`.
pub(crate) fn weight_name(weight: Weight) -> &'static str {
    match weight {
        Weight::Count => "kernels",
        Weight::Gpu => "GPU time",
        Weight::Exposed => "exposed GPU time",
    }
}
