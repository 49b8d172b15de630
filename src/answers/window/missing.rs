//! Why an answer has no stacks: what the window has instead.

use serde::Serialize;

use crate::event::Writer;
use crate::time::{Ns, Window};

/// A name and the number of its occurrences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameCount {
    pub name: String,
    /// The number of occurrences.
    pub count: u64,
}

/// Slices of one name that look like communication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Communication {
    /// Their name, without the numbers at its end.
    pub name: String,
    /// Their category; empty without one.
    pub category: String,
    /// The number of slices.
    pub count: u64,
    /// The sum of their lengths.
    pub time: Ns,
}

/// Why an answer has no stacks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub enum Missing {
    /// Kernels ran in the window, and nothing links them to a call.
    NoLaunchLink {
        kernels: u64,
        /// The number of other kernels that ran in the window but were launched outside it.
        elsewhere: u64,
        /// Calls in the window that launch a graph.
        graph_launches: Vec<NameCount>,
    },
    /// Kernels ran in the window but were launched outside it.
    LaunchedElsewhere { kernels: u64 },
    /// Only other kernels ran in the window.
    OtherKernels {
        /// The number of other kernels.
        kernels: u64,
        /// The number of chosen kernels elsewhere in the trace.
        elsewhere: u64,
        /// Collectives among the other kernels, most frequent first.
        collectives: Vec<NameCount>,
        /// How many of the other kernels may be communication.
        possible: u64,
    },
    /// No kernel ran in the window.
    NoKernels {
        /// The span and number of the trace's kernels, if it has any.
        span: Option<(Window, u64)>,
        /// The accelerator of the trace's runtime calls if it is neither CUDA nor ROCm: `mtia`, `xpu`.
        accelerator: Option<String>,
        /// What wrote the trace.
        writer: &'static Writer,
        /// What to do instead, in sentences; empty if only its user knows.
        advice: &'static str,
        /// What looks like communication, by its names, the most time first. Empty for PyTorch's profiler.
        communication: Vec<Communication>,
        /// Whether the file is cut off, so that the missing part may have had kernels.
        is_cut_off: bool,
        /// Whether there are no slices, and events were left out because their times are before zero.
        is_before_zero: bool,
        /// The number of slices that were left out because their times cannot be true.
        without_time: u64,
    },
}
