//! The span of time that is asked about: a whole trace, or one of the slices that could be meant.

use serde::Serialize;

use crate::attribution::launches::WindowOn;
use crate::id::SliceId;
use crate::store::Store;
use crate::time::{Ns, Window};

/// The window of a whole trace, and by what kernels are in it. Of one that ends early it is the time in which kernels survived, chosen by
/// when they ran: what was launched in it may have run later, and be missing.
pub fn whole(store: &Store, on: WindowOn) -> (Window, WindowOn) {
    match &store.traces[..] {
        [trace] => trace.survived.map_or((Window::ALL, on), |window| (window, WindowOn::Kernel)),
        _ => (Window::ALL, on),
    }
}

/// A slice that could be the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Its id.
    pub slice: SliceId,
    /// Its name.
    pub name: String,
    /// Its start and end.
    pub window: Window,
    /// Its thread, by name, or by tid if it has none.
    pub thread: String,
    /// The process of this thread.
    pub pid: Option<i64>,
    /// Its trace, if there are several.
    pub trace: Option<String>,
    /// How many of the chosen kernels are in it.
    pub kernels: u64,
    /// How long these ran in all.
    pub gpu_time: Ns,
}

/// Whether these slices are of several processes, as where ranks share a file.
pub fn several_processes(found: &[Candidate]) -> bool {
    found.windows(2).any(|pair| pair[0].pid != pair[1].pid)
}
