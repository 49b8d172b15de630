//! Shares and remainders of results: what a report shows beside the numbers that a result holds. Shares are fractions.

use super::cost::Cost;
use super::stacks::{Stack, StackReport, Unattributed, distinct};
use super::summary::Summary;
use crate::time::Ns;

impl Summary {
    /// A time as a share of [`Summary::wall`]; `None` for a window without a length.
    pub fn share(&self, time: Ns) -> Option<f64> {
        time.share_of(self.wall)
    }

    /// What its times are shares of.
    pub fn whole(&self) -> &'static str {
        if self.gpu_span.is_some() { "GPU span" } else { "window" }
    }

    /// How many names of kernels there are beside those of [`Summary::top_kernels`].
    pub fn other_names(&self) -> u64 {
        self.kernel_names.saturating_sub(self.top_kernels.len() as u64)
    }
}

impl Cost {
    /// The exposed time as a share of the GPU time; `None` for kernels without a length.
    pub fn exposed_share(&self) -> Option<f64> {
        self.exposed.share_of(self.gpu_time.total)
    }
}

impl Stack {
    /// How many of its kernels are not among `known`, the counts of those with a known value.
    pub fn unknown(&self, known: impl Iterator<Item = u64>) -> u64 {
        self.count.saturating_sub(known.sum())
    }
}

impl StackReport {
    /// How many stacks [`StackReport::arrange`] left out.
    pub fn stacks_left_out(&self) -> u64 {
        self.stacks_found.saturating_sub(distinct(&self.stacks))
    }
}

impl Unattributed {
    /// How many of these kernels [`Unattributed::first`] does not name.
    pub fn not_named(&self) -> u64 {
        self.all.count.saturating_sub(self.first.len() as u64)
    }
}
