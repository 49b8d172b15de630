//! What tells stacks apart: their frames, their thread, and the call paths of a capture and of the forward pass.

use std::borrow::Cow;

use serde::Serialize;

use crate::attribution::KernelLaunch;
use crate::attribution::call_tree::{CallPath, CallTree};
use crate::attribution::threads::thread_name;
use crate::nccl::collectives::{ANNOTATION, Collective};
use crate::nccl::frames::{is_own_code, is_plumbing, without_line};
use crate::store::Store;

/// The parts of a stack. Kernels with equal keys have one stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct StackKey {
    /// From the outermost caller to the launch. Empty if the launch is not in the trace, but its graph's capture is.
    pub frames: Vec<String>,
    /// Whether there are more callers above, which were cut off.
    #[serde(rename = "cut")]
    pub truncated: bool,
    /// The thread, if it is not its process's main thread.
    pub thread: Option<String>,
    /// The call path with which the kernel was captured into its graph.
    pub captured: Option<CallPath>,
    /// The call path of the operator of the forward pass.
    pub forward: Option<CallPath>,
}

impl StackKey {
    /// The key of a kernel, with at most so many callers above each part's last frame. A kernel that only its graph's capture attributes has no
    /// frames of its own.
    pub fn of(store: &Store, paths: &CallTree, kernel: &KernelLaunch, max_callers: Option<usize>, exact: bool) -> Self {
        let part = |path| paths.call_path(path, max_callers);
        let CallPath { frames, truncated } =
            kernel.path.map_or(CallPath { frames: Vec::new(), truncated: false }, part);
        StackKey {
            frames,
            truncated,
            thread: kernel.helper_thread.map(|thread| thread_name(store, thread, exact)),
            captured: kernel.capture.map(part),
            forward: kernel.forward.map(part),
        }
    }

    /// The frames that say most about where it comes from, the innermost first: those of the user's own Python code; without any, those above
    /// what every collective has in common; without any of these either, all.
    pub fn telling_frames(&self) -> Vec<&str> {
        let paths = [self.forward.as_ref(), self.captured.as_ref()];
        let frames = paths.into_iter().flatten().flat_map(|path| &path.frames).chain(&self.frames);
        let all: Vec<&str> = frames.map(String::as_str).rev().collect();
        let only = |tells: fn(&str) -> bool| all.iter().copied().filter(|frame| tells(frame)).collect::<Vec<_>>();
        let found = [only(is_own_code), only(|frame| !is_plumbing(frame))].into_iter().find(|found| !found.is_empty());
        found.unwrap_or(all)
    }

    /// The collective of the innermost `nccl:…` annotation, which PyTorch puts around a launch.
    pub fn collective(&self) -> Option<Collective> {
        let captured = self.captured.iter().flat_map(|path| path.frames.iter().rev());
        let mut frames = self.frames.iter().rev().chain(captured);
        frames.find_map(|frame| frame.strip_prefix(ANNOTATION)).and_then(Collective::of_record)
    }

    /// Whether callers were cut off anywhere.
    pub fn is_truncated(&self) -> bool {
        self.truncated || [&self.captured, &self.forward].into_iter().flatten().any(|path| path.truncated)
    }

    /// The same key without line numbers, which differ between versions of a program, and without the marks of truncation.
    pub fn without_lines(&self) -> StackKey {
        let frames =
            |frames: &[String]| frames.iter().map(|frame| without_line(frame)).map(Cow::into_owned).collect::<Vec<_>>();
        let path = |path: &CallPath| CallPath { frames: frames(&path.frames), truncated: false };
        StackKey {
            frames: frames(&self.frames),
            truncated: false,
            thread: self.thread.clone(),
            captured: self.captured.as_ref().map(path),
            forward: self.forward.as_ref().map(path),
        }
    }
}
