//! The span of time that a question is about: a whole trace, or a slice of it.

pub mod lists;
pub mod missing;

use serde::Serialize;

use crate::attribution::launches::WindowOn;
use crate::id::SliceId;
use crate::store::Store;
use crate::time::{Ns, Window};

/// The window of a whole trace, and how kernels are matched to it. A trace that ends early gets the span in which kernels survived, and kernels are
/// matched by when they ran: kernels launched in that span may have run later and be missing.
pub fn whole(store: &Store, on: WindowOn) -> (Window, WindowOn) {
    match &store.traces[..] {
        [trace] => trace.survived.map_or((Window::ALL, on), |window| (window, WindowOn::Kernel)),
        _ => (Window::ALL, on),
    }
}

/// A slice that could be the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    pub slice: SliceId,
    pub name: String,
    /// Its start and end.
    pub window: Window,
    /// The name of its thread, or the tid if it has none.
    pub thread: String,
    /// The pid of this thread's process.
    pub pid: Option<i64>,
    /// The trace, if there are several.
    pub trace: Option<String>,
    /// The number of chosen kernels in it.
    pub kernels: u64,
    /// Their total GPU time.
    pub gpu_time: Ns,
}

/// Whether these slices come from several processes, as when ranks share a file.
pub fn several_processes(found: &[Candidate]) -> bool {
    found.windows(2).any(|pair| pair[0].pid != pair[1].pid)
}
