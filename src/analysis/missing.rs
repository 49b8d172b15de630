//! Why an answer has no stacks: what is in the window instead.

use serde::Serialize;

use crate::time::Window;

/// A name and how often it occurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameCount {
    /// The name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// The reasons for an answer without stacks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub enum Missing {
    /// The kernels ran in the window, and nothing ties them to a call.
    NoLaunchLink {
        /// How many ran.
        kernels: u64,
        /// How many others ran and were launched outside the window.
        elsewhere: u64,
        /// Calls in the window that launch a graph.
        graph_launches: Vec<NameCount>,
    },
    /// The kernels ran in the window and were launched outside it.
    LaunchedElsewhere {
        /// How many ran.
        kernels: u64,
    },
    /// Other kernels ran in the window.
    OtherKernels {
        /// How many.
        kernels: u64,
        /// How many chosen kernels there are elsewhere in the trace.
        elsewhere: u64,
        /// Those of them that are collectives, the most frequent first.
        collectives: Vec<NameCount>,
        /// How many of them may be communication.
        possible: u64,
    },
    /// No kernel ran in the window.
    NoKernels {
        /// Where the trace has kernels, and how many, if it has any.
        span: Option<(Window, u64)>,
        /// The accelerator of the trace's runtime calls if it is neither CUDA nor ROCm: `mtia`, `xpu`.
        accelerator: Option<String>,
        /// Whether the file is cut off, so that kernels may have been in what is missing.
        is_cut_off: bool,
    },
}
