//! Shares and remainders that a report shows beside the numbers of a result. Shares are fractions.

use super::data::{Stack, StackReport, Unattributed, distinct};
use super::summary::Summary;
use crate::answers::cost::Cost;
use crate::time::Ns;

impl Summary {
    /// A time as a share of [`Summary::wall`]; `None` for an empty window.
    pub fn share(&self, time: Ns) -> Option<f64> {
        time.share_of(self.wall_ns)
    }

    /// What the times are shares of.
    pub fn whole(&self) -> &'static str {
        if self.gpu_span.is_some() { "GPU span" } else { "window" }
    }

    /// The number of kernel names beyond [`Summary::top_kernels`].
    pub fn other_names(&self) -> u64 {
        self.kernel_names_found.saturating_sub(self.top_kernels.len() as u64)
    }
}

impl Cost {
    /// The exposed time as a share of the GPU time; `None` if the kernels have no duration.
    pub fn exposed_share(&self) -> Option<f64> {
        self.exposed_ns.share_of(self.gpu_time.total_ns)
    }
}

impl Stack {
    /// The number of kernels missing from `known`, the counts by known value.
    pub fn unknown(&self, known: impl Iterator<Item = u64>) -> u64 {
        self.count.saturating_sub(known.sum())
    }
}

impl StackReport {
    /// The number of stacks that [`StackReport::arrange`] left out.
    pub fn stacks_left_out(&self) -> u64 {
        self.stacks_found.saturating_sub(distinct(&self.stacks))
    }
}

impl Unattributed {
    /// The number of these kernels missing from [`Unattributed::first`].
    pub fn not_named(&self) -> u64 {
        self.all.count.saturating_sub(self.first.len() as u64)
    }
}
